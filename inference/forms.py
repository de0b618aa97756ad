"""The form of an endpoint, new or changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from typing_extensions import override

from controller.page_forms import ContainerForm, initial_of, text, whole
from inference.serializers import EndpointSerializer

_STRATEGIES = [
    ("surge", "surge: the new pod comes before the old one goes"),
    ("replace", "replace: stop, then start"),
]


class EndpointForm(ContainerForm):
    serializer_class = EndpointSerializer
    PATHS = {
        **ContainerForm.PATHS,
        "min_replicas": "replicas",
        "max_replicas": "replicas",
        "ports": "port",
        "probes": "readiness_path",
        "probes.load_budget_seconds": "load_budget",
        "rollout": "strategy",
        "request_timeout_seconds": "request_timeout",
        "model": "model_claim",
        "model.path": "model_path",
    }

    replicas = text("Replicas", "Pods that answer, always.", inputmode="numeric")
    port = text("HTTP port", "Where the container listens.", inputmode="numeric")
    readiness_path = text(
        "Readiness path", "Asked until it answers 200. Empty: the port alone.", placeholder="/healthz"
    )
    load_budget = text("Load budget", "Seconds that the model may take to load.", inputmode="numeric")
    request_timeout = text("Request timeout", "Seconds for one answer.", inputmode="numeric")
    model_claim = text("Model claim", "The volume that holds the model, mounted read-only.")
    model_path = text("Model path", placeholder="/models")
    strategy = forms.ChoiceField(label="Rollout", choices=_STRATEGIES, required=False)

    @override
    def to_body(self, values: Mapping[str, Any]) -> dict[str, Any]:
        replicas = whole(values.get("replicas", ""))
        probes = {
            "readiness": {"path": path} if (path := values.get("readiness_path")) else None,
            "load_budget_seconds": whole(values.get("load_budget", "")),
        }
        model = {"claim": values.get("model_claim"), "path": values.get("model_path")}
        return {
            **super().to_body(values),
            "min_replicas": replicas,
            "max_replicas": replicas,
            "ports": _given({"http": whole(values.get("port", ""))}),
            "probes": _given(probes),
            "model": _given(model) if model["claim"] else None,
            "rollout": _given({"strategy": values.get("strategy")}),
            "request_timeout_seconds": whole(values.get("request_timeout", "")),
        }


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in (None, "")}


def values_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The form's values for the stored spec of an endpoint."""
    probes, model = spec.get("probes") or {}, spec.get("model") or {}
    return {
        **initial_of(spec),
        "replicas": str(spec.get("min_replicas", 1)),
        "port": str((spec.get("ports") or {}).get("http", "")),
        "readiness_path": (probes.get("readiness") or {}).get("path") or "",
        "load_budget": str(probes.get("load_budget_seconds", "")),
        "request_timeout": str(spec.get("request_timeout_seconds", "")),
        "model_claim": model.get("claim") or "",
        "model_path": model.get("path") or "",
        "strategy": (spec.get("rollout") or {}).get("strategy", "surge"),
    }
