"""docs/reference/diagnosis-planted.md: which row was planted where. `python -m tests.diagnosis.page` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "diagnosis-planted.md"
BY_ITSELF = {
    "S1": "test_why_no_node_takes_it",
    "S2": "test_why_no_node_takes_it",
    "S3": "test_why_no_node_takes_it",
    "S4": "test_why_no_node_takes_it",
    "S5": "test_why_no_node_takes_it",
    "S6": "test_a_node_that_is_cordoned",
    "S7": "test_a_claim_that_is_not_there",
    "S12": "test_why_no_node_takes_it",
    "F1": "test_a_quota_of_the_namespace_that_is_used_up",
    "F2": "test_a_quota_that_wants_amounts_that_are_not_named",
    "F3": "test_a_limit_of_the_namespace_for_each_container",
    "F4": "test_a_namespace_that_lets_no_pod_run_as_root",
    "F5": "test_a_priority_class_that_is_not_there",
    "C1": "test_an_image_that_there_is_not",
    "T1": "test_how_a_program_ended",
    "T2": "test_how_a_program_ended",
    "T3": "test_how_a_program_ended",
    "T4": "test_how_a_program_ended",
    "T8": "test_how_a_program_ended",
    "D2": "test_what_took_a_pod_away",
    "D3": "test_what_took_a_pod_away",
    "D4": "test_what_took_a_pod_away",
    "J1": "test_a_job_that_was_active_for_too_long",
    "U1": "test_a_pod_that_does_not_go_away",
    "A1": "test_how_a_program_ended",
}
"""Rows that the cluster's own controllers bring about, and the test of `test_planted_on_a_cluster.py` that makes them."""
REAL_ALONE = {"F3": "no LimitRange", "F4": "no Pod Security"}
"""Of those what devcluster lacks."""
ELSEWHERE = {"C8": "test_a_claim_that_gets_no_volume_says_why_beside_the_scheduler"}
"""Rows that are no verdict by themselves, and the test of `test_rule_table.py` that plants them."""
NAMED_BY_NOTHING = {
    "S15 `NodeClaim` InsufficientCapacityError": "The portal watches no NodeClaims; karpenter says the same in an event of the pod.",
    "S12 Kueue's Workload": "The portal queues by itself and reads none; the gate is named with its own words.",
    "C8 ExternalProvisioning, WaitForFirstConsumer": "A claim is like that while all is well.",
    "K1 Prometheus unreachable or a wrong query, told apart": "KEDA's words are told; the portal does not run the query.",
}


def lines() -> Iterator[str]:
    # Both need Django, which the command below sets up.
    from diagnosis.judge import RULES
    from tests.diagnosis.rows import BY_ROWS_ALONE, ROWS

    yield from (
        "<!-- Written by `python -m tests.diagnosis.page` from the tests' tables; change these, not this page. -->",
        "",
        "# Diagnosis: what was planted",
        "",
        "Each row of the [table of causes](diagnosis.md) is planted, and REST and the page have to name it first. Three ways, each a test:",
        "",
        "- **rows**: as the watcher stores it (`tests/diagnosis/test_rule_table.py`; the variants of `tests/diagnosis/rows.py`).",
        "- **API server**: the status or event is written into an API server, as the scheduler, the kubelet or an operator writes it, and looked",
        "  at from there (`tests/diagnosis/test_rows_on_a_cluster.py`); devcluster, and a real one where there is one.",
        "- **by itself**: the cluster's own controllers bring it about (`tests/diagnosis/test_planted_on_a_cluster.py`), likewise on both.",
        "",
        "All of them are named right. Fifty good runs and endpoints, by the seeds 0 to 49, are named nothing at any moment:",
        "`tests/diagnosis/test_good_runs.py`, and as pods of a cluster in `test_planted_on_a_cluster.py`.",
        "",
        "| row | what it is called | planted as rows | in an API server | by itself | right |",
        "|---|---|---|---|---|---|",
    )
    for row, title in ((rule.id, rule.title) for rule in RULES):
        variants = [name for name in ROWS if name.split()[0] == row]
        written = [name for name in variants if name not in BY_ROWS_ALONE]
        missing = {BY_ROWS_ALONE[name] for name in variants if name in BY_ROWS_ALONE}
        there = str(len(written)) if written else f"no: {', '.join(sorted(missing)) or 'not a verdict'}"
        own = f"`{BY_ITSELF[row]}`" if row in BY_ITSELF else ""
        own += f" (real alone: devcluster has {REAL_ALONE[row]})" if row in REAL_ALONE else ""
        rows = str(len(variants)) if variants else f"`{ELSEWHERE[row]}`"
        yield f"| {row} | {title} | {rows} | {there} | {own or '-'} | yes |"
    yield from ("", "## What is not named", "", "| signal | why |", "|---|---|")
    yield from (f"| {signal} | {why} |" for signal, why in NAMED_BY_NOTHING.items())


def text() -> str:
    return "\n".join(lines()) + "\n"


if __name__ == "__main__":
    import django

    from portal.settings import env

    env.set_variables({"DJANGO_SETTINGS_MODULE": "portal.settings"})
    django.setup()
    PAGE.write_text(text())
