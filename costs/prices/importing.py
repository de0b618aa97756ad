"""Prices of cards set from a table of machines: all that were chosen, from one moment on, for one reason."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from costs.models import Price
from costs.prices.imports import Choice, MachineTable, TableProblem, TableRefused, propose, read_table
from costs.prices.services import NewPrice, set_prices
from foundation.errors import FieldProblem, Invalid
from teams.actors import Actor


def table_of(text: str) -> MachineTable:
    """The table of a CSV text. Raises Invalid of the field `csv`, with line and column, for what is none."""
    try:
        return read_table(text)
    except TableRefused as refused:
        problem = refused.problem
        raise Invalid.of_field("csv", told(problem), code=problem.code) from refused


def told(problem: TableProblem) -> str:
    """The problem in one sentence that says where it is."""
    where = f"Line {problem.line}" + (f", column {problem.column}" if problem.column else "")
    return f"{where}: {problem.message}"


def import_prices(
    *,
    text: str,
    choices: Sequence[Choice],
    valid_from: datetime,
    reason: str,
    actor: Actor,
    now: datetime,
) -> list[Price]:
    """Set the chosen cards' prices from `valid_from` on, or none of them; returns those that are new.

    Lines that cannot be read hinder nothing as long as no card is to have its price from them. Raises Invalid for a
    choice that gives no price, and what `set_prices` raises.
    """
    table = table_of(text)
    proposed, refused = propose(table, choices)
    if refused:
        # What is wrong with lines of the table may be why no machine was found.
        lines = [FieldProblem(field="csv", code=each.code, message=told(each)) for each in table.problems]
        raise Invalid.of_problems([*refused, *lines])
    if not proposed:
        raise Invalid.of_field(
            "cards", "Say for at least one card which machine gives its price.", code="empty"
        )
    new = [
        NewPrice(
            card=each.card,
            capacity_type=each.capacity_type,
            micro_usd_per_card_hour=each.micro_usd_per_card_hour,
        )
        for each in proposed
    ]
    return set_prices(new, valid_from=valid_from, reason=reason, actor=actor, now=now)
