"""What has ended stays ended: the database itself refuses to bring a final workload back."""

from __future__ import annotations

from django.db import migrations

FORWARD = """
CREATE FUNCTION workloads_final_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'A workload that is final cannot become %.', NEW.phase
        USING ERRCODE = 'integrity_constraint_violation';
END
$$;
CREATE TRIGGER workload_final_is_final BEFORE UPDATE OF phase ON workloads_workload FOR EACH ROW
    WHEN (OLD.phase IN ('Succeeded', 'Failed', 'Cancelled') AND NEW.phase <> OLD.phase)
    EXECUTE FUNCTION workloads_final_is_final();
"""

BACKWARD = """
DROP TRIGGER workload_final_is_final ON workloads_workload;
DROP FUNCTION workloads_final_is_final();
"""


class Migration(migrations.Migration):
    dependencies = [("workloads", "0001_initial")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
