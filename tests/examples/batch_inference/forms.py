"""The form of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from console.pages.forms import ContainerForm, initial_of, text, whole
from console.pages.further import FurtherForm, carried
from foundation.number_words import limit_words, seconds_of
from tests.examples.batch_inference.serializers import BatchInferenceSerializer
from tests.examples.batch_inference.specs import BatchInferenceSpec
from workloads.podspec.specs import Json, typed


class BatchInferenceForm(FurtherForm):
    serializer_class = BatchInferenceSerializer
    PATHS = {
        **ContainerForm.PATHS,
        "dataset": "dataset",
        "results": "results",
        "replicas": "replicas",
        "time_limit_seconds": "time_limit",
    }

    dataset = text("Dataset", "The folder that its pods read.", placeholder="/data/images")
    results = text("Results", "The folder that they write.", placeholder="/data/answers")
    replicas = text("Pods", "Each takes its share of the dataset.", inputmode="numeric")
    time_limit = text("Time limit", "Such as 2h or 1d 12h. It decides the cost at worst.")

    @override
    def to_body(self, values: Mapping[str, Any]) -> dict[str, Any]:
        body = {
            **super().to_body(values),
            "dataset": values.get("dataset", ""),
            "results": values.get("results", ""),
            "replicas": whole(values.get("replicas", "")),
            "time_limit_seconds": seconds_of(values.get("time_limit", "")),
        }
        return self.completed(body, values)


def values_of(spec: Json) -> dict[str, Any]:
    """The form's values for the stored spec of a batch; what has no input is carried along as JSON."""
    spec = typed(spec)
    values = {
        **initial_of(spec),
        "dataset": spec["dataset"],
        "results": spec["results"],
        "replicas": str(spec["replicas"]),
        "time_limit": limit_words(spec["time_limit_seconds"]),
    }
    return carried(BatchInferenceForm(teams=[]), values, spec, _written_out)


def _written_out(request: Json) -> Json:
    """The request with its defaults, and its arguments behind its command, where the form has them."""
    arguments = [*request.get("command", ()), *request.get("args", ())]
    return BatchInferenceSpec.from_json({**request, "command": arguments, "args": []}).to_json()
