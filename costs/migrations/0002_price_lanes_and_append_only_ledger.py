from __future__ import annotations

from django.db import migrations

# One price at a time for a card: integer ranges in lanes of 2^36 seconds, one lane per card and capacity type.
# PostgreSQL's own GiST operator class for ranges is enough for that; equality in GiST would need btree_gist.
PRICES_DO_NOT_OVERLAP = """
ALTER TABLE costs_price ADD CONSTRAINT price_no_overlap EXCLUDE USING gist (
    int8range(
        priced_id * 68719476736 + extract(epoch FROM valid_from AT TIME ZONE 'UTC')::bigint,
        priced_id * 68719476736
            + coalesce(extract(epoch FROM valid_until AT TIME ZONE 'UTC')::bigint, 68719476735)
    ) WITH &&
)
"""

LEDGER_IS_APPEND_ONLY = """
CREATE FUNCTION costs_ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'The ledger is append-only: correct it by a reversing entry.';
END
$$;
CREATE TRIGGER ledger_is_append_only BEFORE UPDATE OR DELETE ON costs_ledgerentry
    FOR EACH ROW EXECUTE FUNCTION costs_ledger_is_append_only();
"""

# Checked at commit, when all sides of a posting are there.
POSTINGS_BALANCE = """
CREATE FUNCTION costs_postings_balance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT sum(amount_micro_usd) FROM costs_ledgerentry WHERE transaction_id = NEW.transaction_id) <> 0 THEN
        RAISE EXCEPTION 'The sides of posting % do not add up to 0.', NEW.transaction_id;
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER postings_balance AFTER INSERT ON costs_ledgerentry
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION costs_postings_balance();
"""


class Migration(migrations.Migration):
    dependencies = [("costs", "0001_initial")]

    operations = [
        migrations.RunSQL(PRICES_DO_NOT_OVERLAP, "ALTER TABLE costs_price DROP CONSTRAINT price_no_overlap"),
        migrations.RunSQL(
            LEDGER_IS_APPEND_ONLY,
            "DROP TRIGGER ledger_is_append_only ON costs_ledgerentry;"
            "DROP FUNCTION costs_ledger_is_append_only",
        ),
        migrations.RunSQL(
            POSTINGS_BALANCE,
            "DROP TRIGGER postings_balance ON costs_ledgerentry; DROP FUNCTION costs_postings_balance",
        ),
    ]
