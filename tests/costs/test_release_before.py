"""A process of the release before goes on writing while the database has the new schema already."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from costs.ledger import check
from costs.models import CostRollup, Facet, Grain, LedgerEntry, WorkloadCharge
from tests.factories.catalogue import make_flavor, make_price
from tests.factories.workloads import make_workload

pytestmark = pytest.mark.django_db

BEFORE = ("costs", "0005_words_of_accounts")
T0 = datetime(2026, 10, 1, 12, tzinfo=UTC)
COLUMNS = """
SELECT column_name FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name = %s
    AND is_nullable = 'NO' AND column_default IS NULL AND is_identity = 'NO'
"""


def models_before():
    """The models of the release before, which name their own columns alone when they write."""
    return MigrationLoader(connection).project_state(BEFORE).apps


def columns_before():
    """By table their columns."""
    return {
        model._meta.db_table: {field.column for field in model._meta.local_concrete_fields}
        for model in models_before().get_app_config("costs").get_models()
    }


def test_no_column_that_came_later_has_to_be_named():
    tables = columns_before()
    assert {"costs_ledgerentry", "costs_usageinterval", "costs_pricedcard"} <= tables.keys()
    with connection.cursor() as cursor:
        for table, known in tables.items():
            cursor.execute(COLUMNS, [table])
            assert {name for (name,) in cursor.fetchall()} <= known, table


def test_a_line_that_it_posts_is_kept_in_the_sums_that_it_does_not_know():
    flavor = make_flavor()
    run, price = make_workload(flavor=flavor), make_price()
    transaction_id, lines = uuid4(), models_before().get_model("costs", "LedgerEntry").objects
    for account, amount in (("team:vision", 7), ("platform:adjustment", -7)):
        lines.create(
            transaction_id=transaction_id, account=account, team_id=run.team_id, workload_id=run.pk, node_name="n",
            flavor_name=flavor.name, started_at=T0, ended_at=T0, price_id=price.pk, units=1, amount_micro_usd=amount,
            posted_at=T0,
        )  # fmt: skip
    line = LedgerEntry.objects.get(account="team:vision")
    assert (line.user, line.project, line.phase) == (None, "", "")
    assert WorkloadCharge.objects.get().posted_micro_usd == 7
    kept = CostRollup.objects.get(facet=Facet.LANE, grain=Grain.ALL, account_kind="team")
    assert (kept.amount_micro_usd, kept.user_id, kept.project) == (7, 0, "")
    assert check.check_all(now=T0) == []
