"""The evaluator beside the real Prometheus, on the same samples and over the same API.

`promql_answers.json` holds what Prometheus answered; run this file to ask it anew.
"""

from __future__ import annotations

import json
import re
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from prometheus_bed import NOW, PROMETHEUS, PROMTOOL, RealPrometheus, ask, open_metrics, storage

from tests.planted_metrics import TOKEN, planted_metrics
from tests.tables import each_row

ANSWERS = Path(__file__).with_name("promql_answers.json")
QUERIES = [
    "in_flight",
    'in_flight{pod="a"}',
    'in_flight{pod=~"a|b", zone!="y"}',
    '{__name__=~"in_.*", pod!~"a|b"}',
    "in_flight offset 1m",
    "nothing_there",
    "2 > bool 1",
    "0 / 0",
    "-1 / 0",
    "sum(in_flight)",
    'sum(in_flight{namespace="team-vision"}) or vector(0)',
    "sum(nothing_there) or vector(0)",
    "avg by (zone) (gpu_util)",
    "max without (pod) (gpu_util)",
    "min(gpu_util) by (zone, namespace)",
    "count(requests_total)",
    "rate(requests_total[1m])",
    'sum(rate(requests_total{code="200"}[2m]))',
    "irate(requests_total[1m])",
    "increase(requests_total[5m])",
    "rate(in_flight[20s])",
    "avg_over_time(gpu_util[2m])",
    "max_over_time(gpu_util[30m])",
    "min_over_time(gpu_util[2m] offset 1m)",
    "sum_over_time(in_flight[2m])",
    "count_over_time(in_flight[2m])",
    "histogram_quantile(0.95, sum by (le) (rate(latency_seconds_bucket[5m])))",
    "histogram_quantile(0.5, rate(latency_seconds_bucket[5m]))",
    "histogram_quantile(0.99, latency_seconds_bucket)",
    "histogram_quantile(2, latency_seconds_bucket)",
    'histogram_quantile(0.5, latency_seconds_bucket{le="1"})',
    "gpu_util * 2",
    "100 - gpu_util",
    "gpu_util > 60",
    "60 < gpu_util",
    "gpu_util > bool 60",
    'requests_total{code="500"} / ignoring(code) sum without (code) (requests_total)',
    'sum by (pod) (rate(requests_total{code="500"}[5m])) / sum by (pod) (rate(requests_total[5m]))',
    "gpu_util / on(pod) capacity",
    "gpu_util and on(pod) (in_flight > 2)",
    "gpu_util unless on(pod) (in_flight > 2)",
    "gpu_util > 90 or in_flight",
    "sum(gpu_util) > 100 < 1000",
    "odd",
    "sum(odd)",
    "max_over_time(odd[5m])",
    "avg(gpu_util) by (pod) / 100 # a comment",
    "SUM(in_flight) BY (zone)",
    "0x1F",
    "Inf",
]
WRONG = [
    "",
    "sum(",
    "sum(in_flight",
    "in_flight[5m",
    "in_flight{pod=a}",
    "in_flight{pod=~'('}",
    "{}",
    "{pod=~'.*'}",
    "rate(in_flight)",
    "sum(in_flight[5m])",
    "no_such_function(in_flight)",
    "in_flight in_flight",
    "1 > 2",
    "1 and 2",
    "clamp_min(in_flight)",
    "in_flight + 'text'",
    "-in_flight[5m]",
    "in_flight[1m] + 1",
    "sum by (pod in_flight",
    "rate(5m)",
    "'unfinished",
    "in_flight)",
    "sum(in_flight, 2)",
    "on(pod)",
]
FAILING = [
    "in_flight + on(zone) gpu_util",
    "in_flight / on(zone) info",
    "max_over_time({__name__=~'in_flight|gpu_util'}[1m])",
]
REFUSED = {
    "max_over_time(rate(requests_total[1m])[5m:1m])": "devcluster does not evaluate subqueries",
    "in_flight @ 1700000000": "devcluster does not evaluate the @ modifier",
    "max_over_time((rate(requests_total[1m]))[5m:1m])": "devcluster does not evaluate subqueries",
    "count_values('v', in_flight)": "devcluster does not evaluate the aggregation count_values",
    "topk(2, in_flight)": "devcluster does not evaluate the aggregation topk",
    "sum(in_flight) atan2 1": "devcluster does not evaluate the operator atan2",
    "in_flight + fill(0) gpu_util": "devcluster does not evaluate fill modifiers",
    '{pod="a" or zone="x"}': "devcluster does not evaluate matchers that are joined by or",
    "predict_linear(in_flight[5m], 60)": "devcluster does not evaluate the function predict_linear",
    "1 + deg(in_flight)": "devcluster does not evaluate the function deg",
    "clamp_min(gpu_util, 50)": "devcluster does not evaluate the function clamp_min",
    "in_flight ^ 2": "devcluster does not evaluate the operator ^",
    "gpu_util / on(pod) group_left() capacity": "devcluster does not evaluate group_left",
    "info * on(zone) group_right(kind) gpu_util": "devcluster does not evaluate group_right",
    "'a text'": "devcluster does not evaluate strings",
    "in_flight[1m]": 'invalid expression type "range vector"',
    "no_such_function(in_flight)": "unknown function with name 'no_such_function'",
    "in_flight{pod=~'(?<!a)'}": "illegal regex",
    "sum(in_flight": "unclosed left parenthesis",
    "a" * 8001: "the query has more than 8000 characters",
}


