from __future__ import annotations

import pytest

from foundation.http.problems import flatten
from inference.grammar import cron_expression, time_zone
from inference.serializers import EndpointSerializer
from tests.inference.scaler_samples import GPU, SHIFT
from tests.tables import each_row

MINIMAL = {"team": "vision", "name": "a", "image": "b:1", "min_replicas": 1, "max_replicas": 4}


def problems(trigger=None, *, body=None, **scaling):
    data = {**MINIMAL, **(body or {}), "scaling": {"trigger": trigger, **scaling}}
    serializer = EndpointSerializer(data=data)
    serializer.is_valid()
    return {(problem.field, problem.code): problem.message for problem in flatten(serializer.errors)}


@each_row(
    ("trigger", "body", "scaling", "field", "code"),
    [
        (None, {}, {}, "scaling.trigger", "required"),
        (None, {"max_replicas": 1}, {"threshold": 5}, "scaling.trigger", "required"),
        ("load", {}, {}, "scaling.trigger", "invalid_choice"),
        ("in-flight", {"min_replicas": 5}, {}, "max_replicas", "below_min_replicas"),
        ("in-flight", {}, {"threshold": 0}, "scaling.threshold", "min_value"),
        ("in-flight", {}, {"threshold": "7"}, "scaling.threshold", "invalid"),
        ("in-flight", {}, {"threshold": True}, "scaling.threshold", "invalid"),
        ("in-flight", {}, {"threshold": 1e12}, "scaling.threshold", "max_value"),
        ("in-flight", {}, {"query": "sum(a)"}, "scaling.query", "without_effect"),
        ("in-flight", {}, {"metric_type": "value"}, "scaling.metric_type", "without_effect"),
        ("in-flight", {}, {"schedule": [SHIFT]}, "scaling.schedule", "without_effect"),
        ("in-flight", {}, {"fallback_replicas": 5}, "scaling.fallback_replicas", "above_max_replicas"),
        ("in-flight", {}, {"cooldown_seconds": 9}, "scaling.cooldown_seconds", "min_value"),
        ("in-flight", {}, {"scale_down_stabilization_seconds": 3601}, "scaling.scale_down_stabilization_seconds",
         "max_value"),
        ("in-flight", {}, {"tolerance": 1}, "scaling.tolerance", "unknown_field"),
        ("prometheus", {}, {"threshold": 5}, "scaling.query", "required"),
        ("prometheus", {}, {"query": "sum(a)"}, "scaling.threshold", "required"),
        ("prometheus", {}, {"query": "a\u0000", "threshold": 1}, "scaling.query", "null_characters_not_allowed"),
        ("prometheus", {}, {"query": "a\u001b", "threshold": 1}, "scaling.query", "invalid_query"),
        ("gpu-utilization", {}, {}, "scaling.trigger", "no_gpu"),
        ("gpu-utilization", GPU, {"threshold": 101}, "scaling.threshold", "out_of_range"),
        ("queue-latency", {}, {}, "scaling.trigger", "no_such_metric"),
        ("cpu", {}, {"fallback_replicas": 1}, "scaling.fallback_replicas", "without_effect"),
        ("cpu", {}, {"activation_threshold": 1}, "scaling.activation_threshold", "without_effect"),
        ("cron", {}, {}, "scaling.schedule", "required"),
        ("cron", {}, {"schedule": [SHIFT], "threshold": 1}, "scaling.threshold", "without_effect"),
        ("cron", {}, {"schedule": [{**SHIFT, "end": SHIFT["start"]}]}, "scaling.schedule.0.end", "no_time"),
        ("cron", {}, {"schedule": [{**SHIFT, "replicas": 5}]}, "scaling.schedule.0.replicas", "above_max_replicas"),
        ("cron", {}, {"schedule": [{**SHIFT, "start": "8 o'clock"}]}, "scaling.schedule.0.start", "invalid_cron"),
        ("cron", {}, {"schedule": [{**SHIFT, "timezone": "Mars/Base"}]}, "scaling.schedule.0.timezone",
         "unknown_time_zone"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_field_and_code(trigger, body, scaling, field, code):
    assert (field, code) in problems(trigger, body=body, **scaling)


@pytest.mark.parametrize("trigger", ["gpu-utilization", "cpu"])
def test_zero_needs_a_signal_that_exists_there(trigger):
    found = problems(trigger, body={**GPU, "scale_to_zero": True})
    assert "nothing of it exists at zero" in found["scaling.trigger", "no_signal_at_zero"]


@pytest.mark.parametrize(
    "text",
    ["0 8 * * 1-5", "*/5 * * * *", "0,30 0-23/2 1 JAN-MAR SUN", "59 23 31 12 6"],
)
def test_cron_expressions_that_are(text):
    assert cron_expression(text) is None


@pytest.mark.parametrize(
    "text",
    ["", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 7", "5-1 * * * *",
     "*/0 * * * *", "*/00 * * * *", "0-30/00 * * * *", "a * * * *", "@daily"],
)  # fmt: skip
def test_cron_expressions_that_are_not(text):
    assert cron_expression(text) is not None


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("UTC", True),
        ("Europe/Berlin", True),
        ("../etc/passwd", False),
        ("/x", False),
        ("Nowhere", False),
        ("right/Europe/Berlin", False),
    ],
)
def test_time_zones_are_those_of_the_iana_database(text, known):
    assert (time_zone(text) is None) == known
