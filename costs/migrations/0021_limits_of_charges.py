from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("costs", "0020_budgets")]

    operations = [
        migrations.AddField(
            model_name="lostwork",
            name="credit_seconds",
            field=models.PositiveIntegerField(
                help_text="How much of it is credited at the most, by the setting when it was noted.", null=True
            ),
        ),
    ]
