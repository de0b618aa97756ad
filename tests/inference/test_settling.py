"""Rows of revisions after one look of the reconciler, where no cluster is needed to see it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from controller.reconcile.decide import Action, Plan
from foundation import clock
from foundation.errors import Invalid
from inference.adapter import EndpointAdapter
from inference.autoscaling.state import slept
from inference.models import Endpoint, EndpointRevision
from inference.revisions.record import settle, way_back
from inference.revisions.services import effects_of, spec_of_return
from inference.scaling_spec import ScalingSpec
from inference.services import preview_rollback, roll_back, update_endpoint
from teams.actors import Actor
from tests.factories.catalogue import make_flavor, make_price
from tests.factories.submitted import make_attempt, make_endpoint, move
from tests.factories.teams import make_member, make_team
from workloads.pods.observation import Observation, RolloutFacts, Stage
from workloads.services import note, transition
from workloads.states import Phase, Reason

pytestmark = pytest.mark.django_db


@pytest.fixture
def endpoint():
    """Without GPUs, its first revision live."""
    team = make_team("vision")
    workload = make_endpoint(team, make_member(team=team).user)
    make_attempt(workload)
    move(workload, Phase.RUNNING)
    endpoint = Endpoint.objects.get(workload=workload)
    look(endpoint, Action.CREATE)
    look(endpoint, rollout=facts(1))
    assert endpoint.current.state == "live"
    return endpoint


def facts(revision, **fields):
    given = {"updated": 1, "ready": 1, "total": 1, "old": 0, "complete": True, **fields}
    return RolloutFacts(revision=revision, **given)


def look(endpoint, *actions, rollout=None, **plan):
    """One record step of a reconcile, which did that and saw that."""
    endpoint.workload.refresh_from_db()
    seen = None
    if rollout is not None:
        seen = Observation(
            stage=Stage.UPDATING,
            reason=Reason.UPDATING,
            message="",
            ready_replicas=rollout.ready + rollout.old,
            desired_replicas=rollout.total,
            rollout=rollout,
        )
    told = Plan(Phase.RUNNING, Reason.UPDATING, "", actions, **plan)
    wait = settle(endpoint.workload, seen, told, clock.now())
    endpoint.refresh_from_db()
    return wait


def change(endpoint, **fields):
    endpoint.workload.refresh_from_db()
    spec = replace(endpoint.current.parsed, **fields)
    actor = Actor.of_user(endpoint.workload.owner)
    update_endpoint(endpoint=endpoint, spec=spec, actor=actor, now=clock.now())


def states(endpoint):
    return list(endpoint.revisions.order_by("number").values_list("state", flat=True))


def test_a_revision_without_a_replica_proves_itself_when_one_runs(endpoint):
    change(endpoint, image="example.org/serve:2")
    look(endpoint, Action.APPLY)
    look(endpoint, rollout=facts(2, updated=0, ready=0, total=0))
    assert states(endpoint) == ["live", "rolling-out"]
    assert "when one does" in endpoint.current.message
    look(endpoint, rollout=facts(2))
    assert states(endpoint) == ["superseded", "live"]
    assert endpoint.current.message == ""


def test_a_change_that_came_during_the_look_is_left_to_the_next_one(endpoint):
    change(endpoint, image="example.org/serve:2")
    workload = endpoint.workload
    workload.refresh_from_db()
    stale = type(workload).objects.get(pk=workload.pk)
    change(endpoint, image="example.org/serve:3")
    plan = Plan(Phase.RUNNING, Reason.UPDATING, "", (Action.APPLY,))
    settle(stale, None, plan, clock.now())
    assert states(endpoint) == ["live", "superseded", "pending"]


def test_what_the_cluster_refuses_goes_back_to_what_it_was_told_last(endpoint):
    change(endpoint, image="example.org/serve:2")
    look(endpoint, refused="spec.template: Invalid value")
    assert states(endpoint) == ["live", "failed", "pending"]
    assert (endpoint.current.returns_to, endpoint.target) == (1, 1)
    look(endpoint, refused="spec.template: Invalid value")
    assert states(endpoint) == ["live", "failed", "failed"]


def test_what_was_told_goes_live_also_while_a_newer_revision_waits_for_room(endpoint):
    change(endpoint, image="example.org/serve:2")
    look(endpoint, Action.APPLY)
    change(endpoint, image="example.org/serve:3", when_blocked="wait")
    look(endpoint, rollout=facts(2), no_surge="There is no room.")
    assert states(endpoint) == ["superseded", "live", "pending"]
    assert (endpoint.stable_revision, endpoint.current.message) == (2, "There is no room.")


def test_what_is_live_is_not_judged_again_because_a_newer_revision_waits(endpoint):
    change(endpoint, image="example.org/serve:2", when_blocked="wait")
    look(endpoint, rollout=facts(1, ready=0, complete=False, stuck=True), no_surge="There is no room.")
    assert states(endpoint) == ["live", "pending"]
    assert endpoint.current.strategy == "surge"


def test_what_is_refused_in_the_place_of_a_failure_goes_back_to_what_was_ready(endpoint):
    change(endpoint, image="example.org/serve:2")
    look(endpoint, Action.APPLY)
    change(endpoint, image="example.org/serve:3", when_blocked="wait")
    fails = facts(2, ready=0, complete=False, stuck=True, old=1)
    assert look(endpoint, rollout=fails, no_surge="There is no room.") == 0
    assert states(endpoint) == ["live", "failed", "pending"]
    look(endpoint, refused="spec.template: Invalid value")
    assert states(endpoint) == ["live", "failed", "failed", "pending"]
    assert endpoint.current.returns_to == 1


def test_a_revision_that_is_held_back_is_told_again_when_its_time_comes(endpoint):
    change(endpoint, image="example.org/serve:2")
    look(endpoint, Action.APPLY)
    held = endpoint.current
    held.state, held.held_until = "pending", clock.now() + timedelta(seconds=50)
    held.save()
    Endpoint.objects.filter(pk=endpoint.pk).update(target=1)
    endpoint.refresh_from_db()
    assert endpoint.to_tell.number == 1
    assert 40 < look(endpoint, rollout=facts(1)) <= 50
    assert endpoint.to_tell.number == 1
    EndpointRevision.objects.filter(pk=held.pk).update(held_until=clock.now())
    assert look(endpoint, rollout=facts(1)) == 0
    assert endpoint.to_tell.number == 2


def test_another_change_ends_the_wait_of_one_that_is_held_back(endpoint):
    change(endpoint, image="example.org/serve:2")
    endpoint.revisions.filter(number=2).update(held_until=clock.now() + timedelta(seconds=50))
    change(endpoint, image="example.org/serve:3")
    assert endpoint.revisions.get(number=2).held_until is None
    assert endpoint.to_tell.number == 3


def test_the_way_back_is_to_other_pods_that_were_ready_and_never_twice(endpoint):
    assert way_back(endpoint) is None
    change(endpoint, image="example.org/serve:2")
    look(endpoint, Action.APPLY)
    assert way_back(endpoint).number == 1
    look(endpoint, rollout=facts(2, ready=0, complete=False, stuck=True, old=1))
    assert states(endpoint) == ["live", "failed", "pending"]
    look(endpoint, Action.APPLY)
    assert way_back(endpoint) is None


def test_the_downtime_before_a_stop_is_none_of_the_time_after_it(endpoint):
    change(endpoint, image="example.org/serve:2", strategy="replace", max_downtime_seconds=60)
    look(endpoint, Action.APPLY)
    loads = facts(2, ready=0, complete=False)
    look(endpoint, rollout=loads)
    long_ago = clock.now() - timedelta(hours=1)
    endpoint.revisions.filter(number=2).update(down_since=long_ago)
    # It was stopped, and has been started again.
    look(endpoint, Action.CREATE)
    look(endpoint, rollout=loads)
    assert states(endpoint) == ["live", "rolling-out"]


def test_what_is_live_stays_so_where_the_cluster_refuses_to_be_told_it_again(endpoint):
    look(endpoint, refused="admission webhook denied the request")
    assert states(endpoint) == ["live"]


def test_a_revision_held_back_is_no_reason_to_look_all_the_time(endpoint):
    change(endpoint, image="example.org/serve:2")
    look(endpoint, Action.APPLY)
    endpoint.revisions.filter(number=2).update(state="pending", held_until=clock.now())
    Endpoint.objects.filter(pk=endpoint.pk).update(target=1)
    endpoint.refresh_from_db()
    # One of the old pods is not ready: its becoming so is an event of its own.
    assert look(endpoint, rollout=facts(1, ready=0, complete=False)) is None


def test_what_only_the_newer_server_can_scale_by_does_not_go_back_with_the_older_one(endpoint):
    scaling = ScalingSpec(trigger="queue-latency", threshold=100)
    change(endpoint, runtime="triton", scaling=scaling)
    look(endpoint, Action.APPLY)
    look(endpoint, rollout=facts(2, ready=0, complete=False, stuck=True, old=1))
    assert states(endpoint) == ["live", "failed", "pending"]
    assert (endpoint.current.parsed.runtime, endpoint.current.parsed.scaling) == ("custom", None)


def test_nor_when_people_go_back(endpoint):
    change(endpoint, runtime="triton", scaling=ScalingSpec(trigger="queue-latency", threshold=100))
    look(endpoint, Action.APPLY)
    look(endpoint, rollout=facts(2))
    _, spec = spec_of_return(endpoint, 1, rollout=None)
    assert (spec.runtime, spec.scaling) == ("custom", None)


def test_what_any_server_can_be_scaled_by_stays(endpoint):
    scaling = ScalingSpec(trigger="in-flight", threshold=4)
    change(endpoint, runtime="triton", scaling=scaling)
    look(endpoint, Action.APPLY)
    look(endpoint, rollout=facts(2))
    _, spec = spec_of_return(endpoint, 1, rollout=None)
    assert spec.scaling == scaling


def test_going_back_to_what_needs_a_secret_that_is_gone_is_refused_before_too(endpoint):
    plain = endpoint.current.parsed
    needed = {**plain.to_json(), "env": [{"name": "TOKEN", "secret": "gone", "key": "token"}]}
    endpoint.revisions.filter(number=1).update(spec=needed)
    EndpointRevision.objects.create(
        endpoint=endpoint,
        number=2,
        spec=replace(plain, image="example.org/serve:2").to_json(),
        actor="a",
        created_at=clock.now(),
        pods_of=2,
    )
    Endpoint.objects.filter(pk=endpoint.pk).update(revision=2)
    endpoint.refresh_from_db()
    user = endpoint.workload.owner
    with pytest.raises(Invalid) as done:
        roll_back(endpoint=endpoint, number=1, actor=Actor.of_user(user), now=clock.now())
    with pytest.raises(Invalid) as told:
        preview_rollback(endpoint=endpoint, number=1, rollout=None, user=user, now=clock.now())
    assert str(told.value) == str(done.value)


def test_nothing_is_claimed_on_top_for_pods_that_stay_or_are_none(endpoint):
    def deployment(revision, replicas):
        template = {"metadata": {"labels": {"mlportal.dev/revision": str(revision)}}}
        return {"spec": {"template": template, "replicas": replicas}}

    adapter = EndpointAdapter()
    change(endpoint, image="example.org/serve:2")
    endpoint.revisions.filter(number=2).update(
        spec={**endpoint.current.spec, "gpus_per_replica": 2, "flavor": "a100-40gb"}
    )
    workload = endpoint.workload
    assert adapter.surge_units(workload, deployment(1, 3)) == 2
    assert adapter.surge_units(workload, deployment(1, 0)) is None
    assert adapter.surge_units(workload, deployment(2, 3)) is None
    endpoint.revisions.filter(number=2).update(strategy="replace")
    assert adapter.surge_units(workload, deployment(1, 3)) is None


def test_what_sleeps_at_its_minimum_costs_nothing_there(endpoint):
    endpoint.workload.flavor = make_flavor()
    make_price()
    stays = replace(endpoint.parsed, gpus_per_replica=1)
    sleeps = replace(stays, scale_to_zero=True, scaling=ScalingSpec(trigger="in-flight", threshold=4))
    found = effects_of(endpoint, stays, sleeps, surge=0, now=clock.now())
    assert found.before.at_min == found.before.at_max == found.after.at_max > 0
    assert found.after.at_min == 0


def test_a_step_of_a_rollout_ends_neither_a_sleep_nor_a_wake(endpoint):
    workload, start = endpoint.workload, clock.now()

    def goes_on(seconds, reason):
        workload.refresh_from_db()
        at = start + timedelta(seconds=seconds)
        transition(workload, to=Phase.RUNNING, reason=reason, message="", actor="tests", now=at)

    def is_noted(seconds):
        at = start + timedelta(seconds=seconds)
        note(workload, reason="RolloutStarted", message="", actor="tests", source="revision 2", now=at)

    goes_on(0, Reason.SCALED_TO_ZERO)
    is_noted(10)
    goes_on(100, Reason.WAKING)
    is_noted(110)
    goes_on(130, Reason.READY)
    found = slept(workload, endpoint.parsed, now=start + timedelta(seconds=200))
    assert (found.asleep_seconds, found.cold_start_seconds) == (100, 30)
