from __future__ import annotations

from functools import partial

from inference.serializers import EndpointSerializer
from tests.api.request_kinds import MINIMAL, faults
from tests.tables import each_row

problems = partial(faults, EndpointSerializer)


@each_row(
    ("changes", "field", "code"),
    [
        ({"runtime": "other"}, "runtime", "invalid_choice"),
        ({"min_replicas": 0}, "min_replicas", "min_value"),
        ({"min_replicas": True}, "min_replicas", "invalid"),
        ({"min_replicas": 2, "max_replicas": 1}, "max_replicas", "below_min_replicas"),
        ({"min_replicas": 2, "max_replicas": 3}, "scaling.trigger", "required"),
        ({"headroom": "none"}, "headroom", "invalid_choice"),
        ({"scale_to_zero": "yes"}, "scale_to_zero", "invalid"),
        ({"ports": {"http": 0}}, "ports.http", "min_value"),
        ({"ports": {"http": 65536}}, "ports.http", "max_value"),
        ({"ports": {"http": 80, "grpc": 80}}, "ports.grpc", "duplicate"),
        ({"ports": {"metrics": 8080}}, "ports.metrics", "duplicate"),
        ({"ports": {"https": 1}}, "ports.https", "unknown_field"),
        ({"probes": {"readiness": {"path": "ready"}}}, "probes.readiness.path", "invalid_path"),
        ({"probes": {"readiness": {"path": "/a b"}}}, "probes.readiness.path", "invalid_path"),
        ({"probes": {"liveness": {"period_seconds": 0}}}, "probes.liveness.period_seconds", "min_value"),
        ({"probes": {"load_budget_seconds": 7201}}, "probes.load_budget_seconds", "max_value"),
        ({"request_timeout_seconds": 0}, "request_timeout_seconds", "min_value"),
        ({"request_timeout_seconds": 3601}, "request_timeout_seconds", "max_value"),
        ({"rate_limit": {"requests_per_second": 0}}, "rate_limit.requests_per_second", "min_value"),
        ({"rate_limit": {"requests_per_second": "5"}}, "rate_limit.requests_per_second", "invalid"),
        ({"rate_limit": {"requests_per_second": 5, "burst": 0}}, "rate_limit.burst", "min_value"),
        ({"rate_limit": {"burst": 5}}, "rate_limit.requests_per_second", "required"),
        ({"rollout": {"strategy": "recreate"}}, "rollout.strategy", "invalid_choice"),
        ({"model": {"claim": "m", "path": "models"}}, "model.path", "invalid_path"),
        (
            {"model": {"claim": "m", "path": "/m"}, "volumes": [{"claim": "v", "path": "/m"}]},
            "model.path",
            "duplicate",
        ),
        (
            {"model": {"claim": "m", "path": "/workspace/m"}, "source": {"files": {"a": ""}}},
            "model.path",
            "inside_read_only",
        ),
        ({"model": {"claim": "m", "uri": "s3://models/m"}}, "model.uri", "exclusive"),
        ({"model": {"uri": "s3://key:word@b/m"}}, "model.uri", "credentials_in_url"),
        ({"model": {"uri": "https://h/m?sig=abc"}}, "model.uri", "credentials_in_url"),
        ({"model": {"uri": "file:///etc"}}, "model.uri", "invalid_uri"),
        ({"model": {"uri": "https://h/../m"}}, "model.uri", "invalid_uri"),
        ({"model": {"uri": "gs://models/m", "secret": "s"}}, "model.secret", "no_effect"),
        ({"model": {"claim": "m", "secret": "s"}}, "model.secret", "no_effect"),
        ({"model": {"claim": "m", "size_limit": "1Gi"}}, "model.size_limit", "no_effect"),
        ({"model": {"path": "/m"}}, "model.path", "no_effect"),
        ({"runtime_options": {"batch": 1}}, "runtime_options.batch", "unknown_field"),
        ({"runtime_options": {"batch_size": 1}}, "runtime_options.batch_size", "not_for_runtime"),
        ({"time_limit_seconds": 60}, "time_limit_seconds", "unknown_field"),
        ({"checkpoint": None}, "checkpoint", "unknown_field"),
    ],
)
def test_a_wrong_value_is_refused_with_its_field_and_code(changes, field, code):
    assert problems(**changes) == [(field, code)]


