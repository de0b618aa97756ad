"""What the preview says is what admission does, and of many who want the last unit exactly one gets it."""

from __future__ import annotations

import random
import re
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from django.db import connection

from controller.admission import preemption, scheduler
from controller.waiting_card import CardRequest, card_for
from foundation import clock
from foundation.errors import Invalid
from foundation.models import PlatformSettings
from jobs.services import submit_training_run
from jobs.specs import TrainingRunSpec
from quotas.cohorts import create_cohort
from quotas.models import Claim, Pool, Preemption, Quota
from quotas.queries import leaks
from quotas.waiters import new_waiter
from teams.actors import Actor
from tests.effort import drawn
from tests.factories.catalogue import SETUP, limit, make_flavor, make_node
from tests.factories.teams import make_member, make_team
from workloads import locks, services
from workloads.models import Workload
from workloads.states import HOLDS_CLAIM, Desired, Phase, Priority, Reason

pytestmark = pytest.mark.django_db(transaction=True)

CASES = drawn(usual=25, soak=5_000)
AT_ONCE = drawn(usual=40, soak=200)
SEED = 20_261_121


def offers(cpu, memory):
    return {"cpu": cpu, "memory": memory, "ephemeral-storage": "100G", "pods": "110"}


class Hall:
    """Three teams, two of them in a cohort, on four nodes; nothing runs, but everything is admitted in earnest."""

    def __init__(self, now):
        self.now = now
        self.random = random.Random(SEED)
        PlatformSettings.objects.update_or_create(pk=1, defaults={"minimum_run_seconds": 0})
        create_cohort(name="research", parent=None, actor=SETUP, now=now)
        self.teams = [
            make_team("vision", cohort_name="research"),
            make_team("speech", cohort_name="research"),
            make_team("alone"),
        ]
        self.users = {team.pk: [make_member("lead", team=team).user for _ in range(2)] for team in self.teams}
        self.flavors = [make_flavor(), make_flavor("t4", product="Tesla-T4")]
        for number in range(3):
            make_node(f"a100-{number}", units=8, others=offers("64", "256Gi"))
        make_node("t4-0", units=4, product="Tesla-T4", others=offers("3920m", "14Gi"))
        for team, nominal in zip(self.teams, (8, 12, 4), strict=True):
            limit(team, self.flavors[0], nominal=nominal, user_limit=14)
        limit(self.teams[0], self.flavors[1], nominal=3, max_time_limit_seconds=7200)

    def wish(self, number):
        chance = self.random
        team = chance.choice(self.teams)
        body = {
            "name": f"run-{number}",
            "image": "example.org/train:1",
            "command": ["train"],
            "flavor": chance.choice([*self.flavors[:1] * 5, *self.flavors]).name,
            "gpus_per_replica": chance.choice([1, 1, 2, 4, 8, 9]),
            "cpu": chance.choice(["1", "1", "500m", "8", "40"]),
            "memory": chance.choice(["1Gi", "1Gi", "6Gi", "32Gi", "120Gi", "500Gi"]),
            "priority": chance.choice(["low", "normal", "normal", "high"]),
            "time_limit_seconds": chance.choice([600, 3600, 9000]),
        }
        return team, chance.choice(self.users[team.pk]), TrainingRunSpec.from_json(body)

    def preview(self, team, user, spec):
        flavor = next(each for each in self.flavors if each.name == spec.flavor)
        waiter = new_waiter(
            team=team.slug,
            owner_id=user.pk,
            noun="run",
            units=spec.gpus_per_replica,
            units_each=spec.gpus_per_replica,
            pods=1,
            priority=Priority(spec.priority),
            seconds=spec.time_limit_seconds,
            preemptible=True,
            beside=spec.beside,
            now=self.now,
        )
        asked = CardRequest(
            kind="training-run",
            team=team,
            flavor=flavor,
            capacity_type="on-demand",
            waiter=waiter,
            time_limit_seconds=spec.time_limit_seconds,
        )
        return card_for(asked, named=frozenset(), now=self.now, with_levers=False)

    def admit(self, workload):
        locked = locks.lock(public_id=workload.public_id, now=self.now)
        verdict = scheduler.admit(locked, now=self.now)
        locks.unlock(locked, next_at=None, failed=False)
        return verdict

    def end_somebody(self):
        """Somebody finishes, or who has to leave has left; then the pools are passed over."""
        held = Workload.objects.filter(phase__in=HOLDS_CLAIM).select_related("team", "flavor").order_by("pk")
        asked = [row for row in held if preemption.open_request(row)]
        for row in asked:
            self.move(
                row, (Phase.STOPPING, Reason.PREEMPTING, Phase.QUEUED), (Phase.QUEUED, Reason.PREEMPTED, None)
            )
        left = [row for row in held if row not in asked]
        for row in self.random.sample(left, min(len(left), self.random.choice([0, 0, 1]))):
            self.move(row, (Phase.SUCCEEDED, Reason.COMPLETED, None))
        for pool in Pool.objects.filter(due_at__lte=self.now).select_related("flavor"):
            scheduler.pass_over(pool, now=self.now)

    def move(self, row, *steps):
        for to, reason, after in steps:
            services.transition(
                row, to=to, reason=reason, message="test", actor="test", now=self.now, stopping_to=after
            )
        preemption.has_left(row, now=self.now)
        scheduler.release(row, now=self.now)

    def clear_queue(self):
        for row in Workload.objects.filter(phase=Phase.QUEUED.value).order_by("pk")[:5]:
            services.transition(
                row,
                to=Phase.CANCELLED,
                reason=Reason.USER_REQUESTED,
                message="test",
                actor="test",
                now=self.now,
            )


