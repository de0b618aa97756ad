from __future__ import annotations

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    # Usage is large, and written while this runs.
    atomic = False

    dependencies = [("costs", "0007_idle_and_lost")]

    operations = [
        AddIndexConcurrently(
            model_name="usageinterval",
            index=models.Index(fields=["node_name", "ended_at"], name="usage_on_node"),
        ),
        AddIndexConcurrently(
            model_name="usageinterval",
            index=models.Index(fields=["card", "capacity_type", "ended_at"], name="usage_of_lane"),
        ),
    ]
