from __future__ import annotations

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import ExpressionWrapper, F, Q


class Migration(migrations.Migration):
    # Usage and ledger are large, and written while this runs.
    atomic = False

    dependencies = [("costs", "0003_what_is_charged_is_kept")]

    operations = [
        AddIndexConcurrently(
            model_name="usageinterval",
            index=models.Index(fields=["workload", "-started_at", "-id"], name="usage_newest"),
        ),
        AddIndexConcurrently(
            model_name="usageinterval",
            index=models.Index(
                F("workload"),
                ExpressionWrapper(
                    Q(ended_at__isnull=True) | ~Q(settled_until=F("ended_at")),
                    output_field=models.BooleanField(),
                ),
                name="usage_unsettled_of",
            ),
        ),
        AddIndexConcurrently(
            model_name="ledgerentry",
            index=models.Index(
                fields=["pod_uid"], condition=Q(reverses__isnull=False), name="ledger_taken_back"
            ),
        ),
    ]
