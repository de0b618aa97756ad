from __future__ import annotations

from django.db import migrations

# By triggers, so that whatever changes usage, the history of nodes or a price, marks the time in the same transaction.
# Only what lies before `claimed_until` was counted, or is being: the rest is counted anyway when its hour comes.
MARKS = """
CREATE FUNCTION costs_mark(card text, capacity text, node text, since timestamptz, until timestamptz)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO costs_supplymark (card, capacity_type, node_name, started_at, ended_at)
    SELECT card, capacity, node, since, until FROM costs_supplycursor
    WHERE since < claimed_until AND (until IS NULL OR until > since)
$$;

CREATE FUNCTION costs_mark_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM costs_mark(n.card, n.capacity_type, n.node_name, n.started_at, n.ended_at) FROM added AS n;
    RETURN NULL;
END
$$;

CREATE FUNCTION costs_mark_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM costs_mark(o.card, o.capacity_type, o.node_name, o.started_at, o.ended_at) FROM removed AS o;
    RETURN NULL;
END
$$;

-- Most changes are of an end, or of nothing that counts here.
CREATE FUNCTION costs_mark_usage_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM costs_mark(
        n.card, n.capacity_type, n.node_name,
        least(coalesce(o.ended_at, n.ended_at), coalesce(n.ended_at, o.ended_at)),
        CASE WHEN o.ended_at IS NULL OR n.ended_at IS NULL THEN NULL ELSE greatest(o.ended_at, n.ended_at) END
    )
    FROM added AS n JOIN removed AS o ON o.id = n.id
    WHERE o.ended_at IS DISTINCT FROM n.ended_at;
    PERFORM costs_mark(each.card, each.capacity_type, each.node_name, each.started_at, each.ended_at)
    FROM added AS n JOIN removed AS o ON o.id = n.id,
    LATERAL (VALUES
        (o.card, o.capacity_type, o.node_name, o.started_at, o.ended_at),
        (n.card, n.capacity_type, n.node_name, n.started_at, n.ended_at)
    ) AS each (card, capacity_type, node_name, started_at, ended_at)
    WHERE (o.card, o.capacity_type, o.node_name, o.started_at, o.units, o.fraction_numerator, o.fraction_denominator)
        IS DISTINCT FROM
        (n.card, n.capacity_type, n.node_name, n.started_at, n.units, n.fraction_numerator, n.fraction_denominator);
    RETURN NULL;
END
$$;

CREATE FUNCTION costs_mark_node_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM costs_mark(
        n.card, n.capacity_type, n.node_name,
        least(coalesce(o.ended_at, n.ended_at), coalesce(n.ended_at, o.ended_at)),
        CASE WHEN o.ended_at IS NULL OR n.ended_at IS NULL THEN NULL ELSE greatest(o.ended_at, n.ended_at) END
    )
    FROM added AS n JOIN removed AS o ON o.id = n.id
    WHERE o.ended_at IS DISTINCT FROM n.ended_at;
    PERFORM costs_mark(each.card, each.capacity_type, each.node_name, each.started_at, each.ended_at)
    FROM added AS n JOIN removed AS o ON o.id = n.id,
    LATERAL (VALUES
        (o.card, o.capacity_type, o.node_name, o.started_at, o.ended_at),
        (n.card, n.capacity_type, n.node_name, n.started_at, n.ended_at)
    ) AS each (card, capacity_type, node_name, started_at, ended_at)
    WHERE (o.card, o.capacity_type, o.node_name, o.started_at, o.cards, o.offered_numerator, o.offered_denominator,
            o.certain)
        IS DISTINCT FROM
        (n.card, n.capacity_type, n.node_name, n.started_at, n.cards, n.offered_numerator, n.offered_denominator,
            n.certain);
    RETURN NULL;
END
$$;

-- A price for a time that was counted without one, or with another.
CREATE FUNCTION costs_mark_priced() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM costs_mark(p.card, p.capacity_type, '', NEW.valid_from, NEW.valid_until)
    FROM costs_pricedcard AS p WHERE p.id = NEW.priced_id;
    RETURN NULL;
END
$$;

CREATE TRIGGER usage_added_marks AFTER INSERT ON costs_usageinterval
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION costs_mark_added();
CREATE TRIGGER usage_changed_marks AFTER UPDATE ON costs_usageinterval
    REFERENCING NEW TABLE AS added OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION costs_mark_usage_changed();
CREATE TRIGGER usage_removed_marks AFTER DELETE ON costs_usageinterval
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION costs_mark_removed();
CREATE TRIGGER node_added_marks AFTER INSERT ON workloads_nodeinterval
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION costs_mark_added();
CREATE TRIGGER node_changed_marks AFTER UPDATE ON workloads_nodeinterval
    REFERENCING NEW TABLE AS added OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION costs_mark_node_changed();
CREATE TRIGGER node_removed_marks AFTER DELETE ON workloads_nodeinterval
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION costs_mark_removed();
CREATE TRIGGER price_marks AFTER INSERT ON costs_price
    FOR EACH ROW EXECUTE FUNCTION costs_mark_priced();
"""
NO_MARKS = """
DROP TRIGGER price_marks ON costs_price;
DROP TRIGGER node_removed_marks ON workloads_nodeinterval;
DROP TRIGGER node_changed_marks ON workloads_nodeinterval;
DROP TRIGGER node_added_marks ON workloads_nodeinterval;
DROP TRIGGER usage_removed_marks ON costs_usageinterval;
DROP TRIGGER usage_changed_marks ON costs_usageinterval;
DROP TRIGGER usage_added_marks ON costs_usageinterval;
DROP FUNCTION costs_mark_priced, costs_mark_node_changed, costs_mark_usage_changed, costs_mark_removed,
    costs_mark_added, costs_mark;
"""


class Migration(migrations.Migration):
    dependencies = [("costs", "0008_usage_by_node"), ("workloads", "0031_nodes_have_a_history")]

    operations = [migrations.RunSQL(MARKS, NO_MARKS)]
