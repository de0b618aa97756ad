"""What a team may hold in all pools and without GPUs: judged with its figures, counted with the claims, and raced for."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest
from django.db import connections, transaction

from controller.admission import scheduler
from foundation import clock
from policy.estimates import estimate
from policy.judge import judge, plan
from policy.levers import levers
from policy.pool_snapshot import TeamFacts
from policy.snapshot_json import dump, load
from quotas import cpu_admission, snapshots
from quotas.ceilings import held_of, wake_waiting
from quotas.errors import QuotaExceeded
from quotas.limits import set_policy
from quotas.models import Claim, ClaimPurpose
from quotas.services import claim, release, resize
from tests.controller.looks import look
from tests.factories.catalogue import SETUP, make_flavor, make_node, make_quota
from tests.factories.teams import make_team
from tests.factories.workloads import make_workload, put_in
from tests.quotas.hall import Hall
from tests.quotas.pure_world import HOUR, NOW, holder, snapshot, waiter
from workloads.podrequests import PodGroup
from workloads.states import Phase, Reason

GIB = 1024**3
CORE = 1000


def facts(*, cpus=128, held=96, pods=None):
    return TeamFacts(
        "vision", "vision", ceilings=(cpus * CORE, None, None, pods), held=(held * CORE, 0, 0, 6)
    )


def asking(name="w", cpus=48, pods=1, units=8, **values):
    each = cpus * CORE // pods
    values = {"beside": (each, GIB, 0), "most": (cpus * CORE, GIB * pods, 0, pods)} | values
    return waiter(name, units=units, pods=pods, **values)


@pytest.mark.parametrize(
    ("asked", "team", "rule", "reason", "says"),
    [
        (asking(), facts(), "ceiling-cpu", Reason.WAITING_FOR_TEAM_CEILING,
         "Team vision holds 96 of 128 CPU cores that it may hold; this run needs 48."),
        (asking(cpus=200), facts(), "max-ceiling-cpu", Reason.EXCEEDS_MAX_QUOTA,
         "This run needs 200 CPU cores; team vision may hold 128 CPU cores at most. Ask for less, or a quota manager for a higher ceiling."),
        (asking(cpus=8, pods=2), facts(pods=7), "ceiling-pods", Reason.WAITING_FOR_TEAM_CEILING,
         "Team vision holds 6 of 7 pods that it may hold; this run needs 2."),
        (asking(cpus=32), facts(), "fits", Reason.CREATING, "will use"),
        (asking(most=()), facts(), "fits", Reason.CREATING, "will use"),
    ],
)  # fmt: skip
def test_what_is_above_a_ceiling_waits_and_is_told_the_figures(asked, team, rule, reason, says):
    verdict = judge(snapshot(waiters=[asked], teams=[team]), "w")
    assert (verdict.rule, verdict.reason) == (rule, reason)
    assert says in verdict.message


def test_the_figures_behind_the_sentence_are_evidence():
    verdict = judge(snapshot(waiters=[asking()], teams=[facts()]), "w")
    assert [(fact.fact, fact.value, fact.unit) for fact in verdict.evidence] == [
        ("requested_cpu", 48_000, "millicores"),
        ("held_cpu", 96_000, "millicores"),
        ("ceiling_cpu", 128_000, "millicores"),
    ]


def test_those_that_start_in_one_pass_count_for_those_behind_and_hold_nobody_up():
    line = [
        asking("a", cpus=24, units=1, sequence=1),
        asking("b", cpus=16, units=1, sequence=2),
        asking("c", cpus=8, units=1, sequence=3),
    ]
    verdicts = plan(snapshot(waiters=line, teams=[facts()])).verdicts
    assert [verdicts[name].rule for name in "abc"] == ["fits", "ceiling-cpu", "fits"]
    assert "holds 120 of 128" in verdicts["b"].message
    assert not verdicts["c"].backfilled


def test_it_starts_when_enough_of_its_team_has_ended_here_or_elsewhere():
    here = holder("h", units=1, ends_in=HOUR, most=(8 * CORE, 0, 0, 1))
    elsewhere = holder("e", units=0, units_each=0, ends_in=2 * HOUR, most=(40 * CORE, 0, 0, 1))
    only = snapshot(waiters=[asking()], teams=[facts()], holders=[here])
    assert estimate(only, "w").p90 is None
    both = snapshot(waiters=[asking()], teams=[facts()], holders=[here, elsewhere])
    assert estimate(both, "w").p90 == NOW + 2 * HOUR


def test_levers_are_less_in_each_pod_or_fewer_pods():
    pods = asking(cpus=48, pods=4, units=4)
    answer = levers(snapshot(waiters=[pods], teams=[facts()]), "w")
    assert [dict(lever.change) for lever in answer.levers] == [{"cpu": "8"}, {"replicas": 2}]
    assert all(lever.verdict.admitted for lever in answer.levers)


def test_what_was_decided_before_there_were_ceilings_is_judged_as_then():
    asked = snapshot(waiters=[asking()], teams=[facts()])
    back = load(dump(asked))
    assert (back.teams, back.waiters) == (asked.teams, asked.waiters)
    body = orjson.loads(dump(asked))
    for row in (*body["teams"], *body["waiters"]):
        for name in ("ceilings", "held", "most"):
            row.pop(name, None)
    assert judge(load(orjson.dumps(body)), "w").rule == "fits"


# --- rows


def cap(team, **ceilings):
    set_policy(team=team, changes=ceilings, actor=SETUP, now=clock.now())


def plain(team, cpus=4, pods=1, **values):
    groups = (PodGroup(pods, (cpus * CORE, GIB, 0)),)
    return make_workload(team=team, groups=groups, beside=groups[0].beside, pod_count=pods, **values)


def held(team):
    return held_of([team]).get(team.pk, [0, 0, 0, 0])


@pytest.mark.django_db
def test_without_a_gpu_it_waits_for_its_teams_ceiling_and_starts_when_enough_is_given_back(
    django_capture_on_commit_callbacks,
):
    team = make_team()
    cap(team, ceiling_cpus=8)
    first, second, small = plain(team, 6), plain(team, 4), plain(team, 2)
    assert look(first).admitted
    verdict = look(second)
    assert (verdict.rule, second.phase, second.reason) == ("ceiling-cpu", "Queued", "WaitingForTeamCeiling")
    small.refresh_from_db()
    assert small.phase == Phase.ADMITTED.value, "what fits beside is not held up, and judged in the same pass"
    assert held(team) == [8 * CORE, 2 * GIB, 0, 2]
    assert second.decisions.get().policy == "admission/7"
    with django_capture_on_commit_callbacks(execute=True):
        release(workload=first, now=clock.now())
    assert look(second).admitted
    assert held(team)[0] == 6 * CORE


@pytest.mark.django_db
def test_what_gpus_and_what_none_hold_counts_together_and_once():
    hall = Hall(8)
    make_node(units=8)
    cap(hall.team, ceiling_cpus=10)
    group = PodGroup(1, (6 * CORE, GIB, 0))
    with_gpu = hall.workload(1, groups=(group,), beside=group.beside)
    assert look(with_gpu).admitted
    claim(workload=with_gpu, quota=hall.quota, units=1, now=clock.now())
    assert held(hall.team) == [6 * CORE, GIB, 0, 1]
    beside = plain(hall.team, 6)
    assert look(beside).rule == "ceiling-cpu"
    another = hall.workload(1, groups=(group,), beside=group.beside)
    assert look(another).rule == "ceiling-cpu"
    wake_waiting(hall.team.pk, now=clock.now())
    assert hall.flavor.pools.get().due_at is not None


@pytest.mark.django_db
def test_an_endpoint_claims_its_most_replicas_and_a_rollout_one_pod_more():
    team = make_team()
    cap(team, ceiling_cpus=20)
    group = PodGroup(4, (4 * CORE, GIB, 0))
    endpoint = plain(team, 4)
    endpoint.cpu_most, endpoint.pods_most = 16 * CORE, 4
    endpoint.save(update_fields=["cpu_most", "pods_most"])
    assert look(endpoint).admitted
    assert held(team)[0] == group.pods * 4 * CORE
    assert scheduler.admit_surge(endpoint, units=0, now=clock.now()).admitted
    assert scheduler.admit_surge(endpoint, units=0, now=clock.now()).admitted
    assert held(team)[0] == 20 * CORE
    scheduler.release_surge(endpoint, now=clock.now())
    assert Claim.objects.get(purpose=ClaimPurpose.WORKLOAD).most[0] == held(team)[0] == 16 * CORE
    with pytest.raises(QuotaExceeded, match="would hold 24 CPU cores"):
        resize(workload=endpoint, units=0, most=(24 * CORE, GIB, 0, 6), lends=False, now=clock.now())
    assert held(team)[0] == 16 * CORE
    cap(team, ceiling_cpus=16)
    refused = scheduler.admit_surge(endpoint, units=0, now=clock.now())
    assert (refused.admitted, "4 CPU cores more do not fit" in refused.message) == (False, True)


@pytest.mark.django_db
def test_a_ceiling_below_what_is_held_keeps_what_runs_and_admits_nothing_new():
    team = make_team()
    run = plain(team, 6)
    assert look(run).admitted
    cap(team, ceiling_cpus=2)
    assert held(team)[0] == 6 * CORE
    assert look(plain(team, 1)).rule == "ceiling-cpu"
    claim(workload=run, quota=None, units=0, now=clock.now())


@pytest.mark.django_db
def test_the_platforms_ceiling_holds_where_a_team_has_none_of_its_own(django_capture_on_commit_callbacks):
    team = make_team()
    run = plain(team, 4, pods=1024 * 4)
    assert look(run).reason is Reason.EXCEEDS_MAX_QUOTA
    with django_capture_on_commit_callbacks(execute=True):
        cap(team, ceiling_cpus=20_000)
    assert look(run).admitted


@pytest.mark.django_db
def test_reading_a_pool_costs_no_statement_more_for_ceilings(django_assert_num_queries):
    hall = Hall(8)
    make_node(units=8)
    for _ in range(3):
        put_in(plain(hall.team, 1), Phase.RUNNING)
    with django_assert_num_queries(1):
        pool = snapshots.pool_snapshot_of(flavor=hall.flavor, capacity_type="on-demand", now=clock.now())
    assert pool.teams[0].ceilings[0] == 8192 * CORE


@pytest.mark.django_db
def test_another_teams_figures_are_in_nobodys_card():
    team = make_team()
    snap = cpu_admission.team_snapshot(team=team, waiters=[], now=clock.now())
    assert [each.slug for each in snap.teams] == [team.slug]


# --- races


@pytest.mark.django_db(transaction=True)
def test_two_that_fit_alone_but_not_together_never_start_both():
    """One with a GPU in either of two pools, and one without: whoever is first."""
    hall = Hall(8)
    make_node(units=8)
    other = make_flavor("h100", product="NVIDIA-H100-80GB-HBM3")
    second = make_quota(hall.team, other, 8)
    cap(hall.team, ceiling_cpus=10)
    for _ in range(4):
        group = PodGroup(1, (6 * CORE, GIB, 0))
        rows = [
            (hall.workload(1, groups=(group,), beside=group.beside), hall.quota),
            (make_workload(team=hall.team, flavor=other, units=1, groups=(group,)), second),
            (plain(hall.team, 6), None),
        ]
        start = threading.Barrier(len(rows))

        def take(pair, start=start):
            workload, quota = pair
            try:
                start.wait(30)
                with transaction.atomic():
                    claim(workload=workload, quota=quota, units=1 if quota else 0, now=clock.now())
            except QuotaExceeded:
                return False
            finally:
                connections.close_all()
            return True

        with ThreadPoolExecutor(len(rows)) as pool:
            taken = list(pool.map(take, rows))
        assert taken.count(True) == 1
        assert held(hall.team)[0] == 6 * CORE
        for workload, _ in rows:
            release(workload=workload, now=clock.now())
        assert held(hall.team) == [0, 0, 0, 0]


@pytest.mark.django_db(transaction=True)
def test_two_looks_at_once_admit_what_fits_and_no_more():
    team = make_team()
    cap(team, ceiling_cpus=10)
    rows = [plain(team, 6) for _ in range(4)]
    start = threading.Barrier(len(rows))

    def judge_it(row):
        try:
            start.wait(30)
            return look(row)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(rows)) as pool:
        verdicts = list(pool.map(judge_it, rows))
    assert sum(Claim.objects.values_list("cpu", flat=True)) == 6 * CORE
    for row in rows:
        row.refresh_from_db()
    assert sorted(row.phase for row in rows) == ["Admitted", "Queued", "Queued", "Queued"]
    assert any(verdict is not None and verdict.rule == "ceiling-cpu" for verdict in verdicts)
