"""`devcluster/schema.json` says what the official client's models say; run this file to write it anew."""

from __future__ import annotations

import json
import re
from pathlib import Path

from kubernetes import client

STORED = Path(__file__).parents[2] / "devcluster" / "schema.json"
ROOTS = (
    "V1Namespace", "V1Node", "V1Pod", "V1Service", "V1ConfigMap", "V1Secret", "V1PersistentVolumeClaim", "V1ServiceAccount",
    "V1ResourceQuota", "V1LimitRange", "CoreV1Event", "V1Deployment", "V1ReplicaSet", "V1Job", "V1PodDisruptionBudget",
    "V1NetworkPolicy", "V1PriorityClass", "V1Scale", "V1DeleteOptions", "V1Eviction",
    "V2HorizontalPodAutoscaler",
)  # fmt: skip


def _short(name: str) -> str:
    name = name.replace("CoreV1Event", "Event").replace("CoreV1EndpointPort", "EndpointPort")
    return re.sub(r"\bV[12](?=[A-Z])", "", name)


def schema() -> dict[str, dict[str, str]]:
    """Every type that the served kinds reach, with its fields and their types."""
    found: dict[str, dict[str, str]] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if _short(name) in found:
            continue
        model = getattr(client, name)
        found[_short(name)] = {model.attribute_map[a]: _short(t) for a, t in model.openapi_types.items()}
        inner = (part for type_ in model.openapi_types.values() for part in re.findall(r"\b[A-Z]\w+", type_))
        waiting += [part for part in inner if hasattr(client, part)]
    return found


def test_the_schema_is_that_of_the_official_client():
    assert json.loads(STORED.read_text()) == schema()


if __name__ == "__main__":
    STORED.write_text(json.dumps(schema(), indent=0, sort_keys=True) + "\n")
