"""Bodies that were accepted once are accepted for ever: golden/requests.json only ever grows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inference.serializers import EndpointSerializer
from jobs.sweeps.serializers import RunOrSweepSerializer
from tests.tables import each_row

GOLDEN = json.loads((Path(__file__).parent / "golden" / "requests.json").read_text(encoding="utf-8"))
SERIALIZERS = {"training-runs": RunOrSweepSerializer, "endpoints": EndpointSerializer}

pytestmark = pytest.mark.django_db


@each_row(("resource", "name"), [(resource, name) for resource, bodies in GOLDEN.items() for name in bodies])
def test_an_old_body_is_accepted_and_says_what_it_said(resource, name):
    body = GOLDEN[resource][name]
    serializer = SERIALIZERS[resource](data=body)
    assert serializer.is_valid(), serializer.errors
    spec = serializer.to_spec().to_json()
    for field in ("name", "image", "command", "args", "flavor", "gpus_per_replica", "labels", "replicas"):
        if field in body:
            assert spec[field] == body[field], field
