from __future__ import annotations

import json
import re

import pytest

from inference.manifests import build_endpoint
from inference.specs import EndpointSpec
from tenancy.namespace_manifests import build_guard_rails
from tests.inference.test_endpoint_manifests import by_kind, container_of
from tests.manifest_samples import placement
from tests.pod_samples import container, ended, pod
from tests.serving_samples import RUNTIME_REQUESTS
from workloads.pods.pod_status import judge

MINIMAL = {"name": "a", "image": "b:1", "flavor": "a100-40gb", "cpu": "1", "memory": "2Gi"}


def spec_of(runtime, **body):
    return EndpointSpec.from_json({**MINIMAL, "runtime": runtime, **body})


def made(runtime, **body):
    where = placement("a", "endpoint", resource_name="nvidia.com/gpu")
    return build_endpoint(spec_of(runtime, **body), where, replicas=1)


def pod_of(manifests):
    return manifests.primary["spec"]["template"]["spec"]


def properties_of(manifests):
    text = by_kind(manifests, "ConfigMap")["data"]["config.properties"]
    return dict(line.split("=", 1) for line in text.splitlines())


@pytest.mark.parametrize(
    ("runtime", "ports", "ready", "alive"),
    [
        ("custom", {"http": 8080}, None, None),
        ("triton", {"http": 8000, "grpc": 8001, "metrics": 8002}, "/v2/health/ready", "/v2/health/live"),
        ("torchserve", {"http": 8080, "grpc": 7070, "metrics": 8082}, "/ping", "/ping"),
        ("vllm", {"http": 8000}, "/health", "/health"),
    ],
)
def test_what_a_request_leaves_out_is_stored_as_the_preset_has_it(runtime, ports, ready, alive):
    stored = spec_of(runtime).to_json()
    assert {name: port for name, port in stored["ports"].items() if port} == ports
    assert stored["probes"]["readiness"]["path"] == ready
    assert (stored["probes"]["liveness"] or {}).get("path") == alive


def test_what_a_request_says_is_kept_beside_what_the_preset_fills_in():
    stored = spec_of(
        "triton",
        ports={"http": 9000},
        probes={"readiness": {"period_seconds": 5}, "liveness": {"path": "/x"}},
    ).to_json()
    assert stored["ports"] == {"http": 9000, "grpc": 8001, "metrics": 8002}
    assert stored["probes"]["readiness"]["path"] == "/v2/health/ready"
    assert stored["probes"]["readiness"]["period_seconds"] == 5
    assert stored["probes"]["liveness"]["path"] == "/x"
    assert "--http-port=9000" in container_of(made("triton", ports={"http": 9000}))["args"]


