"""An endpoint and the scaler beside it, on a cluster: it is deleted, held, added, taken away, and no longer offered."""

from __future__ import annotations

import pytest

from cluster import kinds
from foundation import clock
from inference.autoscaling.scalers import PAUSED, PAUSED_REPLICAS
from inference.autoscaling.services import pause_scaler, resume_scaler
from inference.models import Endpoint
from teams.actors import Actor
from tests.controller.endpoints import BY_CPU, beside, change, offer, ready, scale, states, uids, used

pytestmark = pytest.mark.django_db(transaction=True)

ALWAYS_THREE = {
    "trigger": "cron",
    "schedule": [{"start": "0 0 1 1 *", "end": "59 23 31 12 *", "timezone": "UTC", "replicas": 3}],
    "scale_down_stabilization_seconds": 0,
}
SCALES = {"min_replicas": 1, "max_replicas": 4, "scaling": ALWAYS_THREE}
LONG = 60


@pytest.fixture
def keda(bench):
    """KEDA is offered; what it is taken away with."""
    if (kinds.SCALED_OBJECT.api_version, kinds.SCALED_OBJECT.kind) not in bench.client.served_kinds():
        pytest.skip("the cluster serves no ScaledObject")
    offer(kinds.AUTOSCALER)
    return offer(kinds.SCALED_OBJECT)


def replicas(bench, endpoint):
    found = beside(bench, endpoint, kinds.DEPLOYMENT)
    return found["spec"]["replicas"], found["status"].get("readyReplicas", 0)


def until_there_are(bench, endpoint, number):
    bench.until(
        endpoint.workload,
        lambda row: row.reason == "Ready" and replicas(bench, endpoint) == (number, number),
        LONG,
    )


def take_away(bench, endpoint, kind):
    """Somebody else deletes it; what was there."""
    found = beside(bench, endpoint, kind)
    bench.delete(kind, found)
    return found


def made_again(bench, endpoint, kind, before):
    def again(_row):
        found = beside(bench, endpoint, kind)
        return found is not None and found["metadata"]["uid"] != before["metadata"]["uid"]

    bench.until(endpoint.workload, again)
    return beside(bench, endpoint, kind)


def hold(bench, endpoint, number):
    pause_scaler(endpoint=endpoint, replicas=number, actor=Actor.of_user(bench.member), now=clock.now())


def let_go(bench, endpoint):
    resume_scaler(endpoint=endpoint, actor=Actor.of_user(bench.member), now=clock.now())


def stop_and_start(bench, endpoint):
    bench.suspend(endpoint.workload)
    bench.until(endpoint.workload, lambda row: row.phase == "Suspended")
    bench.resume(endpoint.workload)


def failures(endpoint):
    return [each.message for each in endpoint.workload.events.filter(reason="ScalerFailed")]


@pytest.mark.usefixtures("keda")
def test_a_scaled_object_that_somebody_deletes_is_made_again_and_scales(bench):
    endpoint = ready(bench, **SCALES)
    until_there_are(bench, endpoint, 3)
    before = take_away(bench, endpoint, kinds.SCALED_OBJECT)
    made_again(bench, endpoint, kinds.SCALED_OBJECT, before)
    assert replicas(bench, endpoint)[0] == 3
    until_there_are(bench, endpoint, 3)
    assert "made again" in failures(endpoint)[0]


def test_an_autoscaler_that_somebody_deletes_is_made_again(bench):
    endpoint = ready(bench, **BY_CPU)
    before = take_away(bench, endpoint, kinds.AUTOSCALER)
    made_again(bench, endpoint, kinds.AUTOSCALER, before)


@pytest.mark.usefixtures("keda")
def test_a_scaler_is_held_and_let_go(bench):
    endpoint = ready(bench, **SCALES)
    until_there_are(bench, endpoint, 3)
    hold(bench, endpoint, 2)
    until_there_are(bench, endpoint, 2)
    hold(bench, endpoint, None)
    bench.turn(endpoint.workload)
    assert PAUSED in beside(bench, endpoint, kinds.SCALED_OBJECT)["metadata"]["annotations"]
    until_there_are(bench, endpoint, 2)
    let_go(bench, endpoint)
    until_there_are(bench, endpoint, 3)
    assert failures(endpoint) == []


@pytest.mark.matrix
@pytest.mark.usefixtures("keda")
def test_what_is_held_comes_down_with_its_most_and_starts_within_its_claim(bench):
    endpoint = ready(bench, **SCALES)
    hold(bench, endpoint, 4)
    until_there_are(bench, endpoint, 4)
    scale(bench, endpoint, 1, 3)
    until_there_are(bench, endpoint, 3)
    bench.until(endpoint.workload, lambda _: used() == 3)
    stop_and_start(bench, endpoint)
    until_there_are(bench, endpoint, 3)
    assert used() == 3
    scale(bench, endpoint, 1, 4)
    endpoint.refresh_from_db()
    assert endpoint.paused_replicas == 3


@pytest.mark.matrix
@pytest.mark.usefixtures("keda")
def test_one_that_is_deleted_while_it_is_held_is_made_again_held(bench):
    endpoint = ready(bench, **SCALES)
    until_there_are(bench, endpoint, 3)
    hold(bench, endpoint, 2)
    until_there_are(bench, endpoint, 2)
    before = take_away(bench, endpoint, kinds.SCALED_OBJECT)
    found = made_again(bench, endpoint, kinds.SCALED_OBJECT, before)
    assert found["metadata"]["annotations"][PAUSED_REPLICAS] == "2"
    let_go(bench, endpoint)
    until_there_are(bench, endpoint, 3)
    assert PAUSED_REPLICAS not in beside(bench, endpoint, kinds.SCALED_OBJECT)["metadata"].get(
        "annotations", {}
    )