@pytest.fixture(scope="module")
def ours():
    """The API over the planted samples, on a port of this process."""
    with planted_metrics(storage()) as (url, _):
        yield url


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    if PROMETHEUS is None or PROMTOOL is None:
        pytest.skip("there is no Prometheus on this machine")
    made = RealPrometheus(tmp_path_factory.mktemp("prometheus"), open_metrics(storage()))
    yield made.url
    made.end()


@pytest.mark.cluster
def test_a_query_over_a_time_gives_what_the_real_one_gives(ours, real):
    asked = {
        "query": "avg by (pod) (gpu_util) and on(pod) capacity > 100",
        "start": str(NOW - 300),
        "end": str(NOW),
        "step": "30",
    }
    mine, theirs = (ask(url, "query_range", **asked) for url in (ours, real))
    assert (mine[0], theirs[0]) == (200, 200)
    same(flat(mine[1]), flat(theirs[1]))


def test_a_query_over_a_time_is_the_query_at_each_step(ours):
    asked = {"query": 'in_flight{pod="a"}', "start": str(NOW - 60), "end": str(NOW), "step": "30"}
    (series,) = ask(ours, "query_range", **asked)[1]["data"]["result"]
    for at, value in series["values"]:
        (element,) = ask(ours, "query", query=asked["query"], time=str(at))[1]["data"]["result"]
        assert element["value"] == [at, value]
    assert [at for at, _ in series["values"]] == [NOW - 60, NOW - 30, NOW]


@pytest.mark.parametrize("wrong", [{"step": "0"}, {"step": "x"}, {"end": "soon"}, {"step": "0.005"}])
def test_a_time_that_is_none_or_too_fine_is_refused(ours, wrong):
    asked = {"query": "in_flight", "start": str(NOW - 60), "end": str(NOW), "step": "30"} | wrong
    status, answer = ask(ours, "query_range", **asked)
    assert (status, answer["errorType"]) == (400, "bad_data")


def flat(answer):
    """Type, and the elements by their labels."""
    data = answer["data"]
    if data["resultType"] in {"scalar", "string"}:
        return data["resultType"], {(): [data["result"]]}
    found = {}
    for element in data["result"]:
        key = tuple(sorted(element["metric"].items()))
        found[key] = element.get("values") or [element["value"]]
    assert len(found) == len(data["result"])
    return data["resultType"], found


def same(mine, theirs):
    assert mine[0] == theirs[0]
    assert mine[1].keys() == theirs[1].keys()
    for key, points in mine[1].items():
        assert [at for at, _ in points] == [at for at, _ in theirs[1][key]]
        for (_, value), (_, wanted) in zip(points, theirs[1][key], strict=True):
            if value != wanted:
                assert float(value) == pytest.approx(float(wanted), rel=1e-9, nan_ok=True)


@each_row("query", QUERIES)
def test_values_are_those_that_prometheus_gave(ours, query):
    status, answer = ask(ours, "query", query=query, time=str(NOW))
    assert status == 200, answer
    same(flat(answer), flat({"data": json.loads(ANSWERS.read_text())[query]}))


@pytest.mark.cluster
@pytest.mark.parametrize("query", QUERIES)
def test_prometheus_still_gives_them(real, query):
    status, answer = ask(real, "query", query=query, time=str(NOW))
    assert status == 200, answer
    same(flat(answer), flat({"data": json.loads(ANSWERS.read_text())[query]}))


@pytest.mark.cluster
@pytest.mark.parametrize("query", WRONG)
def test_what_prometheus_cannot_parse_is_refused_likewise(ours, real, query):
    (mine_code, mine), (code, theirs) = [
        ask(url, "query", query=query, time=str(NOW)) for url in (ours, real)
    ]
    assert (mine_code, mine["status"], mine["errorType"]) == (code, theirs["status"], theirs["errorType"])