def test_one_replica_is_meant_when_none_are_named():
    serializer = EndpointSerializer(data={**MINIMAL, "max_replicas": None})
    assert serializer.is_valid(), serializer.errors
    assert (serializer.to_spec().min_replicas, serializer.to_spec().max_replicas) == (1, 1)


LLM = {"runtime": "vllm", "model": {"claim": "llms"}}
ARCHIVES = {"models": ["a.mar"]}


@each_row(
    ("runtime", "changes", "field", "code"),
    [
        ("triton", {"runtime_options": {"batch_size": 8}}, "runtime_options.batch_size", "not_for_runtime"),
        (
            "triton",
            {"runtime_options": {"max_batch_delay_ms": 8}},
            "runtime_options.max_batch_delay_ms",
            "not_for_runtime",
        ),
        (
            "triton",
            {"runtime_options": {"max_model_len": 8}},
            "runtime_options.max_model_len",
            "not_for_runtime",
        ),
        ("triton", {"runtime_options": {"models": ["a=b"]}}, "runtime_options.models.0", "invalid_name"),
        ("triton", {"runtime_options": {"models": ["a", "a"]}}, "runtime_options.models", "duplicate"),
        ("triton", {"runtime_options": {"models": ["../a"]}}, "runtime_options.models.0", "invalid_name"),
        (
            "triton",
            {"command": ["x"], "runtime_options": {"models": ["a"]}},
            "runtime_options.models",
            "no_effect",
        ),
        ("triton", {"ports": {"http": 8002}}, "ports.metrics", "duplicate"),
        ("torchserve", {"ports": {"grpc": 8081}}, "ports.grpc", "management_port"),
        ("torchserve", {"ports": {"metrics": 7071}}, "ports.metrics", "management_port"),
        (
            "torchserve",
            {"runtime_options": {"batch_size": 8}},
            "runtime_options.batch_size",
            "models_required",
        ),
        ("torchserve", {"runtime_options": {"models": ["a"]}}, "runtime_options.models.0", "invalid_name"),
        (
            "torchserve",
            {"runtime_options": {"models": ["a=x.mar", "a=y.mar"]}},
            "runtime_options.models",
            "duplicate",
        ),
        (
            "torchserve",
            {"runtime_options": {**ARCHIVES, "model_version": "2.0"}},
            "runtime_options.model_version",
            "no_effect",
        ),
        (
            "torchserve",
            {"env": [{"name": "TS_CONFIG_FILE", "value": "/x"}], "runtime_options": ARCHIVES},
            "runtime_options.models",
            "no_effect",
        ),
        ("torchserve", {"volumes": [{"claim": "v", "path": "/etc/torchserve"}]}, "runtime", "duplicate"),
        ("vllm", {"model": None}, "model", "required"),
        ("vllm", {"ports": {"grpc": 9000}}, "ports.grpc", "not_for_runtime"),
        ("vllm", {"ports": {"metrics": 9000}}, "ports.metrics", "not_for_runtime"),
        ("vllm", {"runtime_options": {"models": ["a", "b"]}}, "runtime_options.models", "too_many"),
        (
            "vllm",
            {"runtime_options": {"max_batch_delay_ms": 1}},
            "runtime_options.max_batch_delay_ms",
            "not_for_runtime",
        ),
        (
            "vllm",
            {"runtime_options": {"gpu_memory_utilization": 1.5}},
            "runtime_options.gpu_memory_utilization",
            "max_value",
        ),
        (
            "vllm",
            {"runtime_options": {"gpu_memory_utilization": "0.5"}},
            "runtime_options.gpu_memory_utilization",
            "invalid",
        ),
        (
            "vllm",
            {"runtime_options": {"tensor_parallel_size": 2}},
            "runtime_options.tensor_parallel_size",
            "above_gpus",
        ),
        (
            "vllm",
            {"runtime_options": {"served_model_name": "--port"}},
            "runtime_options.served_model_name",
            "invalid_name",
        ),
    ],
)
def test_what_a_server_has_no_use_for_is_refused_by_name(runtime, changes, field, code):
    given = {**(LLM if runtime == "vllm" else {}), "runtime": runtime, "flavor": "a100-40gb"}
    assert problems(**{**given, **changes}) == [(field, code)]
