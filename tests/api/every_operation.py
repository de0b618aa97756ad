"""A world in which every operation of the OpenAPI document succeeds: what it is asked about, by whom, in which state.

An operation that is missing here has an address that `Vision.path` cannot fill, or needs a state: give it one there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from rest_framework.test import APIClient, ForceAuthClientHandler

from budgets.services import create_budget, delete_budget, give_on_top
from console.closing import close_team
from costs.models import LedgerEntry
from costs.prices.services import set_price
from foundation import clock
from gateway.services import create_endpoint_token
from inference.models import Endpoint, EndpointRevision
from inference.services import update_endpoint
from jobs.catalogue import set_template
from jobs.matrix import Matrix
from jobs.specs import TrainingRunSpec
from jobs.sweeps.services import submit_sweep
from notices.models import Delivery, NoticeSubscription
from notices.sealing import seal
from notices.services import send_test
from policy.verdicts import Outcome, Verdict
from quotas import limits
from quotas.changes import LimitChange, apply_changes
from quotas.decisions import Receipt, record
from quotas.requests import request_quota
from quotas.snapshots import pool_snapshot_of
from teams import services as people
from teams.actors import Actor
from teams.models import ApiToken, Team
from teams.secret_names import record_secret
from tests.factories.catalogue import make_flavor, make_node, make_price, make_quota
from tests.factories.idle import make_idle
from tests.factories.submitted import (
    make_attempt,
    make_endpoint,
    make_pod,
    make_reports,
    make_run,
    move,
    run_body,
)
from tests.factories.teams import ACTOR, make_member, make_team, make_token, make_user
from tests.openapi import operations
from workloads.models import StrayObject, Workload
from workloads.services import transition
from workloads.states import Desired, Phase, Reason

NOW: Final = datetime(2026, 11, 20, 9, tzinfo=UTC)
POSTING: Final = UUID("01980a3e-5c1f-7d2a-9b11-3f6f4a7d0c21")
STRAY: Final = "5f0f2f0a-0c8e-4d55-9d6e-2a6f7f1f3b10"
# Answered by the cluster, and so by devcluster.
BY_THE_CLUSTER: Final = frozenset(
    {"preflight_list", "volumes_list", "volumes_create", "secrets_write", "secrets_delete", "strays_delete"}
)
# Passed on to a pod: tests/gateway/test_endpoint_process.py has one.
BY_A_POD: Final = frozenset({"endpoints_invoke"})


class Vision:
    """Team vision with one of everything. `boss` leads it and has every global role; `run` reports of itself."""

    def __init__(self) -> None:
        self.boss = make_user("boss", platform_admin=True, quota_manager=True)
        self.team = make_team("vision")
        make_member("lead", team=self.team, user=self.boss)
        self.ana = make_member(team=self.team, user=make_user("ana")).user
        make_user("ben")
        self.flavor = make_flavor()
        make_node()
        make_price()
        make_quota(self.team, self.flavor)
        self.bearer = make_token(self.boss)
        self._workloads()
        self._sweep()
        self._quotas()
        self._people()
        self._notices()

    def _workloads(self) -> None:
        now = clock.now()
        self.run = make_run(self.team, self.boss, name="resnet18", flavor=self.flavor)
        attempt, self.run_token = make_attempt(self.run)
        move(self.run, Phase.RUNNING)
        make_reports(attempt)
        make_idle(make_pod(self.run, units=1, minutes=10))
        bounds = {"min_replicas": 1, "max_replicas": 3, "scaling": {"trigger": "cpu", "threshold": 70}}
        self.endpoint = make_endpoint(self.team, self.boss, name="mnist", **bounds)
        make_attempt(self.endpoint)
        endpoint = Endpoint.objects.get(workload=self.endpoint)
        EndpointRevision.objects.filter(endpoint=endpoint).update(live_at=now)
        update_endpoint(
            endpoint=endpoint,
            spec=replace(endpoint.parsed, image="registry.example.org/vision/mnist:2"),
            actor=Actor.of_user(self.boss),
            now=now,
        )
        self.endpoint_token, _ = create_endpoint_token(
            actor=Actor.of_user(self.boss), endpoint=self.endpoint, name="web", expires_in_days=1, now=now
        )
        self.posting = LedgerEntry.objects.filter(team=self.team).latest("pk").transaction_id
        StrayObject.objects.create(
            uid=STRAY, api_version="batch/v1", kind="Job", namespace="team-gone", name="left-behind", owned=False,
            said_workload=str(POSTING), created_at=now, found_at=now,
        )  # fmt: skip

    def _sweep(self) -> None:
        matrix = {"parameters": {"lr": [0.1, 0.01]}, "max_parallel": 1}
        self.sweep = submit_sweep(
            spec=TrainingRunSpec.from_json(run_body(name="lr")),
            matrix=Matrix.from_json(matrix),
            asked=matrix,
            team=self.team,
            actor=Actor.of_user(self.boss),
            now=clock.now(),
        )

    def _quotas(self) -> None:
        now = clock.now()
        for name in ("research", "labs"):
            limits.create_cohort(name=name, parent=None, actor=ACTOR, now=now)
        limits.create_cohort(name="empty", parent=None, actor=ACTOR, now=now)
        people.update_team(actor=ACTOR, team=self.team, changes={"cohort_name": "labs"}, now=now)
        change = LimitChange(
            team=self.team, flavor=self.flavor, capacity_type="on-demand", limits={"nominal": 9}
        )
        self.change_set = apply_changes(
            changes=[change], reason="one more", evicts=False, actor=ACTOR, now=now
        )
        self.request = request_quota(
            team=self.team, flavor=self.flavor, capacity_type="on-demand", units=1, until=now + timedelta(days=7),
            reason="a week", actor=Actor.of_user(self.boss), now=now,
        )  # fmt: skip
        snapshot = pool_snapshot_of(flavor=self.flavor, capacity_type="on-demand", now=now, focus=self.run)
        verdict = Verdict(Outcome.ADMIT, Reason.CREATING, "Team vision uses 1 of 8.", "fits")
        record(receipts=[Receipt(self.run, verdict)], snapshot=snapshot, now=now)
        self.decision = self.run.decisions.latest("id")

    def _notices(self) -> None:
        now = clock.now()
        type(self.boss).objects.filter(pk=self.boss.pk).update(email="boss@example.org")
        self.subscription = NoticeSubscription.objects.create(
            team=self.team, name="on-call", channel="webhook", topics=["failed", "unhealthy"], created_by=self.boss,
            sealed_url=seal("https://10.20.30.40/portal"), origin="https://10.20.30.40", created_at=now,
        )  # fmt: skip
        self.notice = send_test(actor=Actor.of_user(self.boss), subscription=self.subscription, now=now)
        Delivery.objects.filter(pk=self.notice.pk).update(
            state="dead", ended_at=now, attempts=1, status_code=500
        )

    def _people(self) -> None:
        now = clock.now()
        record_secret(team=self.team, name="hf", keys=["token"], written_here=True, actor=ACTOR, now=now)
        set_template(name="small", title="Small", actor=ACTOR, now=now)
        make_team("gone")
        make_token(self.boss, name="old")
        self.token = ApiToken.objects.get(name="old")
        self.price = self._price("spot", now)
        self.budget = create_budget(
            team=self.team, values={"amount_micro_usd": 5_000_000_000}, actor=ACTOR, now=now
        )
        give_on_top(
            budget=self.budget,
            amount_micro_usd=100_000_000,
            reason="A paper.",
            expires_at=None,
            actor=ACTOR,
            now=now,
        )

    def _price(self, capacity: str, now: datetime) -> Any:
        return set_price(
            card=self.flavor.card, capacity_type=capacity, micro_usd_per_card_hour=1, valid_from=now + timedelta(days=1),
            reason="test", actor=ACTOR, now=now,
        )  # fmt: skip

    # --- requests

    @cached_property
    def handler(self) -> ForceAuthClientHandler:
        """One for all who ask: to build its middleware takes longer than most requests."""
        return ForceAuthClientHandler(enforce_csrf_checks=False)

    def client(self, name: str) -> APIClient:
        """Who may do it."""
        if name in {
            "training_runs_checkpoints_create",
            "training_runs_outputs_create",
            "training_runs_progress_create",
        }:
            return self.asking(self.run_token)
        return self.asking() if name == "tokens_exchange" else self.reader()

    def reader(self) -> APIClient:
        return self.asking(self.bearer)

    def asking(self, token: str = "") -> APIClient:
        client = APIClient()
        client.handler = self.handler
        if token:
            client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
        return client

    def path(self, name: str) -> str:
        """The address of the operation, of what there is."""
        template = operations()[name][1]
        collection = template.removeprefix("/api/v1/").partition("/")[0]
        values = {**self._names(collection), **self._exceptions().get(name, {})}
        if "endpoint-tokens" in template:
            values["token_id"] = self.endpoint_token.public_id
        return template.format(**values) + self._queries().get(name, "")

    def _names(self, collection: str) -> Mapping[str, Any]:
        ids = {
            "training-runs": self.run.public_id,
            "endpoints": self.endpoint.public_id,
            "sweeps": self.sweep.public_id,
            "quota-changes": self.change_set.public_id,
            "quota-requests": self.request.public_id,
            "prices": self.price.public_id,
            "budgets": self.budget.public_id,
            "decisions": self.decision.public_id,
            "subscriptions": self.subscription.public_id,
            "notices": self.notice.public_id,
        }
        names = {
            "alert-rules": "idle",
            "flavors": self.flavor.name,
            "templates": "small",
            "cohorts": "labs",
            "teams": "hf",
        }
        of_endpoint = collection == "endpoints"
        return {
            "public_id": ids.get(collection),
            "name": names.get(collection),
            "slug": self.team.slug,
            "username": "ana",
            "token_id": (self.endpoint_token if of_endpoint else self.token).public_id,
            "number": 1,
            "path": "v1/predict",
        }

    def _queries(self) -> Mapping[str, str]:
        return {"compare_retrieve": f"?a={self.run.public_id}&b={self.run.public_id}"}

    def _exceptions(self) -> Mapping[str, Mapping[str, Any]]:
        return {"teams_delete": {"slug": "gone"}, "cohorts_delete": {"name": "empty"}}

    def prepare(self, name: str) -> None:
        """The state that the operation needs, where it is another than that of the world."""
        if name in _STATES:
            _STATES[name](self)

    def written(self, body: Any) -> str:
        """The body as JSON; of a posting the id that the ledger has given it, which nobody changes."""
        return "" if body is None else json.dumps(body).replace(str(POSTING), str(self.posting))

    def send(self, name: str, body: Any = None, *, query: str = "", **headers: str) -> Any:
        """The answer to the operation, with `body` as JSON."""
        method = operations()[name][0]
        data = self.written(body)
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        self.prepare(name)
        return self.client(name).generic(
            method, self.path(name) + query, data, content_type="application/json", headers=named
        )


def _phase(attribute: str, phase: Phase, reason: Reason, desired: Desired) -> Callable[[Vision], None]:
    def put(world: Vision) -> None:
        workload: Workload = getattr(world, attribute)
        Workload.objects.filter(pk=workload.pk).update(
            phase=phase.value, reason=reason.value, desired=desired.value
        )

    return put


def _no_budget(world: Vision) -> None:
    delete_budget(budget=world.budget, actor=ACTOR, now=clock.now())


def _stop_queue(world: Vision) -> None:
    limits.stop_queue(team=world.team, reason="test", actor=ACTOR, now=clock.now())


def _close_the_team(world: Vision) -> None:
    team = world.team
    close_team(team=team, confirm=team.slug, reason="The project is over.", actor=ACTOR, now=clock.now())
    Team.objects.filter(pk=team.pk).update(closed_at=clock.now())


def _end_the_run(world: Vision) -> None:
    transition(
        Workload.objects.get(pk=world.run.pk),
        to=Phase.SUCCEEDED,
        reason=Reason.COMPLETED,
        message="Done.",
        actor="tests",
        now=clock.now(),
    )


_SUSPENDED: Final = (Phase.SUSPENDED, Reason.USER_REQUESTED, Desired.SUSPEND)
_STATES: Final[Mapping[str, Callable[[Vision], None]]] = {
    "budgets_create": _no_budget,
    "queues_start": _stop_queue,
    "teams_reopen": _close_the_team,
    "training_runs_retry_create": _end_the_run,
    "training_runs_resume_create": _phase("run", *_SUSPENDED),
    "endpoints_start_create": _phase("endpoint", *_SUSPENDED),
}
