"""The body of a batch's request: the one validator of REST and of the HTML form."""

from __future__ import annotations

from typing_extensions import override

from console.api.request_serializers import ContainerSerializer
from tests.examples.batch_inference.specs import BatchInferenceSpec
from workloads.podspec import grammar
from workloads.podspec.fields import TextField, WholeNumberField


class BatchInferenceSerializer(ContainerSerializer):
    dataset = TextField(check=grammar.folder)
    results = TextField(check=grammar.folder)
    replicas = WholeNumberField(min_value=1, max_value=1024, required=False, allow_null=True)
    time_limit_seconds = WholeNumberField(min_value=60, max_value=30 * 86400, required=False, allow_null=True)
    max_retries = WholeNumberField(min_value=0, max_value=20, required=False, allow_null=True)

    @override
    def to_spec(self) -> BatchInferenceSpec:
        return BatchInferenceSpec.from_json(self.validated_data)
