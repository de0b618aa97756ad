"""What nodes have besides GPUs, from rows to the answer of a submission."""

from __future__ import annotations

import pytest

from foundation import clock
from foundation.errors import Invalid
from jobs.services import preview_training_run, submit_training_run
from jobs.specs import TrainingRunSpec
from policy.judge import judge
from quotas import snapshots
from teams.actors import Actor
from tests.factories.catalogue import make_flavor, make_node
from tests.factories.submitted import make_pod
from tests.factories.teams import make_member
from tests.factories.workloads import make_workload, put_in
from tests.quotas.hall import Hall
from workloads.models import Attempt, ForeignPod
from workloads.podrequests import others_offered
from workloads.states import Phase

pytestmark = pytest.mark.django_db

GIB = 1024**3
T4 = {"cpu": "3920m", "memory": "14Gi", "ephemeral-storage": "100G", "pods": "110"}


@pytest.fixture
def hall():
    hall = Hall(8)
    make_node("n-0", units=2, others=T4)
    make_member("member", team=hall.team, user=hall.owner)
    return hall


def spec(hall, **values):
    body = {"name": "x", "image": "example.org/train:1", "command": ["train"], "flavor": hall.flavor.name}
    return TrainingRunSpec.from_json(body | {"gpus_per_replica": 1, "cpu": "1", "memory": "4Gi"} | values)


@pytest.mark.parametrize(
    ("values", "field"),
    [({"cpu": "8", "memory": "32Gi"}, "cpu"), ({"memory": "500Gi"}, "memory"), ({"ephemeral_storage": "2T"}, "ephemeral_storage")],
)  # fmt: skip
def test_what_no_node_could_ever_hold_is_refused_at_submission_by_its_field(hall, values, field):
    with pytest.raises(Invalid) as refused:
        submit_training_run(
            spec=spec(hall, **values), team=hall.team, actor=Actor.of_user(hall.owner), now=clock.now()
        )
    assert [(each.field, each.code) for each in refused.value.errors] == [(field, "never_fits")]


def test_the_preview_says_what_a_node_has_left_beside_daemons_of_others(hall):
    now = clock.now()
    ForeignPod.objects.create(
        uid="d", namespace="x", name="d", node_name="n-0", seen_at=now, memory_bytes=9 * GIB
    )
    card = preview_training_run(spec=spec(hall, memory="8Gi"), team=hall.team, user=hall.owner, now=now)
    assert card.verdict.message == (
        "This run needs 8Gi of memory on a node with 1 a100-40gb (on-demand) free; n-0 has 5Gi left."
    )
    assert {"memory": "5Gi"} in [dict(offer.lever.change) for offer in card.offers]


def test_a_run_holds_the_memory_that_its_pods_ask_for_before_and_after_a_node_took_them(hall):
    large = make_workload(team=hall.team, flavor=hall.flavor, units=1, beside=(1000, 10 * GIB, 0))
    hall.claim(workload=large)
    put_in(large, Phase.STARTING)
    Attempt.objects.create(workload=large, number=1, object_name="x", created_at=clock.now())
    waiting = make_workload(team=hall.team, flavor=hall.flavor, units=1, beside=(1000, 8 * GIB, 0))

    def verdict():
        facts = snapshots.pool_snapshot_of(
            flavor=hall.flavor, capacity_type="on-demand", now=clock.now(), focus=waiting
        )
        return judge(facts, str(waiting.public_id))

    assert (verdict().rule, verdict().message.rpartition("; ")[2]) == ("blocks", "n-0 has 4Gi left.")
    pod = make_pod(large, units=1, node_name="n-0", attempt=1, memory_bytes=11 * GIB)
    assert verdict().message.rpartition("; ")[2] == "n-0 has 3Gi left.", "what is really on the node counts"
    pod.finished_at = clock.now()
    pod.save()
    assert verdict().admitted


def test_nodes_that_may_come_have_what_the_flavor_declares_of_them(hall):
    hall.flavor.capacity = {
        "on-demand": {"provisionable": {"block": 4, "units": 8, "cpu": "16", "memory": "64Gi"}}
    }
    hall.flavor.save()
    facts = snapshots.pool_snapshot_of(flavor=hall.flavor, capacity_type="on-demand", now=clock.now())
    assert facts.provisionable.others == (16000, 64 * GIB, None, None)
    with pytest.raises(Invalid, match="the most is 64Gi"):
        submit_training_run(
            spec=spec(hall, memory="65Gi"), team=hall.team, actor=Actor.of_user(hall.owner), now=clock.now()
        )
    accepted = spec(hall, memory="40Gi")
    assert preview_training_run(
        spec=accepted, team=hall.team, user=hall.owner, now=clock.now()
    ).verdict.admitted


def test_pods_without_gpus_of_a_run_take_memory_where_they_are(hall):
    other = make_workload(team=hall.team)
    make_pod(other, units=0, node_name="n-0", memory_bytes=12 * GIB)
    make_flavor("else", product="Else")
    facts = snapshots.pool_snapshot_of(flavor=hall.flavor, capacity_type="on-demand", now=clock.now())
    assert [block.left[1] for block in facts.blocks] == [2 * GIB]
    assert facts.hosts == ((2, others_offered(T4)),)
