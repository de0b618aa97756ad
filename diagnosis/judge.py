"""Judges a case by the table, in its order: the first finding is the verdict. Pure.

Of one pod: what took it away, its status reason, what keeps its containers from starting, how they ended, the
scheduler's word, events, its log. Of several pods of a run that ended, the first that failed: the others lost it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from diagnosis.evidence import Case, PodEvidence
from diagnosis.findings import Cause, Rule
from diagnosis.rules import containers, disruptions, ends, nodes, objects, placing

OF_PODS: Final[tuple[Rule, ...]] = (
    *disruptions.RULES,
    *containers.BEFORE_EXITS,
    *ends.BY_EXIT,
    *placing.RULES,
    *containers.BY_EVENTS,
    *ends.BY_LOG,
    *containers.AFTER_EXITS,
    *ends.LAST,
)
BEFORE_PODS: Final[tuple[Rule, ...]] = objects.MAKERS
AFTER_PODS: Final[tuple[Rule, ...]] = (
    *objects.GANG,
    *nodes.STORAGE,
    *objects.SCALERS,
    *nodes.GPUS,
    *objects.STUCK,
    *objects.JOBS,
)
IF_NOTHING_ELSE: Final[tuple[Rule, ...]] = objects.LAST
RULES: Final[tuple[Rule, ...]] = (*BEFORE_PODS, *OF_PODS, *AFTER_PODS, *IF_NOTHING_ELSE)
"""All rows, in the order in which they are judged."""
TOGETHER: Final = timedelta(seconds=2)
"""Pods that ended within so long of each other ended together: API times are whole seconds."""
DOING_WELL: Final = frozenset({"Succeeded", "Cancelled", "Suspended"})
FINDINGS_MAX: Final = 12
_CLONE: Final = re.compile(r"\b([Uu]se) Clone\b")
_BACKOFF: Final = "BackoffLimitExceeded"


def diagnose(case: Case) -> list[Cause]:
    """Why it failed or does not come up; empty of what does well, or ended as somebody wished. The first is the verdict."""
    if case.phase in DOING_WELL:
        return []
    found = [*_of_case(case, BEFORE_PODS), *_of_pods(case), *_of_case(case, AFTER_PODS)]
    # That the only try failed is what everything else explains.
    if len({finding.id for finding in found}) > 1:
        found = [item for item in found if item.id != "J1" or _BACKOFF not in item.words]
    causes = (found or list(_of_case(case, IF_NOTHING_ELSE)))[:FINDINGS_MAX]
    return causes if case.ends else [_of_what_stays(cause) for cause in causes]


def _of_what_stays(cause: Cause) -> Cause:
    """The rules say what to press of a run; an endpoint is changed under Settings."""
    return replace(cause, next_step=_CLONE.sub(r"\1 Settings", cause.next_step))


def _of_case(case: Case, rules: Sequence[Rule]) -> Iterator[Cause]:
    for rule in rules:
        if rule.of_case is not None:
            for found in rule.of_case(case):
                yield rule.finding(found)


def _of_pods(case: Case) -> list[Cause]:
    """What the pods say that are to be judged: of each row once, with how many pods it is true of."""
    judged = judged_pods(case)
    by_id: dict[str, list[Cause]] = {}
    for rule in OF_PODS:
        for pod in judged:
            if rule.of_pod is not None:
                by_id.setdefault(rule.id, []).extend(map(rule.finding, rule.of_pod(case, pod)))
    return [_together(found, len(judged)) for found in by_id.values() if found]


def _together(found: list[Cause], pods: int) -> Cause:
    first, others = found[0], {item.pod for item in found} - {found[0].pod}
    if not others:
        return first
    more = f" The same is true of {len(others)} more of its {pods} pods."
    return replace(first, words=first.words + more)


def judged_pods(case: Case) -> list[PodEvidence]:
    """Of a run the pods that were the first to fail, if any has; else, as of an endpoint, all that are not gone."""
    ordered = sorted(case.pods, key=lambda pod: (str(pod.finished_at or ""), pod.name))
    if case.ends:
        lost = [pod for pod in ordered if pod.failed or pod.condition("DisruptionTarget")]
        times = [pod.finished_at for pod in lost if pod.finished_at is not None]
        if lost:
            first = min(times, default=None)
            return [
                pod
                for pod in lost
                if first is None or pod.finished_at is None or pod.finished_at - first <= TOGETHER
            ]
    there = [pod for pod in ordered if pod.gone_at is None]
    return there or [pod for pod in ordered if pod.failed][-1:]
