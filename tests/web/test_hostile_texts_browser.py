"""Texts of users, programs and the cluster in Chromium: whatever stands in them, it is shown and does nothing."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.models import EndpointToken
from jobs.models import RunTemplate, Sweep, TrainingRun
from notices.models import Delivery, NoticeSubscription
from quotas.models import QuotaRequest
from teams.models import ApiToken, Team, User
from telemetry.models import Alert, IdleHold
from tests.factories.teams import make_user
from tests.factories.workloads import put_in
from tests.security.world import TEAM, Principal, World
from tests.web.browsing import chromium, needs_chromium, open_page
from workloads.models import (
    Checkpoint,
    NodeRecord,
    PodRecord,
    ProgressReport,
    StrayObject,
    Workload,
    WorkloadEvent,
)
from workloads.states import Phase, Reason

pytestmark = [pytest.mark.browser, pytest.mark.sweep, needs_chromium, pytest.mark.django_db(transaction=True)]

HARM = (
    "'\"></textarea></title></script><img src=x onerror=alert(1)><script>alert(2)</script><svg onload=alert(3)>"
    "<b hx-get=/stolen hx-trigger=load hx-on::load=alert(4)>{{ 7|add:7 }}<a href=javascript:alert(5)>click</a>"
)
TEXTS: dict[Any, tuple[str, ...]] = {
    Workload: ("message", "desired_message"),
    WorkloadEvent: ("message", "source", "actor"),
    PodRecord: ("message", "reason", "node_name"),
    Checkpoint: ("path",),
    StrayObject: ("name",),
    Team: ("name",),
    User: ("first_name",),
    ApiToken: ("name",),
    EndpointToken: ("name",),
    QuotaRequest: ("reason", "comment"),
    RunTemplate: ("title", "description"),
    NoticeSubscription: ("name", "off_because", "origin"),
    Delivery: ("error",),
    Alert: ("message",),
    IdleHold: ("node", "gpu", "slice"),
}
ACTS = "document.querySelectorAll('[onerror], [onload], [src=x], [hx-get=\"/stolen\"], a[href^=javascript]').length"
OF_A_RUN = ("events", "pods", "cost", "manifests", "spec")


def plant() -> None:
    """In every column that holds such a text, as much as it has room for."""
    for model, names in TEXTS.items():
        for name in names:
            most = model._meta.get_field(name).max_length
            model.objects.update(**{name: HARM[:most]})
    ProgressReport.objects.update(metrics={HARM: 0.5})
    NodeRecord.objects.update(labels={"nvidia.com/gpu.product": HARM})
    TrainingRun.objects.exclude(sweep=None).update(parameters={"lr": HARM})
    Sweep.objects.update(matrix={"parameters": {"lr": [HARM, 1]}, "max_parallel": 1})
    for sent in Delivery.objects.all():
        sent.payload["data"] |= {"subscription": HARM, "message": HARM}
        sent.save()


def stand_for_the_others(world: World) -> list[str]:
    return ["/", "/runs/new/", f"/runs/{world.run.public_id}/?tab=logs", "/quotas/", "/costs/"]


def others(world: World) -> list[str]:
    run, endpoint = world.run.public_id, world.endpoint.public_id
    return [
        *("/runs/", "/endpoints/", "/sweeps/", "/teams/", "/notices/", "/idle/", "/cluster/", "/cluster/?view=table"),
        *("/what-fits/", "/profile/", "/audit/", "/quotas/changes/", "/quotas/requests/", "/quotas/cohorts/"),
        *("/quotas/teams/", "/cluster/strays/", "/admin/", "/admin/jobs/runtemplate/", "/admin/teams/team/"),
        *(f"/runs/{run}/?tab={tab}" for tab in OF_A_RUN),
        *(f"/endpoints/{endpoint}/?tab={tab}" for tab in ("events", "pods", "revisions", "access", "overview")),
        *(f"/why/{run}/", f"/runs/new/?from={run}", f"/sweeps/{world.sweep.public_id}/"),
        *(f"/compare/?a={world.theirs.public_id}&b={run}", f"/notices/{world.subscription.public_id}/"),
        *(f"/teams/{TEAM}/", f"/teams/{TEAM}/quota/", f"/teams/{TEAM}/endpoint-tokens/", f"/teams/{TEAM}/notices/"),
        *(f"/quotas/teams/{TEAM}/", f"/quotas/changes/{world.change_set.public_id}/"),
    ]  # fmt: skip


@pytest.mark.parametrize("listed", [stand_for_the_others, pytest.param(others, marks=pytest.mark.matrix)])
def test_no_text_does_anything_on_any_page(live_server, settings, listed):
    settings.CLUSTER_KUBECONFIG = "/nonexistent/kubeconfig"
    world = World()
    put_in(world.run, Phase.FAILED, reason=Reason.APPLICATION_ERROR.value, desired="run")
    session = Principal("root", user=make_user("root", platform_admin=True)).session
    plant()
    wanted, acted, found = listed(world), [], []
    shown = 0
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.on("dialog", lambda dialog: (acted.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: "/stolen" in request.url and acted.append(request.url))
        for url in wanted:
            answer = page.goto(url)
            found += [url] if answer.status != 200 or page.evaluate(ACTS) else []
            shown += "onerror=alert(1)" in page.inner_text("body")
    assert (acted, found, complaints) == ([], [], [])
    # The texts are there, on most pages, to be read.
    assert shown > len(wanted) // 2
