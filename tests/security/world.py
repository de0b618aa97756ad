"""Team canary with one of everything, and everybody who may or may not know of it.

Every text that belongs to the team holds the word canary, so that a leak is one search away.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, cached_property
from typing import Any
from uuid import UUID
from weakref import WeakSet

from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.client import ClientHandler

from budgets.services import create_budget
from costs.models import LedgerEntry
from foundation import clock
from gateway.services import create_endpoint_token
from inference.models import Endpoint
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
from teams.models import ApiToken, User
from teams.secret_names import record_secret
from tests.factories.catalogue import SETUP, make_flavor, make_node, make_price, make_quota
from tests.factories.idle import make_idle
from tests.factories.submitted import (
    endpoint_body,
    make_attempt,
    make_endpoint,
    make_pod,
    make_reports,
    make_run,
    move,
    run_body,
)
from tests.factories.teams import ACTOR, make_member, make_team, make_token, make_user
from workloads.models import StrayObject
from workloads.states import Phase, Reason

SECRET_WORD = "canary"
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: a}
spec: {template: {spec: {containers: [{image: "example.org/train:1"}]}}}
"""
TEAM = "canary-team"
UNKNOWN_ID = UUID("00000000-0000-7000-8000-000000000000")


@cache
def handler() -> ClientHandler:
    """One for all who ask: it keeps nothing of a request, and building its middleware costs more than most."""
    return ClientHandler(enforce_csrf_checks=False)


