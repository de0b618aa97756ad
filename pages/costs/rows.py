"""The table of a page of costs: what it is by, its columns, its lines in their order, and what is not among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from costs.reports.groups import CostGroup, CostReport
from foundation.http.query import refuse
from foundation.number_words import percent_words
from pages.costs.budgets import BudgetSeen, TeamBudgets
from workloads.models import Workload

ROWS_MAX: Final = 50
DEAREST: Final = "-cost"
BY: Final[Mapping[str, str]] = {
    "workload": "Run and endpoint",
    "user": "User",
    "project": "Project",
    "flavor": "GPU",
    "capacity": "Capacity",
    "phase": "Phase",
    "day": "Day",
}
"""What the costs may be grouped by, and what a tab is called; who sees several teams has `team` besides."""
TEAM: Final = "team"
TITLES: Final = {**BY, "workload": "Name", TEAM: "Team"}
NOBODY: Final = {
    "workload": "No run or endpoint",
    "user": "Nobody",
    "project": "No label “project”",
    "flavor": "No GPU",
    "capacity": "Neither",
    "phase": "Not known",
    TEAM: "No team",
}
"""What a group without a key is called: corrections that are of none, or what the ledger did not know yet."""
PHASES: Final = {
    "waiting": "Waiting (is free)",
    "starting": "Starting",
    "running": "Running",
    "stopping": "Stopping",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """One line. Money in micro-USD; the share is of all that the page counts, in percent."""

    name: str
    amount: int
    share: float
    workload: Workload | None
    team: str
    """Slug, of the line of a team."""
    budget: BudgetSeen | None
    has_other_budget: bool = False
    """Whether it has one of a period that is not shown."""

    @property
    def so_far(self) -> bool:
        """Whether it goes on costing."""
        return self.workload is not None and not self.workload.is_final

    @property
    def gpu(self) -> str:
        workload = self.workload
        if workload is None:
            return ""
        if not workload.units or workload.flavor is None:
            return "CPU only"
        return f"{workload.units} \N{MULTIPLICATION SIGN} {workload.flavor.name}"

    @property
    def share_words(self) -> str:
        """`12.3 %`; what is not nothing is not shown as nothing."""
        return percent_words(self.share)


@dataclass(frozen=True, slots=True)
class Column:
    """A heading: `asks` is the ordering that its link asks for, empty for one that nothing is ordered by."""

    title: str
    asks: str = ""
    order: str = ""
    """As `aria-sort` has it; empty where the lines are in no order of this column."""
    is_number: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTable:
    by: str
    columns: Sequence[Column]
    rows: Sequence[CostRow]
    others: int
    """Micro-USD of all that has no line of its own."""
    complete: bool
    has_budgets: bool
    of_the_dearest: bool
    """Whether the lines are the dearest, in another order."""


_Key = Callable[[CostRow], Any]
_OF_WORKLOAD: Final[Mapping[str, tuple[str, _Key]]] = {
    "name": ("Name", lambda row: row.name.lower()),
    "kind": ("Kind", lambda row: row.workload.kind if row.workload else ""),
    "team": ("Team", lambda row: row.workload.team.slug if row.workload else ""),
    "owner": ("Owner", lambda row: row.workload.owner.username if row.workload else ""),
    "state": ("State", lambda row: row.workload.phase if row.workload else ""),
    "gpu": ("GPU", lambda row: (row.workload.units if row.workload else 0, row.gpu)),
}


def columns_of(by: str) -> Mapping[str, tuple[str, _Key]]:
    """By the word that orders by it: title, and what of a line is compared. Numbers come last."""
    first = dict(_OF_WORKLOAD) if by == "workload" else {"name": (TITLES[by], lambda row: row.name.lower())}
    return {**first, "cost": ("Cost", lambda row: row.amount)}


def read_ordering(asked: str, by: str) -> str:
    """The ordering that is asked for, else what the group is usually in. Raises Malformed."""
    usual = "name" if by == "day" else DEAREST
    allowed = [sign + name for name in columns_of(by) for sign in ("", "-")]
    if asked and asked not in allowed:
        raise refuse("ordering", f"must be one of {', '.join(allowed)}.")
    return asked or usual


def query_ordering(ordering: str) -> str:
    """What the report is asked for: the dearest, unless the cheapest are wanted."""
    return "amount" if ordering == "cost" else "-amount"


def table_of(report: CostReport, *, by: str, ordering: str, budgets: TeamBudgets | None = None) -> CostTable:
    """The lines of a report, with a column of `budgets` where there are any."""
    total = report.total_micro_usd
    rows = [_row(group, by, total, budgets) for group in report.groups]
    name = ordering.removeprefix("-")
    if name != "cost" or by != "workload":
        rows.sort(key=lambda row: row.name.lower())
        rows.sort(key=columns_of(by)[name][1], reverse=ordering.startswith("-"))
    columns = [_column(word, title, ordering) for word, (title, _) in columns_of(by).items()]
    columns.append(Column("Share", is_number=True))
    if budgets is not None:
        columns.append(Column("Budget"))
    return CostTable(
        by=by,
        columns=columns,
        rows=rows,
        others=total - sum(row.amount for row in rows),
        complete=report.complete,
        has_budgets=budgets is not None,
        of_the_dearest=not report.complete and name != "cost",
    )


def _column(word: str, title: str, ordering: str) -> Column:
    number = word == "cost"
    if ordering.removeprefix("-") == word:
        down = ordering.startswith("-")
        return Column(title, word if down else f"-{word}", "descending" if down else "ascending", number)
    return Column(title, f"-{word}" if number else word, "", number)


def _row(group: CostGroup, by: str, total: int, budgets: TeamBudgets | None) -> CostRow:
    name = PHASES.get(group.key, group.name) if by == "phase" else group.name
    return CostRow(
        name=name or NOBODY.get(by, ""),
        amount=group.amount_micro_usd,
        share=group.amount_micro_usd * 100 / total if total else 0.0,
        workload=group.workload,
        team=group.key if by == TEAM else "",
        budget=budgets.monthly.get(group.key) if budgets else None,
        has_other_budget=budgets is not None and group.key in budgets.others,
    )
