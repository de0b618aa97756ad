"""What live workloads may hold at most, as far as their rows say: for an endpoint without GPUs its least replicas, until it
is scaled or submitted again.
"""

from django.db import migrations

FILL = """
UPDATE workloads_workload AS w
SET cpu_most = cpu_each * n.pods, memory_most = memory_each * n.pods, storage_most = storage_each * n.pods,
    pods_most = n.pods
FROM (SELECT id, greatest(pod_count, CASE WHEN units_each > 0 THEN units / units_each ELSE 0 END) AS pods
      FROM workloads_workload WHERE phase NOT IN ('Succeeded', 'Failed', 'Cancelled')) AS n
WHERE n.id = w.id
"""


class Migration(migrations.Migration):
    dependencies = [
        ("workloads", "0027_ceilings_of_teams"),
    ]

    operations = [migrations.RunSQL(FILL, migrations.RunSQL.noop)]
