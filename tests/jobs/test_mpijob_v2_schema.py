"""MPIJobs of the MPI operator against its own CRD: a cluster that serves the training operator's cannot serve these too."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.kind_samples import SAMPLES

SCHEMA = json.loads((Path(__file__).parent / "data" / "mpijob-v2beta1.json").read_text())
NAMES = [name for name in SAMPLES if name.startswith("mpijob_v2")]


def strict(schema: Any) -> Any:
    """The structural schema as an API server applies it under strict field validation: unknown fields are refused."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if made.pop("x-kubernetes-int-or-string", False):
        made.pop("anyOf", None)
        made["type"] = ["integer", "string"]
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made


def judge(manifest: dict[str, Any]) -> list[str]:
    schema = strict(SCHEMA)
    # Of every object, and so not in the schema of any.
    schema["properties"]["metadata"] = {"type": "object"}
    return [error.message for error in Draft202012Validator(schema).iter_errors(manifest)]


@pytest.mark.parametrize("name", NAMES)
def test_the_definition_knows_every_field(name):
    manifest = SAMPLES[name].built().primary
    assert manifest["apiVersion"] == "kubeflow.org/v2beta1"
    assert judge(manifest) == []


@pytest.mark.parametrize("path", [("spec",), ("spec", "mpiReplicaSpecs", "Worker", "template", "spec")])
def test_a_field_that_it_does_not_know_is_found(path):
    manifest = copy.deepcopy(SAMPLES[NAMES[0]].built().primary)
    here = manifest
    for step in path:
        here = here[step]
    here["nonsense"] = 1
    assert any("nonsense" in message for message in judge(manifest))
