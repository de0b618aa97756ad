"""One command on all runs that fit a filter, and its preview."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import OperationalError, connections, transaction

from console import bulk
from controller import wakeups
from jobs.api.runs import TrainingRunViewSet
from teams.models import AuditEvent
from tests.api.bench import RUNS, Unchanged, problem, row, until_somebody_waits_for_a_row
from tests.effort import spread
from tests.factories.submitted import make_run, move, run_body
from tests.factories.teams import api_client, make_member, make_team
from tests.waiting import result_of
from workloads import services
from workloads.models import Workload
from workloads.states import Desired, Phase

BULK = f"{RUNS}bulk/"
PREVIEW = f"{BULK}preview/"
VISION = {"team": ["vision"]}


def cancel(filter_, **more):
    return {"action": "cancel", "filter": filter_, **more}


def label(labels, filter_=VISION, **more):
    return {"action": "label", "filter": filter_, "labels": labels, **more}


def counts(response) -> tuple[int, int, int, int]:
    assert response.status_code == 200, response.content
    body = response.json()
    return tuple(body[name] for name in ("matched", "changed", "unchanged", "forbidden"))


def asked_to_end() -> set[str]:
    return set(Workload.objects.filter(desired=Desired.CANCEL).values_list("name", flat=True))


@pytest.fixture
def sweep(bench):
    """Three runs of a sweep, one of which has ended, and another run."""
    runs = {name: bench.run(name=name, labels={"project": "a"}) for name in ("sweep-1", "sweep-2", "sweep-3")}
    move(row(runs["sweep-3"]), Phase.SUCCEEDED)
    runs["other"] = bench.run(name="other")
    return runs


def test_a_body_filters_by_what_the_list_is_filtered_by():
    body = TrainingRunViewSet.bulk_body()
    assert set(body.fields["filter"].fields) == set(TrainingRunViewSet.filters)


def test_members_of_a_sweep_are_labelled_by_it(bench):
    matrix = {"parameters": {"lr": [1, 2]}}
    response = bench.client.post(RUNS, run_body("vision", matrix=matrix))
    assert response.status_code == 201, response.content
    bench.run(name="other")
    body = label({"keep": "yes"}, {"sweep": [response.json()["id"]]})
    problem(bench.client.post(BULK, body), 422, "filter.sweep")
    body = label({"keep": "yes"}, {"sweep": response.json()["id"]})
    assert counts(bench.client.post(BULK, body)) == (2, 2, 0, 0)


def test_a_preview_says_how_many_and_changes_nothing(bench, sweep):
    with Unchanged():
        response = bench.client.post(PREVIEW, cancel({"name_prefix": "sweep-"}))
    assert counts(response) == (3, 2, 1, 0)
    body = response.json()
    assert (body["action"], body["limit"]) == ("cancel", 1000)
    assert body["first"] == [
        {"id": sweep[name]["id"], "team": "vision", "name": name, "phase": "Queued"}
        for name in ("sweep-2", "sweep-1")
    ]


def test_cancelling_many_is_cancelling_each(bench, sweep, django_capture_on_commit_callbacks, monkeypatch):
    woken = []
    monkeypatch.setattr(wakeups.current_app, "send_task", lambda *_, kwargs, **__: woken.append(kwargs))
    Workload.objects.update(next_reconcile_at=None)
    with django_capture_on_commit_callbacks(execute=True):
        response = bench.client.post(BULK, cancel({"name_prefix": "sweep-"}, expected=3))
    assert counts(response) == (3, 2, 1, 0)
    assert asked_to_end() == {"sweep-1", "sweep-2"}
    assert len(woken) == 2
    first = row(sweep["sweep-1"])
    assert first.next_reconcile_at is not None
    assert first.generation == 2
    events = AuditEvent.objects.filter(action="training-run.cancelled").order_by("id")
    assert [(each.after, each.team_slug, each.actor_label) for each in events] == [
        ({"name": name}, "vision", "ana") for name in ("sweep-1", "sweep-2")
    ]
    assert [each.target_id for each in events] == [sweep["sweep-1"]["id"], sweep["sweep-2"]["id"]]
    assert counts(bench.client.post(BULK, cancel({"name_prefix": "sweep-"}))) == (3, 0, 3, 0)


@pytest.mark.parametrize(
    ("filter_", "names"),
    [
        ({"phase": ["Queued"], "label": ["project=a"]}, {"sweep-1", "sweep-2"}),
        ({"search": "swe 2"}, {"sweep-2"}),
        ({"name": "other", "owner": "ana", "priority": ["normal"]}, {"other"}),
        ({"team": ["speech"]}, set()),
        ({"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}, set()),
        ({"capacity": "on-demand", "team": ["vision", "speech"]}, {"sweep-1", "sweep-2", "other"}),
    ],
)
def test_filters_are_those_of_the_list(bench, sweep, filter_, names):
    assert bench.client.post(BULK, cancel(filter_)).status_code == 200
    assert asked_to_end() == names


def test_an_id_is_a_filter_too(bench, sweep):
    assert counts(bench.client.post(BULK, cancel({"id": sweep["other"]["id"]}))) == (1, 1, 0, 0)


def test_labels_are_set_and_removed_and_the_others_stay(bench, sweep):
    body = label({"keep": "yes", "project": None}, {"name_prefix": "sweep-"})
    assert counts(bench.client.post(PREVIEW, body)) == (3, 3, 0, 0)
    assert counts(bench.client.post(BULK, body)) == (3, 3, 0, 0)
    assert {each.name: each.labels for each in Workload.objects.all()} == {
        **{name: {"keep": "yes"} for name in ("sweep-1", "sweep-2", "sweep-3")},
        "other": {},
    }
    found = bench.client.get(RUNS, {"label": "keep=yes"}).json()["results"]
    assert {each["name"] for each in found} == {"sweep-1", "sweep-2", "sweep-3"}
    event = AuditEvent.objects.latest("id")
    assert (event.action, event.before, event.after) == (
        "training-run.changed",
        {"labels": {"project": "a"}},
        {"labels": {"keep": "yes"}},
    )
    with Unchanged():
        assert counts(bench.client.post(BULK, body)) == (3, 0, 3, 0)


def test_more_labels_than_one_may_have_are_refused_for_all(bench):
    bench.run(name="full", labels={f"k{number}": "" for number in range(32)})
    bench.run(name="empty")
    with Unchanged():
        refused = problem(bench.client.post(BULK, label({"one": ""})), 422, "labels", code="too_many")
    assert "full" in refused["detail"]


def test_another_number_than_was_expected_is_refused(bench, sweep):
    body = cancel({"name_prefix": "sweep-"}, expected=3)
    bench.run(name="sweep-4")
    with Unchanged():
        refused = problem(bench.client.post(BULK, body), 409, "expected", code="changed")
    assert "4" in refused["detail"]


def test_what_ends_after_the_preview_is_counted_and_no_error(bench, sweep):
    body = cancel({"name_prefix": "sweep-"})
    expected = bench.client.post(PREVIEW, body).json()["matched"]
    move(row(sweep["sweep-1"]), Phase.SUCCEEDED)
    assert counts(bench.client.post(BULK, {**body, "expected": expected})) == (3, 1, 2, 0)


def test_rows_of_a_team_in_which_one_only_looks_are_counted_and_left_alone(bench, sweep):
    speech = make_team("speech")
    make_member("viewer", team=speech, user=bench.user)
    theirs = make_run(speech, make_member(team=speech).user, name="sweep-9")
    body = cancel({"name_prefix": "sweep-"})
    assert counts(bench.client.post(PREVIEW, body)) == (4, 2, 1, 1)
    assert counts(bench.client.post(BULK, body)) == (4, 2, 1, 1)
    theirs.refresh_from_db()
    assert theirs.desired == Desired.RUN


def test_a_viewer_is_told_so_and_a_stranger_finds_nothing(bench, sweep):
    viewer = api_client(make_member("viewer", team=bench.team).user)
    stranger = api_client(make_member().user)
    with Unchanged():
        for url in (BULK, PREVIEW):
            problem(viewer.post(url, cancel(VISION)), 403, code="viewer_only")
            assert counts(stranger.post(url, cancel(VISION))) == (0, 0, 0, 0)


def test_a_token_of_one_team_reaches_no_other(bench, sweep):
    speech = make_member(user=bench.user).team
    bound = api_client(bench.user, team=speech)
    assert counts(bound.post(BULK, cancel({"name_prefix": "sweep-"}))) == (0, 0, 0, 0)


@pytest.mark.parametrize("role", ["platform_admin", "quota_manager"])
def test_global_roles_may_what_they_may_with_one(bench, sweep, role, admin, manager):
    if role == "platform_admin":
        assert counts(admin.post(BULK, cancel(VISION))) == (4, 3, 1, 0)
    else:
        problem(manager.post(BULK, cancel(VISION)), 403)


@pytest.mark.parametrize(
    ("body", "field"),
    spread(
        [
            ({"action": "cancel"}, "filter"),
            ({"action": "cancel", "filter": {}}, "filter"),
            ({"action": "cancel", "filter": None}, "filter"),
            ({"action": "cancel", "filter": "all"}, "filter"),
            ({"action": "cancel", "filter": {"team": []}}, "filter.team"),
            ({"action": "cancel", "filter": {"team": "vision"}}, "filter.team"),
            ({"action": "cancel", "filter": {"phase": ["nonsense"]}}, "filter.phase"),
            ({"action": "cancel", "filter": {"name": ["a"]}}, "filter.name"),
            ({"action": "cancel", "filter": {"nonsense": "a"}}, "filter.nonsense"),
            ({"action": "suspend", "filter": VISION}, "action"),
            ({"action": "label", "filter": VISION}, "labels"),
            ({"action": "label", "filter": VISION, "labels": {}}, "labels"),
            ({"action": "label", "filter": VISION, "labels": {"a": 1}}, "labels.a"),
            ({"action": "cancel", "filter": VISION, "labels": {"a": "1"}}, "labels"),
            ({"action": "cancel", "filter": VISION, "expected": -1}, "expected"),
            ({"action": "cancel", "filter": VISION, "expected": "3"}, "expected"),
            ({"action": "cancel", "filter": VISION, "nonsense": 1}, "nonsense"),
        ],
        usual=6,
    ),
)
def test_what_is_wrong_is_named(bench, sweep, body, field):
    with Unchanged():
        for url in (BULK, PREVIEW):
            problem(bench.client.post(url, body), 422, field)


def test_more_than_one_command_changes_are_refused_with_the_limit(bench, sweep, monkeypatch):
    monkeypatch.setattr(bulk, "ROWS_MAX", 2)
    with Unchanged():
        refused = problem(bench.client.post(BULK, cancel(VISION)), 422, "filter", code="too_many")
    assert "2" in refused["detail"]
    assert counts(bench.client.post(BULK, cancel({"name_prefix": "sweep-"}))) == (3, 2, 1, 0)


def test_a_command_takes_batches_and_no_query_a_row(bench, django_assert_max_num_queries, monkeypatch):
    monkeypatch.setattr(bulk, "BATCH", 10)
    for _ in range(25):
        make_run(bench.team, bench.user)
    with django_assert_max_num_queries(25):
        assert counts(bench.client.post(BULK, cancel(VISION))) == (25, 25, 0, 0)
    assert AuditEvent.objects.filter(action="training-run.cancelled").count() == 25


def test_the_same_key_is_answered_as_before_and_does_nothing_more(bench, sweep):
    body, headers = cancel(VISION), {"Idempotency-Key": "k"}
    first = bench.client.post(BULK, body, headers=headers)
    with Unchanged():
        again = bench.client.post(BULK, body, headers=headers)
    assert (again.json(), again["Idempotency-Replayed"]) == (first.json(), "true")
    problem(bench.client.post(BULK, label({"a": "1"}), headers=headers), 422)


@pytest.mark.django_db(transaction=True)
def test_who_locks_the_same_rows_in_another_order_does_not_undo_it(bench):
    """As a pass of admission may: it holds the run that it was asked about, and takes others after it."""
    first, second = bench.run(name="sweep-1"), bench.run(name="sweep-2")
    rows = Workload.objects.select_for_update(no_key=True)

    def bulk_command():
        try:
            return counts(bench.client.post(BULK, cancel({"name_prefix": "sweep-"})))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        try:
            with transaction.atomic():
                rows.get(public_id=second["id"])
                waiting = pool.submit(bulk_command)
                until_somebody_waits_for_a_row()
                rows.get(public_id=first["id"])
                services.change_generation(row(first), now=row(first).created_at)
        except OperationalError:
            pass  # The database chose this one of the two.
        assert result_of(waiting) == (2, 2, 0, 0)
    assert asked_to_end() == {"sweep-1", "sweep-2"}
