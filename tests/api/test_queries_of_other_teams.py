"""What a team's own query of a scaler tells about other teams: nothing, asked by a preview or by replicas."""

from __future__ import annotations

import time

import pytest

from cluster import kinds
from devcluster.prometheus.storage import NAME, Storage
from tests.api.bench import ENDPOINTS, problem
from tests.factories.submitted import endpoint_body
from tests.planted_metrics import planted_metrics
from workloads.models import WatchCursor

THEIRS = "merger"


@pytest.fixture(scope="module")
def metrics():
    """Two pods of ours and one of another team, as kube-state-metrics tells of them."""
    storage, now = Storage(keep_seconds=3600), int(time.time() * 1000)
    for namespace, pod in (("team-vision", "digits"), ("team-vision", "echo"), ("team-nlp", THEIRS)):
        storage.append({NAME: "kube_pod_info", "namespace": namespace, "pod": pod}, now, 1.0)
    with planted_metrics(storage) as (url, _):
        yield url


@pytest.fixture
def ask(bench, metrics, settings):
    settings.PROMETHEUS_URL = metrics
    WatchCursor.objects.create(kind=kinds.SCALED_OBJECT.address)

    def preview(query):
        scaling = {"trigger": "prometheus", "threshold": 1, "query": query}
        return bench.client.post(
            f"{ENDPOINTS}preview/", endpoint_body("vision", max_replicas=3, scaling=scaling)
        )

    return preview


def test_no_yes_or_no_query_reads_another_teams_pod_names(ask):
    """Letter by letter, as it was read before."""
    read = ""
    for _ in THEIRS:
        found = [
            letter
            for letter in "aegmrz"
            if ask(f'count(kube_pod_info{{namespace="team-nlp",pod=~"{read}{letter}.*"}})').status_code == 200
        ]
        if not found:
            break
        read += found[0]
    assert read == ""


@pytest.mark.parametrize(
    "query",
    [
        'count(kube_pod_info{namespace="team-nlp"})',
        'count({__name__=~"kube_.*",pod="merger"})',
        'count(kube_pod_info{pod="merger"} or kube_pod_info{namespace!="team-vision"})',
        'sum(max_over_time(kube_pod_info{pod="merger"}[5m]))',
        r'count(kube_pod_info{pod="\"} or kube_pod_info{pod=\"merger"})',
    ],
)
def test_however_it_is_written_there_are_no_series_of_theirs(ask, query):
    said = problem(ask(query), 422, "scaling.query")["errors"][0]
    assert (said["code"], "namespace team-vision alone" in said["message"]) == ("no_series", True)


def test_of_its_own_series_a_team_hears_as_before(ask):
    assert ask("count(kube_pod_info)").status_code == 200
    several = problem(ask("kube_pod_info"), 422)
    assert several["errors"][0]["code"] == "several_series"


def test_what_is_no_promql_is_refused_with_its_place(ask):
    assert problem(ask("count(kube_pod_info"), 422, "scaling.query")["errors"][0]["code"] == "bad_query"


class _Counting(Storage):
    asked = 0

    def select(self, matchers):
        self.asked += 1
        return super().select(matchers)


@pytest.mark.parametrize("path", ["preview/", ""])
def test_a_query_is_asked_once_for_what_is_counted_once(path, bench, settings):
    storage = _Counting(keep_seconds=3600)
    storage.append({NAME: "depth", "namespace": "team-vision"}, int(time.time() * 1000), 1.0)
    WatchCursor.objects.create(kind=kinds.SCALED_OBJECT.address)
    scaling = {"trigger": "prometheus", "threshold": 1, "query": "sum(depth)"}
    with planted_metrics(storage) as (settings.PROMETHEUS_URL, _):
        made = bench.client.post(
            f"{ENDPOINTS}{path}", endpoint_body("vision", max_replicas=3, scaling=scaling)
        )
    assert made.status_code in {200, 201}
    assert storage.asked == 1