@each_row("query", WRONG)
def test_what_cannot_be_parsed_is_refused_in_the_shape_of_prometheus(ours, query):
    status, answer = ask(ours, "query", query=query, time=str(NOW))
    assert (status, answer["status"], answer["errorType"]) == (400, "error", "bad_data")
    assert re.fullmatch(r'invalid parameter "query": parse error: .+', answer["error"])


@pytest.mark.parametrize("query", FAILING)
def test_what_cannot_be_evaluated_fails_in_the_shape_of_prometheus(ours, query):
    status, answer = ask(ours, "query", query=query, time=str(NOW))
    assert (status, answer["status"], answer["errorType"]) == (422, "error", "execution")


@pytest.mark.cluster
@pytest.mark.parametrize("query", FAILING)
def test_what_prometheus_cannot_evaluate_fails_likewise(ours, real, query):
    (mine_code, mine), (code, theirs) = [
        ask(url, "query", query=query, time=str(NOW)) for url in (ours, real)
    ]
    assert (mine_code, mine["errorType"]) == (code, theirs["errorType"]) == (422, "execution")
    assert mine["error"].split(";")[-1][:60] == theirs["error"].split(";")[-1][:60]


@pytest.mark.parametrize("query", REFUSED)
def test_what_is_not_evaluated_is_refused_by_name(ours, query):
    status, answer = ask(ours, "query", query=query)
    assert (status, answer["errorType"]) == (400, "bad_data")
    assert REFUSED[query] in answer["error"]


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ('sum(in_flight{pod="a"})', "4"),
        ("count(gpu_util)", "3"),
        ("sum(nothing_there) or vector(0)", "0"),
        ("histogram_quantile(0.5, sum by (le) (latency_seconds_bucket)) > bool 0.3", "1"),
    ],
)
def test_some_values_that_anyone_can_check(ours, query, value):
    status, answer = ask(ours, "query", query=query, time=str(NOW))
    assert status == 200
    (element,) = answer["data"]["result"]
    assert element["value"] == [NOW, value]


@pytest.mark.parametrize("text", ["soon", "NaN", "2026-13-01T00:00:00Z"])
def test_a_bad_time_is_named(ours, text):
    status, answer = ask(ours, "query", query="up", time=text)
    assert (status, answer["status"], answer["errorType"]) == (400, "error", "bad_data")
    assert answer["error"] == f'invalid parameter "time": cannot parse "{text}" to a valid timestamp'


def test_a_time_may_be_written_as_a_date(ours):
    answers = [
        ask(ours, "query", query="in_flight", time=text) for text in (str(NOW), "2023-11-14T22:13:20Z")
    ]
    assert answers[0] == answers[1]


def test_what_nobody_asks_for_is_not_there(ours):
    status, answer = ask(ours, "series", query="up", start="1", end="2", step="1")
    assert (status, answer["status"], answer["errorType"]) == (404, "error", "not_found")
    assert "/api/v1/series" in answer["error"]


def test_a_query_may_be_posted_as_a_form(ours):
    form = urllib.parse.urlencode({"query": "sum(in_flight)", "time": str(NOW)}).encode()
    request = urllib.request.Request(f"{ours}/api/v1/query", form, {"Authorization": f"Bearer {TOKEN}"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - its own loopback address
        data = json.load(answer)["data"]
    assert data == ask(ours, "query", query="sum(in_flight)", time=str(NOW))[1]["data"]


@pytest.mark.parametrize("token", ["", "other", "a-tokens", "\xff"])
def test_who_has_no_token_gets_nothing(ours, token):
    for path in ("query?query=up", "status/buildinfo", "nothing"):
        headers = {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"{ours}/api/v1/{path}", headers=headers)  # noqa: S310
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(request, timeout=30)  # noqa: S310 - its own loopback address


def test_it_says_what_it_is(ours):
    status, answer = ask(ours, "status/buildinfo")
    assert (status, answer["data"]["version"]) == (200, "2.42.0+devcluster")


@pytest.mark.parametrize(
    "deep", ["(" * 500 + "1" + ")" * 500, "1" + "+1" * 500, "2" + "^2" * 500, "-" * 500 + "up"]
)
def test_a_deep_expression_is_refused_and_hurts_nobody(ours, deep):
    status, answer = ask(ours, "query", query=deep)
    assert status == 400
    assert "nested" in answer["error"]


def _record(folder: Path) -> None:
    real = RealPrometheus(folder, open_metrics(storage()))
    try:
        found = {query: ask(real.url, "query", query=query, time=str(NOW))[1]["data"] for query in QUERIES}
    finally:
        real.end()
    lines = (f"{json.dumps(query)}: {json.dumps(data, sort_keys=True)}" for query, data in found.items())
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        _record(Path(made))
