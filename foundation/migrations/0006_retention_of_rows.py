from __future__ import annotations

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("foundation", "0005_scaler_settings")]

    operations = [
        migrations.AddField(
            model_name="platformsettings",
            name="estimate_retention_days",
            field=models.PositiveIntegerField(
                default=180,
                help_text="How long it is kept when a workload was expected to start.",
                validators=[django.core.validators.MinValueValidator(31)],
            ),
        ),
        migrations.AddField(
            model_name="platformsettings",
            name="record_retention_days",
            field=models.PositiveIntegerField(
                default=400,
                help_text="How long rows of pods, objects and nodes are kept that have gone; the ledger stays.",
                validators=[django.core.validators.MinValueValidator(31)],
            ),
        ),
        migrations.AddConstraint(
            model_name="platformsettings",
            constraint=models.CheckConstraint(
                condition=models.Q(("estimate_retention_days__gte", 31), ("record_retention_days__gte", 31)),
                name="platform_settings_retention",
            ),
        ),
    ]
