"""An endpoint that the real KEDA scales, by what a real Prometheus says; the portal looks on and steers."""

from __future__ import annotations

import os

import pytest

from cluster import kinds
from cluster.client import connect
from cluster.kinds import ObjectRef
from controller import services
from controller.routes import route_of
from foundation import clock
from inference.models import Endpoint
from quotas.models import Claim
from tenancy.namespaces import forget_namespace
from tests.controller import endpoints
from tests.controller.conftest import Bench, leave_nothing
from tests.controller.endpoints import offer
from tests.controller.metric_source import PROMETHEUS, metric_source
from tests.factories.catalogue import make_flavor, make_quota
from workloads.models import Workload
from workloads.services import change_generation

REAL = os.environ.get("PORTAL_TEST_KUBECONFIG", "")  # noqa: TID251
MINUTES = 180

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not REAL, reason="no PORTAL_TEST_KUBECONFIG"),
    pytest.mark.skipif(PROMETHEUS is None, reason="the program prometheus is not installed"),
]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    with metric_source(tmp_path_factory.mktemp("prometheus")) as running:
        yield running


@pytest.fixture
def bench(source, settings, transactional_db):
    client = connect(REAL)
    if (kinds.SCALED_OBJECT.api_version, kinds.SCALED_OBJECT.kind) not in client.served_kinds():
        pytest.skip("the cluster serves no ScaledObject")
    settings.PROMETHEUS_URL = source.url
    source.planted = {"mlportal_gateway_up": 1}
    for kind in (kinds.SCALED_OBJECT, kinds.AUTOSCALER):
        offer(kind)
    bench = Bench(client)
    bench.slices = make_flavor(
        "a100-mig-1g.10gb", resource="nvidia.com/mig-1g.10gb", product=None, sharing="mig"
    )
    bench.quota = make_quota(bench.team, bench.slices, 8)
    yield bench
    leave_nothing(client, bench.team.namespace_name)


def deploy(bench, **fields):
    asked = {
        "flavor": bench.slices.name,
        "command": [],
        "cpu": "100m",
        "memory": "64Mi",
        "max_replicas": 6,
        "probes": {"load_budget_seconds": 10},
        **fields,
    }
    return endpoints.deploy(bench, **asked).workload


def deployment_of(bench, workload):
    name = workload.attempts.get(ended_at=None).object_name
    return bench.client.get(ObjectRef("apps/v1", "Deployment", bench.team.namespace_name, name))


def replicas(bench, workload):
    found = deployment_of(bench, workload)
    return found["spec"]["replicas"], found["status"].get("readyReplicas", 0)


def utilisation(bench, workload, share):
    """DCGM's series of one of the endpoint's pods, as Prometheus has it by default."""
    name = workload.attempts.get(ended_at=None).object_name
    labels = f'exported_namespace="{bench.team.namespace_name}",exported_pod="{name}-abc12-x7k2p"'
    return {f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}}": share}


def restart_the_portal(bench, workload):
    """Another process takes over: it knows nothing but the rows, and applies everything anew."""
    bench.client = connect(REAL)
    forget_namespace(bench.client, bench.team)
    change_generation(workload, now=clock.now())
    bench.turn(Workload.objects.get(pk=workload.pk))


def test_slices_scale_from_one_to_six_and_back_as_their_utilisation_moves(bench, source):
    scaling = {
        "trigger": "gpu-utilization",
        "threshold": 70,
        "fallback_replicas": 3,
        "scale_down_stabilization_seconds": 0,
    }
    workload = deploy(bench, scaling=scaling)
    bench.until(workload, lambda row: row.attempt_number == 1)
    source.planted |= utilisation(bench, workload, 0.5)
    bench.until(workload, lambda row: row.reason == "Ready", MINUTES)
    assert replicas(bench, workload) == (1, 1)
    claim = Claim.objects.get(workload=workload)
    assert (claim.units, claim.headroom) == (6, 5)

    source.planted |= utilisation(bench, workload, 0.95)
    bench.until(workload, lambda _: replicas(bench, workload) == (6, 6), MINUTES)
    restart_the_portal(bench, workload)
    assert replicas(bench, workload) == (6, 6)
    bench.until(workload, lambda row: row.reason == "Ready", MINUTES)
    claim.refresh_from_db()
    assert (claim.units, claim.headroom) == (6, 0)

    source.planted |= utilisation(bench, workload, 0.02)
    bench.until(workload, lambda _: replicas(bench, workload) == (1, 1), MINUTES)
    bench.until(workload, lambda row: row.reason == "Ready", MINUTES)
    claim.refresh_from_db()
    assert (claim.units, claim.headroom) == (6, 5)
    seen = list(
        Endpoint.objects.get(workload=workload).samples.order_by("at").values_list("desired", flat=True)
    )
    assert {1, 6} <= set(seen)

    source.planted.clear()
    bench.until(workload, lambda row: row.reason == "ScalerFailed" and "fallback" in row.message, MINUTES)
    bench.until(workload, lambda _: replicas(bench, workload) == (3, 3), MINUTES)
    bench.turn(workload)
    assert (workload.phase, workload.reason) == ("Running", "ScalerFailed")

    source.planted |= utilisation(bench, workload, 0.5)
    bench.until(workload, lambda row: row.reason == "Ready", MINUTES)


def test_an_endpoint_sleeps_is_called_and_comes_back(bench, source):
    scaling = {"trigger": "in-flight", "threshold": 2, "cooldown_seconds": 10}
    env = [{"name": "BED_START_SECONDS", "value": "25"}]
    workload = deploy(bench, scaling=scaling, scale_to_zero=True, max_replicas=3, env=env)
    bench.until(workload, lambda row: row.reason == "Ready", MINUTES)
    bench.until(workload, lambda row: row.reason == "ScaledToZero", MINUTES)
    assert replicas(bench, workload) == (0, 0)
    assert Claim.objects.get(workload=workload).units == 3
    assert route_of(workload).is_waking
    restart_the_portal(bench, workload)
    assert replicas(bench, workload) == (0, 0)

    services.call_for(public_id=workload.public_id, now=clock.now())
    bench.until(workload, lambda row: row.reason == "Waking")
    # It loads for longer than the cooldown, without a request in flight that its scaler could see.
    bench.until(workload, lambda row: row.reason == "Ready", MINUTES)
    starts = workload.events.filter(reason="ScaledToZero").count()
    assert starts == 1
    assert route_of(workload).is_live

    series = f'mlportal_gateway_requests_in_flight{{endpoint_id="{workload.public_id}"}}'
    source.planted[series] = 6
    bench.until(workload, lambda _: replicas(bench, workload)[0] == 3, MINUTES)
    source.planted[series] = 0
    bench.until(workload, lambda row: row.reason == "ScaledToZero", 2 * MINUTES)
    source.planted[series] = 1
    bench.until(workload, lambda row: row.reason == "Ready", MINUTES)


def test_what_sleeps_is_woken_by_a_call_though_its_metric_cannot_be_read(bench, source):
    scaling = {"trigger": "in-flight", "threshold": 2, "cooldown_seconds": 10}
    workload = deploy(bench, scaling=scaling, scale_to_zero=True, max_replicas=3)
    bench.until(workload, lambda row: row.reason == "ScaledToZero", 2 * MINUTES)
    source.planted = {}
    bench.until(workload, lambda row: "KEDA" in row.message, MINUTES)
    assert workload.reason == "ScaledToZero"
    services.call_for(public_id=workload.public_id, now=clock.now())
    bench.until(workload, lambda row: row.phase == "Running" and replicas(bench, workload)[1] > 0, MINUTES)
