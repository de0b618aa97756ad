"""Whether pages and lists are as fast after a year as after a month, and an endpoint's after a hundred thousand pods."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from benchmarks import pages
from benchmarks.results import Result, Rounds, Row, median
from benchmarks.worlds import past_rows
from benchmarks.worlds.past_rows import Past
from teams.models import User
from workloads.models import Workload

YEAR = 1_000_000
FEW_PODS = 1_000
"""More than any page shows at once."""
GATE, GOAL = 1.3, 1.1
MOST_MS = 100
"""Of the server, for any page."""
QUERIES_OF_A_LIST, QUERIES_OF_A_PAGE, LIST_BYTES = 6, 12, 60_000
SAMPLES = 5
SMALL = "a_month"
REST = "/api/v1/training-runs/"

Paths = Mapping[str, str]


@dataclass
class Measured:
    """One address, asked for where there is much and where there is little."""

    path: str
    little: str
    rounds: Rounds = field(default_factory=Rounds)
    queries: int = 0
    size: int = 0
    refused: bool = False


def measure(*, rounds: int, count: int = YEAR) -> Result:
    past = Past()
    few, many = past.endpoint(pods=FEW_PODS), past.endpoint(pods=count // 10)
    past.until(count // 10)
    copy_of_now()
    past.until(count)
    return compared(past.member, past.admin, few, many, rounds=rounds, count=count)


def _opened(member: User, admin: User, endpoint: Workload) -> dict[str, tuple[User, Measured]]:
    """The pages, of a run that both databases have."""
    run = Workload.objects.filter(kind="training-run", team__memberships__user=member).order_by("pk")[0]
    found = {name: (member, path) for name, path in pages.of_member(run, endpoint).items()}
    found |= {name: (admin, path) for name, path in pages.of_admin().items()}
    return {name: (user, Measured(path, path)) for name, (user, path) in found.items()}


def compared(
    member: User, admin: User, few: Workload, many: Workload, *, rounds: int, count: int = YEAR
) -> Result:
    """The rows for databases that are there: one with all runs, beside it its copy of when there was a tenth."""
    runs = {
        name: (user, Measured(path, path))
        for user, paths in ((member, _of_member()), (admin, _of_admin()))
        for name, path in paths.items()
    }
    pods = {
        name: (member, Measured(path.format(id=many.public_id), path.format(id=few.public_id)))
        for name, path in _of_endpoint().items()
    }
    opened = _opened(member, admin, few)
    for user, address in (*runs.values(), *pods.values(), *opened.values()):
        look(user, address)
    for _ in range(rounds):
        take_turns([*runs.values(), *opened.values()], little=SMALL)
        take_turns(pods.values(), little="")
    shown = [
        *rows_of(runs, f"{count:,} runs"),
        *rows_of_pages(opened, f"{count:,} runs"),
        *rows_of(pods, f"{count // 10:,} pods"),
    ]
    return Result(
        title="After a year",
        question=f"Are pages and lists as fast with {count:,} runs as with {count // 10:,}, and an endpoint that has had {count // 10:,} pods as one "
        f"that has had {FEW_PODS:,}?",
        method=f"{rounds} rounds of {SAMPLES} requests of each row on either side, in turn, in one process by Django's own client, the whole "
        "stack of middleware included. The limit is the same address in a copy of the database from when a tenth of the runs was there, "
        f"or of the endpoint with {FEW_PODS:,} pods. {past_rows.TEAMS} teams; a member is in three of them, an admin sees all. Seven runs of ten have "
        "a pod, its usage and two ledger lines; every other one of the newest brought a source file of 5 KB. Queries and bytes are of one answer. "
        f"What has a gate of {MOST_MS} ms is a page of its own, whatever its ratio.",
        limits="One client at a time; the network and the server's own work on a connection are not in it. The rows are made by PostgreSQL in bulk.",
        rows=shown,
    )


def _of_member() -> Paths:
    return {
        "home page": "/",
        "page of runs": "/runs/",
        "page of runs, failed": "/runs/?phase=Failed",
        "page of runs, mine": "/runs/?mine=1",
        "page of runs, live": "/runs/?phase=live",
        "page of runs, search": "/runs/?search=llama",
        "page of a team": "/teams/past-000/",
        "REST list, of a member": REST,
        "REST list, of a member, `?phase=Failed`": f"{REST}?phase=Failed",
    }


def _of_admin() -> Paths:
    filters = {
        "": "",
        "`?phase=Failed`": "?phase=Failed",
        "`?phase=Suspended`, of which there are none": "?phase=Suspended",
        "`?name=`": "?name=bert-50000",
        "`?owner=`": "?owner={owner}",
        "`?team=`": "?team=past-003",
        "`?flavor=`": "?flavor=past-card-1",
        "`?reason=NodeLost`, of which there are none": "?reason=NodeLost",
        "`?priority=high`, of which there are none": "?priority=high",
        "`?capacity=spot`, of which there are none": "?capacity=spot",
        "`?search=` of a word of many": "?search=llama",
        "`?search=` of one": "?search=bert-50000",
        "`?label=` of a thousandth of all": "?label=project%3Dp17",
        "`?label=` of all": "?label=step",
        "`?expand=spec`": "?expand=spec",
    }
    owner = User.objects.filter(workloads__kind="training-run").first()
    named = owner.username if owner else ""
    return {
        f"REST list of 50{', ' if name else ''}{name}": f"{REST}{query.format(owner=named)}"
        for name, query in filters.items()
    }


def _of_endpoint() -> Paths:
    return {
        "page of an endpoint": "/endpoints/{id}/",
        "its tab of pods": "/endpoints/{id}/?tab=pods",
        "its tab of costs": "/endpoints/{id}/?tab=cost",
        "REST endpoint": "/api/v1/endpoints/{id}/",
        "REST `pods/`": "/api/v1/endpoints/{id}/pods/",
        "REST `cost/`": "/api/v1/endpoints/{id}/cost/",
    }


def copy_of_now() -> None:
    """The database as it is, beside it."""
    whole = connection.settings_dict["NAME"]
    _use("postgres")
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute(f'CREATE DATABASE "{SMALL}" TEMPLATE "{whole}" STRATEGY file_copy')
    _use(whole)


def _use(name: str) -> None:
    connection.close()
    connection.settings_dict["NAME"] = name


def _client(user: User) -> Client:
    client = Client(headers={"host": "localhost"})
    client.force_login(user)
    return client


def look(user: User, address: Measured) -> None:
    """What one answer is, and whether there is such an answer at all."""
    client = _client(user)
    client.get(address.path)
    with CaptureQueriesContext(connection) as seen:
        answer = client.get(address.path)
    address.refused = answer.status_code != 200
    address.queries, address.size = len(seen), len(answer.content)


def take_turns(measured: object, *, little: str) -> None:
    whole = connection.settings_dict["NAME"]
    for user, address in measured:  # type: ignore[attr-defined]
        if not address.refused:
            address.rounds.ours.append(times_of(user, address.path))
    if little:
        _use(little)
    for user, address in measured:  # type: ignore[attr-defined]
        if not address.refused:
            address.rounds.limit.append(times_of(user, address.little))
    _use(whole)


def times_of(user: User, path: str) -> list[float]:
    client = _client(user)
    client.get(path)
    milliseconds = []
    for _ in range(SAMPLES):
        begun = time.perf_counter()
        answer = client.get(path)
        milliseconds.append((time.perf_counter() - begun) * 1000)
        if answer.status_code != 200:
            raise SystemExit(f"{path}: {answer.status_code}")
    return milliseconds


def rows_of(measured: Mapping[str, tuple[User, Measured]], much: str) -> list[Row]:
    shown = []
    for name, (_, address) in measured.items():
        if address.refused:
            shown.append(Row(name=f"{name}: refused", ours="—", passed=False))
            continue
        row = address.rounds.row(f"{name}, {much}", gate=GATE, goal=GOAL)
        is_list = address.path.startswith("/api/") and "/endpoints/" not in address.path
        most = QUERIES_OF_A_LIST if is_list else QUERIES_OF_A_PAGE
        small = not is_list or "expand" in address.path or address.size <= LIST_BYTES
        shown.append(
            Row(
                name=row.name,
                ours=f"{row.ours}, {address.queries} queries, {address.size / 1000:.0f} KB",
                limit=row.limit,
                ratio=row.ratio,
                gate=row.gate,
                # What more runs have is more to find, whatever index there is.
                passed=None
                if "of a thousandth" in name
                else bool(row.passed) and address.queries <= most and small,
            )
        )
    return shown


def rows_of_pages(measured: Mapping[str, tuple[User, Measured]], much: str) -> list[Row]:
    """The gate is the time alone; beside it stands how it is with a tenth."""
    rows = []
    for name, (_, address) in measured.items():
        if address.refused:
            rows.append(Row(name=f"{name}: refused", ours="—", passed=False))
            continue
        row = address.rounds.row(f"{name}, {much}", gate=GATE, goal=GOAL)
        rows.append(
            Row(
                name=row.name,
                ours=f"{row.ours}, {address.queries} queries, {address.size / 1000:.0f} KB",
                limit=row.limit,
                ratio=row.ratio,
                gate=f"≤ {MOST_MS} ms",
                passed=median(address.rounds.ours) <= MOST_MS,
            )
        )
    return rows
