"""A past of any length, made in bulk by PostgreSQL itself: runs, attempts, pods, usage and ledger lines, nodes that went.

Every row is a copy of one that the portal's own models made, with other keys, names and times: columns that a table
gets later need no word here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.db import connection
from django.db.models import Model

from benchmarks.worlds import rows
from costs.ledger.services import record_usage
from costs.models import LedgerEntry, UsageInterval
from costs.prices.services import set_price
from foundation import clock
from inference.models import Endpoint, EndpointRevision, RevisionState
from inference.specs import EndpointSpec
from jobs.models import TrainingRun
from jobs.services import with_defaults
from jobs.specs import TrainingRunSpec
from quotas.models import StartEstimate
from teams.models import Membership, Team, User
from workloads.models import Attempt, NodeRecord, ObjectRecord, PodRecord, Workload
from workloads.states import Phase, Reason

TEAMS, OWNERS, FLAVORS, NODES = 30, 50, 4, 40
EVERY = "31 seconds"
"""Between two runs: a million of them are a year."""
LIVE = 300
"""The newest runs have not ended."""
POD_EVERY, WITH_FILES, WITH_FILES_EVERY = 10, 20_000, 2
"""Seven runs of ten had a pod; every other one of the newest brought its source files along."""
LINES_MAX = 10
"""Of one pod."""
FIRST = 1_000_000_000
"""Keys that are given here begin far above those of the sequences."""
FILE = "".join(f"def step_{number}(batch):\n    return batch * {number}\n" for number in range(130))


_CHARGES = """
INSERT INTO costs_workloadcharge (workload_id, posted_micro_usd)
SELECT workload_id, sum(amount_micro_usd) FROM costs_ledgerentry
WHERE account LIKE 'team:%' AND workload_id IS NOT NULL GROUP BY 1
"""


def _body(flavor: str) -> dict[str, Any]:
    return {
        "name": "model",
        "image": "registry.example.org/team/train:2026.1",
        "command": ["torchrun", "--nproc-per-node=1", "train.py"],
        "args": ["--epochs=90", "--batch-size=256", "--lr=0.1"],
        "env": [{"name": "WANDB_MODE", "value": "offline"}],
        "flavor": flavor,
        "capacity": "on-demand",
        "gpus_per_replica": 1,
        "cpu": "8",
        "memory": "32Gi",
        "priority": "normal",
        "labels": {"project": "vision"},
    }


def _run_spec(flavor: str) -> dict[str, Any]:
    """As a submission keeps it, with a place for source files."""
    body = {**_body(flavor), "kind": "job", "replicas": 1, "time_limit_seconds": 3600}
    body["source"] = {"files": {"train.py": ""}, "path": "/workspace"}
    return with_defaults(TrainingRunSpec.from_json(body)).to_json()


def _endpoint_spec(flavor: str) -> dict[str, Any]:
    body = {
        **_body(flavor),
        "runtime": "custom",
        "ports": {"http": 8080},
        "min_replicas": 1,
        "max_replicas": 1,
    }
    return EndpointSpec.from_json(body).to_json()


class Past:
    """Teams, people, flavors, prices and one run with all that belongs to it, from which the others are copied."""

    def __init__(self, *, pods_of_ten: int = 7, lines: int = 1) -> None:
        """So many of ten runs had a pod, each of which was billed in so many lines, one after the other."""
        now = clock.now()
        self.pods_of_ten, self.lines = pods_of_ten, lines
        self.now = now
        self.teams = rows.make_teams("past", count=TEAMS)
        self.owners = [rows.make_owner() for _ in range(OWNERS)]
        self.flavors = [rows.make_flavor(f"past-card-{number}") for number in range(FLAVORS)]
        for flavor in self.flavors:
            rows.make_nodes(flavor, count=NODES // FLAVORS, units=8)
            set_price(
                card=flavor.card,
                capacity_type=rows.ON_DEMAND,
                micro_usd_per_card_hour=2_744_705,
                valid_from=now - timedelta(days=800),
                reason="",
                actor=rows.ACTOR,
                now=now,
            )
            for team in self.teams:
                rows.make_quota(team, flavor, nominal=8)
        self.member = self.owners[0]
        Membership.objects.bulk_create(
            Membership(team=team, user=owner, role=Membership.Role.MEMBER)
            for number, owner in enumerate(self.owners)
            for team in _teams_of(number, self.teams)
        )
        self.admin = _admin()
        self.run = self._model("training-run", "model")
        TrainingRun.objects.create(workload=self.run, spec=_run_spec(self.flavors[0].name))
        self.pod = _pod(self.run)
        self.runs = 0

    def _model(self, kind: str, name: str, *, ended: bool = True) -> Workload:
        at = self.now - timedelta(days=700)
        end = at + timedelta(minutes=20) if ended else None
        phase, reason = (Phase.SUCCEEDED, Reason.COMPLETED) if ended else (Phase.RUNNING, Reason.READY)
        made = rows.queued(
            self.teams[0],
            self.owners[0],
            self.flavors[0],
            kind=kind,
            name=name,
            at=at,
            phase=phase.value,
            reason=reason.value,
            admitted_at=at,
            started_at=at,
            finished_at=end,
            attempt_number=1,
            labels={"project": "vision"},
        )
        made.save()
        Attempt.objects.create(
            workload=made,
            number=1,
            object_name=made.name,
            phase=phase.value,
            created_at=at,
            started_at=at,
            ended_at=end,
        )
        return made

    def until(self, runs: int) -> None:
        """So many runs; the further ones are older than those that are there."""
        first, last = self.runs, runs - 1
        self.runs = runs
        with _unchecked():
            self._runs(first, last)
            self._pods(first, last)

    def _runs(self, first: int, last: int) -> None:
        spread = {"first": first, "last": last, "key": FIRST}
        live, word = f"n.n < {LIVE}", "(ARRAY['bert','resnet','llama','digits','unet'])[mod(n.n, 5) + 1]"
        at = f"%(now)s::timestamptz - n.n * interval '{EVERY}'"
        ended = "(ARRAY['Succeeded','Succeeded','Failed','Succeeded','Cancelled','Succeeded','Succeeded'])[mod(n.n, 7) + 1]"
        flavors = "ARRAY[" + ",".join(str(flavor.pk) for flavor in self.flavors) + "]"
        owners = "ARRAY[" + ",".join(str(owner.pk) for owner in self.owners) + "]"
        teams = "ARRAY[" + ",".join(str(team.pk) for team in self.teams) + "]"
        _copy(
            Workload,
            self.run.pk,
            {
                "id": "%(key)s + n.n",
                "public_id": "gen_random_uuid()",
                "team_id": f"({teams})[mod(n.n, {TEAMS}) + 1]",
                "owner_id": f"({owners})[mod(n.n, {OWNERS}) + 1]",
                "flavor_id": f"({flavors})[mod(n.n, {FLAVORS}) + 1]",
                "name": f"{word} || '-' || n.n",
                "labels": "jsonb_build_object('project', 'p' || mod(n.n, 997), 'step', (mod(n.n, 7))::text)",
                "phase": f"CASE WHEN {live} THEN 'Running' ELSE {ended} END",
                "reason": f"CASE WHEN {live} THEN 'Progressing' ELSE t.reason END",
                "since": at,
                "created_at": at,
                "queued_at": at,
                "admitted_at": at,
                "started_at": at,
                "finished_at": f"CASE WHEN {live} THEN NULL ELSE {at} + interval '20 minutes' END",
            },
            {**spread, "now": self.now},
        )
        _copy(
            Attempt,
            self.run.attempts.get().pk,
            {
                "id": "%(key)s + n.n",
                "workload_id": "%(key)s + n.n",
                "created_at": at,
                "started_at": at,
                "ended_at": f"CASE WHEN {live} THEN NULL ELSE {at} + interval '20 minutes' END",
            },
            {**spread, "now": self.now},
        )
        text = f"CASE WHEN n.n < {WITH_FILES} AND mod(n.n, {WITH_FILES_EVERY}) = 0"
        _copy(
            TrainingRun,
            self.run.pk,
            {
                "workload_id": "%(key)s + n.n",
                "spec": f"{text} THEN jsonb_set(t.spec, '{{source,files}}', %(files)s::jsonb) ELSE t.spec END",
            },
            {**spread, "files": f'{{"train.py": {_quoted(FILE)}}}'},
        )

    def _pods(self, first: int, last: int) -> None:
        some = f"mod(n.n, {POD_EVERY}) < {self.pods_of_ten} AND n.n >= {LIVE}"
        at = f"%(now)s::timestamptz - n.n * interval '{EVERY}'"
        usage = UsageInterval.objects.get(pod_uid=self.pod.uid)
        parameters = {"first": first, "last": last, "key": FIRST, "now": self.now}
        times = {"started_at": at, "ended_at": f"{at} + interval '20 minutes'"}
        pod = {
            "id": "%(key)s + n.n",
            "uid": "'uid-past-' || n.n",
            "name": "'past-' || n.n",
            "workload_id": "%(key)s + n.n",
            "created_at": at,
            "scheduled_at": at,
            "started_at": at,
            "finished_at": times["ended_at"],
            "gone_at": f"{at} + interval '30 minutes'",
        }
        _copy(PodRecord, self.pod.pk, pod, parameters, where=some)
        made = {
            key: text
            for key, text in pod.items()
            if key in {"id", "uid", "name", "workload_id", "created_at", "gone_at"}
        }
        _copy(ObjectRecord, self.run.object_records.get().pk, made, parameters, where=some)
        owner = {"workload_id": "%(key)s + n.n", "team_id": "w.team_id", "pod_uid": "'uid-past-' || n.n"}
        join = "JOIN workloads_workload AS w ON w.id = %(key)s + n.n"
        _copy(
            UsageInterval,
            usage.pk,
            {"id": "%(key)s + n.n", **owner, **times, "settled_until": times["ended_at"]},
            parameters,
            where=some,
            join=join,
        )
        whose = {"user_id": "w.owner_id", "project": "coalesce(w.labels->>'project', '')"}
        part = f"{20 * 60 / self.lines} * interval '1 second'"
        for line in range(self.lines):
            span = {
                "started_at": f"{at} + {line} * {part}",
                "ended_at": f"{at} + {line + 1} * {part}",
                "posted_at": times["ended_at"],
            }
            _ledger(usage.pod_uid, {**owner, **whose, **span}, parameters, where=some, join=join, line=line)
        estimate = StartEstimate.objects.get(workload=self.run)
        columns = {
            "id": "%(key)s + n.n",
            "workload_id": "%(key)s + n.n",
            "team_id": "w.team_id",
            "queued_at": at,
            "made_at": at,
            "started_at": at,
            "p50": at,
            "p90": at,
        }
        _copy(
            StartEstimate, estimate.pk, columns, parameters, where=f"{some} AND mod(n.n, 10) = 1", join=join
        )
        node = NodeRecord.objects.order_by("pk").first()
        assert node is not None
        gone = {
            "id": "%(key)s + n.n",
            "uid": "'uid-node-past-' || n.n",
            "name": "'spot-' || n.n",
            "created_at": at,
            "gone_at": times["ended_at"],
        }
        _copy(NodeRecord, node.pk, gone, parameters, where="mod(n.n, 50) = 1")

    def endpoint(self, *, pods: int) -> Workload:
        """One that has run for years: so many pods came and went, and one is there."""
        run = self._model("endpoint", f"served-{pods}", ended=False)
        endpoint = Endpoint.objects.create(workload=run, stable_revision=1)
        EndpointRevision.objects.create(
            endpoint=endpoint,
            number=1,
            spec=_endpoint_spec(self.flavors[0].name),
            actor="benchmarks",
            created_at=run.created_at,
            state=RevisionState.LIVE.value,
        )
        model = _pod(run)
        usage = UsageInterval.objects.get(pod_uid=model.uid)
        at = "%(now)s::timestamptz - n.n * interval '10 minutes'"
        key = FIRST + 10**8 + pods
        times = {"started_at": at, "ended_at": f"{at} + interval '9 minutes'"}
        parameters = {"first": 1, "last": pods, "key": key, "now": self.now}
        uid = f"'uid-served-{pods}-' || n.n"
        pod = {
            "id": "%(key)s + n.n",
            "uid": uid,
            "name": uid,
            "created_at": at,
            "scheduled_at": at,
            "started_at": at,
        }
        with _unchecked():
            _copy(
                PodRecord,
                model.pk,
                {**pod, "finished_at": times["ended_at"], "gone_at": times["ended_at"]},
                parameters,
            )
            _copy(
                UsageInterval,
                usage.pk,
                {"id": "%(key)s + n.n", "pod_uid": uid, **times, "settled_until": times["ended_at"]},
                parameters,
            )
            _ledger(usage.pod_uid, {"pod_uid": uid, **times}, parameters)
        live = rows.ago(hours=2)
        there = PodRecord.objects.create(
            uid=f"uid-served-{pods}",
            namespace="past",
            name=f"served-{pods}",
            workload=run,
            attempt=1,
            resource_version="1",
            phase="Running",
            ready=True,
            node_name="past-card-0-0000",
            units=1,
            created_at=live,
            scheduled_at=live,
            started_at=live,
        )
        record_usage(there, now=self.now)
        return run


def _teams_of(number: int, teams: list[Team]) -> list[Team]:
    """Those whose runs the owner's are: three of thirty."""
    return [team for place, team in enumerate(teams) if place % 10 == number % 10]


