# ruff: noqa: S608 - what is put into the statements stands in this file
"""Whether the sums that are kept are those of the lines: compared day by day, month by month, over and over."""

from __future__ import annotations

from datetime import date, datetime
from time import monotonic
from typing import Any

from django.db import connection

from costs.models import RollupCheck
from costs.models.rollups import ALL_TIME
from costs.reports.sql import OVER_A_DAY
from costs.reports.windows import DAY, midnight, next_month

STEPS_MAX = 31
PATIENCE_SECONDS = 2.0
"""How long one turn goes on, to within a step."""

_BOUNDS = """
SELECT least((SELECT min(started_at) FROM costs_ledgerentry) AT TIME ZONE 'UTC',
        (SELECT min(period) FROM costs_costrollup WHERE facet = 'l' AND grain = 'd')::timestamp)::date,
    (SELECT max(period) FROM costs_costrollup WHERE facet = 'l' AND grain = 'd')
"""
# What is kept counts against what the lines say, key by key; what is left of a key is a difference.
_DAY = f"""
WITH parts AS MATERIALIZED (
    SELECT split_part(account, ':', 1) AS kind, CASE WHEN account LIKE 'team:%%' THEN '' ELSE account END AS account,
        coalesce(team_id, 0) AS team_id, coalesce(user_id, 0) AS user_id, project, flavor_name,
        coalesce(price_id, 0) AS price_id, coalesce(workload_id, 0) AS workload_id,
        costs_until(started_at, ended_at, amount_micro_usd, %(end)s)
            - costs_until(started_at, ended_at, amount_micro_usd, %(start)s) AS amount
    FROM costs_ledgerentry
    WHERE account NOT LIKE 'supply:%%' AND (
        (started_at >= %(start)s AND started_at < %(end)s)
        OR ({OVER_A_DAY} AND started_at < %(start)s AND ended_at > %(start)s)
    )
)
SELECT coalesce(sum(abs(difference)), 0) FROM (
    SELECT sum(amount) AS difference FROM (
        SELECT 'l' AS facet, kind, team_id, 0::bigint AS user_id, '' AS project, flavor_name, price_id, account,
            0::bigint AS workload_id, amount FROM parts
        UNION ALL SELECT 'u', kind, team_id, user_id, '', flavor_name, price_id, '', 0, amount
            FROM parts WHERE kind = 'team'
        UNION ALL SELECT 'p', kind, team_id, 0, project, flavor_name, price_id, '', 0, amount
            FROM parts WHERE kind = 'team'
        UNION ALL SELECT 'w', kind, team_id, user_id, project, flavor_name, price_id, '', workload_id, amount
            FROM parts WHERE kind = 'team'
        UNION ALL SELECT facet, account_kind, team_id, user_id, project, flavor_name, price_id, account, 0,
            -amount_micro_usd FROM costs_costrollup WHERE grain = 'd' AND period = %(day)s
        UNION ALL SELECT 'w', 'team', team_id, user_id, project, flavor_name, price_id, '', workload_id,
            -amount_micro_usd FROM costs_workloadday WHERE day = %(day)s
    ) AS sides GROUP BY facet, kind, team_id, user_id, project, flavor_name, price_id, account, workload_id
) AS keys
"""
_ROLLUP_KEY = "facet, account_kind, team_id, user_id, project, flavor_name, price_id, account"
_MONTH = f"""
SELECT (SELECT coalesce(sum(abs(difference)), 0) FROM (
    SELECT sum(CASE grain WHEN 'd' THEN amount_micro_usd ELSE -amount_micro_usd END) AS difference
    FROM costs_costrollup
    WHERE (grain = 'd' AND period >= %(start)s AND period < %(end)s) OR (grain = 'm' AND period = %(start)s)
    GROUP BY {_ROLLUP_KEY}
) AS rollups) + (SELECT coalesce(sum(abs(difference)), 0) FROM (
    SELECT sum(amount) AS difference FROM (
        SELECT workload_id, team_id, amount_micro_usd AS amount FROM costs_workloadday
        WHERE day >= %(start)s AND day < %(end)s
        UNION ALL SELECT workload_id, team_id, -amount_micro_usd FROM costs_workloadrollup
        WHERE grain = 'm' AND period = %(start)s
    ) AS sides GROUP BY workload_id, team_id
) AS workloads)
"""
# Of all time by team alone: there are as many workloads as there ever were.
_ALL = f"""
SELECT (SELECT coalesce(sum(abs(difference)), 0) FROM (
    SELECT sum(CASE grain WHEN 'm' THEN amount_micro_usd ELSE -amount_micro_usd END) AS difference
    FROM costs_costrollup WHERE grain IN ('m', 'a') GROUP BY {_ROLLUP_KEY}
) AS rollups) + (SELECT coalesce(sum(abs(difference)), 0) FROM (
    SELECT sum(amount) AS difference FROM (
        SELECT team_id, amount_micro_usd AS amount FROM costs_costrollup
        WHERE facet = 'l' AND grain = 'a' AND account_kind = 'team'
        UNION ALL SELECT team_id, -amount_micro_usd FROM costs_workloadrollup WHERE grain = 'a' AND period = %(period)s
    ) AS sides GROUP BY team_id
) AS workloads)
"""


def check_some(*, now: datetime, steps: int = STEPS_MAX) -> RollupCheck:
    """Compare a number of days, each with its month where it is the last of it; a round that ends begins anew."""
    check, _ = RollupCheck.objects.get_or_create(pk=1)
    begun = monotonic()
    for _ in range(steps):
        first, last = _one_row(_BOUNDS, {})
        day = check.next_day or first
        if day is None or last is None or day > last:
            _end_round(check, now)
            break
        check.found_micro_usd += _of_day(day)
        if (day + DAY).day == 1 or day == last:
            check.found_micro_usd += _of_month(day.replace(day=1))
        check.next_day = day + DAY
        if monotonic() - begun > PATIENCE_SECONDS:
            break
    check.save()
    return check


def rollup_difference() -> int:
    """Micro-USD by which kept sums differ from the lines, as far as they have been compared; it must be 0."""
    check = RollupCheck.objects.first()
    return 0 if check is None else check.found_micro_usd + check.difference_micro_usd


def _end_round(check: RollupCheck, now: datetime) -> None:
    check.difference_micro_usd = check.found_micro_usd + _number(_ALL, {"period": ALL_TIME})
    check.found_micro_usd, check.next_day, check.round_ended_at = 0, None, now


def _of_day(day: date) -> int:
    return _number(_DAY, {"day": day, "start": midnight(day), "end": midnight(day + DAY)})


def _of_month(first: date) -> int:
    return _number(_MONTH, {"start": first, "end": next_month(first)})


def _number(statement: str, parameters: dict[str, Any]) -> int:
    return int(_one_row(statement, parameters)[0])


def _one_row(statement: str, parameters: dict[str, Any]) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchone()
