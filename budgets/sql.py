"""Parts of statements about budgets, of a budget `b`, which others put into their own. They take `now`."""

from __future__ import annotations

OVERRIDES = """coalesce((SELECT sum(o.amount_micro_usd) FROM costs_budgetoverride AS o
    WHERE o.budget_id = b.id AND o.expires_at > %(now)s), 0)::bigint"""
"""What is given on top of its amount."""
PERIOD_END = """coalesce(b.ends_at, (date_trunc('month', %(now)s::timestamptz AT TIME ZONE 'UTC') + interval '1 month')
    AT TIME ZONE 'UTC')"""
"""When the present period of a budget ends."""