def _admin() -> User:
    made = rows.make_owner()
    User.objects.filter(pk=made.pk).update(is_platform_admin=True)
    return User.objects.get(pk=made.pk)


def _pod(workload: Workload) -> PodRecord:
    """A pod that ended, with its object, its usage and the two sides of its bill."""
    at, now = workload.created_at, clock.now()
    pod = PodRecord.objects.create(
        uid=f"uid-{uuid4().hex}",
        namespace="past",
        name=workload.name,
        workload=workload,
        attempt=1,
        resource_version="1",
        phase="Succeeded",
        node_name="past-card-0-0000",
        units=1,
        created_at=at,
        scheduled_at=at,
        started_at=at,
        finished_at=at + timedelta(minutes=20),
        gone_at=at + timedelta(minutes=30),
    )
    ObjectRecord.objects.create(
        uid=pod.uid,
        api_version="batch/v1",
        kind="Job",
        namespace="past",
        name=workload.name,
        workload=workload,
        attempt=1,
        resource_version="1",
        created_at=at,
        gone_at=pod.gone_at,
    )
    StartEstimate.objects.create(
        workload=workload,
        team=workload.team,
        queued_at=at,
        made_at=at,
        p50=at,
        p90=at,
        basis="free",
        started_at=at,
        hit=True,
    )
    record_usage(pod, now=now)
    return pod