@dataclass
class Principal:
    """Somebody who asks: by a bearer token, by a session, or by neither."""

    name: str
    bearer: str | None = None
    user: User | None = None
    session: str | None = None

    def __post_init__(self) -> None:
        """Signed in here, so that a session stands with the world that it belongs to."""
        if self.user:
            client = Client()
            client.force_login(self.user)
            self.session = client.cookies[settings.SESSION_COOKIE_NAME].value

    @cached_property
    def client(self) -> Client:
        client = Client(raise_request_exception=False)
        client.handler = handler()
        if self.bearer:
            client.defaults["HTTP_AUTHORIZATION"] = f"Bearer {self.bearer}"
        elif self.session:
            client.cookies[settings.SESSION_COOKIE_NAME] = self.session
        return client

    def ask(self, method: str, url: str, body: Any = None, **headers: str) -> Any:
        """The response; `body` is sent as JSON, to a page as a form. Headers are given as `HX_Request="true"`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None and not url.startswith("/api/"):
            return self.client.post(url, body, headers=named)
        data = "" if body is None else json.dumps(body)
        return self.client.generic(method, url, data, content_type="application/json", headers=named)


class World:
    """The team, the others, and everybody who asks; what is asked about them is in `routes.py`."""

    def __init__(self) -> None:
        self.team = make_team(TEAM, name="Canary team")
        self.other = make_team("plain-team")
        self.flavor = make_flavor()
        make_node()
        make_quota(self.team, self.flavor)
        self.price = make_price()
        today = clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
        self.budget = create_budget(
            team=self.team,
            values={
                "amount_micro_usd": 10**15, "period": "fixed", "starts_at": today, "ends_at": today + timedelta(days=30),
            },
            actor=SETUP,
            now=clock.now(),
        )  # fmt: skip
        self.lead = make_member("lead", team=self.team, user=make_user("canary-lead")).user
        self.member = make_member("member", team=self.team, user=make_user("canary-member")).user
        self.viewer = make_member("viewer", team=self.team, user=make_user("canary-viewer")).user
        self.stranger = make_member("lead", team=self.other, user=make_user("stranger")).user
        self.removed = self._removed()
        self.run = make_run(
            self.team, self.member, name="canary-run", flavor=self.flavor, labels={"canary": "canary"}
        )
        self.attempt, self.run_token = make_attempt(self.run)
        move(self.run, Phase.RUNNING)
        make_reports(self.attempt, path="/canary/1")
        idle_pod = make_pod(self.run, units=1, minutes=10)
        make_idle(idle_pod)
        self.endpoint = make_endpoint(self.team, self.member, name="canary-endpoint", flavor=self.flavor)
        _, self.endpoint_run_token = make_attempt(self.endpoint)
        self._change_the_endpoint()
        make_pod(self.endpoint, units=1)
        posted = LedgerEntry.objects.filter(team=self.team).first()
        self.posting = posted.transaction_id if posted else UNKNOWN_ID
        self.own_token, _ = people.create_token(
            actor=Actor.of_user(self.member),
            user=self.member,
            name="canary-token",
            scopes=["read"],
            team=self.team,
            now=clock.now(),
        )
        self.endpoint_token, _ = create_endpoint_token(
            actor=Actor.of_user(self.member),
            endpoint=self.endpoint,
            name="canary-token",
            expires_in_days=1,
            now=clock.now(),
        )
        record_secret(
            team=self.team,
            name="canary",
            keys=["canary"],
            written_here=True,
            actor=ACTOR,
            now=clock.now(),
        )
        self.stray = StrayObject.objects.create(
            uid="uid-of-stray",
            api_version="batch/v1",
            kind="Job",
            namespace="team-gone",
            name="left-behind",
            owned=False,
            said_workload=str(UNKNOWN_ID),
            created_at=clock.now(),
            found_at=clock.now(),
        )
        self._quotas()
        self._notices()
        self.template, _ = set_template(
            name="shared-template", title="For everybody", actor=ACTOR, now=clock.now()
        )
        matrix = {"parameters": {"lr": [0.1, 0.01]}, "max_parallel": 1}
        self.sweep = submit_sweep(
            spec=TrainingRunSpec.from_json(run_body(name="canary-sweep", labels={"canary": "canary"})),
            matrix=Matrix.from_json(matrix),
            asked=matrix,
            team=self.team,
            actor=Actor.of_user(self.member),
            now=clock.now(),
        )
        # What the stranger has too, so that lists of theirs are not empty by accident.
        self.theirs = make_run(self.other, self.stranger, name="plain-run")
        _, self.their_run_token = make_attempt(self.theirs)
        # Here and not when first asked for: they stand with the world, and no test takes their making for a change.
        _ = (self.nobodies, self.strangers, self.readers, self.viewers, self.members, self.leads)

    def _quotas(self) -> None:
        """A cohort, a change, a request and a decision of the team."""
        now = clock.now()
        self.cohort = limits.create_cohort(name="shared-cohort", parent=None, actor=ACTOR, now=now)
        people.update_team(actor=ACTOR, team=self.team, changes={"cohort_name": self.cohort.name}, now=now)
        change = LimitChange(
            team=self.team, flavor=self.flavor, capacity_type="on-demand", limits={"nominal": 9}
        )
        self.change_set = apply_changes(
            changes=[change], reason="canary change", evicts=False, actor=ACTOR, now=now
        )
        self.request = request_quota(
            team=self.team,
            flavor=self.flavor,
            capacity_type="on-demand",
            units=1,
            until=now + timedelta(days=7),
            reason="canary request",
            actor=Actor.of_user(self.member),
            now=now,
        )
        snapshot = pool_snapshot_of(flavor=self.flavor, capacity_type="on-demand", now=now, focus=self.run)
        verdict = Verdict(Outcome.ADMIT, Reason.CREATING, "Team canary-team uses 1 of 8.", "fits")
        record(receipts=[Receipt(self.run, verdict)], snapshot=snapshot, now=now)
        self.decision = self.run.decisions.latest("id")

    def _notices(self) -> None:
        """A subscription of the team and the member's own, and what each has sent; no name is looked up for them."""
        now = clock.now()
        rows = [
            NoticeSubscription.objects.create(
                **owner, name="canary", channel="webhook", topics=["failed"], origin="https://canary.example.org",
                sealed_url=seal("https://canary.example.org/canary"), created_by=self.lead, created_at=now,
            )
            for owner in ({"team": self.team}, {"user": self.member})
        ]  # fmt: skip
        self.subscription, self.own_subscription = rows
        sent = [
            send_test(actor=Actor.of_user(who), subscription=row, now=now)
            for row, who in zip(rows, (self.lead, self.member), strict=True)
        ]
        self.notice, self.own_notice = sent
        Delivery.objects.filter(pk__in=[each.pk for each in sent]).update(state="dead", ended_at=now)

    def _change_the_endpoint(self) -> None:
        """Another revision, so that there is one to go back to."""
        endpoint = Endpoint.objects.get(workload=self.endpoint)
        spec = replace(endpoint.parsed, image="example.org/serve:3")
        update_endpoint(endpoint=endpoint, spec=spec, actor=Actor.of_user(self.member), now=clock.now())
        endpoint.revisions.filter(number=1).update(live_at=clock.now())

    def _removed(self) -> User:
        membership = make_member("lead", team=self.team, user=make_user("removed"))
        people.remove_member(actor=ACTOR, membership=membership, now=clock.now())
        return membership.user

    # --- addresses

    def kwargs(self, what: str, *, foreign: bool = True) -> dict[str, Any]:
        """Path arguments of an object of team canary, or (not `foreign`) of one that does not exist."""
        known: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
            "": ({}, {}),
            "run": ({"public_id": self.run.public_id}, {"public_id": UNKNOWN_ID}),
            "endpoint": ({"public_id": self.endpoint.public_id}, {"public_id": UNKNOWN_ID}),
            "sweep": ({"public_id": self.sweep.public_id}, {"public_id": UNKNOWN_ID}),
            "endpoint-token": (
                {"public_id": self.endpoint.public_id, "token_id": self.endpoint_token.public_id},
                {"public_id": UNKNOWN_ID, "token_id": UNKNOWN_ID},
            ),
            "team-endpoint-token": (
                {"slug": TEAM, "token_id": self.endpoint_token.public_id},
                {"slug": "no-such-team", "token_id": UNKNOWN_ID},
            ),
            "subscription": (
                {"public_id": self.subscription.public_id},
                {"public_id": UNKNOWN_ID},
            ),
            "own-subscription": (
                {"public_id": self.own_subscription.public_id},
                {"public_id": UNKNOWN_ID},
            ),
            "notice": ({"public_id": self.notice.public_id}, {"public_id": UNKNOWN_ID}),
            "own-notice": ({"public_id": self.own_notice.public_id}, {"public_id": UNKNOWN_ID}),
            "revision": (
                {"public_id": self.endpoint.public_id, "number": 1},
                {"public_id": UNKNOWN_ID, "number": 1},
            ),
            "invoke": (
                {"public_id": self.endpoint.public_id, "path": "v1/predict"},
                {"public_id": UNKNOWN_ID, "path": "v1/predict"},
            ),
            "team": ({"slug": TEAM}, {"slug": "no-such-team"}),
            "member": (
                {"slug": TEAM, "username": self.viewer.username},
                {"slug": "no-such-team", "username": self.viewer.username},
            ),
            "secret": ({"slug": TEAM, "name": "canary"}, {"slug": "no-such-team", "name": "canary"}),
            "token": ({"token_id": self.own_token.public_id}, {"token_id": UNKNOWN_ID}),
            "flavor": ({"name": self.flavor.name}, {"name": "no-such-flavor"}),
            "template": ({"name": self.template.name}, {"name": "no-such-template"}),
            "cohort": ({"name": self.cohort.name}, {"name": "no-such-cohort"}),
            "cohort-id": ({"public_id": self.cohort.public_id}, {"public_id": UNKNOWN_ID}),
            "team-request": (
                {"slug": TEAM, "public_id": self.request.public_id},
                {"slug": "no-such-team", "public_id": UNKNOWN_ID},
            ),
            "alert-rule": ({"name": "idle"}, {"name": "no-such-rule"}),
            "node": ({"name": "a100-0"}, {"name": "no-such-node"}),
            "budget": ({"public_id": self.budget.public_id}, {"public_id": UNKNOWN_ID}),
            "price": ({"public_id": self.price.public_id}, {"public_id": UNKNOWN_ID}),
            "change-set": ({"public_id": self.change_set.public_id}, {"public_id": UNKNOWN_ID}),
            "quota-request": ({"public_id": self.request.public_id}, {"public_id": UNKNOWN_ID}),
            "decision": ({"public_id": self.decision.public_id}, {"public_id": UNKNOWN_ID}),
            "link": ({"token": "a" * 43}, {"token": "b" * 43}),
        }
        return known[what][0 if foreign else 1]

    def body(self, what: str, *, team: str = TEAM) -> Any:
        """A body that would be accepted from who may."""
        return {
            "": {},
            "none": None,
            "form": {
                **run_body(team, name="typed-run"),
                "command": "python train.py",
                "cpu": "1",
                "memory": "1Gi",
            },
            "run": run_body(team, name="another-run"),
            "endpoint": endpoint_body(team, name="another-endpoint"),
            "endpoint-token": {"name": "another-token"},
            "subscription": {
                "team": team,
                "name": "told",
                "channel": "webhook",
                "url": "https://192.0.2.1/hook",
                "topics": ["failed"],
            },
            "subscription-patch": {"name": "renamed"},
            "edits": {"time_limit_seconds": 600},
            "bulk": {"action": "cancel", "filter": {"team": [team]}},
            "manifest": {"manifest": JOB},
            "sweep-patch": {"max_parallel": 2},
            "run-patch": {"time_limit_seconds": 600},
            "endpoint-patch": {"image": "example.org/serve:2"},
            "rollback": {"revision": 1},
            "team": {"slug": "new-team", "name": "New"},
            "team-patch": {"name": "Renamed"},
            "member": {"username": "stranger", "role": "viewer"},
            "member-patch": {"role": "member"},
            "token": {"name": "new", "scopes": ["read"]},
            "flavor": {"name": "new-flavor", "card": "new", "capacity": {"on-demand": {}}},
            "flavor-patch": {"memory_gib": 41},
            "template": {"name": "new-template", "title": "New"},
            "template-patch": {"title": "Renamed"},
            "policy": {"weight": 2},
            "reason": {"reason": "test"},
            "close-team": {"reason": "test", "confirm": self.team.slug},
            "alert-rule": {"threshold": 20},
            "attention": {"action": "dismiss"},
            "strays": {"uids": [self.stray.uid], "reason": "test"},
            "comment": {"comment": "test"},
            "cohort": {"name": "new-cohort"},
            "cohort-patch": {"parent": None},
            "cohort-limits": {"flavor": self.flavor.name, "borrowing_limit": 1, "reason": "test"},
            "changes": {
                "changes": [{"team": team, "flavor": self.flavor.name, "nominal": 99}],
                "reason": "test",
            },
            "quota-request": {
                "team": team,
                "flavor": self.flavor.name,
                "units": 1,
                "until": (clock.now() + timedelta(days=7)).isoformat(),
                "reason": "test",
            },
            "quota": {"flavor": self.flavor.name, "nominal": 99, "reason": "test"},
            "adjustment": {"transaction_id": str(self.posting), "reason": "test"},
            "settings": {"grace_seconds": 61},
            "price-preview": {"card": self.flavor.card, "capacity": "spot", "usd_per_card_hour": "1.5"},
            "price-import-preview": self._table(),
            "price-import": {**self._table(), "reason": "test"},
            "budget": {
                "team": team,
                "amount_usd": "100",
                "period": "fixed",
                "starts_on": "2040-01-01",
                "ends_on": "2040-02-01",
            },
            "budget_change": {"amount_usd": "200"},
            "override": {"amount_usd": "1", "reason": "test"},
            "price": {
                "card": self.flavor.card,
                "capacity": "spot",
                "micro_usd_per_card_hour": 1,
                "reason": "test",
            },
            "secret": {"values": {"token": "canary-value"}},
            "volume": {"name": "data", "size": "1Gi"},
            "advice": {"team": team, "text": "7B fp16"},
            "checkpoint": {"step": 7, "path": "/c/7"},
            "progress": {"progress_percentage": 7},
            "output": {"path": "/models/best.pt", "size_bytes": 7},
        }[what]

    def _table(self) -> dict[str, Any]:
        """A table of one machine, that gives the card its price of spot."""
        header = "provider,instance_type,gpu_model,gpu_count,on_demand_usd_per_hour,spot_usd_per_hour"
        return {
            "csv": f"{header}\naws,one,M,1,,1.5\n",
            "cards": [{"card": self.flavor.card, "instance_type": "one"}],
        }

    # --- principals

    @cached_property
    def tokens(self) -> dict[str, str]:
        return {
            user.username: make_token(user)
            for user in (self.lead, self.member, self.viewer, self.stranger, self.removed)
        }

    def of(self, user: User) -> list[Principal]:
        """The same person by token and by session."""
        return [
            Principal(f"{user.username} by token", bearer=self.tokens[user.username]),
            Principal(f"{user.username} by session", user=user),
        ]

    @cached_property
    def nobodies(self) -> list[Principal]:
        """Whose credential opens nothing at all."""
        expired = make_token(self.member, name="expired", now=clock.now() - timedelta(days=100))
        revoked = make_token(self.member, name="revoked")
        people.revoke_token(
            actor=Actor.of_user(self.member), token=ApiToken.objects.get(name="revoked"), now=clock.now()
        )
        asleep = make_member("lead", team=self.team).user
        asleep_token = make_token(asleep)
        User.objects.filter(pk=asleep.pk).update(is_active=False)
        return [
            Principal("anonymous"),
            Principal("expired token", bearer=expired),
            Principal("revoked token", bearer=revoked),
            Principal("token of an inactive user", bearer=asleep_token),
            Principal("session of an inactive user", user=asleep),
            Principal("run token of this team", bearer=self.run_token),
            Principal("run token of an endpoint", bearer=self.endpoint_run_token),
            Principal("run token of another team", bearer=self.their_run_token),
            Principal("made-up token", bearer="mlp_" + "x" * 58),
        ]

    @cached_property
    def strangers(self) -> list[Principal]:
        """Who is signed in and must not learn that team canary exists."""
        torn = make_member("lead", team=self.other, user=make_user("torn")).user
        make_member("lead", team=self.team, user=torn)
        bound = make_token(torn, team=self.other, name="bound")
        return [
            *self.of(self.stranger),
            *self.of(self.removed),
            Principal("a token bound to another team", bearer=bound),
        ]

    @cached_property
    def viewers(self) -> list[Principal]:
        return self.of(self.viewer)

    @cached_property
    def members(self) -> list[Principal]:
        return self.of(self.member)

    @cached_property
    def leads(self) -> list[Principal]:
        return self.of(self.lead)

    @cached_property
    def readers(self) -> list[Principal]:
        """A lead's token that may only read."""
        return [Principal("read-only token", bearer=make_token(self.lead, scopes=("read",), name="reads"))]

    @cached_property
    def quota_manager(self) -> Principal:
        user = make_user("manager", quota_manager=True)
        return Principal("quota manager", bearer=make_token(user))


