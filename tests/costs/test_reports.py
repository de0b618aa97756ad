"""Whatever is asked for, whatever the window: the sums are those of the lines and of what runs, to the micro-USD."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from costs.ledger.services import record_usage, settle
from costs.models import CostRollup, LedgerEntry, Price, UsageInterval, WorkloadDay, WorkloadRollup
from costs.prices.services import set_price
from costs.queries import costs_of
from costs.reports.check import check_some, rollup_difference
from costs.reports.comparisons import spent_on_failed, spot_savings, unused_by_day, use_of_capacity
from costs.reports.focus import COLUMNS, focus_rows
from costs.reports.groups import GROUPS, CostFilters
from costs.reports.queries import spent
from costs.reports.windows import CostWindow, pieces_of, whole_days
from foundation.http.csv_files import csv_lines
from tests.effort import seeds
from tests.factories.catalogue import SETUP, make_flavor, make_price
from tests.factories.teams import make_team, make_user
from tests.factories.workloads import make_workload
from workloads.models import PodRecord

pytestmark = pytest.mark.django_db

BEGIN = datetime(2026, 9, 29, tzinfo=UTC)
SPAN = timedelta(days=70)
NOW = BEGIN + SPAN
NO_FILTERS = CostFilters()


def moment(random, *, whole=False):
    second = random.randrange(int(SPAN.total_seconds()))
    found = BEGIN + timedelta(seconds=second)
    return found.replace(hour=0, minute=0, second=0) if whole else found


class Ledger:
    """Lines as nobody would plan them: over days, of no length, negative, of nobody's project, and of other accounts."""

    def __init__(self, random, *, lines):
        self.flavors = [make_flavor(f"card-{each}") for each in range(2)]
        self.prices = [
            make_price(f"card-{each}", micro_usd=7_000_001, capacity_type=capacity)
            for each in range(2)
            for capacity in ("on-demand", "spot")
        ]
        teams = [make_team(f"team-{each}") for each in range(3)]
        people = [make_user() for _ in range(3)]
        self.runs = [
            make_workload(
                team=random.choice(teams), owner=random.choice(people), flavor=random.choice(self.flavors)
            )
            for _ in range(6)
        ]
        entries = []
        for number in range(lines):
            entries += self._posting(random, number)
        LedgerEntry.objects.bulk_create(entries)
        self.lines = [entry for entry in entries if entry.account.startswith("team:")]

    def _posting(self, random, number):
        run, price = random.choice(self.runs), random.choice(self.prices)
        start = moment(random, whole=random.random() < 0.1)
        length = random.choice((0, 1, 59, 3600, 3600, 86_399, 200_000, 3_000_000))
        amount = random.randrange(-(10**6), 10**9)
        common = {
            "transaction_id": uuid4(),
            "pod_uid": f"uid-{number}" if random.random() < 0.9 else "",
            "flavor_name": run.flavor.name,
            "started_at": start,
            "ended_at": start + timedelta(seconds=random.randrange(length + 1)),
            "price": price,
            "units": random.randrange(1, 5),
            "posted_at": NOW,
        }
        lane = f"{price.priced.card}:{price.priced.capacity_type}"
        kind = random.choice(("team", "team", "team", "idle", "stranded", "lost"))
        whose = {
            "account": f"team:{run.team.slug}",
            "team": run.team,
            "workload": run if random.random() < 0.95 else None,
            "user": run.owner,
            "project": random.choice(("", "p1", "p2")),
            "phase": random.choice(("", "starting", "running", "stopping")),
        }
        side = whose if kind == "team" else {"account": f"{kind}:{lane}"}
        return [
            LedgerEntry(**common, **side, amount_micro_usd=amount),
            LedgerEntry(**common, account=f"supply:{lane}", amount_micro_usd=-amount),
        ]


