"""A claim within the team's local part as a function: PostgreSQL keeps its plan, which costs more than running it."""

from django.db import migrations, models
import django.db.models.deletion

# The counter last: everybody else's claim waits for its row from there to the end of the statement.
CREATE = """
CREATE FUNCTION quotas_claim_local(
    of_workload bigint, of_quota bigint, wanted integer, spare integer, for_purpose text, at timestamptz
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    made bigint;
BEGIN
    PERFORM FROM quotas_quota WHERE id = of_quota AND used + wanted <= local;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO quotas_claim (workload_id, quota_id, purpose, units, headroom, lent, state, reserved_at)
    VALUES (of_workload, of_quota, for_purpose, wanted, spare, false, 'reserved', at)
    ON CONFLICT DO NOTHING
    RETURNING id INTO made;
    IF made IS NULL THEN
        RETURN NULL;
    END IF;
    UPDATE quotas_quota SET used = used + wanted, headroom = headroom + spare
    WHERE id = of_quota AND used + wanted <= local;
    IF NOT FOUND THEN
        DELETE FROM quotas_claim WHERE id = made;
        RETURN NULL;
    END IF;
    RETURN made;
END
$$
"""
DROP = "DROP FUNCTION quotas_claim_local(bigint, bigint, integer, integer, text, timestamptz)"


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0004_told_and_scored"),
    ]

    operations = [
        migrations.RunSQL(CREATE, DROP),
        # Open claims of a quota have an index of their own.
        migrations.AlterField(
            model_name="claim",
            name="quota",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="claims",
                to="quotas.quota",
            ),
        ),
    ]
