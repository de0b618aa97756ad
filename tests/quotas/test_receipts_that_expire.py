"""Receipts past their retention go in batches, and their inputs are not read for that."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foundation import clock
from quotas import decisions
from quotas.models import Decision, SupplyRecord
from tests.factories.workloads import make_workload

KEEP = timedelta(days=30)


@pytest.fixture
def receipts(db):
    """Seven that are too old, two that are not, and a young one whose inputs are too old."""
    run, now = make_workload(), clock.now()
    ages = [31 + number for number in range(7)] + [1, 2]
    supplies = [
        SupplyRecord(digest=f"d{age}", body=b"x" * 10_000, created_at=now - timedelta(days=age))
        for age in ages
    ]
    SupplyRecord.objects.bulk_create(supplies)
    facts = {
        "workload": run,
        "policy": "p",
        "verdict": "wait",
        "reason": "WaitingForQuota",
        "rule": "r",
        "outcome": {},
    }
    rows = [Decision(**facts, at=each.created_at, supply=each) for each in supplies]
    rows.append(Decision(**facts, at=now, supply=supplies[0]))
    Decision.objects.bulk_create(rows)
    return now


def test_what_is_too_old_goes_and_nothing_else(receipts, monkeypatch):
    monkeypatch.setattr(decisions, "EXPIRE_BATCH", 3)
    assert decisions.expire(now=receipts, keep=KEEP) == 7
    assert set(SupplyRecord.objects.values_list("digest", flat=True)) == {"d1", "d2"}
    left = set(Decision.objects.values_list("supply_id", flat=True))
    assert left == {"d1", "d2", None}


def test_no_statement_reads_a_body_or_takes_more_than_a_batch(receipts, monkeypatch):
    monkeypatch.setattr(decisions, "EXPIRE_BATCH", 3)
    with CaptureQueriesContext(connection) as queries:
        decisions.expire(now=receipts, keep=KEEP)
    asked = [each["sql"] for each in queries]
    assert not [sql for sql in asked if "body" in sql]
    # Two times three and one; each statement ends with its own commit.
    assert len([sql for sql in asked if "DELETE FROM quotas_decision" in sql and "LIMIT 3" in sql]) == 3
    assert len([sql for sql in asked if "DELETE FROM quotas_supplyrecord" in sql and "LIMIT 3" in sql]) == 3


def test_a_backlog_holds_one_run_of_the_job_up_for_so_many_batches_only(receipts, monkeypatch):
    monkeypatch.setattr(decisions, "EXPIRE_BATCH", 2)
    monkeypatch.setattr(decisions, "EXPIRE_BATCHES_MAX", 2)
    assert [decisions.expire(now=receipts, keep=KEEP) for _ in range(3)] == [4, 3, 0]
