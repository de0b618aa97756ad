"""A token of an endpoint that is revoked or deleted is told at once: channel `portal_access`, `endpoint:<public id>`."""

from __future__ import annotations

from django.db import migrations

FORWARD = """
CREATE FUNCTION gateway_tell_access_of_endpoint() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('portal_access', coalesce(
        (SELECT 'endpoint:' || public_id FROM workloads_workload WHERE id = OLD.endpoint_id), ''));
    RETURN NULL;
END
$$;
CREATE TRIGGER gateway_endpointtoken_tell_change AFTER UPDATE ON gateway_endpointtoken FOR EACH ROW
    WHEN ((OLD.endpoint_id, OLD.expires_at, OLD.revoked_at)
        IS DISTINCT FROM (NEW.endpoint_id, NEW.expires_at, NEW.revoked_at))
    EXECUTE FUNCTION gateway_tell_access_of_endpoint();
CREATE TRIGGER gateway_endpointtoken_tell_end AFTER DELETE ON gateway_endpointtoken
    FOR EACH ROW EXECUTE FUNCTION gateway_tell_access_of_endpoint();
"""

BACKWARD = """
DROP TRIGGER gateway_endpointtoken_tell_end ON gateway_endpointtoken;
DROP TRIGGER gateway_endpointtoken_tell_change ON gateway_endpointtoken;
DROP FUNCTION gateway_tell_access_of_endpoint();
"""


class Migration(migrations.Migration):
    # It names a channel that triggers of teams tell on as well.
    dependencies = [
        ("gateway", "0003_revision_and_latency_of_counts"),
        ("teams", "0005_access_changes_are_told"),
    ]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
