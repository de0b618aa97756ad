"""A team with a member and a lead, a clock that is moved on, and what they subscribe to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from foundation import clock
from notices import services
from notices.delivering import deliver_due
from notices.events import Topic
from notices.models import Channel, NoticeSubscription
from teams.actors import Actor
from teams.models import Team, User
from tests.factories.submitted import make_run
from tests.factories.teams import make_member, make_team, make_user
from workloads.models import Workload
from workloads.services import transition
from workloads.states import Phase, Reason

START = datetime(2026, 11, 20, 9, tzinfo=UTC)
ALL = [topic.value for topic in Topic]


class Bed:
    def __init__(self) -> None:
        self.now = START
        self.team = make_team("vision")
        self.ana = self._person("ana", "member")
        self.lea = self._person("lea", "lead")

    def _person(self, name: str, role: str) -> User:
        user = make_user(name)
        user.email = f"{name}@example.org"
        user.save()
        return make_member(role, team=self.team, user=user).user

    def later(self, **time: float) -> datetime:
        self.now += timedelta(**time)
        return self.now

    def subscribe(
        self, user: User | None = None, *, team: Team | None = None, channel: str = "webhook", **values: Any
    ) -> tuple[NoticeSubscription, str]:
        who = user or (self.lea if team else self.ana)
        return services.create_subscription(
            actor=Actor.of_user(who),
            team=team,
            channel=Channel(channel),
            values={"name": "all", "topics": ALL, **values},
            now=self.now,
        )

    def run(self, owner: User | None = None, team: Team | None = None, **spec: Any) -> Workload:
        with clock.freeze(self.now):
            return make_run(team or self.team, owner or self.ana, **spec)

    def move(self, workload: Workload, to: Phase, reason: Reason, message: str = "") -> Workload:
        transition(
            workload,
            to=to,
            reason=reason,
            message=message or f"{to}.",
            actor="tests",
            now=self.later(seconds=1),
            stopping_to=Phase.QUEUED if to is Phase.STOPPING else None,
        )
        return workload

    def fail(self, workload: Workload, message: str = "It broke.") -> Workload:
        return self.move(workload, Phase.FAILED, Reason.APPLICATION_ERROR, message)

    def deliver(self) -> int:
        """As the task does: until nothing is due now."""
        return sum(iter(lambda: deliver_due(now=self.now), 0))

    def deliver_now(self) -> int:
        """At the time of the clock on the wall, which pages go by."""
        self.now = clock.now()
        return self.deliver()
