"""A team that is closed takes nothing new by any door, and what it was stays readable."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings as django_settings

from controller import closing
from controller.admission import plain
from foundation import clock
from foundation.http.examples import examples_of
from notices.models import NoticeSubscription
from quotas.models import Quota, QuotaRequest
from quotas.snapshots import pool_snapshot_of
from teams import services
from teams.models import ApiToken, AuditEvent, Team
from teams.secret_names import record_secret
from tests.factories.submitted import make_run
from tests.factories.teams import ACTOR, api_client, make_member, make_team, make_token, make_user
from tests.factories.workloads import make_workload
from workloads.models import ClaimRecord, Workload
from workloads.states import Phase, Reason

pytestmark = pytest.mark.django_db

EXAMPLES = examples_of(django_settings.OPENAPI_REQUEST_EXAMPLES)
REASON = "The project is over."
BODIES = {
    "endpoints_start_create": None,
    "endpoints_resume_scaler_create": None,
    "training_runs_resume_create": None,
    "queues_start": None,
    "quotas_set": {"flavor": "a100-40gb", "nominal": 99, "reason": "more"},
    "tokens_create": {"name": "ci", "scopes": ["read"], "team": "vision"},
    "subscriptions_create": {
        "team": "vision", "name": "calls", "channel": "webhook", "topics": ["failed"], "url": "https://10.20.30.40/x",
    },
    "subscriptions_update": {"enabled": True},
}  # fmt: skip
REFUSED = (
    "training_runs_create", "training_runs_preview_create", "training_runs_retry_create",
    "training_runs_clone_create", "training_runs_resume_create", "endpoints_create", "endpoints_preview_create",
    "endpoints_partial_update", "endpoints_start_create", "endpoints_scale_create", "endpoints_rollback_create",
    "endpoints_resume_scaler_create", "endpoint_tokens_create", "quota_requests_create", "quotas_set",
    "queues_start", "secrets_write", "volumes_create", "tokens_create", "subscriptions_create", "subscriptions_update",
)  # fmt: skip


def begin(vision, **more):
    body = {"reason": REASON, "confirm": "vision", **more}
    return vision.reader().post("/api/v1/teams/vision/close/", body, format="json")


def go_on(vision, by=timedelta()):
    return closing.go_on(team=vision.team, now=clock.now() + by)


def end(vision):
    """As if everything of it had ended."""
    Workload.objects.filter(team=vision.team).update(phase=Phase.CANCELLED.value, finished_at=clock.now())
    vision.team.usage.update(ended_at=clock.now())
    vision.team.claims.update(state="released", released_at=clock.now())
    Quota.objects.filter(team=vision.team).update(used=0)
    return go_on(vision)


@pytest.mark.parametrize("name", REFUSED)
def test_nothing_new_is_taken_and_the_answer_names_the_team(name, vision):
    Team.objects.filter(pk=vision.team.pk).update(closing_since=clock.now(), closing_reason=REASON)
    # A matrix is one of the examples of a run.
    bodies = [BODIES[name]] if name in BODIES else list(EXAMPLES[name].values())
    if name == "subscriptions_update":
        NoticeSubscription.objects.update(enabled=False)
    before = Workload.objects.count(), ApiToken.objects.count(), NoticeSubscription.objects.count()
    for body in bodies:
        answer = vision.send(name, body)
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (409, "team_closed"), problem
        assert "Team vision is being closed" in problem["detail"]
    assert (Workload.objects.count(), ApiToken.objects.count(), NoticeSubscription.objects.count()) == before


def test_the_answer_says_what_is_ended_and_what_is_kept(vision):
    make_token(vision.boss, name="of the team", team=vision.team)
    before = vision.reader().get("/api/v1/teams/vision/close/").json()
    assert (before["state"], before["tokens"], before["secrets"]) == ("open", 1, 1)
    assert before["others"] == {"quota_requests": 1, "subscriptions": 1}
    assert before["quotas"] == [{"flavor": "a100-40gb", "capacity": "on-demand", "nominal": 9, "lent": 0}]
    assert {row["kind"]: (row["waiting"], row["live"]) for row in before["workloads"]} == {
        "training-run": (2, 1),
        "endpoint": (1, 0),
    }
    answer = begin(vision)
    assert answer.status_code == 200
    after = answer.json()
    assert (after["state"], after["reason"], after["closed_by"]) == ("closing", REASON, "boss")
    assert (after["tokens"], after["others"]["quota_requests"]) == (0, 0)
    assert QuotaRequest.objects.get().state == "denied"
    told = AuditEvent.objects.get(action="team.close")
    assert (told.reason, told.actor, told.team_slug) == (REASON, vision.boss, "vision")


def test_a_token_of_the_team_opens_nothing_from_that_moment_on(vision):
    mine = api_client(vision.ana, team=vision.team)
    own = api_client(vision.ana)
    assert mine.get("/api/v1/teams/vision/").status_code == 200
    begin(vision)
    assert mine.get("/api/v1/teams/vision/").status_code == 401
    assert own.get("/api/v1/teams/vision/").json()["state"] == "closing"


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({"reason": ""}, "reason", "blank"),
        ({"reason": "   "}, "reason", "blank"),
        ({"reason": None}, "reason", "null"),
        ({"reason": "x" * 1001}, "reason", "max_length"),
        ({"confirm": "Vision"}, "confirm", "not_confirmed"),
        ({"confirm": ""}, "confirm", "blank"),
        ({"confirm": ["vision"]}, "confirm", "invalid"),
        ({"force": True}, "force", "unknown_field"),
    ],
)
def test_what_is_not_meant_in_earnest_changes_nothing(body, field, code, vision):
    answer = begin(vision, **body)
    assert answer.status_code == 422
    assert [(each["field"], each["code"]) for each in answer.json()["errors"]] == [(field, code)]
    assert Team.objects.get(pk=vision.team.pk).state == "open"


def test_closing_twice_and_opening_what_is_open_are_conflicts(vision):
    client = vision.reader()
    reopened = client.post("/api/v1/teams/vision/reopen/", {"reason": "why not"}, format="json")
    assert (reopened.status_code, reopened.json()["code"]) == (409, "team_open")
    assert begin(vision).status_code == 200
    again = begin(vision)
    assert (again.status_code, again.json()["code"]) == (409, "team_closed")
    assert AuditEvent.objects.filter(action="team.close").count() == 1


def test_who_saw_another_version_does_not_close_it(vision):
    body = {"reason": REASON, "confirm": "vision"}
    stale = vision.reader().post(
        "/api/v1/teams/vision/close/", body, format="json", headers={"If-Match": '"99"'}
    )
    assert stale.status_code == 412
    assert Team.objects.get(pk=vision.team.pk).state == "open"


@pytest.mark.parametrize(
    ("roles", "status"), [({}, 404), ({"quota_manager": True}, 403), ({"platform_admin": True}, 200)]
)
def test_platform_admins_alone_close_a_team(roles, status, vision):
    client = api_client(make_user(**roles))
    body = {"reason": REASON, "confirm": "vision"}
    assert client.post("/api/v1/teams/vision/close/", body, format="json").status_code == status


def test_a_lead_sees_what_would_end_and_does_not_close(vision):
    lead = api_client(make_member("lead", team=vision.team).user)
    assert lead.get("/api/v1/teams/vision/close/").status_code == 200
    body = {"reason": REASON, "confirm": "vision"}
    assert lead.post("/api/v1/teams/vision/close/", body, format="json").status_code == 403
    assert lead.post("/api/v1/teams/vision/reopen/", {"reason": "x"}, format="json").status_code == 403


def test_who_could_read_it_still_can_when_it_is_closed(vision):
    begin(vision)
    assert end(vision)
    ana = api_client(vision.ana)
    team = ana.get("/api/v1/teams/vision/").json()
    assert (team["state"], team["closing_reason"]) == ("closed", REASON)
    for path in (
        "costs/?team=vision",
        "ledger/?team=vision",
        "training-runs/?team=vision",
        f"training-runs/{vision.run.public_id}/cost/",
        "audit/?team=vision",
    ):
        assert ana.get(f"/api/v1/{path}").status_code == 200, path
    assert [row["slug"] for row in ana.get("/api/v1/teams/?state=closed").json()["results"]] == ["vision"]
    assert ana.get("/api/v1/teams/?state=open").json()["results"] == []


def test_its_subscriptions_end_with_it_and_not_before(vision):
    begin(vision)
    assert NoticeSubscription.objects.get().enabled
    assert end(vision)
    ended = NoticeSubscription.objects.get()
    assert (ended.enabled, ended.off_because) == (False, "Team vision is closed.")


def test_members_may_still_end_their_own_work_while_it_is_closed(vision):
    begin(vision)
    answer = api_client(vision.ana).post(f"/api/v1/training-runs/{vision.run.public_id}/cancel/")
    assert answer.status_code in {200, 202, 204}


def test_it_takes_work_again_after_it_was_reopened_and_its_quota_was_given_back(vision):
    begin(vision)
    assert end(vision)
    client = vision.reader()
    change = Quota.objects.get(team=vision.team).changes.latest("pk").change_set
    undo = f"/api/v1/quota-changes/{change.public_id}/undo/"
    early = client.post(undo, {"reason": "too early"}, format="json")
    assert (early.status_code, early.json()["code"]) == (409, "team_closed")
    opened = client.post("/api/v1/teams/vision/reopen/", {"reason": "It goes on."}, format="json")
    assert (opened.status_code, opened.json()["state"]) == (200, "open")
    assert client.post(undo, {"reason": "it goes on"}, format="json").status_code == 201
    assert Quota.objects.get(team=vision.team).nominal == 9
    assert (
        vision.send("training_runs_create", next(iter(EXAMPLES["training_runs_create"].values()))).status_code
        == 201
    )


def test_its_queue_admits_nothing_and_says_why(vision):
    run = make_run(vision.team, vision.boss, flavor=vision.flavor)
    cpu = make_run(vision.team, vision.boss)
    begin(vision)
    snapshot = pool_snapshot_of(flavor=vision.flavor, capacity_type="on-demand", now=clock.now(), focus=run)
    assert [team.stopped for team in snapshot.teams] == ["the team is being closed"]
    verdict = plain.admit(Workload.objects.select_related("team").get(pk=cpu.pk), now=clock.now())
    assert (verdict.admitted, verdict.reason) == (False, Reason.QUEUE_STOPPED)
    assert verdict.message == "The queue of team vision is stopped: the team is being closed."


def test_what_slipped_in_behind_the_closing_is_ended_all_the_same(vision):
    begin(vision)
    assert end(vision)
    assert not closing.to_go_on_with().exists()
    # As of a request that had read the team before it was closed.
    slipped = make_workload(team=vision.team)
    assert list(closing.to_go_on_with()) == [vision.team]
    assert not go_on(vision)
    slipped.refresh_from_db()
    assert slipped.desired == "cancel"
    assert AuditEvent.objects.filter(action="team.closed").count() == 1


def test_more_workloads_than_one_transaction_takes_are_all_cancelled(vision, monkeypatch):
    monkeypatch.setattr(closing, "BATCH", 1)
    begin(vision)
    go_on(vision)
    rows = Workload.objects.filter(team=vision.team, kind="training-run")
    assert set(rows.values_list("desired", flat=True)) == {"cancel"}
    messages = set(rows.values_list("desired_message", flat=True))
    assert messages == {f"Team vision is closed: {REASON}"}


def test_a_team_with_data_or_secrets_in_the_cluster_is_not_deleted_from_over_them(vision):
    client = vision.reader()
    team = make_team("speech")
    ClaimRecord.objects.create(
        uid="claim-1", namespace=team.namespace_name, name="data", access_modes=["ReadWriteOnce"], storage_bytes=1,
        phase="Bound", observed_at=clock.now(),
    )  # fmt: skip
    refused = client.delete("/api/v1/teams/speech/")
    assert (refused.status_code, refused.json()["code"]) == (409, "team_in_use")
    assert "1 volume" in refused.json()["detail"]
    ClaimRecord.objects.all().delete()
    secret = record_secret(
        team=team, name="hf", keys=["token"], written_here=True, actor=ACTOR, now=clock.now()
    )
    refused = client.delete("/api/v1/teams/speech/")
    assert (refused.status_code, refused.json()["code"]) == (409, "team_in_use")
    secret.delete()
    assert client.delete("/api/v1/teams/speech/").status_code == 204
    refused = client.delete("/api/v1/teams/vision/")
    assert (refused.status_code, refused.json()["code"]) == (409, "team_in_use")


def test_the_work_of_a_user_who_is_deactivated_goes_on_and_belongs_to_the_team(vision):
    lead = api_client(make_member("lead", team=vision.team).user)
    theirs = api_client(vision.boss)
    run = f"/api/v1/training-runs/{vision.run.public_id}/"
    services.set_active(actor=ACTOR, user=vision.boss, active=False, now=clock.now())
    assert theirs.get(run).status_code == 401
    # It goes on, under the name of who started it; its pods still report.
    seen = lead.get(run).json()
    assert (seen["phase"], seen["owner"]) == ("Running", "boss")
    body = next(iter(EXAMPLES["training_runs_progress_create"].values()))
    assert vision.send("training_runs_progress_create", body).status_code == 201
    # Whoever may submit for the team may end it, and all else that was theirs.
    assert lead.post(f"{run}cancel/").status_code < 300
    assert lead.delete(f"/api/v1/endpoints/{vision.endpoint.public_id}/").status_code < 300
    assert lead.post(f"/api/v1/sweeps/{vision.sweep.public_id}/cancel/").status_code < 300
    assert set(vision.team.workloads.exclude(phase="Cancelled").values_list("desired", flat=True)) == {
        "cancel"
    }