def until(line, at):
    """Of the line's micro-USD, those before the moment: cut to whole ones towards nothing."""
    if at <= line.started_at:
        return 0
    if at >= line.ended_at:
        return line.amount_micro_usd
    whole, part = line.ended_at - line.started_at, at - line.started_at
    micro = (
        abs(line.amount_micro_usd)
        * (part // timedelta(microseconds=1))
        // (whole // timedelta(microseconds=1))
    )
    return micro if line.amount_micro_usd > 0 else -micro


def parts(line, window):
    """The line's days in the window, each with its amount."""
    day = line.started_at.replace(hour=0, minute=0, second=0, microsecond=0)
    while True:
        after = day + timedelta(days=1)
        first = day if window.start is None else max(day, window.start)
        last = after if window.end is None else min(after, window.end)
        if first < last:
            if line.started_at == line.ended_at:
                if first <= line.started_at < last:
                    yield day.date(), line.amount_micro_usd
            else:
                yield day.date(), until(line, last) - until(line, first)
        if after >= line.ended_at:
            return
        day = after


KEYS = {
    "team": lambda line, day: line.team.slug,
    "user": lambda line, day: line.user.username,
    "project": lambda line, day: line.project,
    "flavor": lambda line, day: line.flavor_name,
    "capacity": lambda line, day: line.price.priced.capacity_type,
    "phase": lambda line, day: line.phase,
    "workload": lambda line, day: str(line.workload.public_id) if line.workload else "",
    "day": lambda line, day: str(day),
    "month": lambda line, day: f"{day:%Y-%m}",
}


def summed(lines, window, group_by):
    sums = defaultdict(int)
    for line in lines:
        for day, amount in parts(line, window):
            sums[KEYS[group_by](line, day)] += amount
    return {key: amount for key, amount in sums.items() if amount}


def windows(random):
    yield CostWindow()
    yield CostWindow.month(2026, 10)
    yield CostWindow.month(2026, 11)
    yield CostWindow(None, moment(random))
    yield CostWindow(moment(random, whole=True), None)
    for whole in (True, False, False, False):
        yield CostWindow(*sorted((moment(random, whole=whole), moment(random))))
    start = moment(random)
    yield CostWindow(start, start + timedelta(seconds=1))
    yield CostWindow(start, start)


def told(report):
    return {group.key: group.amount_micro_usd for group in report.groups if group.amount_micro_usd}


@pytest.mark.parametrize("seed", seeds(usual=1, matrix=3, soak=200))
def test_every_group_of_every_window_is_the_sum_of_the_lines(seed):
    random = Random(seed)
    ledger = Ledger(random, lines=60)
    for window in windows(random):
        for group_by in GROUPS:
            report = spent(teams=None, window=window, group_by=group_by, now=NOW)
            assert told(report) == summed(ledger.lines, window, group_by), (window, group_by)
            assert report.total_micro_usd == sum(told(report).values())
            assert report.complete


@pytest.mark.parametrize("seed", seeds(usual=1, matrix=2, soak=100))
def test_what_is_filtered_is_the_sum_of_the_lines_that_are_meant(seed):
    random = Random(seed)
    ledger = Ledger(random, lines=60)
    for window in windows(random):
        run = random.choice(ledger.runs)
        chosen = {
            "teams": random.choice((None, [run.team_id])),
            "users": random.choice((None, [run.owner_id])),
            "projects": random.choice((None, ["p1"], ["", "p2"])),
            "flavors": random.choice((None, [run.flavor.name])),
            "capacities": random.choice((None, ["spot"])),
        }
        lines = [
            line
            for line in ledger.lines
            if (chosen["teams"] is None or line.team_id in chosen["teams"])
            and (chosen["users"] is None or line.user_id in chosen["users"])
            and (chosen["projects"] is None or line.project in chosen["projects"])
            and (chosen["flavors"] is None or line.flavor_name in chosen["flavors"])
            and (chosen["capacities"] is None or line.price.priced.capacity_type in chosen["capacities"])
        ]
        teams = chosen.pop("teams")
        for group_by in GROUPS:
            report = spent(
                teams=teams, window=window, group_by=group_by, now=NOW, filters=CostFilters(**chosen)
            )
            assert told(report) == summed(lines, window, group_by), (window, group_by, chosen)


@pytest.mark.parametrize("seed", seeds(usual=1, matrix=3, soak=100))
def test_the_dearest_are_the_first_of_all_and_the_total_is_of_all(seed):
    random = Random(seed)
    ledger = Ledger(random, lines=40)
    for window in (CostWindow(), CostWindow.month(2026, 10), CostWindow(moment(random), None)):
        for teams in (None, [ledger.runs[0].team_id], sorted({run.team_id for run in ledger.runs})):
            whole = spent(teams=teams, window=window, group_by="workload", now=NOW)
            for limit in (1, 2, 5, 50):
                some = spent(teams=teams, window=window, group_by="workload", now=NOW, limit=limit)
                assert [group.amount_micro_usd for group in some.groups] == [
                    group.amount_micro_usd for group in whole.groups
                ][:limit]
                assert some.total_micro_usd == whole.total_micro_usd
                assert some.complete == (len(whole.groups) <= limit)


@pytest.mark.parametrize("seed", seeds(usual=1, matrix=3, soak=200))
def test_exports_of_windows_that_follow_each_other_add_up_to_the_ledger(seed):
    random = Random(seed)
    ledger = Ledger(random, lines=60)
    cuts = sorted(moment(random) for _ in range(random.randrange(1, 12)))
    bounds = [None, *cuts, None]
    split = [CostWindow(start, end) for start, end in pairwise(bounds)]
    column = COLUMNS.index("x_MicroUsd")
    for window in split:
        rows = list(focus_rows(teams=None, window=window, filters=NO_FILTERS))
        assert sum(row[column] for row in rows) == sum(summed(ledger.lines, window, "team").values())
    files = [csv_lines(COLUMNS, focus_rows(teams=None, window=each, filters=NO_FILTERS)) for each in split]
    billed = sum(
        round(float(line["BilledCost"]) * 10**6)
        for text in files
        for line in csv.DictReader(io.StringIO("".join(text)))
    )
    assert billed == sum(line.amount_micro_usd for line in ledger.lines)


def test_pieces_of_a_window_are_the_window_without_gap_or_overlap():
    random = Random(1)
    for _ in range(500):
        window = CostWindow(*sorted((moment(random, whole=random.random() < 0.5), moment(random))))
        for pieces in (pieces_of(window), whole_days(window)):
            spans = [(edge.start, edge.end) for edge in pieces.edges]
            spans += [
                tuple(
                    datetime(each.year, each.month, each.day, tzinfo=UTC) for each in (dates.start, dates.end)
                )
                for dates in (*pieces.months, *pieces.days)
            ]
            ordered = sorted(spans)
            if window.is_empty:
                assert not ordered
                continue
            assert (ordered[0][0], ordered[-1][1]) == (window.start, window.end)
            assert all(one[1] == other[0] for one, other in pairwise(ordered))


def test_the_sums_are_built_anew_from_the_lines_as_they_were_kept():
    Ledger(Random(7), lines=80)
    models = (CostRollup, WorkloadRollup, WorkloadDay)

    def held():
        fields = [[field.attname for field in model._meta.fields if field.name != "id"] for model in models]
        return [
            sorted(model.objects.values_list(*names)) for model, names in zip(models, fields, strict=True)
        ]

    kept = held()
    CostRollup.objects.update(amount_micro_usd=1)
    WorkloadDay.objects.all()[0].delete()
    with connection.cursor() as cursor:
        cursor.execute("SELECT costs_make_rollups_anew()")
    assert held() == kept


def test_the_dearest_of_a_month_are_read_from_its_index_also_in_its_midst():
    """The month goes on after the last line: it must not be taken for a window that is many months."""
    Ledger(Random(13), lines=30)
    last = CostRollup.objects.filter(facet="l", grain="d").latest("period").period
    with CaptureQueriesContext(connection) as seen:
        window = CostWindow.month(last.year, last.month)
        spent(teams=None, window=window, group_by="workload", now=NOW, limit=3)
    assert any("ORDER BY amount_micro_usd DESC" in query["sql"] for query in seen.captured_queries)


# --- what runs


@pytest.fixture
def live():
    """A run that holds a card since a day, settled until an hour ago, and a dearer one that has ended."""
    flavor = make_flavor()
    make_price()
    run, other = make_workload(flavor=flavor), make_workload(flavor=flavor)
    pod = PodRecord.objects.create(
        uid="live", namespace="ns", name="live", workload=run, attempt=1, resource_version="1", units=1,
        created_at=NOW - timedelta(hours=30), scheduled_at=NOW - timedelta(hours=30),
        started_at=NOW - timedelta(minutes=30), node_name="a100-0",
    )  # fmt: skip
    usage = record_usage(pod, now=NOW - timedelta(hours=30))
    settle(usage, now=NOW - timedelta(hours=1))
    ended = PodRecord.objects.create(
        uid="ended", namespace="ns", name="ended", workload=other, attempt=1, resource_version="1", units=1,
        created_at=NOW - timedelta(hours=40), scheduled_at=NOW - timedelta(hours=40), node_name="a100-0",
        finished_at=NOW - timedelta(hours=40) + timedelta(hours=29, minutes=30),
    )  # fmt: skip
    record_usage(ended, now=NOW)
    return run


def test_what_runs_counts_to_this_second_as_its_page_says(live):
    report = spent(teams=None, window=CostWindow(), group_by="workload", now=NOW, limit=1)
    (first,) = report.groups
    assert first.workload == live, "with what is posted alone the other one would be dearer"
    assert first.amount_micro_usd == costs_of([live], now=NOW)[live.pk].so_far
    assert first.running_micro_usd == report.running_micro_usd == 3600 * 10**6
    assert not report.complete


@pytest.mark.parametrize("group_by", GROUPS)
def test_every_second_of_what_runs_is_in_one_part_of_a_split(live, group_by):
    whole = spent(teams=None, window=CostWindow(), group_by=group_by, now=NOW)
    random = Random(3)
    cuts = sorted(NOW - timedelta(microseconds=random.randrange(2 * 10**11)) for _ in range(6))
    sums = defaultdict(int)
    bounds = [None, *cuts, None]
    for start, end in pairwise(bounds):
        for key, amount in told(
            spent(teams=None, window=CostWindow(start, end), group_by=group_by, now=NOW)
        ).items():
            sums[key] += amount
    assert sums == told(whole)


def test_waiting_is_free_and_the_phase_of_a_pod_that_runs_is_its_own(live):
    report = spent(teams=None, window=CostWindow(), group_by="phase", now=NOW)
    running = {group.key: group.running_micro_usd for group in report.groups if group.key}
    assert running == {"waiting": 0, "starting": 1800 * 10**6, "running": 1800 * 10**6, "stopping": 0}


def test_settling_moves_no_money_between_phases(live):
    PodRecord.objects.filter(uid="live").update(
        deletion_asked_at=NOW - timedelta(minutes=10), deletion_at=NOW + timedelta(minutes=20)
    )
    before = told(spent(teams=None, window=CostWindow(), group_by="phase", now=NOW))
    assert before["stopping"] == 600 * 10**6
    settle(UsageInterval.objects.get(pod_uid="live"), now=NOW)
    after = spent(teams=None, window=CostWindow(), group_by="phase", now=NOW)
    assert (told(after), after.running_micro_usd) == (before, 0)


def test_what_has_no_price_is_said_and_in_no_sum(live):
    Price.objects.update(valid_until=NOW - timedelta(minutes=30))
    report = spent(teams=None, window=CostWindow(), group_by="team", now=NOW)
    assert report.unpriced
    assert report.running_micro_usd == 1800 * 10**6


# --- comparisons


def test_idle_stranded_and_lost_are_told_of_each_card():
    ledger = Ledger(Random(5), lines=80)
    window = CostWindow.month(2026, 10)
    lanes = use_of_capacity(window)
    assert sum(lane.charged for lane in lanes) == sum(summed(ledger.lines, window, "team").values())
    for kind in ("idle", "stranded", "lost"):
        lines = LedgerEntry.objects.filter(account__startswith=f"{kind}:")
        expected = sum(amount for line in lines for _, amount in parts(line, window))
        assert sum(getattr(lane, kind) for lane in lanes) == expected
        by_day = defaultdict(int)
        for line in lines:
            for day, amount in parts(line, window):
                by_day[day] += amount
        told = {each.day: getattr(each, kind) for each in unused_by_day(window)}
        assert {day: amount for day, amount in told.items() if amount} == {
            day: amount for day, amount in by_day.items() if amount
        }
    assert all(lane.idle_share == lane.idle / lane.total or lane.total for lane in lanes)


def test_spot_is_compared_with_the_price_on_demand_of_its_time():
    flavor = make_flavor()
    make_price(micro_usd=3_600_000_000)
    make_price(micro_usd=1_200_000_000, capacity_type="spot")
    change = BEGIN + timedelta(hours=10)
    set_price(card=flavor.card, capacity_type="on-demand", micro_usd_per_card_hour=4_800_000_000,
              valid_from=change, reason="", actor=SETUP, now=BEGIN)  # fmt: skip
    run = make_workload(flavor=flavor, capacity_type="spot")
    pod = PodRecord.objects.create(
        uid="spot", namespace="ns", name="spot", workload=run, attempt=1, resource_version="1", units=1,
        created_at=BEGIN, scheduled_at=change - timedelta(hours=1), finished_at=change + timedelta(hours=1),
    )  # fmt: skip
    record_usage(pod, now=NOW)
    found = spot_savings(teams=None, window=CostWindow())
    usd = 3600 * 10**6
    assert (found.spent, found.on_demand, found.complete) == (2 * usd // 3, usd + usd * 4 // 3, True)
    assert found.saved == found.on_demand - found.spent


def test_money_of_failed_runs_is_that_of_runs_that_have_failed(live):
    assert spent_on_failed(teams=None, window=CostWindow()) == 0
    type(live).objects.filter(pk=live.pk).update(phase="Failed", finished_at=NOW)
    assert spent_on_failed(teams=None, window=CostWindow()) == 29 * 3600 * 10**6
    part = CostWindow(NOW - timedelta(hours=2), NOW - timedelta(hours=1, minutes=30))
    assert spent_on_failed(teams=None, window=part) == 1800 * 10**6
    assert spent_on_failed(teams=[], window=CostWindow()) == 0


# --- sums that are kept against the lines


def checked(*, steps=31):
    """A whole round, however few days a turn compares."""
    for _ in range(1000):
        check = check_some(now=NOW, steps=steps)
        if check.next_day is None:
            return check
    raise AssertionError("a round has no end")


@pytest.mark.parametrize("steps", [1, 31])
def test_a_round_over_all_days_finds_no_difference(steps):
    Ledger(Random(11), lines=80)
    assert (checked(steps=steps).difference_micro_usd, rollup_difference()) == (0, 0)


@pytest.mark.parametrize("model", [CostRollup, WorkloadRollup, WorkloadDay])
def test_a_sum_that_is_wrong_is_found_and_mended_ones_are_forgotten(model):
    random = Random(12)
    Ledger(random, lines=80)
    for row in random.sample(list(model.objects.all()), 8):
        with transaction.atomic():
            kept = transaction.savepoint()
            model.objects.filter(pk=row.pk).update(amount_micro_usd=row.amount_micro_usd + 1)
            checked()
            assert rollup_difference() > 0, row
            transaction.savepoint_rollback(kept)
    checked()
    assert rollup_difference() == 0
