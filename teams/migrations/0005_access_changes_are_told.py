"""Whoever remembers who may what is told at once when that changes: channel `portal_access`, by the user's key.

As triggers, so that the admin console, a shell and a cascade tell it too. The payload is `user:<id>`, or empty where it
may concern anybody.
"""

from __future__ import annotations

from django.db import migrations

FORWARD = """
CREATE FUNCTION teams_tell_access_of_user() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN PERFORM pg_notify('portal_access', 'user:' || OLD.user_id); END IF;
    IF TG_OP = 'INSERT' THEN PERFORM pg_notify('portal_access', 'user:' || NEW.user_id); END IF;
    RETURN NULL;
END
$$;
CREATE FUNCTION teams_tell_access_of_self() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('portal_access', 'user:' || OLD.id);
    RETURN NULL;
END
$$;
CREATE FUNCTION teams_tell_access_of_all() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('portal_access', '');
    RETURN NULL;
END
$$;
CREATE TRIGGER teams_membership_tell AFTER INSERT OR UPDATE OR DELETE ON teams_membership
    FOR EACH ROW EXECUTE FUNCTION teams_tell_access_of_user();
CREATE TRIGGER teams_apitoken_tell_change AFTER UPDATE ON teams_apitoken FOR EACH ROW
    WHEN ((OLD.user_id, OLD.team_id, OLD.scopes, OLD.expires_at, OLD.revoked_at)
        IS DISTINCT FROM (NEW.user_id, NEW.team_id, NEW.scopes, NEW.expires_at, NEW.revoked_at))
    EXECUTE FUNCTION teams_tell_access_of_user();
CREATE TRIGGER teams_apitoken_tell_end AFTER DELETE ON teams_apitoken
    FOR EACH ROW EXECUTE FUNCTION teams_tell_access_of_user();
CREATE TRIGGER teams_user_tell AFTER UPDATE ON teams_user FOR EACH ROW
    WHEN ((OLD.is_active, OLD.is_quota_manager, OLD.is_platform_admin)
        IS DISTINCT FROM (NEW.is_active, NEW.is_quota_manager, NEW.is_platform_admin))
    EXECUTE FUNCTION teams_tell_access_of_self();
CREATE TRIGGER teams_team_tell AFTER UPDATE ON teams_team FOR EACH ROW
    WHEN (OLD.slug IS DISTINCT FROM NEW.slug)
    EXECUTE FUNCTION teams_tell_access_of_all();
"""

BACKWARD = """
DROP TRIGGER teams_team_tell ON teams_team;
DROP TRIGGER teams_user_tell ON teams_user;
DROP TRIGGER teams_apitoken_tell_end ON teams_apitoken;
DROP TRIGGER teams_apitoken_tell_change ON teams_apitoken;
DROP TRIGGER teams_membership_tell ON teams_membership;
DROP FUNCTION teams_tell_access_of_all();
DROP FUNCTION teams_tell_access_of_self();
DROP FUNCTION teams_tell_access_of_user();
"""


class Migration(migrations.Migration):
    dependencies = [("teams", "0004_mlflow_of_a_team")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
