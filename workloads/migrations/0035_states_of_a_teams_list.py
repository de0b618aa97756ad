from __future__ import annotations

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """How many of a team are in each phase stands above its lists; without it every row of the team is read for that."""

    atomic = False
    dependencies = [("workloads", "0034_seen_and_dismissed")]
    operations = [
        AddIndexConcurrently(
            model_name="workload",
            index=models.Index(
                fields=["team", "kind", "phase", "-created_at", "-id"], name="workload_team_phase_newest"
            ),
        )
    ]
