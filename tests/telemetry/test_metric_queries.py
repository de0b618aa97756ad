"""What a real Prometheus says to queries that a scaler could not work with."""

from __future__ import annotations

import pytest

from telemetry.metric_queries import try_query
from tests.controller.metric_source import PROMETHEUS, metric_source
from tests.waiting import until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(PROMETHEUS is None, reason="the program prometheus is not installed"),
]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with metric_source(tmp_path_factory.mktemp("prometheus")) as source:
        source.planted = {
            'waiting{team="theirs",queue="orders"}': 3,
            'waiting{team="theirs",queue="payments"}': 4,
        }
        until(lambda: try_query(source.url, "count(waiting) == 2").value is not None)
        yield source.url


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ("waiting", "several_series", "2 series, which differ in the label queue, and"),
        ("not_there", "no_series", "gives no series now"),
        ("sum(waiting", "bad_query", "Prometheus refuses this query"),
        ("waiting[1m]", "bad_query", "matrix"),
        ("waiting * on (team) waiting", "bad_query", "many-to-many matching not allowed"),
        ("sum(waiting) / 0", "not_finite", "no number to scale by"),
    ],
)
def test_a_query_without_exactly_one_number_is_refused_with_the_reason(url, query, code, said):
    answer = try_query(url, query)
    assert answer.code == code
    assert said in answer.fault


@pytest.mark.parametrize(
    "query",
    [
        "waiting",
        '{__name__="waiting"}',
        "waiting * on (team) waiting",
        "waiting * on () group_left (queue) waiting",
    ],
)
def test_what_is_wrong_with_a_query_says_no_value_of_a_label(url, query):
    """The series that it found may be other teams'."""
    answer = try_query(url, query)
    assert answer.fault
    assert not [value for value in ("theirs", "orders", "payments") if value in answer.fault]


def test_one_number_is_the_answer(url):
    answer = try_query(url, "sum(waiting)")
    assert (answer.value, answer.fault, answer.doubt) == (7.0, "", "")


@pytest.mark.parametrize("address", ["", "http://127.0.0.1:9"])
def test_where_nobody_answers_there_is_a_doubt_and_no_fault(address):
    answer = try_query(address, "sum(waiting)")
    assert answer.fault == ""
    assert "nobody has tried this query" in answer.doubt
