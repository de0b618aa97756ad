"""What live runs ask for in each pod, written into their workloads."""

from __future__ import annotations

from django.db import migrations

FORWARD = """
UPDATE workloads_workload AS w
SET units_each = (r.spec ->> 'gpus_per_replica')::int, pod_count = (r.spec ->> 'replicas')::int, preemptible = true
FROM jobs_trainingrun AS r
WHERE r.workload_id = w.id AND w.units > 0 AND w.phase NOT IN ('Succeeded', 'Failed', 'Cancelled');
"""


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0001_initial"),
        ("workloads", "0003_shape_of_pods_and_what_is_foreign"),
    ]

    operations = [migrations.RunSQL(FORWARD, migrations.RunSQL.noop)]
