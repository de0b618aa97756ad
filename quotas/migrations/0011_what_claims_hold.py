"""Open claims hold what their pods ask for, and what runs without GPUs has a claim of that alone."""

from django.db import migrations

TEAMS = "UPDATE quotas_claim AS c SET team_id = w.team_id FROM workloads_workload AS w WHERE w.id = c.workload_id"
AMOUNTS = """
UPDATE quotas_claim AS c
SET cpu = w.cpu_most, memory = w.memory_most, storage = w.storage_most, pods = w.pods_most
FROM workloads_workload AS w
WHERE w.id = c.workload_id AND c.state <> 'released' AND c.purpose = 'workload'
"""
WITHOUT_GPUS = """
INSERT INTO quotas_claim (workload_id, quota_id, team_id, purpose, units, headroom, lent, state, reserved_at, activated_at,
    cpu, memory, storage, pods)
SELECT id, NULL, team_id, 'workload', 0, 0, false, CASE WHEN phase = 'Admitted' THEN 'reserved' ELSE 'active' END,
    coalesce(admitted_at, since), CASE WHEN phase = 'Admitted' THEN NULL ELSE since END,
    cpu_most, memory_most, storage_most, pods_most
FROM workloads_workload
WHERE units = 0 AND phase IN ('Admitted', 'Starting', 'Running', 'Stopping')
ON CONFLICT DO NOTHING
"""
FORGET = "DELETE FROM quotas_claim WHERE quota_id IS NULL"


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0010_ceilings_of_teams"),
        ("workloads", "0028_what_all_pods_ask_for"),
    ]

    operations = [
        migrations.RunSQL(TEAMS, migrations.RunSQL.noop),
        migrations.RunSQL(AMOUNTS, migrations.RunSQL.noop),
        migrations.RunSQL(WITHOUT_GPUS, FORGET),
    ]
