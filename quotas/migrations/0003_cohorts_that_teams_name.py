"""A cohort for every name that a team has had in its text field so far."""

from __future__ import annotations

from django.db import migrations

FORWARD = """
INSERT INTO quotas_cohort (public_id, name)
SELECT gen_random_uuid(), left(cohort_name, 63)
FROM (SELECT DISTINCT cohort_name FROM teams_team WHERE cohort_name <> '') AS named
ON CONFLICT DO NOTHING;
UPDATE teams_team SET cohort_name = left(cohort_name, 63) WHERE length(cohort_name) > 63;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0002_cohorts_decisions_and_requests"),
        ("teams", "0002_audit_event_append_only"),
    ]

    operations = [migrations.RunSQL(FORWARD, migrations.RunSQL.noop)]
