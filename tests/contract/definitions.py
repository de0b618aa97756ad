"""The definitions of custom resources: what devcluster knows of them, and what a real cluster says."""

from __future__ import annotations

import json
from pathlib import Path

from .kube import Kube

CUSTOM = Path(__file__).parents[2] / "devcluster" / "schema_custom.json"
SCALARS = {"str": "string", "int": "integer", "bool": "boolean", "datetime": "string"}


def knows_the_fields_of(kube: Kube, definition: str, steps: tuple[str, ...], name: str) -> None:
    """Asserts that devcluster's type `name` has the fields that the real definition has where `steps` lead."""
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition}"
    node = kube.request("GET", path)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for step in steps:
        inner = {"[]": "items", "{}": "additionalProperties"}.get(step)
        node = node[inner] if inner else node["properties"][step]
    known = json.loads(CUSTOM.read_text())[name]
    assert set(known) == set(node["properties"])
    for field, type_ in known.items():
        kind = "array" if type_.startswith("List[") else SCALARS.get(type_, "object")
        assert node["properties"][field]["type"] == kind, field