@pytest.mark.parametrize("runtime", ["triton", "torchserve", "vllm"])
def test_a_slow_load_is_no_reason_to_start_anew(runtime):
    server = container_of(made(runtime, probes={"load_budget_seconds": 3600}, model={"claim": "m"}))
    startup = server["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 3600
    # The kubelet begins with liveness once the startup probe has succeeded.
    assert "livenessProbe" in server


@pytest.mark.parametrize("runtime", ["triton", "torchserve", "vllm"])
def test_arguments_of_the_request_come_after_the_presets_and_a_command_replaces_them(runtime):
    body = {"model": {"claim": "m"}, "args": ["--more"]}
    filled = container_of(made(runtime, **body))
    assert filled["args"][-1] == "--more"
    assert len(filled["args"]) > 1
    own = container_of(made(runtime, command=["./serve"], **body))
    assert (own["command"], own["args"]) == (["./serve"], ["--more"])


def test_the_management_api_of_torchserve_is_neither_served_nor_listed():
    manifests = made("torchserve")
    listed = [port["containerPort"] for port in container_of(manifests)["ports"]]
    served = [port["port"] for port in by_kind(manifests, "Service")["spec"]["ports"]]
    assert 8081 not in listed + served
    assert properties_of(manifests)["management_address"] == "http://127.0.0.1:8081"


def test_torchserve_batches_by_model_and_version():
    options = {
        "models": ["bert=classifier.mar", "digits.mar"],
        "batch_size": 32,
        "max_batch_delay_ms": 100,
        "model_version": "2.1",
    }
    found = properties_of(made("torchserve", runtime_options=options, request_timeout_seconds=300))
    assert found["load_models"] == "bert=classifier.mar,digits=digits.mar"
    models = json.loads(found["models"])
    assert models["bert"]["2.1"] == {
        "defaultVersion": True,
        "marName": "classifier.mar",
        "batchSize": 32,
        "maxBatchDelay": 100,
    }
    assert set(models) == {"bert", "digits"}
    assert found["default_response_timeout"] == "300"
    assert "batch_size" not in found


def test_torchserve_loads_all_where_none_is_named():
    found = properties_of(made("torchserve", model={"claim": "m", "path": "/öl\\x"}))
    assert (found["load_models"], "models" in found) == ("all", False)
    assert found["model_store"] == "/\\u00f6l\\\\x"


def test_another_configuration_is_another_config_map_and_so_a_rollout():
    one, other = made("torchserve"), made("torchserve", ports={"http": 9000})
    assert by_kind(one, "ConfigMap")["metadata"]["name"] != by_kind(other, "ConfigMap")["metadata"]["name"]


@pytest.mark.parametrize(
    ("body", "model", "offline"),
    [
        ({"model": {"claim": "m"}}, "/models", True),
        ({"model": {"claim": "m", "path": "/llms"}, "runtime_options": {"models": ["a"]}}, "/llms/a", True),
        ({"model": {"uri": "s3://b/llama"}}, "/models", True),
        ({"model": {"path": "/opt/llama"}}, "/opt/llama", False),
        ({"runtime_options": {"models": ["meta-llama/Llama-3.1-8B"]}}, "meta-llama/Llama-3.1-8B", False),
    ],
)
def test_vllm_is_told_where_its_model_is(body, model, offline):
    server = container_of(made("vllm", **body))
    assert server["args"][0] == model
    assert ("HF_HUB_OFFLINE" in {item["name"] for item in server["env"]}) is offline


def test_vllm_spreads_its_model_over_all_gpus_of_the_pod():
    assert (
        "--tensor-parallel-size=4"
        in container_of(made("vllm", model={"claim": "m"}, gpus_per_replica=4))["args"]
    )
    assert not [arg for arg in container_of(made("vllm", model={"claim": "m"}))["args"] if "tensor" in arg]


def test_a_model_is_fetched_into_a_place_that_the_server_only_reads():
    pod = pod_of(made("custom", model={"uri": "s3://b/m", "secret": "s", "path": "/m"}))
    fetch = pod["initContainers"][0]
    assert fetch["args"] == ["s3://b/m", "/m"]
    assert "command" not in fetch
    assert fetch["volumeMounts"] == [{"name": "model", "mountPath": "/m"}]
    assert pod["containers"][0]["volumeMounts"] == [{"name": "model", "mountPath": "/m", "readOnly": True}]
    assert pod["volumes"] == [{"name": "model", "emptyDir": {"sizeLimit": "50Gi"}}]
    values = [item for item in fetch["env"] if item["name"].startswith("AWS_")]
    assert values
    assert all(item.keys() == {"name", "valueFrom"} for item in values)
    assert "nvidia.com/gpu" not in fetch["resources"]["limits"]


def test_named_models_are_looked_for_before_the_server_starts():
    body = {"model": {"uri": "s3://b/m"}, "runtime_options": {"models": ["a", "b"]}}
    names = [each["name"] for each in pod_of(made("triton", **body))["initContainers"]]
    assert names == ["model-fetch", "model-check"]
    check = pod_of(made("triton", **body))["initContainers"][1]
    assert check["command"] == ["ls", "-d", "--", "/models/a", "/models/b"]
    assert check["volumeMounts"] == [{"name": "model", "mountPath": "/models", "readOnly": True}]
    assert "initContainers" not in pod_of(made("triton", model={"claim": "m"}))


@pytest.mark.parametrize(
    ("runtime", "body", "port"),
    [
        ("custom", {}, None),
        ("custom", {"ports": {"metrics": 9100}}, "9100"),
        ("triton", {}, "8002"),
        ("torchserve", {"ports": {"metrics": 9100}}, "9100"),
        ("vllm", {"model": {"claim": "m"}}, "8000"),
    ],
)
def test_a_pod_says_where_its_metrics_are(runtime, body, port):
    annotations = made(runtime, **body).primary["spec"]["template"]["metadata"]["annotations"]
    assert annotations.get("prometheus.io/port") == port
    assert ("prometheus.io/scrape" in annotations) == (port is not None)


@pytest.mark.parametrize(("runtime", "port"), [("triton", "metrics"), ("vllm", "http"), ("custom", None)])
def test_a_pod_monitor_is_made_where_there_are_such_and_metrics_too(runtime, port):
    where = placement("a", "endpoint", resource_name="nvidia.com/gpu", pod_monitors=True)
    manifests = build_endpoint(spec_of(runtime, model={"claim": "m"}), where, replicas=1)
    monitors = [each for each in manifests.dependants if each["kind"] == "PodMonitor"]
    assert not [each for each in made(runtime).dependants if each["kind"] == "PodMonitor"]
    labels = manifests.primary["spec"]["template"]["metadata"]["labels"]
    assert labels.get("mlportal.dev/metrics-port") == port
    if port is None:
        assert monitors == []
        return
    (scraped,) = monitors[0]["spec"]["podMetricsEndpoints"]
    assert (scraped["port"], scraped["path"]) == (port, "/metrics")
    # What judges a card's use is not the endpoint's to say.
    (dropped,) = scraped["metricRelabelings"]
    assert (dropped["action"], dropped["sourceLabels"]) == ("drop", ["__name__"])
    judged = re.compile(dropped["regex"])
    assert judged.fullmatch("DCGM_FI_DEV_GPU_UTIL")
    assert judged.fullmatch("mlportal_gpu_seconds")
    assert not judged.fullmatch("vllm:num_requests_waiting")
    assert port in [each["name"] for each in container_of(manifests)["ports"]]
    # Of a stopped or another endpoint nothing is scraped: the selector is this workload's alone.
    assert monitors[0]["spec"]["selector"] == {"matchLabels": {"mlportal.dev/workload-id": where.workload_id}}


@pytest.mark.parametrize("runtime", RUNTIME_REQUESTS)
def test_monitoring_reaches_the_metrics_and_the_gateway_what_serves_and_nobody_else(runtime):
    """By the rules of NetworkPolicy: what some policy opens is open, of a pod that any policy selects."""
    policies = [
        each
        for each in build_guard_rails(namespace="n", team_slug="vision", limits={}, serving=["endpoint"])
        if each["kind"] == "NetworkPolicy"
    ]
    manifests = made(runtime, **RUNTIME_REQUESTS[runtime])
    labels = manifests.primary["spec"]["template"]["metadata"]["labels"]
    numbers = {each["name"]: each["containerPort"] for each in container_of(manifests)["ports"]}

    def reached(**namespace):
        opened = set()
        for policy in policies:
            if not selects(policy, labels):
                continue
            for rule in policy["spec"].get("ingress", ()):
                froms = [each["namespaceSelector"]["matchLabels"] for each in rule["from"]]
                if any(wanted.items() <= namespace.items() for wanted in froms):
                    opened |= {numbers[each["port"]] for each in rule["ports"] if each["port"] in numbers}
        return opened

    served = {number for name, number in numbers.items() if name != "metrics"}
    metrics = manifests.primary["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"]
    assert reached(**{"mlportal.dev/gateway": "true"}) == served
    assert reached(**{"mlportal.dev/monitoring": "true"}) == {int(metrics)}
    assert reached(**{"kubernetes.io/metadata.name": "team-other"}) == set()
    labels = {**labels, "mlportal.dev/kind": "training-run"}
    assert (
        reached(**{"mlportal.dev/gateway": "true"}) == reached(**{"mlportal.dev/monitoring": "true"}) == set()
    )


def selects(policy, labels):
    wanted = policy["spec"]["podSelector"]
    among = (labels.get(each["key"]) in each["values"] for each in wanted.get("matchExpressions", ()))
    return wanted.get("matchLabels", {}).items() <= labels.items() and all(among)


def test_without_a_kind_that_takes_requests_every_pod_is_closed():
    made = build_guard_rails(namespace="n", team_slug="vision", limits={}, serving=[])
    closed = [each["metadata"]["name"] for each in made if each["kind"] == "NetworkPolicy"]
    assert closed == ["mlportal-default-deny"]


@pytest.mark.parametrize(
    ("name", "said", "words"),
    [
        (
            "model-fetch",
            "botocore.exceptions.NoCredentialsError: Unable to locate credentials",
            "could not fetch",
        ),
        (
            "model-check",
            "ls: cannot access '/models/a': No such file or directory",
            "is not where model.path says",
        ),
        ("main", "error: creating server: Internal - failed to load all models", "found no model"),
        ("main", "ValueError: Invalid repository ID or local directory specified: '/m'", "found no model"),
        ("main", "org.pytorch.serve.archive.model.ModelNotFoundException: not found", "found no model"),
    ],
)
def test_what_ended_for_want_of_a_model_is_told_so(name, said, words):
    status = container(ended(1, message=said), name=name)
    found = pod(**({"containers": (status,)} if name == "main" else {"inits": (status,)}))
    if name == "main":
        found["spec"]["containers"][0]["name"] = "main"
    verdict = judge(found)
    assert verdict.reason == "Restarting"
    assert words in verdict.message
    assert said in verdict.message
    # Where the pod is not started again, another may find the model that was not there yet.
    found["status"]["phase"] = "Failed"
    assert judge(found).retryable
