"""PriorityClasses that the portal makes: whatever serves is above whatever trains, and the scheduler preempts nobody."""

from __future__ import annotations

from tenancy.namespace_manifests import build_priority_classes, priority_class
from workloads.states import Priority


def test_what_serves_is_above_what_trains_at_any_priority():
    values = {each["metadata"]["name"]: each["value"] for each in build_priority_classes()}
    assert len(values) == 2 * len(Priority)
    training = [values[priority_class(each.value)] for each in Priority]
    serving = [values[priority_class(each.value, serves=True)] for each in Priority]
    assert max(training) < min(serving)
    assert training == sorted(training)
    assert serving == sorted(serving)


def test_the_scheduler_preempts_for_none_of_them():
    assert {each["preemptionPolicy"] for each in build_priority_classes()} == {"Never"}
