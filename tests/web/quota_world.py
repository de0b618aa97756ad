"""Teams that lend to each other: one borrows, one waits, one was cut below its use, one has a stopped queue."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction

from jobs.serializers import TrainingRunSerializer
from jobs.services import submit_training_run
from quotas import cohorts, limits
from quotas.models import Cohort, Fence, Quota
from quotas.requests import approve_request, request_quota
from teams.actors import Actor
from teams.models import Team, User
from teams.services import update_team
from tests.factories.catalogue import limit, make_quota
from tests.factories.teams import make_member, make_team, make_user
from tests.web.world import World, run_body
from workloads.models import ResourceFlavor, Workload


@dataclass
class QuotaWorld(World):
    robotics: Team = None
    a100: ResourceFlavor = None
    mig: ResourceFlavor = None
    research: Cohort = None
    admin: User = None

    @property
    def by_manager(self) -> Actor:
        return Actor.of_user(self.manager)

    def set(self, team: Team, nominal: int, *, flavor: ResourceFlavor | None = None, **others) -> Quota:
        return limit(
            team,
            flavor or self.a100,
            nominal=nominal,
            reason="The plan of the quarter.",
            actor=self.by_manager,
            now=self.now,
            **others,
        )

    def join(self, team: Team, cohort: str) -> None:
        update_team(actor=self.by_manager, team=team, changes={"cohort_name": cohort}, now=self.now)
        team.refresh_from_db()

    def queue(self, team: Team, units: int, name: str, *, minutes_ago: float = 200) -> Workload:
        """A queued run of the team that wants units of the A100s."""
        body = TrainingRunSerializer(data=run_body(name, team=team.slug, gpus_per_replica=units))
        body.is_valid(raise_exception=True)
        return submit_training_run(
            spec=body.to_spec(),
            team=team,
            actor=Actor.of_user(team.memberships.exclude(role="viewer").first().user),
            now=self.now - timedelta(minutes=minutes_ago),
        ).workload

    def hold(self, team: Team, units: int, name: str) -> Workload:
        """A run of the team that holds units of the A100s, since more than three hours."""
        run = self.queue(team, units, name)
        with transaction.atomic():
            self.start(run)
        run.attempts.update(started_at=run.started_at)
        return run

    def ask(self, *, units: int = 4, days: int = 14, who: User | None = None, reason: str = "A paper."):
        return request_quota(
            team=self.team,
            flavor=self.a100,
            capacity_type="on-demand",
            units=units,
            until=self.now + timedelta(days=days),
            reason=reason,
            actor=Actor.of_user(who or self.ana),
            now=self.now,
        )


def make_quota_world(plain: World) -> QuotaWorld:
    """Vision has 16 A100s and lends, speech has 4 of its own; both are of cohort research."""
    world = QuotaWorld(**vars(plain))
    world.a100 = ResourceFlavor.objects.get(name="a100-40gb")
    world.mig = ResourceFlavor.objects.get(name="a100-mig-1g.10gb")
    world.robotics = make_team("robotics", name="Robotics")
    make_member("lead", team=world.robotics, user=make_user("rob"))
    make_quota(world.robotics, world.a100, 2)
    world.admin = make_user("root", platform_admin=True)
    world.research = cohorts.create_cohort(
        name="research", parent=None, actor=world.by_manager, now=world.now
    )
    for team in (world.team, world.other):
        world.join(team, "research")
    return world


@transaction.atomic
def populate_quotas(world: QuotaWorld) -> None:
    """What every part of the bar stands for."""
    world.set(world.team, 16, lending_limit=8, user_limit=12)
    world.hold(world.team, 6, "detector")
    world.hold(world.other, 4, "whisper")
    world.hold(world.other, 2, "whisper-large")
    world.queue(world.team, 8, "segmenter", minutes_ago=12)
    world.hold(world.robotics, 2, "grasp")
    world.set(world.robotics, 1)
    limits.set_policy(team=world.team, changes={"weight": 3}, actor=world.by_manager, now=world.now)
    limits.stop_queue(
        team=world.other, reason="The data set is being moved.", actor=world.by_manager, now=world.now
    )
    fence = {"requests.nvidia.com/gpu": 24, "requests.nvidia.com/mig-1g.10gb": 4}
    Fence.objects.create(
        team=world.team,
        derived=fence,
        observed={**fence, "requests.nvidia.com/gpu": 20},
        checked_at=world.now,
    )
    approve_request(
        request=world.ask(units=2, reason="A deadline."),
        comment="Until the deadline.",
        actor=world.by_manager,
        now=world.now,
    )
    world.ask(units=8, reason="The larger model of the paper needs two nodes for ten days.")
