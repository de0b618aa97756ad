from django.db import migrations


class Migration(migrations.Migration):
    """What pods on nodes take besides GPUs was not kept: the next list of them is news, whatever version it shows."""

    dependencies = [("workloads", "0016_what_pods_take_besides_gpus")]

    operations = [
        migrations.RunSQL(
            "UPDATE workloads_podrecord SET resource_version = '0' WHERE gone_at IS NULL",
            migrations.RunSQL.noop,
        )
    ]
