"""What the cases about ScaledObjects share: a planted metric, and the objects as the cluster shows them."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kubernetes.client.exceptions import ApiException

from tests.waiting import until

from .kube import MERGE, TOLERATE_ALL, Kube, deployment

# What passes by KEDA's or the autoscaler's own rounds, in seconds.
SLOW = 90

NAME, HPA = "web", "keda-hpa-web"
AT_ONCE = {"scaleDown": {"stabilizationWindowSeconds": 0}}


class Meter:
    """Answers Prometheus' query API with the planted value; None is no element, an Exception a failure."""

    def __init__(self) -> None:
        self.value: float | Exception | None = 0.0
        meter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                failed = isinstance(meter.value, Exception)
                found = (
                    [] if meter.value is None else [{"metric": {}, "value": [time.time(), str(meter.value)]}]
                )
                body = {"status": "success", "data": {"resultType": "vector", "result": found}}
                data = json.dumps(body).encode()
                self.send_response(500 if failed else 200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Scaled:
    """One deployment `web` and its ScaledObject."""

    def __init__(self, kube: Kube, ns: str, meter: Meter) -> None:
        self.kube, self.ns, self.meter = kube, ns, meter
        self.path = f"/apis/keda.sh/v1alpha1/namespaces/{ns}/scaledobjects"
        self.hpas = f"/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers"

    def deploy(self, replicas: int = 1, **template: Any) -> None:
        template = {"tolerations": TOLERATE_ALL, **template}
        made = deployment(NAME, replicas=replicas, template=template)
        self.kube.apps.create_namespaced_deployment(self.ns, made)
        until(lambda: (self.deployment().status.ready_replicas or 0) == replicas)

    def deployment(self) -> Any:
        return self.kube.apps.read_namespaced_deployment(NAME, self.ns)

    def replicas(self) -> int:
        return int(self.deployment().spec.replicas)

    def prometheus(
        self, threshold: str = "2", metric_type: str = "AverageValue", **more: str
    ) -> dict[str, Any]:
        metadata = {"serverAddress": self.meter.address, "query": "planted", "threshold": threshold, **more}
        return {"type": "prometheus", "metricType": metric_type, "metadata": metadata}

    def body(self, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            "metadata": {"name": NAME, "labels": {"team": "vision"}, "annotations": annotations or {}},
            "spec": {
                "scaleTargetRef": {"name": NAME},
                "pollingInterval": 1,
                "minReplicaCount": 1,
                "maxReplicaCount": 4,
                "triggers": [self.prometheus()],
                "advanced": {"horizontalPodAutoscalerConfig": {"behavior": AT_ONCE}},
                **spec,
            },
        }

    def create(self, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
        query = {"fieldValidation": "Strict"}
        return self.kube.request("POST", self.path, self.body(annotations, **spec), query=query)

    def patch(self, change: dict[str, Any]) -> dict[str, Any]:
        return self.kube.request("PATCH", f"{self.path}/{NAME}", change, content_type=MERGE)

    def annotate(self, **annotations: str | None) -> None:
        named = {f"autoscaling.keda.sh/{key.replace('_', '-')}": text for key, text in annotations.items()}
        self.patch({"metadata": {"annotations": named}})

    def read(self) -> dict[str, Any]:
        return self.kube.request("GET", f"{self.path}/{NAME}")

    def hpa(self) -> dict[str, Any] | None:
        try:
            return self.kube.request("GET", f"{self.hpas}/{HPA}")
        except ApiException as error:
            if error.status == 404:
                return None
            raise

    def word(self, type_: str) -> tuple[str, str]:
        """Status and reason of a condition of the ScaledObject."""
        return _word(self.read(), type_)

    def hpa_word(self, type_: str) -> tuple[str, str]:
        return _word(self.hpa() or {}, type_)

    def event(self, reason: str, kind: str = "ScaledObject") -> str:
        """The message of an event of that reason, once there is one: what it tells is seen before it."""

        def found() -> str | None:
            items = self.kube.core.list_namespaced_event(self.ns).items
            of_kind = [each for each in items if each.involved_object.kind == kind]
            return next((each.message for each in of_kind if each.reason == reason), None)

        return until(found, seconds=SLOW) or ""


def _word(obj: dict[str, Any], type_: str) -> tuple[str, str]:
    for condition in obj.get("status", {}).get("conditions") or ():
        if condition["type"] == type_:
            return condition["status"], condition.get("reason", "")
    return "", ""
