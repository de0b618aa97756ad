"""docs/reference/training-kinds.md says of each kind and each way to fail what the tests on the control plane ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.kinds import KINDS
from tests.controller.kinds_tables import FAULTS, SHAPES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "training-kinds.md"
ROWS = {
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("|")
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_way_to_fail_is_a_row(name):
    fault = FAULTS[name]
    counts = (str(fault.attempts), str(fault.retries), str(fault.interruptions))
    first = " or ".join(fault.first or (fault.reason,))
    assert (name, f"{fault.phase}, {fault.reason}", *counts, first) in ROWS


@pytest.mark.parametrize("kind", SHAPES)
def test_each_good_end_is_a_row(kind):
    shape = SHAPES[kind]
    assert (f"`{kind}`", str(shape.pods), f"{shape.gpu_pods} × {shape.gpus}", "1") in ROWS  # noqa: RUF001


def test_the_page_counts_what_there_is():
    assert f"{len(FAULTS) * len(SHAPES)} in all" in PAGE.read_text(encoding="utf-8")
    assert {row[0] for row in ROWS} >= {f"`{name}`" for name in KINDS}
