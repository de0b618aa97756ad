"""The table of the steps of `.ci/run`: minutes, and core-seconds beside their budget.

`python3 tests/ci/steps.py STEPS BUDGET`. A line of STEPS is `name status seconds core-seconds`, one of BUDGET is
`name core-seconds`. It needs nothing but Python: the steps before the environment is made are told, too.

Core-seconds are what all cores of the machine were busy (`/proc/stat`). Databases and browsers that outlive the process
that started them count, which they do not in what a shell knows of its children; so does whatever else the machine does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

# Of its budget; machines differ, and what is over it is marked and fails nothing.
TOO_MUCH = 4 / 3


@dataclass(frozen=True)
class Step:
    name: str
    status: int
    seconds: int
    core_seconds: int


def steps(text: str) -> list[Step]:
    rows = [line.split() for line in text.splitlines() if line.strip()]
    return [Step(name, *map(int, numbers)) for name, *numbers in rows]


def budgets(text: str) -> dict[str, int]:
    """Core-seconds by step; what follows a # is a remark."""
    rows = [line.partition("#")[0].split() for line in text.splitlines()]
    return {row[0]: int(row[1]) for row in rows if row}


def table(done: Iterable[Step], allowed: Mapping[str, int]) -> str:
    done = list(done)
    lines = [f"{'step':<12}{'minutes':>9}{'core-seconds':>14}{'budget':>8}"]
    for step in done:
        budget = allowed.get(step.name)
        told = "-" if budget is None else str(budget)
        lines.append(
            f"{step.name:<12}{step.seconds / 60:>9.1f}{step.core_seconds:>14}{told:>8}{_marks(step, budget)}"
        )
    seconds, busy = sum(step.seconds for step in done), sum(step.core_seconds for step in done)
    return "\n".join([*lines, f"{'in all':<12}{seconds / 60:>9.1f}{busy:>14}"])


def _marks(step: Step, budget: int | None) -> str:
    over = budget is not None and step.core_seconds > budget * TOO_MUCH
    marks = [f"OVER its budget by {step.core_seconds / budget - 1:.0%}"] if over and budget else []
    marks += [f"FAILED ({step.status})"] if step.status else []
    return "".join(f"  {mark}" for mark in marks)


if __name__ == "__main__":
    print(table(steps(Path(sys.argv[1]).read_text()), budgets(Path(sys.argv[2]).read_text())))  # noqa: T201