@pytest.mark.usefixtures("keda")
def test_from_fixed_to_scaled_and_back_no_replica_is_lost(bench):
    endpoint = ready(bench, min_replicas=2, max_replicas=2)
    pods = uids(bench, endpoint)
    change(bench, endpoint, **SCALES)
    bench.turn(endpoint.workload)
    assert replicas(bench, endpoint)[0] >= 2
    until_there_are(bench, endpoint, 3)
    assert pods < uids(bench, endpoint)

    change(bench, endpoint, min_replicas=3, max_replicas=3, scaling=None)
    bench.turn(endpoint.workload)
    assert replicas(bench, endpoint)[0] == 3
    bench.until(endpoint.workload, lambda _: beside(bench, endpoint, kinds.SCALED_OBJECT) is None)
    until_there_are(bench, endpoint, 3)

    change(bench, endpoint, **SCALES)
    bench.turn(endpoint.workload)
    assert replicas(bench, endpoint)[0] == 3
    assert pods < uids(bench, endpoint)
    assert failures(endpoint) == []


@pytest.mark.matrix
def test_an_autoscaler_is_taken_away_while_it_is_held_and_nobody_calls_that_a_failure(bench):
    offer(kinds.AUTOSCALER)
    endpoint = ready(bench, **BY_CPU)
    hold(bench, endpoint, 2)
    until_there_are(bench, endpoint, 2)
    assert beside(bench, endpoint, kinds.AUTOSCALER) is None
    let_go(bench, endpoint)
    bench.turn(endpoint.workload)
    assert beside(bench, endpoint, kinds.AUTOSCALER) is not None
    assert replicas(bench, endpoint)[0] == 2
    assert not any("made again" in each for each in failures(endpoint))


@pytest.mark.matrix
def test_without_a_scaler_what_is_held_comes_down_with_its_most_too(bench):
    offer(kinds.AUTOSCALER)
    endpoint = ready(bench, **BY_CPU)
    hold(bench, endpoint, 4)
    until_there_are(bench, endpoint, 4)
    change(bench, endpoint, max_replicas=2)
    until_there_are(bench, endpoint, 2)
    bench.until(endpoint.workload, lambda _: used() == 2)
    # A row of older bounds is held within the present ones as well.
    Endpoint.objects.update(paused_replicas=4)
    stop_and_start(bench, endpoint)
    until_there_are(bench, endpoint, 2)


@pytest.mark.matrix
def test_what_nothing_scales_any_more_is_held_no_more(bench):
    offer(kinds.AUTOSCALER)
    endpoint = ready(bench, **BY_CPU)
    hold(bench, endpoint, 3)
    until_there_are(bench, endpoint, 3)
    change(bench, endpoint, min_replicas=1, max_replicas=1, scaling=None)
    until_there_are(bench, endpoint, 1)
    bench.until(endpoint.workload, lambda _: used() == 1)
    change(bench, endpoint, **BY_CPU)
    bench.turn(endpoint.workload)
    assert beside(bench, endpoint, kinds.AUTOSCALER) is not None
    endpoint.refresh_from_db()
    assert (endpoint.scaler_paused, endpoint.paused_replicas) == (False, None)


@pytest.mark.matrix
def test_an_autoscaler_is_taken_away_and_made_again_while_a_revision_waits(bench):
    offer(kinds.AUTOSCALER)
    endpoint = ready(bench, gpus_per_replica=4, min_replicas=1, max_replicas=2, scaling={"trigger": "cpu"})
    change(bench, endpoint, image="example.org/serve:2", rollout={"when_blocked": "wait"})
    hold(bench, endpoint, 2)
    bench.until(endpoint.workload, lambda _: replicas(bench, endpoint) == (2, 2))
    assert beside(bench, endpoint, kinds.AUTOSCALER) is None
    let_go(bench, endpoint)
    bench.until(endpoint.workload, lambda _: beside(bench, endpoint, kinds.AUTOSCALER) is not None)
    assert states(endpoint) == ["live", "pending"]


@pytest.mark.matrix
def test_an_autoscaler_gives_way_to_keda_and_comes_back_without_it(bench, keda):
    keda.delete()
    endpoint = ready(bench, **BY_CPU)
    assert beside(bench, endpoint, kinds.AUTOSCALER) is not None
    keda = offer(kinds.SCALED_OBJECT)
    bench.until(endpoint.workload, lambda _: beside(bench, endpoint, kinds.SCALED_OBJECT) is not None)
    assert beside(bench, endpoint, kinds.AUTOSCALER) is None
    keda.delete()
    bench.until(endpoint.workload, lambda _: beside(bench, endpoint, kinds.AUTOSCALER) is not None)


def test_what_only_keda_can_scale_says_so_without_it_and_goes_on_with_it(bench, keda):
    endpoint = ready(bench, **SCALES)
    until_there_are(bench, endpoint, 3)
    keda.delete()
    bench.until(endpoint.workload, lambda row: row.reason == "ScalerFailed" and "needs KEDA" in row.message)
    before = beside(bench, endpoint, kinds.DEPLOYMENT)["metadata"]["resourceVersion"]
    for _ in range(3):
        bench.turn(endpoint.workload)
    assert beside(bench, endpoint, kinds.DEPLOYMENT)["metadata"]["resourceVersion"] == before
    assert replicas(bench, endpoint) == (3, 3)
    offer(kinds.SCALED_OBJECT)
    until_there_are(bench, endpoint, 3)
    assert beside(bench, endpoint, kinds.SCALED_OBJECT) is not None
