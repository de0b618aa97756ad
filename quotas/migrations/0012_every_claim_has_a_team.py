from django.db import migrations, models
import django.db.models.deletion


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0011_what_claims_hold"),
    ]

    operations = [
        migrations.AlterField(
            model_name="claim",
            name="team",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="claims",
                to="teams.team",
            ),
        ),
    ]
