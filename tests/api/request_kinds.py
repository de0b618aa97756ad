"""The two kinds of request, a run and an endpoint, for what holds of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st
from rest_framework.serializers import Serializer

from foundation.http.problems import flatten
from inference import specs as of_endpoints
from inference.serializers import EndpointSerializer
from inference.specs import EndpointSpec
from jobs import specs as of_runs
from jobs.serializers import TrainingRunSerializer
from jobs.specs import TrainingRunSpec
from tests.inference.scaler_samples import SCALED
from tests.kind_samples import SAMPLES
from tests.manifest_samples import ENDPOINT_BODIES, RUN_BODIES
from tests.manifest_strategies import endpoint_bodies, run_bodies

MINIMAL = {"team": "vision", "name": "a", "image": "python:3.12"}


@dataclass(frozen=True)
class Kind:
    """How one kind of request is checked and read, good bodies of it, and a value of each field that is not built yet."""

    serializer: Callable[..., Serializer[Any]]
    read: Callable[[Mapping[str, Any]], Any]
    samples: Mapping[str, Mapping[str, Any]]
    bodies: st.SearchStrategy[dict[str, Any]]
    not_yet: Mapping[str, Any]
    later: Mapping[str, Any]


RUN = Kind(
    serializer=TrainingRunSerializer,
    read=TrainingRunSpec.from_json,
    samples={**RUN_BODIES, **{name: sample.body for name, sample in SAMPLES.items()}},
    bodies=run_bodies,
    not_yet=of_runs.NOT_YET_SUPPORTED,
    later={"kind": "cronjob"},
)
ENDPOINT = Kind(
    serializer=EndpointSerializer,
    read=EndpointSpec.from_json,
    samples={**ENDPOINT_BODIES, **SCALED},
    bodies=endpoint_bodies,
    not_yet=of_endpoints.NOT_YET_SUPPORTED,
    later={"template": "big"},
)
KINDS = {"run": RUN, "endpoint": ENDPOINT}
of_both_kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def faults(serializer: Callable[..., Serializer[Any]], **changes: Any) -> list[tuple[str, str]]:
    """Field and code of all that is wrong with the smallest body that has these changes."""
    sent = serializer(data={**MINIMAL, **changes})
    sent.is_valid()
    return [(problem.field, problem.code) for problem in flatten(sent.errors)]
