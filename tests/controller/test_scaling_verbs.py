"""Other bounds, a scaler that is held and let go: what becomes of claims, revisions and objects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cluster import kinds
from foundation import clock
from foundation.errors import Conflict, Invalid
from inference.autoscaling.services import pause_scaler, resume_scaler
from inference.models import Endpoint
from inference.services import update_endpoint
from quotas.models import Claim, Quota
from teams.actors import Actor
from tests.controller.endpoints import BY_CPU, TWO, beside, deploy, scale

pytestmark = pytest.mark.django_db(transaction=True)


def until_there_are(bench, endpoint, number, what):
    def are(row):
        return (
            row.reason == "Ready" and beside(bench, endpoint, kinds.DEPLOYMENT)["status"].get(what) == number
        )

    bench.until(endpoint.workload, are)


def test_a_claim_grows_at_once_and_shrinks_as_pods_go(bench):
    endpoint = deploy(bench, **TWO)
    workload = endpoint.workload
    bench.until(workload, lambda row: row.reason == "Ready")
    with pytest.raises(Conflict, match="do not fit") as caught:
        scale(bench, endpoint, 9, 9)
    assert caught.value.errors[0].field == "max_replicas"
    assert (Claim.objects.get(workload=workload).units, endpoint.parsed.max_replicas) == (2, 2)

    scale(bench, endpoint, 4, 4)
    assert Claim.objects.get(workload=workload).units == 4
    until_there_are(bench, endpoint, 4, "readyReplicas")

    scale(bench, endpoint, 1, 1)
    assert Claim.objects.get(workload=workload).units == 4
    bench.until(workload, lambda _: Claim.objects.get(workload=workload).units == 1)
    assert Quota.objects.get().used == 1
    assert endpoint.revisions.filter(cause="scale").count() == 2
    assert Endpoint.objects.get(workload=workload).parsed.max_replicas == 1


def test_a_change_of_the_request_takes_other_bounds_along(bench):
    endpoint = deploy(bench, **TWO)
    workload = endpoint.workload
    bench.until(workload, lambda row: row.reason == "Ready")
    actor = Actor.of_user(bench.member)
    larger = replace(endpoint.parsed, min_replicas=3, max_replicas=3, image="example.org/serve:2")
    update_endpoint(endpoint=endpoint, spec=larger, actor=actor, now=clock.now())
    assert Claim.objects.get(workload=workload, purpose="workload").units == 3
    until_there_are(bench, endpoint, 3, "updatedReplicas")
    bench.until(workload, lambda _: Quota.objects.get().used == 3)
    endpoint.refresh_from_db()
    assert endpoint.current.state == "live"

    too_large = replace(larger, min_replicas=99, max_replicas=99)
    with pytest.raises(Conflict, match="do not fit") as caught:
        update_endpoint(endpoint=endpoint, spec=too_large, actor=actor, now=clock.now())
    assert caught.value.errors[0].field == "max_replicas"
    endpoint.refresh_from_db()
    workload.refresh_from_db()
    assert (endpoint.revision, workload.units) == (2, 3)


def test_bounds_that_cannot_be_are_refused_by_name(bench):
    endpoint = deploy(bench, **TWO)
    for least, most, field in ((3, 2, "max_replicas"), (1, 3, "scaling.trigger")):
        with pytest.raises(Invalid) as caught:
            scale(bench, endpoint, least, most)
        assert caught.value.errors[0].field == field


def test_a_scaler_is_held_by_the_bounds_that_hold_now(bench):
    endpoint = deploy(bench, **BY_CPU)
    seen_before = Endpoint.objects.get(pk=endpoint.pk)
    scale(bench, endpoint, 1, 3)
    with pytest.raises(Invalid, match="which is 3") as caught:
        pause_scaler(endpoint=seen_before, replicas=4, actor=Actor.of_user(bench.member), now=clock.now())
    assert caught.value.errors[0].field == "replicas"
    endpoint.refresh_from_db()
    assert endpoint.scaler_paused is False


def test_what_nothing_scales_has_no_scaler_to_pause(bench):
    endpoint = deploy(bench, **TWO)
    actor = Actor.of_user(bench.member)
    with pytest.raises(Conflict):
        pause_scaler(endpoint=endpoint, replicas=None, actor=actor, now=clock.now())
    resume_scaler(endpoint=endpoint, actor=actor, now=clock.now())
    assert endpoint.scaler_paused is False
    assert bench.client.list(kinds.DEPLOYMENT, namespace=bench.team.namespace_name).items == []
