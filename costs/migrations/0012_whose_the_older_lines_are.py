from __future__ import annotations

from django.db import migrations

# The columns came empty to the lines that were there: what they say is no change of what the ledger says.
WHOSE_OLDER_LINES_ARE = """
ALTER TABLE costs_ledgerentry DISABLE TRIGGER ledger_is_append_only;
UPDATE costs_ledgerentry AS line
SET user_id = run.owner_id, project = left(coalesce(run.labels->>'project', ''), 63)
FROM workloads_workload AS run WHERE run.id = line.workload_id AND line.user_id IS NULL;
SET CONSTRAINTS ALL IMMEDIATE;
SET CONSTRAINTS ALL DEFERRED;
ALTER TABLE costs_ledgerentry ENABLE TRIGGER ledger_is_append_only;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("costs", "0010_what_was_checked"),
        ("workloads", "0014_keeps_headroom"),
    ]

    operations = [migrations.RunSQL(WHOSE_OLDER_LINES_ARE, migrations.RunSQL.noop)]
