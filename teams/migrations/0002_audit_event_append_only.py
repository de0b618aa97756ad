"""The audit trail is append-only: the database itself refuses to change or delete a row."""

from __future__ import annotations

from django.db import migrations

FORWARD = """
CREATE FUNCTION teams_auditevent_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit events are append-only' USING ERRCODE = 'integrity_constraint_violation';
END
$$;
CREATE TRIGGER teams_auditevent_append_only BEFORE UPDATE OR DELETE ON teams_auditevent
    FOR EACH ROW EXECUTE FUNCTION teams_auditevent_refuse_change();
"""

BACKWARD = """
DROP TRIGGER teams_auditevent_append_only ON teams_auditevent;
DROP FUNCTION teams_auditevent_refuse_change();
"""


class Migration(migrations.Migration):
    dependencies = [("teams", "0001_initial")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
