from __future__ import annotations

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

from costs.migrations._rollup_sql import OVER_A_DAY

# Lines of a time when they were not cut at midnight: few, and looked for by every report that begins or ends within a day.
LONG_LINES = f"CREATE INDEX CONCURRENTLY ledger_over_days ON costs_ledgerentry (ended_at) WHERE {OVER_A_DAY}"


class Migration(migrations.Migration):
    # The ledger is large, and written while this runs.
    atomic = False

    dependencies = [("costs", "0013_sums_of_the_ledger")]

    operations = [
        AddIndexConcurrently(
            model_name="ledgerentry",
            index=models.Index(fields=["started_at", "id"], name="ledger_in_time"),
        ),
        migrations.RunSQL(LONG_LINES, "DROP INDEX CONCURRENTLY ledger_over_days"),
    ]
