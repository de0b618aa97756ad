"""The functions of the sums that the ledger keeps of its lines, and what adds lines to them.

`{lines}` is the table of the lines: those that a statement has written, or all there are.
"""

from __future__ import annotations

# A line's amount is spread evenly over its time, cut to whole micro-USD at each moment from its start on: then parts of
# a line add up to the line wherever it is cut, and a line that takes another back takes back each part.
PARTS_OF_A_LINE = """
CREATE FUNCTION costs_until(started timestamptz, ended timestamptz, amount bigint, moment timestamptz)
RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN moment <= started THEN 0
        WHEN moment >= ended THEN amount
        ELSE div(amount::numeric * extract(epoch FROM moment - started), extract(epoch FROM ended - started))::bigint
    END
$$;
CREATE FUNCTION costs_by_day(started timestamptz, ended timestamptz, amount bigint)
RETURNS TABLE (day date, part bigint) LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (d AT TIME ZONE 'UTC')::date,
        costs_until(started, ended, amount, d + interval '24 hours') - costs_until(started, ended, amount, d)
    FROM generate_series(
        date_trunc('day', started, 'UTC'),
        greatest(date_trunc('day', started, 'UTC'), ended - interval '1 microsecond'),
        interval '24 hours'
    ) AS d
$$;
"""
NO_PARTS = """
DROP FUNCTION costs_by_day(timestamptz, timestamptz, bigint);
DROP FUNCTION costs_until(timestamptz, timestamptz, bigint, timestamptz);
"""

# Most lines lie within a day: these need no series.
_PARTS = """
    SELECT split_part(l.account, ':', 1) AS account_kind,
        CASE WHEN l.account LIKE 'team:%%' THEN '' ELSE l.account END AS account,
        coalesce(l.team_id, 0) AS team_id, coalesce(l.user_id, 0) AS user_id, l.project, l.flavor_name,
        coalesce(l.price_id, 0) AS price_id, l.phase, coalesce(l.workload_id, 0) AS workload_id,
        d.day, d.part AS amount
    FROM {lines} AS l CROSS JOIN LATERAL (
        SELECT (l.started_at AT TIME ZONE 'UTC')::date AS day, l.amount_micro_usd AS part
        WHERE l.ended_at <= date_trunc('day', l.started_at, 'UTC') + interval '24 hours'
        UNION ALL
        SELECT s.day, s.part FROM costs_by_day(l.started_at, l.ended_at, l.amount_micro_usd) AS s
        WHERE l.ended_at > date_trunc('day', l.started_at, 'UTC') + interval '24 hours'
    ) AS d
    WHERE l.account NOT LIKE 'supply:%%'
"""
_SUMS = """sum(amount), coalesce(sum(amount) FILTER (WHERE phase = 'starting'), 0),
    coalesce(sum(amount) FILTER (WHERE phase = 'running'), 0),
    coalesce(sum(amount) FILTER (WHERE phase = 'stopping'), 0)"""
_ADDED = """SET amount_micro_usd = kept.amount_micro_usd + EXCLUDED.amount_micro_usd,
        starting_micro_usd = kept.starting_micro_usd + EXCLUDED.starting_micro_usd,
        running_micro_usd = kept.running_micro_usd + EXCLUDED.running_micro_usd,
        stopping_micro_usd = kept.stopping_micro_usd + EXCLUDED.stopping_micro_usd"""

