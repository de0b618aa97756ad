"""What a benchmark answers with, and how answers are shown."""
# ruff: noqa: RUF001 (times signs and ranges are for people)

from __future__ import annotations

import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_HEAD = (
    "Written by `make bench`. Each number stands beside the limit that was measured in the same run, in turn with it; "
    "only the ratio is a claim, absolute times are landmarks of one machine. `python -m benchmarks NAME …` measures some of them "
    "alone, `--write` puts those into their places here."
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measured quantity. `limit` is the same operation without the portal, None for a landmark."""

    name: str
    ours: str
    limit: str = "—"
    ratio: str = "—"
    gate: str = "—"
    passed: bool | None = None

    @property
    def verdict(self) -> str:
        return {None: "landmark", True: "met", False: "**missed**"}[self.passed]


@dataclass(frozen=True, kw_only=True)
class Result:
    """Question, method and limits in whole sentences, for the reader who doubts the number."""

    title: str
    question: str
    method: str
    limits: str
    rows: Sequence[Row]
    notes: Sequence[str] = ()


@dataclass
class Rounds:
    """Samples in milliseconds of ours and of the limit, taken in turn, round by round."""

    ours: list[list[float]] = field(default_factory=list)
    limit: list[list[float]] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return median(self.ours) / median(self.limit)

    @property
    def ratios(self) -> list[float]:
        """The ratio of each round."""
        pairs = zip(self.ours, self.limit, strict=True)
        return [statistics.median(ours) / statistics.median(limit) for ours, limit in pairs]

    def row(self, name: str, *, gate: float, goal: float) -> Row:
        return Row(
            name=name,
            ours=_milliseconds(self.ours),
            limit=_milliseconds(self.limit),
            ratio=f"{self.ratio:.1f}× ({min(self.ratios):.1f}–{max(self.ratios):.1f})",
            gate=f"≤ {gate:g}×, goal {goal:g}×",
            passed=self.ratio <= gate,
        )


def median(rounds: Sequence[Sequence[float]]) -> float:
    return statistics.median(sample for turn in rounds for sample in turn)


def _milliseconds(rounds: Sequence[Sequence[float]]) -> str:
    samples = sorted(sample for turn in rounds for sample in turn)
    return f"{statistics.median(samples):.1f} ms ({samples[0]:.1f}–{samples[-1]:.1f})"


def machine() -> str:
    """The machine in words."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 2**20
    return (
        f"{len(_cpus())} × {model}, {memory:.0f} GiB, Linux {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}"
    )


def _cpus() -> list[str]:
    return [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("processor")]


def table(rows: Sequence[Row]) -> str:
    head = (
        "| what | portal: median (min–max) | limit: median (min–max) | ratio (min–max of rounds) | gate | |"
    )
    lines = [
        f"| {row.name} | {row.ours} | {row.limit} | {row.ratio} | {row.gate} | {row.verdict} |"
        for row in rows
    ]
    return "\n".join([head, "|---|---|---|---|---|---|", *lines])


def document(results: Sequence[Result], *, cluster: str) -> str:
    """The page docs/reference/benchmarks.md."""
    parts = [
        "# Benchmarks",
        "",
        _HEAD,
        "",
        f"Machine: {machine()}. Cluster: {cluster}. PostgreSQL: embedded, `fsync=on`, `synchronous_commit=on`.",
    ]
    return "\n".join(parts) + "\n" + "".join(map(_section, results))


def _section(result: Result) -> str:
    parts = ["", f"## {result.title}", "", result.question, "", table(result.rows), ""]
    parts += [f"Method: {result.method}", "", f"Limits: {result.limits}"]
    parts += [line for note in result.notes for line in ("", note)]
    return "\n".join(parts) + "\n"


def with_sections(page: str, results: Sequence[Result]) -> str:
    """The page with the sections of these results in the place of the older ones; a new one comes last."""
    for result in results:
        head, heading, rest = page.partition(f"\n## {result.title}\n")
        if not heading:
            page += _section(result)
            continue
        _, following, rest = rest.partition("\n## ")
        page = head + _section(result) + following + rest
    return page
