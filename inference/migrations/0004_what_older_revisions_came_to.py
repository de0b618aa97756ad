"""What is known of revisions that were made before their rollouts were written down."""

from __future__ import annotations

from django.db import migrations

FORWARD = """
UPDATE inference_endpoint AS e
SET target = e.revision, stable_revision = CASE WHEN w.phase = 'Running' THEN e.revision END
FROM workloads_workload AS w WHERE w.id = e.workload_id;

UPDATE inference_endpointrevision AS r
SET strategy = coalesce(r.spec -> 'rollout' ->> 'strategy', 'surge'),
    state = CASE
        WHEN r.number < e.revision THEN 'superseded' WHEN e.stable_revision = r.number THEN 'live' ELSE 'pending'
    END,
    live_at = CASE WHEN e.stable_revision = r.number THEN w.since END
FROM inference_endpoint AS e JOIN workloads_workload AS w ON w.id = e.workload_id
WHERE r.endpoint_id = e.workload_id;
"""


class Migration(migrations.Migration):
    dependencies = [("inference", "0003_states_of_revisions")]

    operations = [migrations.RunSQL(FORWARD, migrations.RunSQL.noop)]