# First the sums of days, which are few: the other sums are of these.
# The keys in one order: two statements never wait for each other in turns.
_PHASE_SUMS = "sum(amount), sum(starting), sum(running), sum(stopping)"
ADD_TO_ROLLUPS = f"""
INSERT INTO costs_costrollup AS kept (facet, grain, period, account_kind, team_id, user_id, project, flavor_name,
    price_id, account, amount_micro_usd, starting_micro_usd, running_micro_usd, stopping_micro_usd)
WITH days (day, account_kind, team_id, user_id, project, flavor_name, price_id, account, amount, starting, running, stopping)
AS MATERIALIZED (
    SELECT day, account_kind, team_id, user_id, project, flavor_name, price_id, account, {_SUMS}
    FROM ({_PARTS}) AS p GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
), facets AS MATERIALIZED (
    SELECT CASE WHEN grouping(account) = 0 THEN 'l' WHEN grouping(user_id) = 0 THEN 'u' ELSE 'p' END AS facet,
        day, account_kind, team_id, coalesce(user_id, 0) AS user_id, coalesce(project, '') AS project, flavor_name,
        price_id, coalesce(account, '') AS account, sum(amount) AS amount, sum(starting) AS starting,
        sum(running) AS running, sum(stopping) AS stopping
    FROM days
    GROUP BY day, account_kind, team_id, flavor_name, price_id, GROUPING SETS ((account), (user_id), (project))
    HAVING grouping(account) = 0 OR account_kind = 'team'
)
SELECT facet, grain, CASE grain WHEN 'd' THEN day WHEN 'm' THEN date_trunc('month', day::timestamp)::date
        ELSE '0001-01-01'::date END AS period,
    account_kind, team_id, user_id, project, flavor_name, price_id, account, {_PHASE_SUMS}
FROM facets CROSS JOIN (VALUES ('d'), ('m'), ('a')) AS g (grain)
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
ON CONFLICT (facet, grain, period, account_kind, team_id, user_id, project, flavor_name, price_id, account) DO UPDATE
    {_ADDED};
"""
ADD_TO_WORKLOADS = f"""
INSERT INTO costs_workloadrollup AS kept (grain, period, workload_id, team_id, amount_micro_usd)
SELECT grain, CASE grain WHEN 'm' THEN date_trunc('month', p.day::timestamp)::date ELSE '0001-01-01'::date END AS period,
    workload_id, team_id, sum(amount)
FROM ({_PARTS}) AS p CROSS JOIN (VALUES ('m'), ('a')) AS g (grain)
WHERE account_kind = 'team'
GROUP BY 3, 1, 2, 4 ORDER BY 3, 1, 2, 4
ON CONFLICT (workload_id, grain, period, team_id) DO UPDATE
    SET amount_micro_usd = kept.amount_micro_usd + EXCLUDED.amount_micro_usd;
"""
ADD_TO_WORKLOAD_DAYS = f"""
INSERT INTO costs_workloadday AS kept (workload_id, day, team_id, user_id, project, flavor_name, price_id,
    amount_micro_usd, starting_micro_usd, running_micro_usd, stopping_micro_usd)
SELECT workload_id, day, team_id, user_id, project, flavor_name, price_id, {_SUMS}
FROM ({_PARTS}) AS p
WHERE account_kind = 'team'
GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY 1, 2, 3, 4, 5, 6, 7
ON CONFLICT (workload_id, day, team_id, user_id, project, flavor_name, price_id) DO UPDATE
    {_ADDED};
"""
ADD = ADD_TO_ROLLUPS + ADD_TO_WORKLOADS + ADD_TO_WORKLOAD_DAYS


def add(lines: str) -> str:
    """The statements that add the lines of a table to the sums."""
    return ADD.format(lines=lines).replace("%%", "%")


KEEP_SUMS = f"""
CREATE FUNCTION costs_keep_rollups() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    {add("posted")}
    RETURN NULL;
END
$body$;
CREATE TRIGGER ledger_keeps_rollups AFTER INSERT ON costs_ledgerentry
    REFERENCING NEW TABLE AS posted FOR EACH STATEMENT EXECUTE FUNCTION costs_keep_rollups();
"""
KEEP_NO_SUMS = "DROP TRIGGER ledger_keeps_rollups ON costs_ledgerentry; DROP FUNCTION costs_keep_rollups();"
# Nobody posts until it has committed: no line is missed or counted twice. Also who mends sums by hand calls it.
MAKE_SUMS_ANEW = f"""
CREATE FUNCTION costs_make_rollups_anew() RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
    LOCK TABLE costs_ledgerentry IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM costs_costrollup;
    DELETE FROM costs_workloadrollup;
    DELETE FROM costs_workloadday;
    {add("costs_ledgerentry")}
END
$body$;
"""
MAKE_NO_SUMS_ANEW = "DROP FUNCTION costs_make_rollups_anew();"
SUMS_SO_FAR = "SELECT costs_make_rollups_anew()"
OVER_A_DAY = (
    "(started_at AT TIME ZONE 'UTC')::date < ((ended_at AT TIME ZONE 'UTC') - interval '1 microsecond')::date"
)
