"""Sweeps by REST: one request that becomes many runs, asked for, looked at and cancelled as one."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from foundation import clock
from jobs.models import Sweep, TrainingRun
from jobs.sweeps.services import advance_sweep
from teams.models import AuditEvent
from tests.api.bench import RUNS, Unchanged, problem
from tests.factories.catalogue import make_quota
from tests.factories.submitted import make_attempt, move, run_body
from tests.factories.teams import api_client, make_member, make_team, make_user
from workloads.models import Workload, WorkloadEvent
from workloads.services import end_attempt
from workloads.states import Phase

SWEEPS = "/api/v1/sweeps/"
GRID = {"lr": [0.1, 0.01], "seed": {"from": 1, "to": 3}}


def body(bench, parameters: Any = None, **values: Any) -> dict[str, Any]:
    given = {"parameters": parameters or GRID, **values.pop("matrix", {})}
    args = ["--lr=${{ matrix.lr }}"] if parameters is None else []
    return run_body("vision", flavor="a100-40gb", **{"name": "lr", "args": args, "matrix": given, **values})


def submitted(bench, *args: Any, **values: Any) -> dict[str, Any]:
    response = bench.client.post(RUNS, body(bench, *args, **values))
    assert response.status_code == 201, response.content
    return response.json()


def members(sweep: dict[str, Any]) -> list[TrainingRun]:
    rows = TrainingRun.objects.filter(sweep__public_id=sweep["id"]).select_related("workload")
    return list(rows.order_by("number"))


def advance(sweep: dict[str, Any]) -> None:
    advance_sweep(sweep_id=sweep["id"], now=clock.now())


def test_a_matrix_makes_a_run_of_every_combination_with_the_values_in_its_request(bench):
    sweep = submitted(bench, labels={"project": "x"})
    assert (sweep["size"], sweep["phase"], sweep["members"]) == (6, "Queued", {"Queued": 6})
    runs = members(sweep)
    assert [run.workload.name for run in runs] == [f"lr-{number}" for number in range(1, 7)]
    assert [run.parameters for run in runs][:2] == [{"lr": 0.1, "seed": 1}, {"lr": 0.1, "seed": 2}]
    assert runs[3].spec["args"] == ["--lr=0.01"]
    assert {"name": "MATRIX_SEED", "value": "1"} in runs[3].spec["env"]
    assert {str(run.workload.labels) for run in runs} == {"{'project': 'x'}"}
    columns = ("team_id", "flavor_id", "units", "cpu_each", "memory_each", "time_limit_seconds", "owner_id")
    assert len({tuple(getattr(run.workload, column) for column in columns) for run in runs}) == 1
    assert len({run.workload.public_id for run in runs}) == 6


def test_every_member_has_its_first_event_and_its_line_in_the_audit_trail(bench):
    sweep = submitted(bench)
    keys = [run.workload_id for run in members(sweep)]
    assert WorkloadEvent.objects.filter(workload__in=keys, from_phase="", to_phase="Queued").count() == 6
    ids = [str(run.workload.public_id) for run in members(sweep)]
    assert AuditEvent.objects.filter(action="training-run.submitted", target_id__in=ids).count() == 6
    assert AuditEvent.objects.get(action="sweep.submitted").after == {"name": "lr", "members": 6}


def test_the_answer_says_where_it_is_and_its_members_are_a_filter_of_the_runs(bench):
    response = bench.client.post(RUNS, body(bench))
    assert response["Location"] == f"http://testserver{SWEEPS}{response.json()['id']}/"
    bench.run(name="other")
    listed = bench.client.get(RUNS, {"sweep": response.json()["id"], "ordering": "name"}).json()["results"]
    assert [row["name"] for row in listed] == [f"lr-{number}" for number in range(1, 7)]
    sweep = {"id": response.json()["id"], "name": "lr", "number": 2, "parameters": {"lr": 0.1, "seed": 2}}
    assert listed[1]["sweep"] == sweep
    assert bench.client.get(f"{RUNS}{listed[1]['id']}/").json()["sweep"] == sweep
    assert bench.client.get(RUNS, {"name": "other"}).json()["results"][0]["sweep"] is None
    problem(bench.client.get(RUNS, {"sweep": "lr"}), 400, "sweep")


def test_members_beyond_max_parallel_are_held_back_and_take_their_turn_as_others_end(bench):
    sweep = submitted(bench, matrix={"max_parallel": 2})
    assert (sweep["members"], sweep["held_back"]) == ({"Queued": 2, "Suspended": 4}, 4)
    held = members(sweep)[2].workload
    assert held.reason == "WaitingForSweep"
    assert held.message == "At most 2 members of the sweep lr wait for GPUs or have them at once."
    advance(sweep)
    assert members(sweep)[2].workload.desired == "suspend", "both places are taken"
    move(members(sweep)[0].workload, Phase.SUCCEEDED)
    advance(sweep)
    advance(sweep)
    assert [run.workload.desired for run in members(sweep)] == ["run", "run", "run", *["suspend"] * 3]


def test_a_user_may_let_one_go_first_and_it_counts(bench):
    sweep = submitted(bench, matrix={"max_parallel": 1})
    last = members(sweep)[-1].workload
    assert bench.client.post(f"{RUNS}{last.public_id}/resume/").status_code == 202
    move(members(sweep)[0].workload, Phase.SUCCEEDED)
    advance(sweep)
    assert [run.workload.desired for run in members(sweep)][1:] == [*["suspend"] * 4, "run"]


def test_a_member_that_waits_for_its_turn_and_that_a_user_suspends_is_not_taken_up(bench):
    sweep = submitted(bench, matrix={"max_parallel": 1})
    held = members(sweep)[1].workload
    assert bench.client.post(f"{RUNS}{held.public_id}/suspend/").status_code == 202
    move(members(sweep)[0].workload, Phase.SUCCEEDED)
    advance(sweep)
    assert [run.workload.desired for run in members(sweep)] == ["run", "suspend", "run", *["suspend"] * 3]
    path = f"{SWEEPS}{sweep['id']}/"
    assert bench.client.patch(path, {"max_parallel": None}).status_code == 200
    assert [run.workload.desired for run in members(sweep)][1] == "suspend"
    changed = bench.client.patch(f"{RUNS}{held.public_id}/", {"priority": "low"})
    assert changed.status_code == 200, changed.content


def test_a_name_that_is_taken_is_told_by_the_preview_too(bench):
    bench.run(name="lr-4")
    problem(bench.client.post(f"{RUNS}preview/", body(bench)), 409, "name", code="name_taken")


def test_a_sweep_whose_members_have_all_ended_cannot_be_cancelled_before_that_was_noted(bench):
    sweep = submitted(bench, {"seed": [1, 2]})
    for run in members(sweep):
        move(run.workload, Phase.SUCCEEDED)
    problem(bench.client.post(f"{SWEEPS}{sweep['id']}/cancel/"), 409, code="ended")


def test_another_attempt_reports_anew_and_a_target_that_was_reached_stays_reached(bench):
    sweep = submitted(bench, matrix={"early_stop": {"metric": "loss", "target": 0.05}})
    run = members(sweep)[0]
    attempt, token = make_attempt(run.workload)
    report(APIClient(), run, token, 70, loss=0.04)
    end_attempt(
        attempt, phase=Phase.FAILED, reason="NodeLost", message="", exit_code=None, ended_at=clock.now()
    )
    run.workload.refresh_from_db()
    _, token = make_attempt(run.workload)
    report(APIClient(), run, token, 0, loss=2.0)
    assert (members(sweep)[0].milestones, members(sweep)[0].reached) == ({"0": 2.0}, 0.04)
    advance(sweep)
    assert [run.workload.desired for run in members(sweep)] == ["run", *["cancel"] * 5]


@pytest.mark.matrix
def test_a_thousand_members_are_let_go_and_stopped_in_few_statements(bench, django_assert_max_num_queries):
    rules = {"metric": "loss", "target": 0.5}
    sweep = submitted(
        bench, {"seed": {"from": 1, "to": 1000}}, matrix={"max_parallel": 1, "early_stop": rules}
    )
    with django_assert_max_num_queries(40):
        bench.client.patch(f"{SWEEPS}{sweep['id']}/", {"max_parallel": None})
    assert Workload.objects.filter(desired="run").count() == 1000
    TrainingRun.objects.filter(number=7).update(reached=0.4)
    with django_assert_max_num_queries(25):
        advance(sweep)
    assert Workload.objects.filter(desired="cancel", desired_reason="EarlyStopped").count() == 999


def test_a_member_that_a_user_suspended_gives_its_place_and_is_not_taken_up_again(bench):
    sweep = submitted(bench, matrix={"max_parallel": 1})
    first = members(sweep)[0].workload
    assert bench.client.post(f"{RUNS}{first.public_id}/suspend/").status_code == 202
    Workload.objects.filter(pk=first.pk).update(phase="Suspended", reason="UserRequested")
    advance(sweep)
    assert [run.workload.desired for run in members(sweep)] == ["suspend", "run", *["suspend"] * 4]


def test_another_number_at_once_is_taken_with_the_version_that_was_read(bench):
    sweep = submitted(bench, matrix={"max_parallel": 1})
    path = f"{SWEEPS}{sweep['id']}/"
    tag = bench.client.get(path)["ETag"]
    problem(bench.client.patch(path, {"max_parallel": 0}), 422, "max_parallel")
    problem(bench.client.patch(path, {}), 422, "max_parallel")
    held = members(sweep)[5].workload
    changed = bench.client.patch(path, {"max_parallel": 3}, headers={"If-Match": tag})
    assert changed.status_code == 200, changed.content
    assert changed.json()["max_parallel"] == 3
    assert [run.workload.desired for run in members(sweep)] == [*["run"] * 3, *["suspend"] * 3]
    assert "At most 1 member of" in held.message
    assert "At most 3 members of" in members(sweep)[5].workload.message
    problem(bench.client.patch(path, {"max_parallel": 1}, headers={"If-Match": tag}), 412)
    assert bench.client.patch(path, {"max_parallel": None}).json()["held_back"] >= 0
    assert {run.workload.desired for run in members(sweep)} == {"run"}


def test_cancel_ends_all_that_have_not_ended_and_once_only(bench):
    sweep = submitted(bench, matrix={"max_parallel": 2})
    done = members(sweep)[0].workload
    move(done, Phase.SUCCEEDED)
    response = bench.client.post(f"{SWEEPS}{sweep['id']}/cancel/")
    assert response.status_code == 202
    assert response.json()["cancelled_at"]
    wanted = {run.workload.name: run.workload.desired for run in members(sweep)}
    assert wanted.pop("lr-1") == "run"
    assert set(wanted.values()) == {"cancel"}
    advance(sweep)
    assert {run.workload.desired for run in members(sweep)[1:]} == {"cancel"}, "none takes a turn any more"
    problem(bench.client.post(f"{SWEEPS}{sweep['id']}/cancel/"), 409, code="being_cancelled")
    assert AuditEvent.objects.filter(action="training-run.cancelled").count() == 5


def test_its_end_is_noted_and_then_nothing_can_be_changed(bench):
    sweep = submitted(bench, {"seed": [1, 2]})
    for run in members(sweep):
        move(run.workload, Phase.SUCCEEDED)
    advance(sweep)
    shown = bench.client.get(f"{SWEEPS}{sweep['id']}/").json()
    assert (shown["phase"], bool(shown["finished_at"])) == ("Succeeded", True)
    problem(bench.client.post(f"{SWEEPS}{sweep['id']}/cancel/"), 409, code="ended")
    problem(bench.client.patch(f"{SWEEPS}{sweep['id']}/", {"max_parallel": 2}), 409, code="ended")
    assert bench.client.get(SWEEPS, {"ended": "true"}).json()["results"][0]["id"] == sweep["id"]
    assert bench.client.get(SWEEPS, {"ended": "false"}).json()["results"] == []


def test_costs_are_those_of_all_and_held_back_ones_cost_nothing_an_hour_yet(bench):
    sweep = submitted(bench, matrix={"max_parallel": 2}, time_limit_seconds=3600, gpus_per_replica=1)
    one = bench.client.get(f"{RUNS}{members(sweep)[0].workload.public_id}/").json()["cost"]
    whole = bench.client.get(f"{SWEEPS}{sweep['id']}/").json()["cost"]
    of_one = one["at_time_limit"]["amount_micro_usd"]
    assert of_one > 0
    assert whole["at_time_limit"]["amount_micro_usd"] == 6 * of_one
    assert whole["rate_per_hour"]["amount_micro_usd"] == 2 * one["rate_per_hour"]["amount_micro_usd"]


def test_a_preview_says_how_many_start_at_once_and_makes_nothing(bench):
    with Unchanged():
        response = bench.client.post(
            f"{RUNS}preview/", body(bench, gpus_per_replica=2, time_limit_seconds=3600)
        )
    card = response.json()
    assert card["verdict"] == "admit"
    assert card["message"].startswith("4 of 6 members start at once. ")
    assert (card["quota"]["before"]["used"], card["quota"]["after"]["used"]) == (0, 8)
    assert card["sweep"]["members"] == 6
    assert card["sweep"]["starting"] == 4, "the quota is eight"
    assert card["sweep"]["last_start"]["p90"], card["sweep"]
    single = bench.client.post(
        f"{RUNS}preview/", run_body("vision", flavor="a100-40gb", gpus_per_replica=2, time_limit_seconds=3600)
    )
    assert single.json()["sweep"] is None
    amounts = [answer["cost"]["at_time_limit"]["amount_micro_usd"] for answer in (card, single.json())]
    assert amounts[0] == 6 * amounts[1]


def test_the_card_of_a_sweep_is_that_of_its_next_member_with_the_cost_of_all(bench):
    sweep = submitted(bench, gpus_per_replica=1, time_limit_seconds=3600)
    card = bench.client.get(f"{SWEEPS}{sweep['id']}/waiting/").json()
    own = bench.client.get(f"{RUNS}{members(sweep)[0].workload.public_id}/waiting/").json()
    assert (card["verdict"], card["reason"], card["message"]) == (
        own["verdict"],
        own["reason"],
        own["message"],
    )
    assert (
        card["cost"]["at_time_limit"]["amount_micro_usd"]
        == 6 * own["cost"]["at_time_limit"]["amount_micro_usd"]
    )
    assert card["sweep"]["members"] == 6
    assert card["sweep"]["last_start"]["p90"]


def test_a_member_that_is_held_back_says_so_on_its_card(bench):
    sweep = submitted(bench, matrix={"max_parallel": 1})
    card = bench.client.get(f"{RUNS}{members(sweep)[5].workload.public_id}/waiting/").json()
    assert (card["verdict"], card["reason"]) == ("wait", "WaitingForSweep")


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({}, "matrix.parameters"),
        ({"LR": [1]}, "matrix.parameters.LR"),
        ({"lr": []}, "matrix.parameters.lr"),
        ({"lr": 1}, "matrix.parameters.lr"),
        ({"lr": [1, 1.5, True, None]}, "matrix.parameters.lr"),
        ({"lr": [1, "1"]}, "matrix.parameters.lr"),
        ({"lr": ["x" * 1025]}, "matrix.parameters.lr"),
        ({"lr": {"from": 1}}, "matrix.parameters.lr"),
        ({"lr": {"from": 1, "to": 2, "by": 1}}, "matrix.parameters.lr"),
        ({"lr": {"from": 1, "to": 2, "step": 0}}, "matrix.parameters.lr"),
        ({"lr": {"from": 1, "to": 2, "step": -1}}, "matrix.parameters.lr"),
        ({"lr": {"from": 1, "to": 1e9}}, "matrix.parameters.lr"),
        ({"lr": {"from": 0, "to": 1e15, "step": 1e-15}}, "matrix.parameters.lr"),
        ({"lr": {"from": 0, "to": 1, "step": 5e-324}}, "matrix.parameters.lr"),
        ({"lr": {"from": 1, "to": 1.0000000000000005, "step": 1e-17}}, "matrix.parameters.lr"),
        ({"lr": [1, 1.0]}, "matrix.parameters.lr"),
        ({"lr": {"from": "1", "to": 2}}, "matrix.parameters.lr"),
        ({"lr": {"from": 1, "to": 100}, "seed": {"from": 1, "to": 11}}, "matrix.parameters"),
    ],
)
def test_bad_parameters_are_refused_by_name(bench, parameters, field):
    with Unchanged():
        given = run_body("vision", matrix={"parameters": parameters})
        problem(bench.client.post(RUNS, given), 422, field)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"args": ["${{ matrix.rate }}"]}, "args.0"),
        ({"name": "a" * 39}, "name"),
        ({"env": [{"name": "MATRIX_LR", "value": "1"}]}, "env.0.name"),
        ({"matrix": {"parameters": {"lr": [1]}, "max_parallel": 0}}, "matrix.max_parallel"),
        ({"matrix": {"parameters": {"lr": [1]}, "early_stop": {"metric": "loss"}}}, "matrix.early_stop"),
        ({"matrix": {"parameters": {"lr": [1]}, "exclude": []}}, "matrix.exclude"),
        ({"args": ["${{ matrix.lr }}" * 200], "matrix": {"parameters": {"lr": ["x" * 1024]}}}, "args"),
        ({"command": ["${{ matrix.lr }}"], "matrix": {"parameters": {"lr": ["", "a"]}}}, "command"),
        ({"env": [{"name": f"V{number}", "value": ""} for number in range(200)]}, "env"),
        (
            {
                "env": [{"name": "V", "value": "${{ matrix.lr }}" * 100}],
                "matrix": {"parameters": {"lr": ["x" * 1024]}},
            },
            "env.0.value",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(bench, values, field):
    given = {"matrix": {"parameters": {"lr": [1]}}, **values}
    with Unchanged():
        response = bench.client.post(RUNS, run_body("vision", **given))
    body = problem(response, 422)
    assert body["errors"][0]["field"].startswith(field), body


def test_a_live_run_of_one_of_the_names_is_told_and_nothing_is_made(bench):
    bench.run(name="lr-4")
    with Unchanged():
        problem(bench.client.post(RUNS, body(bench)), 409, "name", code="name_taken")


def test_the_same_key_makes_one_sweep(bench):
    given = body(bench)
    answers = [bench.client.post(RUNS, given, headers={"Idempotency-Key": "once"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    assert Workload.objects.count() == 6


def test_strangers_know_of_no_sweep_and_viewers_may_only_look(bench):
    sweep = submitted(bench)
    other = make_team("audio")
    stranger = api_client(make_member(team=other, user=make_user("eve")).user)
    viewer = api_client(make_member("viewer", team=bench.team, user=make_user("vic")).user)
    path = f"{SWEEPS}{sweep['id']}/"
    for address in (path, f"{path}waiting/"):
        problem(stranger.get(address), 404)
        assert viewer.get(address).status_code == 200
    assert stranger.get(SWEEPS).json()["results"] == []
    assert stranger.get(RUNS, {"sweep": sweep["id"]}).json()["results"] == []
    with Unchanged():
        problem(stranger.post(f"{path}cancel/"), 404)
        problem(viewer.post(f"{path}cancel/"), 403)
        problem(viewer.patch(path, {"max_parallel": 1}), 403)


@pytest.mark.matrix
def test_a_thousand_members_are_made_in_few_statements(bench, django_assert_max_num_queries):
    make_quota(bench.team, bench.flavor, capacity_type="spot")
    with django_assert_max_num_queries(90):
        sweep = submitted(bench, {"seed": {"from": 1, "to": 1000}}, matrix={"max_parallel": 10})
    assert sweep["members"] == {"Queued": 10, "Suspended": 990}
    names = set(Workload.objects.values_list("name", flat=True))
    assert len(names) == 1000
    assert Sweep.objects.count() == 1


def report(client, run: TrainingRun, token: str, percentage: float | None, **metrics: float) -> None:
    path = f"{RUNS}{run.workload.public_id}/progress/"
    body = {"progress_percentage": percentage, "metrics": metrics}
    response = client.post(path, body, headers={"Authorization": f"Bearer {token}"})
    assert response.status_code == 201, response.content


def test_what_a_member_reports_is_kept_at_tenths_of_its_progress_and_wakes_its_sweep(
    bench, monkeypatch, django_capture_on_commit_callbacks
):
    woken: list[str] = []
    monkeypatch.setattr("jobs.sweeps.progress.send", lambda sweep_id: woken.append(str(sweep_id)))
    sweep = submitted(bench, matrix={"early_stop": {"metric": "loss", "target": 0.05}})
    run = members(sweep)[0]
    _, token = make_attempt(run.workload)
    client = APIClient()
    with django_capture_on_commit_callbacks(execute=True):
        report(client, run, token, 12.5, loss=0.5, accuracy=0.1)
        report(client, run, token, 14, loss=0.9)
        report(client, run, token, 30, accuracy=0.3)
        report(client, run, token, None, loss=0.4)
    assert members(sweep)[0].milestones == {"10": 0.4}
    assert woken == [sweep["id"]] * 2, "what changed nothing wakes nobody"


def test_once_the_target_is_reached_the_others_are_cancelled_and_the_winner_goes_on(bench):
    rules = {"metric": "loss", "target": 0.05}
    sweep = submitted(bench, matrix={"max_parallel": 2, "early_stop": rules})
    run = members(sweep)[1]
    _, token = make_attempt(run.workload)
    report(APIClient(), run, token, 70, loss=0.04)
    advance(sweep)
    wanted = [run.workload.desired for run in members(sweep)]
    assert wanted == ["cancel", "run", *["cancel"] * 4]
    assert members(sweep)[5].workload.desired_message == (
        "A member of its sweep reached loss 0.04: the target is 0.05."
    )
    move(run.workload, Phase.SUCCEEDED)
    for other in members(sweep):
        Workload.objects.filter(pk=other.pk, desired="cancel").update(
            phase="Cancelled", reason="EarlyStopped", finished_at=clock.now()
        )
    advance(sweep)
    shown = bench.client.get(f"{SWEEPS}{sweep['id']}/").json()
    assert (shown["phase"], shown["stopped_early"], bool(shown["finished_at"])) == ("Succeeded", 5, True)


def test_reports_of_members_stop_those_that_are_behind(bench):
    rules = {"metric": "loss", "worse_than_median_after": 20}
    sweep = submitted(bench, matrix={"max_parallel": 5, "early_stop": rules})
    for run, loss in zip(members(sweep), (0.1, 0.2, 0.3, 0.4, 0.9), strict=False):
        run.milestones = {"20": loss}
        run.save(update_fields=["milestones"])
    advance(sweep)
    wanted = [(run.workload.desired, run.workload.desired_reason) for run in members(sweep)]
    assert wanted[:3] == [("run", "UserRequested")] * 3
    assert wanted[4] == ("cancel", "EarlyStopped")
    stopped = members(sweep)[4].workload
    assert stopped.desired_message.startswith(
        "loss 0.9 at 20 % is worse than 0.25, the median of 4 other members"
    )
    shown = bench.client.get(f"{SWEEPS}{sweep['id']}/").json()
    assert shown["best"] == {
        "id": str(members(sweep)[0].workload.public_id), "name": "lr-1", "number": 1,
        "parameters": {"lr": 0.1, "seed": 1}, "value": 0.1,
    }  # fmt: skip


@pytest.mark.parametrize("path", ["", "preview/"])
def test_members_that_are_large_together_are_refused_before_one_is_made(bench, path):
    """A request of 1 MiB with a thousand members took a process for two minutes, a gigabyte of memory and one of rows."""
    files = {f"f{number}.py": "x" * 5000 for number in range(100)}
    many = {"seed": {"from": 1, "to": 1000}}
    url = f"{RUNS}{path}"
    with Unchanged():
        refused = bench.client.post(url, body(bench, many, source={"files": files}))
        said = problem(refused, 422, "matrix", code="too_large")
    assert "1000 members" in said["detail"]
    assert bench.client.post(url, body(bench, {"seed": [1, 2]}, source={"files": files})).status_code < 300


@pytest.mark.parametrize("part", ["args", "env"])
def test_placeholders_that_make_the_requests_large_are_reckoned_before_they_are_filled_in(bench, part):
    text = "${{ matrix.a }}" * 2000
    given = {"args": [text]} if part == "args" else {"env": [{"name": "A", "value": text}]}
    values = {"a": [f"{number:04}" + "v" * 1000 for number in range(20)]}
    asked = run_body("vision", flavor="a100-40gb", name="lr", matrix={"parameters": values}, **given)
    problem(bench.client.post(RUNS, asked), 422, "matrix", code="too_large")
