from __future__ import annotations

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q
from django.db.models.functions import Coalesce


class Migration(migrations.Migration):
    # One for each stay in a queue, over years.
    atomic = False

    dependencies = [("quotas", "0007_requests_to_leave_of_a_claim")]

    operations = [
        AddIndexConcurrently(
            model_name="startestimate",
            index=models.Index(
                fields=["made_at"], condition=Q(hit__isnull=False), name="start_estimate_age"
            ),
        ),
        AddIndexConcurrently(
            model_name="startestimate",
            index=models.Index(
                Coalesce("started_at", "p90"), condition=Q(hit__isnull=False), name="start_estimate_settled"
            ),
        ),
    ]
