"""The table of the steps of `.ci/run`."""

from __future__ import annotations

from tests.ci.imports import ROOT
from tests.ci.steps import Step, budgets, steps, table


def test_a_step_that_is_a_third_over_its_budget_is_marked():
    done = [Step("check", 0, 60, 133), Step("test", 0, 90, 134), Step("demo", 0, 0, 500)]
    heading, check, test, demo, whole = table(done, {"check": 100, "test": 100}).splitlines()
    assert heading.split() == ["step", "minutes", "core-seconds", "budget"]
    assert check.split() == ["check", "1.0", "133", "100"]
    assert test.split() == ["test", "1.5", "134", "100", "OVER", "its", "budget", "by", "34%"]
    assert demo.split() == ["demo", "0.0", "500", "-"]
    assert whole.split() == ["in", "all", "2.5", "767"]


def test_a_step_that_failed_is_marked():
    (_, row, _) = table(steps("matrix 2 1 10\n"), {"matrix": 5}).splitlines()
    assert row.endswith("10       5  OVER its budget by 100%  FAILED (2)")


def test_each_step_has_a_budget():
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (named,) = (line for line in text.splitlines() if line.startswith("all_steps="))
    names = set(named.partition("(")[2].strip(")").split())
    assert set(budgets((ROOT / ".ci" / "budget").read_text())) == names - {"browser"}