@cache
def _rows_of_all_tables() -> str:
    """One statement for all tables: a query each was most of the time of the tests that compare them."""
    from django.apps import apps

    labels = (
        "teams",
        "workloads",
        "quotas",
        "costs",
        "jobs",
        "inference",
        "gateway",
        "notices",
        "foundation",
    )
    tables = {
        model._meta.label: model._meta.db_table
        for label in labels
        for model in apps.get_app_config(label).get_models()
    }
    # That it was refused is told, and is all that a refusal leaves: tests/security/test_sign_ins_are_told.py.
    told = {
        "teams.AuditEvent": "WHERE action <> 'request.refuse'",
        "teams.AuditCount": "WHERE event ->> 'action' <> 'request.refuse'",
    }
    return " UNION ALL ".join(
        f"SELECT '{name}', array(SELECT (to_jsonb(t) - 'last_used_at' - 'last_login')::text FROM {table} t "  # noqa: S608
        f"{told.get(name, '')})"
        for name, table in tables.items()
    )


# The connections that have the statement prepared: planning it takes three times as long as running it.
_prepared: WeakSet[Any] = WeakSet()


def snapshot() -> dict[str, list[str]]:
    """Every row of every table of the portal, less what reading may touch."""
    with connection.cursor() as cursor:
        if connection.connection not in _prepared:
            cursor.execute(f"PREPARE rows_of_all_tables AS {_rows_of_all_tables()}")
            _prepared.add(connection.connection)
        return {name: sorted(rows) for name, rows in cursor.execute("EXECUTE rows_of_all_tables").fetchall()}


def different(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The tables in which something changed."""
    return [name for name in before if before[name] != after[name]]
