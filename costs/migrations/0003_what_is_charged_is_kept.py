from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

# By a trigger, so that the sums hold whoever writes: also a process of the release before, while it still runs.
CHARGES_ARE_KEPT = """
CREATE FUNCTION costs_keep_charges() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO costs_workloadcharge AS kept (workload_id, posted_micro_usd)
    SELECT workload_id, sum(amount_micro_usd) FROM posted
    WHERE account LIKE 'team:%' AND workload_id IS NOT NULL
    GROUP BY workload_id ORDER BY workload_id
    ON CONFLICT (workload_id) DO UPDATE
        SET posted_micro_usd = kept.posted_micro_usd + EXCLUDED.posted_micro_usd;
    RETURN NULL;
END
$$;
CREATE TRIGGER ledger_keeps_charges AFTER INSERT ON costs_ledgerentry
    REFERENCING NEW TABLE AS posted FOR EACH STATEMENT EXECUTE FUNCTION costs_keep_charges();
"""

# Creating the trigger has locked the ledger against writers until this has committed: no line is missed or counted twice.
CHARGES_SO_FAR = """
INSERT INTO costs_workloadcharge (workload_id, posted_micro_usd)
SELECT workload_id, sum(amount_micro_usd) FROM costs_ledgerentry
WHERE account LIKE 'team:%' AND workload_id IS NOT NULL GROUP BY workload_id
"""


class Migration(migrations.Migration):
    dependencies = [
        ("costs", "0002_price_lanes_and_append_only_ledger"),
        ("workloads", "0014_keeps_headroom"),
    ]

    operations = [
        migrations.CreateModel(
            name="WorkloadCharge",
            fields=[
                (
                    "workload",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="charge",
                        serialize=False,
                        to="workloads.workload",
                    ),
                ),
                ("posted_micro_usd", models.BigIntegerField()),
            ],
        ),
        migrations.RunSQL(
            CHARGES_ARE_KEPT,
            "DROP TRIGGER ledger_keeps_charges ON costs_ledgerentry; DROP FUNCTION costs_keep_charges",
        ),
        migrations.RunSQL(CHARGES_SO_FAR, migrations.RunSQL.noop),
    ]
