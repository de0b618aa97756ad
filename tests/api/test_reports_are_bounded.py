"""A run's own token reports as often and as much as it may, and no more."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.test import Client

from foundation import clock
from jobs.api import report_limits
from tests.api.bench import RUNS, problem
from tests.factories.submitted import make_attempt, make_run, move
from workloads import reports
from workloads.models import Attempt, Checkpoint
from workloads.reports import has_saved
from workloads.states import Phase


@pytest.fixture
def reporting(bench):
    run = make_run(bench.team, bench.user)
    attempt, token = make_attempt(run)
    move(run, Phase.RUNNING)
    return Reporting(run, attempt, token)


class Reporting:
    def __init__(self, run, attempt, token):
        self.run, self.attempt, self.token = run, attempt, token

    def post(self, what, body):
        url = f"{RUNS}{self.run.public_id}/{what}/"
        headers = {"Authorization": f"Bearer {self.token}"}
        return Client().post(url, json.dumps(body), content_type="application/json", headers=headers)

    def checkpoint(self, step, path="/c"):
        return self.post("checkpoints", {"step": step, "path": path})

    def steps(self):
        return sorted(Checkpoint.objects.filter(workload=self.run).values_list("step", flat=True))


def test_reports_that_come_too_often_are_told_when_to_come_again(reporting, monkeypatch):
    monkeypatch.setattr(report_limits, "REPORTS_A_MINUTE", 3)
    start = clock.now().replace(second=20, microsecond=0)
    with clock.freeze(start):
        assert [reporting.checkpoint(step).status_code for step in range(3)] == [201] * 3
        refused = reporting.checkpoint(3)
        problem(refused, 429)
        assert (refused.json()["code"], refused["Retry-After"]) == ("too_many_reports", "40")
        # Each sort by itself.
        assert reporting.post("progress", {"progress_percentage": 1}).status_code == 201
    with clock.freeze(start + timedelta(seconds=40)):
        assert reporting.checkpoint(3).status_code == 201
    assert reporting.steps() == [0, 1, 2, 3]


def test_a_minute_has_room_for_a_report_every_half_second():
    assert report_limits.REPORTS_A_MINUTE == 120


def test_of_very_many_checkpoints_the_new_are_kept_and_the_old_thinned(reporting, monkeypatch):
    monkeypatch.setattr(reports, "CHECKPOINTS_MAX", 20)
    for step in range(60):
        assert reporting.checkpoint(step).status_code == 201
        assert len(reporting.steps()) <= 20
    kept = reporting.steps()
    assert kept[-10:] == list(range(50, 60))
    assert kept[0] == 0


def test_the_furthest_of_an_attempt_is_never_thinned(reporting, monkeypatch):
    monkeypatch.setattr(reports, "CHECKPOINTS_MAX", 10)
    # The attempt went furthest at first, and reported lower steps ever since.
    for step in (1_000, 999, *range(40)):
        assert reporting.checkpoint(step).status_code == 201
    assert 1_000 in reporting.steps()
    Attempt.objects.filter(pk=reporting.attempt.pk).update(ended_at=clock.now(), run_token_digest="")
    reporting.run.refresh_from_db()
    second, token = make_attempt(reporting.run)
    later = Reporting(reporting.run, second, token)
    for step in range(500, 530):
        assert later.checkpoint(step).status_code == 201
    assert 1_000 in later.steps()
    assert not has_saved(second)


def test_a_run_keeps_a_thousand_checkpoints():
    assert reports.CHECKPOINTS_MAX == 1_000


def test_a_report_that_is_too_large_is_refused_before_it_is_read(reporting):
    for what in ("checkpoints", "progress"):
        refused = reporting.post(what, {"step": 1, "path": "x" * 40_000})
        problem(refused, 413)
    assert reporting.steps() == []
