"""Claims that race, over real connections and processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from django.db import connection, connections
from django.db.models import F, Sum
from django.db.models.functions import Greatest

from foundation import clock
from quotas.errors import QuotaExceeded
from quotas.models import Claim, ClaimState, CohortUsage, Quota
from quotas.queries import leaks
from quotas.services import claim, release
from tests.effort import SOAK, drawn
from tests.factories.catalogue import make_node
from tests.factories.teams import make_team
from tests.quotas.hall import Hall, cohort_of, held_units, join_cohort
from tests.waiting import result_of
from workloads.models import Workload
from workloads.states import Phase

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).resolve().parents[2]
PROCESSES = 8
ADMISSIONS = drawn(usual=400, soak=100_000)
SECONDS_MAX = 3600 if SOAK else 300
PASSES = drawn(usual=32, soak=8_000)
NOMINAL = 12
UNITS = (1, 1, 2, 3)


def fill(hall, teams, count):
    """So many workloads of these teams in turn."""
    now = clock.now()
    return Workload.objects.bulk_create(
        [
            Workload(
                kind="training-run", team=teams[index % len(teams)], owner=hall.owner, name=f"w{index}", flavor=hall.flavor,
                units=UNITS[index % len(UNITS)], since=now, created_at=now, queued_at=now,
            )
            for index in range(count)
        ],
        batch_size=2000,
    )  # fmt: skip


def test_of_200_claims_for_the_last_unit_exactly_one_is_granted():
    hall = Hall(4)
    hall.claim(3)
    workloads = fill(hall, [hall.team], 200)
    Workload.objects.update(units=1)
    threads = 40
    start = threading.Barrier(threads)

    def take(some):
        answers = []
        start.wait(60)
        try:
            for workload in some:
                try:
                    claim(workload=workload, quota=hall.quota, units=1, now=clock.now())
                    answers.append(True)
                except QuotaExceeded:
                    answers.append(False)
        finally:
            connections.close_all()
        return answers

    with ThreadPoolExecutor(threads) as pool:
        shares = [workloads[index::threads] for index in range(threads)]
        answers = [granted for each in pool.map(take, shares) for granted in each]
    assert (len(answers), answers.count(True)) == (200, 1)
    assert hall.facts() == (4, 4, 0, 0)
    assert held_units() == 4


class Race:
    """Processes that start at one moment, and somebody who watches meanwhile."""

    def __init__(self, parts):
        self.parts = parts
        self.samples = 0
        self.wrong = []

    def run(self):
        """What each process answers."""
        database = {
            key: connection.settings_dict[key]
            for key in ("NAME", "USER", "PASSWORD", "HOST", "PORT", "OPTIONS")
        }
        pairs = [socket.socketpair() for _ in self.parts]
        theirs = [other.fileno() for _, other in pairs]
        environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings"}  # noqa: TID251
        command = [sys.executable, "-m", "tests.quotas.racer", *map(str, theirs)]
        with ExitStack() as stack:
            for pair in pairs:
                for each in pair:
                    stack.enter_context(each)
            started = subprocess.Popen(
                command, cwd=ROOT, env=environment, pass_fds=theirs, start_new_session=True
            )
            stack.callback(started.wait)
            stack.callback(os.killpg, started.pid, signal.SIGKILL)
            racers = [stack.enter_context(own.makefile("rw")) for own, _ in pairs]
            # Who has died is heard then, and not waited for.
            for _, other in pairs:
                other.close()
            for racer, part in zip(racers, self.parts, strict=True):
                tell(racer, json.dumps(part | {"database": database}))
            assert [racer.readline() for racer in racers] == ["ready\n"] * len(racers)
            for racer in racers:
                tell(racer, "go")
            return self._answers(racers)

    def _answers(self, racers):
        claimers = [
            racer for racer, part in zip(racers, self.parts, strict=True) if part["role"] != "manager"
        ]
        ended = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            watcher = pool.submit(self._watch, ended)
            try:
                answers = [json.loads(racer.readline()) for racer in claimers]
                for racer in racers:
                    if racer not in claimers:
                        tell(racer, "stop")
                        answers.append(json.loads(racer.readline()))
            finally:
                ended.set()
            result_of(watcher)
        return answers

    def _watch(self, ended):
        """Counters are the sums of what is claimed, and within what is allowed, whenever one looks."""
        try:
            while not ended.wait(0.2):
                self.samples += 1
                over = [
                    rows.filter(used__gt=Greatest(F("ceiling"), F("grandfathered"))).exists()
                    for rows in (Quota.objects.all(), CohortUsage.objects.all())
                ]
                if leaks().counters_off or any(over):
                    self.wrong.append((leaks(), over))
        finally:
            connections.close_all()


def tell(racer, line):
    racer.write(f"{line}\n")
    racer.flush()


def parts_of(workloads, holds):
    shares = [workloads[index::PROCESSES] for index in range(PROCESSES)]
    return [
        {"role": "claimer", "seed": index, "holds": holds, "workloads": [row.pk for row in share]}
        for index, share in enumerate(shares)
    ]


@pytest.fixture
def hall():
    """Two teams in a cohort, one in a cohort below it, and one alone."""
    hall = Hall(NOMINAL)
    research = cohort_of("research")
    vision = cohort_of("vision", parent=research)
    join_cohort(hall.team, "research")
    hall.member(research, nominal=NOMINAL, lending_limit=NOMINAL // 2)
    hall.member(vision, nominal=NOMINAL)
    hall.limit(make_team(), nominal=NOMINAL)
    hall.teams = [each.team for each in Quota.objects.select_related("team").order_by("pk")]
    return hall


@pytest.mark.processes
@pytest.mark.timeout(SECONDS_MAX + 100)
def test_racing_claims_with_cuts_and_raises_never_hold_more_than_is_allowed(hall, record_testsuite_property):
    """8 processes claim and release for four teams while limits, cohorts and members change under them."""
    workloads = fill(hall, hall.teams, ADMISSIONS)
    manager = {"role": "manager", "seed": 99, "nominal": NOMINAL, "teams": [team.pk for team in hall.teams]}
    race = Race([*parts_of(workloads, holds=6), manager])
    *claimed, managed = race.run()
    errors = [error for each in (*claimed, managed) for error in each["errors"]]
    assert errors == []  # no constraint fired, nobody waited for who waited for him
    granted, refused = (sum(each[key] for each in claimed) for key in ("claimed", "refused"))
    assert granted + refused == ADMISSIONS
    assert min(granted, refused) > ADMISSIONS / 20
    assert managed["changes"] > ADMISSIONS / 1000
    assert race.samples > ADMISSIONS / 2000
    assert race.wrong == []
    assert leaks().counters_off == 0
    assert Claim.objects.count() == granted
    give_everything_back()
    assert Quota.objects.aggregate(sum=Sum("used"))["sum"] == 0
    assert CohortUsage.objects.aggregate(sum=Sum("used"))["sum"] == 0
    assert not Quota.objects.filter(grandfathered__gt=0).exists()
    record_testsuite_property(
        "racing admissions",
        f"{ADMISSIONS} by {PROCESSES} processes: {granted} granted, {refused} refused, 0 over, 0 constraints fired; "
        f"{managed['changes']} changes of limits meanwhile, {race.samples} samples",
    )


@pytest.mark.processes
@pytest.mark.timeout(SECONDS_MAX + 100)
def test_racing_passes_with_cuts_and_raises_admit_no_more_than_is_allowed(hall, record_testsuite_property):
    """8 processes submit, look, pass over the pool and end runs; nobody waits for who waits for him."""
    for number in range(8):
        make_node(f"a100-{number}", units=8)
    parts = [
        {
            "role": "admitter",
            "seed": index,
            "count": PASSES // PROCESSES,
            "owner": hall.owner.pk,
            "teams": [team.pk for team in hall.teams],
        }
        for index in range(PROCESSES)
    ]
    manager = {"role": "manager", "seed": 7, "nominal": NOMINAL, "teams": [team.pk for team in hall.teams]}
    race = Race([*parts, manager])
    *passed, managed = race.run()
    assert [error for each in (*passed, managed) for error in each["errors"]] == []
    assert race.wrong == []
    found = leaks()
    assert (found.claims_without_workload, found.workloads_without_claim, found.counters_off) == (0, 0, 0)
    assert sum(each["submitted"] for each in passed) == Workload.objects.count() == PASSES
    assert (
        sum(each["ended"] for each in passed)
        == Workload.objects.filter(phase=Phase.SUCCEEDED.value).count()
        > PASSES / 20
    )
    assert (
        Workload.objects.filter(phase=Phase.ADMITTED.value).count()
        == Claim.objects.exclude(state=ClaimState.RELEASED).count()
    )
    assert managed["changes"] > PASSES / 20
    record_testsuite_property(
        "racing passes",
        f"{PASSES} submitted by {PROCESSES} processes, {sum(each['ended'] for each in passed)} ended, 0 over, 0 deadlocks; "
        f"{managed['changes']} changes of limits meanwhile, {sum(each['raced'] for each in passed)} passes taken back",
    )


@pytest.mark.processes
def test_racing_claims_fill_a_tree_to_the_brim_and_not_beyond(hall):
    """Nobody gives back: what is granted in the end is what the teams of the tree were promised together."""
    workloads = fill(hall, hall.teams, 800)
    Workload.objects.update(units=1)
    race = Race(parts_of(workloads, holds=0))
    answers = race.run()
    assert [error for each in answers for error in each["errors"]] == []
    assert race.wrong == []
    assert held_units() == 4 * NOMINAL
    assert held_units(quota__team=hall.teams[-1]) == NOMINAL
    assert leaks().counters_off == 0


def give_everything_back():
    for held in Claim.objects.exclude(state=ClaimState.RELEASED).select_related("workload"):
        release(workload=held.workload, now=clock.now())
