"""Teams, runs with pods that have GPUs, and what Prometheus says of these."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from foundation import clock
from teams.models import Team, User
from tests.factories.catalogue import make_flavor, make_price, make_quota
from tests.factories.submitted import make_attempt, make_endpoint, make_pod, make_run
from tests.factories.teams import make_member, make_team, make_user
from tests.real_prometheus import PROMETHEUS, PROMTOOL
from tests.telemetry.gpu_bed import Cards
from workloads.models import PodRecord, ResourceFlavor, Workload
from workloads.states import Phase


@dataclass
class World:
    """Team vision of ana, and team other of oto; whole cards and slices."""

    vision: Team
    ana: User
    other: Team
    oto: User
    manager: User
    whole: ResourceFlavor
    slices: ResourceFlavor

    def run(
        self,
        name: str = "resnet",
        *,
        gpus: int = 2,
        team: Team | None = None,
        flavor=None,
        minutes: int = 60,
        **spec: Any,
    ):
        """A running run and its pod, which started so many minutes ago."""
        team = team or self.vision
        owner = self.ana if team == self.vision else self.oto
        run = make_run(
            team,
            owner,
            flavor=flavor or self.whole,
            phase=Phase.RUNNING,
            name=name,
            gpus_per_replica=gpus,
            **spec,
        )
        make_attempt(run)
        return run, self.pod(run, units=gpus, minutes=minutes)

    def endpoint(self, name: str = "digits", *, minutes: int = 60, **spec: Any) -> tuple[Workload, PodRecord]:
        endpoint = make_endpoint(
            self.vision,
            self.ana,
            flavor=self.whole,
            phase=Phase.RUNNING,
            name=name,
            gpus_per_replica=1,
            **spec,
        )
        make_attempt(endpoint)
        return endpoint, self.pod(endpoint, units=1, minutes=minutes)

    def pod(self, workload: Workload, *, units: int, minutes: int, name: str = "") -> PodRecord:
        began = clock.now().replace(microsecond=0) - timedelta(minutes=minutes)
        Workload.objects.filter(pk=workload.pk).update(
            started_at=began, created_at=began - timedelta(minutes=1)
        )
        workload.refresh_from_db()
        return make_pod(
            workload,
            units=units,
            name=name or f"{workload.name}-{workload.short_id}-1-0",
            created_at=began,
            scheduled_at=began,
            started_at=began,
        )


def make_world() -> World:
    vision, other = make_team("vision"), make_team("other")
    whole = make_flavor()
    slices = make_flavor("a100-mig-1g.10gb", resource="nvidia.com/mig-1g.10gb", product=None, sharing="mig")
    for team in (vision, other):
        for flavor in (whole, slices):
            make_quota(team, flavor, 64)
    make_price(whole.card, micro_usd=2_000_000)
    return World(
        vision=vision,
        ana=make_member(team=vision, user=make_user("ana")).user,
        other=other,
        oto=make_member(team=other, user=make_user("oto")).user,
        manager=make_user("manager", quota_manager=True),
        whole=whole,
        slices=slices,
    )


@pytest.fixture(scope="module")
def standing_world(stands):
    return stands(make_world)


@pytest.fixture
def world(own, standing_world) -> World:
    return own(standing_world)


@pytest.fixture(params=["small", pytest.param("real", marks=pytest.mark.cluster)])
def cards(request, settings, tmp_path):
    """What Prometheus has, in the small one and in the real one."""
    if request.param == "real" and (PROMETHEUS is None or PROMTOOL is None):
        pytest.skip("there is no Prometheus on this machine")
    settings.PROMETHEUS_URL = None
    planted = Cards(settings, tmp_path, real=request.param == "real")
    with planted.exits:
        yield planted
