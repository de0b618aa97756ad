"""The first page by role: what waits for a lead, a quota manager and an admin; and failures that were seen."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.cache import cache

from budgets.services import create_budget
from cluster.client import connect
from console.findings import last_look, look
from foundation import clock
from quotas.requests import request_quota
from teams.actors import Actor
from tests.factories.catalogue import SETUP
from tests.factories.idle import make_idle
from tests.factories.teams import make_user
from tests.factories.workloads import put_in
from tests.web.conftest import signed_in
from workloads.models import Dismissal, ResourceFlavor
from workloads.states import Phase, Reason

pytestmark = pytest.mark.django_db
DUTIES = {"HX-Target": "duties", "HX-Request": "true"}


def attention(client):
    return {workload.name for workload, _ in client.get("/").context["attention"]}


def send(client, workload, action="dismiss", **headers):
    return client.post(f"/attention/{workload.public_id}/", {"action": action}, headers=headers)


def test_a_failure_that_was_dismissed_is_gone_for_that_person_alone(ana, world, made):
    assert "unet-3d" in attention(ana)
    assert send(ana, made["unet-3d"]).status_code == 303
    assert "unet-3d" not in attention(ana)
    assert "unet-3d" in attention(signed_in(world.lead))


def test_what_was_dismissed_comes_back_when_it_fails_anew(ana, made):
    send(ana, made["unet-3d"])
    type(made["unet-3d"]).objects.filter(pk=made["unet-3d"].pk).update(since=clock.now())
    assert "unet-3d" in attention(ana)
    send(ana, made["unet-3d"])
    assert "unet-3d" not in attention(ana)
    assert Dismissal.objects.count() == 1


def test_with_htmx_its_line_says_that_it_is_gone_and_how_to_have_it_back(ana, made):
    answer = send(ana, made["unet-3d"], **{"HX-Request": "true"})
    text = answer.content.decode()
    assert text.startswith("<li")
    assert "unet-3d is dismissed" in text
    assert "Undo" in text
    send(ana, made["unet-3d"], "restore")
    assert "unet-3d" in attention(ana)


def test_what_has_not_failed_cannot_be_dismissed(ana, made):
    answer = send(ana, made["bert-large"])
    assert answer.status_code == 303
    assert "bert-large" in attention(ana)
    assert not Dismissal.objects.exists()


def test_a_stranger_dismisses_nothing_of_a_team(stranger, made):
    assert send(stranger, made["unet-3d"]).status_code == 404


def test_a_member_has_no_duties_and_is_shown_none(ana, made):
    assert not ana.get("/").context["has_duties"]
    assert 'hx-get="/duties/"' not in ana.get("/").content.decode()


def ask(world, units=4):
    now = clock.now()
    return request_quota(
        team=world.team,
        flavor=ResourceFlavor.objects.get(name="a100-40gb"),
        capacity_type="on-demand",
        units=units,
        until=now + timedelta(days=7),
        reason="A paper that is due.",
        actor=Actor.of_user(world.ana),
        now=now,
    )


def test_a_lead_sees_what_waits_of_the_team_its_budget_and_what_it_asked_for(world, made):
    ask(world)
    values = {"period": "month", "amount_micro_usd": 5_000_000_000}
    create_budget(team=world.team, values=values, actor=SETUP, now=clock.now())
    lead = signed_in(world.lead)
    assert 'hx-get="/duties/"' in lead.get("/").content.decode()
    text = lead.get("/duties/", headers=DUTIES).content.decode()
    assert "<html" not in text
    assert "Vision: 1 waiting" in text
    assert "bert-large" in text
    assert "of $5,000.00 spent or promised" in text
    assert "Vision: 4 more a100-40gb" in text
    assert "Preflight" not in text


def test_a_lead_is_told_nothing_of_other_teams(world, made):
    ask(world)
    text = signed_in(world.stranger).get("/duties/").content.decode()
    assert "bert-large" not in text
    assert "Vision" not in text


def test_a_quota_manager_sees_open_requests_and_pools_that_are_promised_twice(world, made):
    asked = ask(world, units=3)
    manager = signed_in(world.manager)
    text = manager.get("/duties/").content.decode()
    assert f'href="/quotas/requests/{asked.public_id}/"' in text
    assert "Vision: 3 more a100-40gb" in text
    assert "A paper that is due." in text
    # 16 and 4 of the A100s are promised, and two nodes have eight each.
    assert "20 promised, 16 exist" in text
    assert "4 promised, 7 exist" not in text


def test_an_admin_sees_what_preflight_found_and_the_alerts_that_are_open(world, made, devcluster):
    cache.clear()
    admin = signed_in(make_user("root", platform_admin=True))
    text = admin.get("/duties/").content.decode()
    assert "Nobody has looked at preflight today" in text
    assert 'hx-get="/cluster/preflight/"' in text
    make_idle(made["resnet50"].pods.first())
    found = look(connect(devcluster), now=clock.now())
    assert found.troubles
    text = admin.get("/duties/").content.decode()
    assert found.troubles[0].title in text
    assert 'hx-get="/cluster/preflight/"' not in text
    assert "Open alerts" in text
    assert "resnet50" in text


def test_what_preflight_found_long_ago_is_looked_for_anew(world, devcluster, settings):
    settings.CLUSTER_KUBECONFIG = devcluster
    client, now = connect(devcluster), clock.now()
    look(client, now=now - timedelta(hours=1))
    answer = signed_in(world.manager).get("/cluster/preflight/", headers={"HX-Target": "preflight-line"})
    assert 'id="preflight-line"' in answer.content.decode()
    assert "<html" not in answer.content.decode()
    assert last_look(client.cluster).looked_at >= now


@pytest.mark.parametrize("kept", [None, 7, {"checks": 1}, {"looked_at": "x", "checks": []}, {"looked_at": "2026-01-01T00:00:00+00:00", "checks": [{"id": 1}]}])  # fmt: skip
def test_what_the_cache_says_that_is_no_finding_is_not_shown(devcluster, kept):
    cluster = connect(devcluster).cluster
    cache.set(f"preflight:{cluster}", kept)
    assert last_look(cluster) is None


def test_the_page_of_preflight_says_each_verdict_in_words_and_what_to_do(world, devcluster, settings):
    settings.CLUSTER_KUBECONFIG = devcluster
    cache.clear()
    manager = signed_in(world.manager)
    answer = manager.get("/cluster/preflight/")
    checks = answer.context["findings"].checks
    assert [check.status for check in checks] == sorted(
        (check.status for check in checks), key=["fail", "warn", "ok"].index
    )
    text = answer.content.decode()
    assert "The API server answers" in text
    assert "Passed" in text
    first = answer.context["findings"].looked_at
    assert manager.get("/cluster/preflight/").context["findings"].looked_at == first
    assert manager.post("/cluster/preflight/").status_code == 303
    assert manager.get("/cluster/preflight/").context["findings"].looked_at > first


def test_a_member_sees_no_preflight(ana):
    assert ana.get("/cluster/preflight/").status_code == 403
    assert ana.post("/cluster/preflight/").status_code == 403


def test_what_needs_attention_but_has_not_failed_has_no_button(ana, world, made):
    put_in(made["digits"], Phase.RUNNING, reason=Reason.DEGRADED)
    text = ana.get("/").content.decode()
    assert "Dismiss unet-3d" in text
    assert "Dismiss digits" not in text