def _quoted(text: str) -> str:
    return '"' + text.replace("\n", "\\n") + '"'


def _ledger(
    pod_uid: str,
    columns: Mapping[str, str],
    parameters: Mapping[str, Any],
    *,
    where: str = "true",
    join: str = "",
    line: int = 0,
) -> None:
    """Both sides of a bill, which belong together by a key that follows from the pod."""
    for place, side in enumerate(LedgerEntry.objects.filter(pod_uid=pod_uid).order_by("pk")):
        own = {
            "id": f"(%(key)s + n.n) * {2 * LINES_MAX} + {2 * line + place}",
            "transaction_id": f"md5({columns['pod_uid']} || '-{line}')::uuid",
        }
        _copy(LedgerEntry, side.pk, {**own, **columns}, parameters, where=where, join=join)


def _copy(
    model: type[Model],
    key: int,
    columns: Mapping[str, str],
    parameters: Mapping[str, Any],
    *,
    where: str = "true",
    join: str = "",
) -> None:
    """Copies of one row, for each number of a range, with these columns in other words."""
    table, own = model._meta.db_table, model._meta.pk.column  # noqa: SLF001 - Django documents _meta as public
    with connection.cursor() as cursor:
        names = [column.name for column in connection.introspection.get_table_description(cursor, table)]
        plain = [name for name in names if name not in _generated(table)]
        texts = ", ".join(f"{columns[name]}" if name in columns else f't."{name}"' for name in plain)
        listed = ", ".join(f'"{name}"' for name in plain)
        cursor.execute(
            f"INSERT INTO {table} ({listed}) SELECT {texts} FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n(n) "  # noqa: S608 (no word of it is given)
            f"CROSS JOIN {table} AS t {join} WHERE t.{own} = %(model)s AND {where}",
            {**parameters, "model": key},
        )


def _generated(table: str) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND is_generated = 'ALWAYS'",
            [table],
        )
        return {name for (name,) in cursor.fetchall()}


@contextmanager
def _unchecked() -> Iterator[None]:
    """Without PostgreSQL's checks of every row: they are known to hold, and would take most of the time.

    Sums that are kept beside the ledger are made again afterwards.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("SET statement_timeout = 0")
        try:
            yield
        finally:
            cursor.execute("SET session_replication_role = DEFAULT")
        cursor.execute("SELECT to_regclass('costs_workloadcharge') IS NOT NULL")
        if cursor.fetchone()[0]:
            cursor.execute("TRUNCATE costs_workloadcharge")
            cursor.execute(_CHARGES)
            cursor.execute("SELECT costs_make_rollups_anew()")
    rows.vacuum()