def told(verdict):
    return (verdict.outcome, verdict.reason, verdict.message, verdict.rule, verdict.lent, verdict.victims)


def test_a_submission_gets_what_its_preview_said_in_random_cases():
    now = clock.now().replace(microsecond=0)
    seen = Counter()
    with clock.freeze(now):
        hall = Hall(now)
        for number in range(CASES):
            team, user, spec = hall.wish(number)
            card = hall.preview(team, user, spec)
            seen[card.verdict.rule] += 1
            seen["victims"] += bool(card.verdict.victims)
            seen["beside"] += any(each.fact == "largest_free_memory" for each in card.verdict.evidence)
            actor = Actor.of_user(user)
            if card.verdict.outcome == "never":
                with pytest.raises(Invalid, match=re.escape(card.verdict.message)):
                    submit_training_run(spec=spec, team=team, actor=actor, now=now)
            else:
                workload = submit_training_run(spec=spec, team=team, actor=actor, now=now).workload
                assert told(hall.admit(workload)) == told(card.verdict), number
            hall.end_somebody()
            if Workload.objects.filter(phase=Phase.QUEUED.value).count() > 12:
                hall.clear_queue()
    assert len(seen) >= 8, f"the cases are of too few kinds: {seen}"
    assert seen["victims"] > CASES / 100, seen
    assert seen["beside"] > CASES / 100 < seen["largest-memory"], seen
    found = leaks()
    assert (found.claims_without_workload, found.workloads_without_claim, found.counters_off) == (0, 0, 0)


def test_of_many_at_once_exactly_one_gets_the_last_unit():
    team = make_team("vision")
    user = make_member(team=team).user
    flavor = make_flavor()
    make_node("a100-0", units=8)
    limit(team, flavor, nominal=1)
    spec = TrainingRunSpec.from_json(
        {"name": "x", "image": "example.org/train:1", "flavor": flavor.name, "gpus_per_replica": 1}
    )
    start = threading.Barrier(8)

    def submit_and_look(numbers):
        start.wait(60)
        try:
            for number in numbers:
                now = clock.now()
                run = submit_training_run(
                    spec=replace(spec, name=f"run-{number}"), team=team, actor=Actor.of_user(user), now=now
                )
                # A pass of somebody else may have its row in hand, which a reconcile would meet at its next turn.
                while (locked := locks.lock(public_id=run.workload.public_id, now=clock.now())) is None:
                    pass
                scheduler.admit(locked, now=now)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(submit_and_look, [range(first, AT_ONCE, 8) for first in range(8)]))
    assert Workload.objects.filter(phase=Phase.ADMITTED.value).count() == 1
    assert Claim.objects.exclude(state="released").count() == 1
    assert Quota.objects.get().used == 1
    assert not Preemption.objects.exists()
    assert Workload.objects.filter(desired=Desired.RUN.value, phase=Phase.QUEUED.value).count() == AT_ONCE - 1
