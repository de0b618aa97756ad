"""Training runs as a program uses them that knows the contract and nothing else."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controller.reconcile.adapters import adapter_for
from controller.reconcile.snapshot import snapshot_of
from foundation import clock
from foundation.models import PlatformSettings
from quotas.models import Claim
from tests.api.bench import RUNS, Unchanged, ids, problem, row
from tests.effort import spread
from tests.factories.catalogue import make_quota
from tests.factories.submitted import make_attempt, make_pod, move, run_body
from tests.factories.teams import api_client, make_member, make_team
from workloads.models import Workload
from workloads.states import Phase

KEYS = {
    "id", "team", "owner", "name", "kind", "phase", "reason", "message", "since", "observed_at", "priority", "sweep",
    "flavor", "capacity", "quantity", "labels", "spec", "attempts", "cost", "simulated", "created_at",
    "admitted_at", "started_at", "finished_at", "url", "links",
}  # fmt: skip


def test_a_run_is_made_and_read_back(bench):
    response = bench.client.post(
        RUNS, run_body("vision", name="resnet50", flavor="a100-40gb", time_limit_seconds=3600)
    )
    assert response.status_code == 201
    run = response.json()
    assert [hint["code"] for hint in run.pop("warnings")] == ["filled_in", "filled_in"]
    assert set(run) == KEYS
    assert (run["team"], run["owner"], run["name"], run["kind"]) == ("vision", "ana", "resnet50", "job")
    assert (run["phase"], run["reason"]) == ("Queued", "PendingEvaluation")
    assert (run["flavor"], run["capacity"], run["quantity"], run["priority"]) == (
        "a100-40gb",
        "on-demand",
        1,
        "normal",
    )
    assert run["cost"]["at_time_limit"] == {"amount_micro_usd": 3_600_000_000, "usd": "3600.000000"}
    assert run["created_at"].endswith("Z")
    assert response["Location"].endswith(run["links"]["self"].removeprefix("http://localhost:8000"))
    path = response["Location"].partition("/api/")[2]
    again = bench.client.get(f"/api/{path}")
    assert again.json() == run
    assert bench.client.head(f"/api/{path}").content == b""


def test_every_link_of_a_run_answers(bench):
    for link in bench.run(flavor="a100-40gb")["links"].values():
        assert bench.client.get("/api/" + link.partition("/api/")[2]).status_code == 200, link


def test_a_preview_makes_nothing(bench):
    with Unchanged():
        answer = bench.client.post(
            f"{RUNS}preview/", run_body("vision", flavor="a100-40gb", time_limit_seconds=60)
        ).json()
    assert answer["verdict"] == "admit"
    rest = {"nominal": 8, "borrowed": 0, "limit": 8}
    assert answer["quota"] == {
        "before": {**rest, "used": 0, "available": 8},
        "after": {**rest, "used": 1, "available": 7},
    }
    assert answer["cost"]["at_time_limit"]["amount_micro_usd"] == 60_000_000


def test_more_than_the_quota_is_accepted_and_waits(bench):
    make_quota(bench.team, bench.flavor, 2)
    run = bench.run(flavor="a100-40gb", gpus_per_replica=4)
    card = bench.client.get(f"{RUNS}{run['id']}/waiting/").json()
    assert (card["verdict"], card["reason"]) == ("wait", "ExceedsMaxQuota")
    assert Claim.objects.count() == 0


# --- lists


def test_a_list_is_the_newest_first_and_only_of_ones_own_teams(bench):
    runs = [bench.run() for _ in range(3)]
    other = make_member(team=make_team("audio"))
    api_client(other.user).post(RUNS, run_body("audio"))
    body = bench.client.get(RUNS).json()
    assert ids(body["results"]) == ids(reversed(runs))
    assert body["next"] is body["previous"] is None
    assert list(body) == ["results", "next", "previous"]


@pytest.mark.parametrize(
    ("query", "names"),
    spread(
        [
            ({"phase": "Succeeded"}, ["c"]),
            ({"phase": "Queued,Succeeded", "ordering": "name"}, ["a", "b", "c"]),
            ({"phase": ["Queued", "Succeeded"], "ordering": "-name"}, ["c", "b", "a"]),
            ({"name": "b"}, ["b"]),
            ({"flavor": "a100-40gb"}, ["b"]),
            ({"priority": "low"}, ["a"]),
            ({"team": "vision,audio", "ordering": "name"}, ["a", "b", "c"]),
            ({"team": "audio"}, []),
            ({"owner": "ana", "limit": 1, "ordering": "name"}, ["a"]),
            ({"owner": "' OR 1=1 --"}, []),
            ({"capacity": "spot"}, []),
            ({"reason": "Completed"}, ["c"]),
            ({"ordering": "-finished_at"}, ["c", "b", "a"]),
        ],
        usual=5,
    ),
)
def test_filters_and_orders(bench, query, names):
    bench.run(name="a", priority="low")
    bench.run(name="b", flavor="a100-40gb")
    move(row(bench.run(name="c")), Phase.SUCCEEDED)
    results = bench.client.get(RUNS, query).json()["results"]
    assert [run["name"] for run in results] == names


def test_pages_are_walked_forth_and_back_while_rows_come_and_go(bench):
    runs = [bench.run(name=f"r{index}") for index in range(7)]
    newest_first = ids(reversed(runs))
    first = bench.client.get(RUNS, {"limit": 3}).json()
    assert ids(first["results"]) == newest_first[:3]
    bench.run(name="later")
    Workload.objects.filter(public_id=newest_first[1]).delete()
    second = bench.client.get(first["next"]).json()
    assert ids(second["results"]) == newest_first[3:6]
    third = bench.client.get(second["next"]).json()
    assert ids(third["results"]) == newest_first[6:]
    assert third["next"] is None
    assert ids(bench.client.get(third["previous"]).json()["results"]) == newest_first[3:6]


def test_a_cursor_is_signed_and_keeps_its_order(bench):
    for _ in range(3):
        bench.run()
    link = bench.client.get(RUNS, {"limit": 1}).json()["next"]
    problem(bench.client.get(f"{link}&ordering=name"), 400, "cursor")
    problem(bench.client.get(link.replace("cursor=", "cursor=A")), 400, "cursor")


# --- one run


def test_a_run_is_cancelled_once(bench):
    run = bench.run()
    assert bench.client.post(f"{RUNS}{run['id']}/cancel/").status_code == 202
    with Unchanged():
        problem(bench.client.post(f"{RUNS}{run['id']}/cancel/"), 409)
        problem(bench.client.post(f"{RUNS}{run['id']}/resume/"), 409)
        problem(bench.client.delete(f"{RUNS}{run['id']}/"), 409)


def test_delete_cancels(bench):
    run = bench.run()
    assert bench.client.delete(f"{RUNS}{run['id']}/").status_code == 204
    assert row(run).desired == "cancel"
    assert bench.client.get(f"{RUNS}{run['id']}/").status_code == 200


def test_a_run_is_suspended_and_resumed(bench):
    run = bench.run()
    assert bench.client.post(f"{RUNS}{run['id']}/suspend/").status_code == 202
    assert row(run).desired == "suspend"
    assert bench.client.post(f"{RUNS}{run['id']}/resume/").status_code == 202
    assert row(run).desired == "run"


def test_a_retry_is_a_new_run_of_the_same_request(bench):
    run = bench.run(args=["--lr", "0.1"])
    problem(bench.client.post(f"{RUNS}{run['id']}/retry/"), 409, "name")
    move(row(run), Phase.SUCCEEDED)
    response = bench.client.post(f"{RUNS}{run['id']}/retry/")
    assert response.status_code == 201
    assert response.json()["id"] != run["id"]
    assert response.json()["spec"] == run["spec"]


def test_what_has_ended_takes_no_more_wishes(bench):
    run = bench.run()
    move(row(run), Phase.SUCCEEDED)
    with Unchanged():
        for wish in ("cancel", "suspend", "resume"):
            problem(bench.client.post(f"{RUNS}{run['id']}/{wish}/"), 409)
        problem(bench.client.patch(f"{RUNS}{run['id']}/", {"time_limit_seconds": 600}), 409)


def test_what_has_ended_is_judged_no_more_and_keeps_its_price(bench, manager):
    run = bench.run(flavor="a100-40gb", gpus_per_replica=1)
    url = f"{RUNS}{run['id']}/"
    move(row(run), Phase.SUCCEEDED)
    card = bench.client.get(f"{url}waiting/").json()
    assert (card["verdict"], card["levers"]) == ("ended", [])
    cost = bench.client.get(f"{url}cost/").json()
    later = clock.now() + timedelta(days=1)
    dearer = {"card": "a100-40gb", "micro_usd_per_card_hour": 9, "reason": "test"}
    assert manager.post("/api/v1/prices/", dearer | {"valid_from": later.isoformat()}).status_code == 201
    with clock.freeze(later + timedelta(days=1)):
        assert bench.client.get(f"{url}cost/").json()["rate_per_hour"] == cost["rate_per_hour"]


def test_a_preview_agrees_with_itself_and_with_the_submission(bench):
    bench.run(flavor="a100-40gb", gpus_per_replica=3)
    body = run_body("vision", name="second", flavor="a100-40gb", gpus_per_replica=2)
    card = bench.client.post(f"{RUNS}preview/", body).json()
    used = next(fact["value"] for fact in card["evidence"] if fact["fact"] == "used")
    assert card["verdict"] == "admit"
    assert used == card["quota"]["before"]["used"]
    assert bench.client.post(RUNS, body).status_code == 201
    problem(bench.client.post(f"{RUNS}preview/", body), 409, "name", code="name_taken")


def test_a_new_run_is_found_at_the_host_that_was_asked(bench):
    answered = bench.client.post(RUNS, run_body("vision"), headers={"Host": "127.0.0.1:8000"})
    assert answered["Location"] == f"http://127.0.0.1:8000{RUNS}{answered.json()['id']}/"


def test_a_run_may_have_a_deadline_of_its_own_for_its_image(bench):
    own, other = bench.run(image_pull_deadline_seconds=5), bench.run()
    assert own["spec"]["image_pull_deadline_seconds"] == 5
    limits = [
        snapshot_of(row(run), adapter_for("training-run"), None, clock.now()).limits.image_pull_deadline
        for run in (own, other)
    ]
    assert limits == [5, PlatformSettings.current().image_pull_deadline_seconds]
    for wrong in (0, 86_401, "5"):
        problem(
            bench.client.post(RUNS, run_body("vision", image_pull_deadline_seconds=wrong)),
            422,
            "image_pull_deadline_seconds",
        )


def test_another_deadline_is_looked_at_by_what_is_under_way(bench, admin, django_capture_on_commit_callbacks):
    under_way, waits = row(bench.run()), row(bench.run())
    move(under_way, Phase.STARTING)
    later = clock.now() + timedelta(hours=1)
    Workload.objects.update(next_reconcile_at=later)

    def change(**values):
        with django_capture_on_commit_callbacks(execute=True):
            assert admin.patch("/api/v1/settings/", values).status_code == 200

    change(log_retention_days=7)
    under_way.refresh_from_db()
    assert under_way.next_reconcile_at == later, "no deadline, no look"
    change(image_pull_deadline_seconds=7)
    under_way.refresh_from_db()
    waits.refresh_from_db()
    assert under_way.next_reconcile_at <= clock.now(), "its look was planned by the old deadline"
    assert waits.next_reconcile_at == later


# --- changes


def test_a_change_says_what_it_has_read_or_is_refused(bench):
    run = bench.run()
    url = f"{RUNS}{run['id']}/"
    tag = bench.client.get(url)["ETag"]
    changed = bench.client.patch(url, {"priority": "low"}, headers={"If-Match": tag})
    assert (changed.status_code, changed.json()["priority"]) == (200, "low")
    assert changed["ETag"] != tag
    with Unchanged():
        problem(bench.client.patch(url, {"priority": "normal"}, headers={"If-Match": tag}), 412)
        problem(bench.client.delete(url, headers={"If-Match": tag}), 412)
        problem(bench.client.patch(url, {"priority": "normal"}, headers={"If-Match": "7"}), 400, "If-Match")
    assert bench.client.patch(url, {"priority": "normal"}, headers={"If-Match": "*"}).status_code == 200


def test_what_is_polled_is_sent_again_when_its_phase_has_moved_and_a_change_goes_by_what_people_want(bench):
    run = bench.run()
    url = f"{RUNS}{run['id']}/"
    tag = bench.client.get(url)["ETag"]
    move(row(run), Phase.ADMITTED)
    polled = bench.client.get(url, headers={"If-None-Match": tag})
    assert (polled.status_code, polled.json()["phase"]) == (200, "Admitted")
    assert polled["ETag"] != tag
    changed = bench.client.patch(url, {"time_limit_seconds": 600}, headers={"If-Match": tag})
    assert changed.status_code == 200, "a phase is nobody's change"


def test_a_change_that_will_not_do_is_refused(bench):
    run = bench.run()
    with Unchanged():
        problem(bench.client.patch(f"{RUNS}{run['id']}/", {}), 422, "")
        wrong = {"priority": "urgent", "time_limit_seconds": 59, "name": "other", "team": "audio"}
        problem(bench.client.patch(f"{RUNS}{run['id']}/", wrong), 422, *wrong)


def test_priority_high_is_for_leads(bench):
    run = bench.run()
    with Unchanged():
        problem(bench.client.patch(f"{RUNS}{run['id']}/", {"priority": "high"}), 403, "priority")
        problem(bench.client.post(RUNS, run_body("vision", priority="high")), 403, "priority")
    assert api_client(bench.lead).post(RUNS, run_body("vision", priority="high")).status_code == 201


# --- asking twice


def test_a_key_belongs_to_who_sent_it_and_to_the_rights_it_was_sent_with(bench):
    body = run_body("vision")
    headers = {"Idempotency-Key": "k1"}
    assert bench.client.post(RUNS, body, headers=headers).status_code == 201
    make_member(team=make_team("audio"), user=bench.user)
    from teams.models import Team

    bound = api_client(bench.user, team=Team.objects.get(slug="audio"), name="bound")
    lead = api_client(bench.lead)
    with Unchanged():
        problem(bound.post(RUNS, body, headers=headers), 404, "team")
        problem(lead.post(RUNS, body, headers=headers), 409, "name")


def test_cancelling_twice_with_one_key_is_one_cancel(bench):
    url = f"{RUNS}{bench.run()['id']}/cancel/"
    answers = [bench.client.post(url, headers={"Idempotency-Key": "c"}) for _ in range(2)]
    assert [each.status_code for each in answers] == [202, 202]
    assert answers[1]["Idempotency-Replayed"] == "true"


# --- methods


def test_methods_that_a_resource_has_not_are_405_and_options_say_which_it_has(bench):
    url = f"{RUNS}{bench.run()['id']}/"
    response = bench.client.put(url, {})
    problem(response, 405)
    assert set(response["Allow"].split(", ")) == {"GET", "HEAD", "PATCH", "DELETE", "OPTIONS"}
    options = bench.client.options(url)
    assert options.status_code == 200
    assert options.json() == {"methods": ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH"]}
    problem(bench.client.generic("TRACE", url), 405)
    problem(bench.client.generic("PROPFIND", url), 405)


# --- what a run has to tell


def test_events_pods_and_costs_are_told(bench):
    run = bench.run(flavor="a100-40gb", time_limit_seconds=3600)
    workload = row(run)
    make_attempt(workload)
    move(workload, Phase.RUNNING)
    pod = make_pod(workload, units=1, minutes=10)
    url = f"{RUNS}{run['id']}/"
    events = bench.client.get(f"{url}events/").json()["results"]
    assert [each["to_phase"] for each in events] == ["Running", "Starting", "Admitted", "Queued"]
    (told,) = bench.client.get(f"{url}pods/").json()["results"]
    assert (told["uid"], told["name"]) == (pod.uid, pod.name)
    cost = bench.client.get(f"{url}cost/").json()
    assert (
        cost["so_far"]["amount_micro_usd"]
        == sum(line["amount"]["amount_micro_usd"] for line in cost["lines"])
        == 600 * 10**6
    )
    assert [each["number"] for each in bench.client.get(url).json()["attempts"]] == [1]


def test_manifests_hold_no_secret(bench):
    run = bench.run()
    text = bench.client.get(f"{RUNS}{run['id']}/manifests/").content.decode()
    assert "mlr_" not in text
    assert "secretKeyRef" in text
    assert '"kind":"Secret"' not in text.replace(" ", "")


def test_a_log_that_is_not_there_yet_is_empty(bench):
    run = bench.run()
    url = f"{RUNS}{run['id']}/logs/"
    response = bench.client.get(url)
    assert b"".join(response.streaming_content) == b""
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert bench.client.get(url, {"format": "json"}).json()["lines"] == []
    follow = bench.client.get(url, {"follow": "1"})
    assert follow.status_code == 307
    assert "ticket=" in follow["Location"]
    assert follow["Cache-Control"] == "no-store"
    for query in ("tail=-1", "tail=x", "follow=yes", "format=xml", "attempt=1.5", "cursor=x", "tial=5"):
        problem(bench.client.get(f"{url}?{query}"), 400, query.partition("=")[0])
