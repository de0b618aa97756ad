"""How often one may ask REST: by user, token and address, counted together by all processes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from ipaddress import ip_network

import pytest
from django.test import Client
from rest_framework.test import APIClient

from cluster import kinds
from foundation.clock import freeze
from foundation.http import clients, rates
from foundation.http.rates import Kind, RateBucket
from foundation.models import PlatformSettings
from jobs.api.runs import TrainingRunViewSet
from tests.api.bench import ENDPOINTS, RUNS, problem
from tests.api.every_operation import NOW
from tests.factories.submitted import endpoint_body, make_attempt, make_run, run_body
from tests.factories.teams import api_client
from tests.planted_metrics import planted_metrics
from workloads.models import WatchCursor

FLAVORS = "/api/v1/flavors/"
SETTINGS = "/api/v1/settings/"
SMALL = {"reads_per_minute": 6, "writes_per_minute": 4, "expensive_per_minute": 2, "anonymous_per_minute": 3}

pytestmark = pytest.mark.django_db


@pytest.fixture
def small(settings, servers):
    """Small rates, as the platform's settings say; a user's token has half of each."""
    settings.REST_RATES = {}
    PlatformSettings.objects.update_or_create(pk=1, defaults=SMALL)
    with freeze(NOW) as clock:
        yield clock


def statuses(client, times, path=FLAVORS, **more):
    return [client.get(path, **more).status_code for _ in range(times)]


def session_of(user):
    client = Client()
    client.force_login(user)
    return client


def test_who_asks_too_often_is_refused_until_as_long_has_passed_as_was_said(bench, small):
    assert statuses(bench.client, 3) == [200, 200, 200]
    refused = bench.client.get(FLAVORS)
    problem(refused, 429, code="rate_limited")
    assert refused["Retry-After"] == "20"
    with freeze(NOW + timedelta(seconds=19)):
        assert statuses(bench.client, 1) == [429]
    with freeze(NOW + timedelta(seconds=20)):
        assert statuses(bench.client, 2) == [200, 429]


def test_one_token_leaves_its_user_the_other_half_and_others_all(bench, small):
    assert statuses(bench.client, 4)[-1] == 429
    assert statuses(session_of(bench.user), 4) == [200, 200, 200, 429]
    assert statuses(api_client(bench.lead), 3) == [200, 200, 200]


def test_reads_and_writes_are_counted_apart(bench, small):
    assert statuses(bench.client, 4)[-1] == 429
    assert [bench.client.post(RUNS, run_body("vision")).status_code for _ in range(3)] == [201, 201, 429]


def test_a_body_counts_by_its_length_as_it_is_kept(bench, small, settings):
    """One of a megabyte took the place of one of a kilobyte: a member filled the database with ten a second."""
    settings.REST_RATES = {kind.value: 1000 for kind in Kind} | {Kind.WRITES.value: 40}
    large = run_body("vision", source={"files": {"a.py": "x" * (5 * rates.BODY_BYTES)}})
    sent = [bench.client.post(RUNS, {**large, "name": f"r{number}"}).status_code for number in range(4)]
    assert sent == [201, 201, 201, 429]


def test_a_body_that_counts_more_than_a_minutes_rate_counts_as_the_whole_minute(bench, small, settings):
    settings.REST_RATES = {kind.value: 1000 for kind in Kind} | {Kind.WRITES.value: 4}
    large = run_body("vision", source={"files": {"a.py": "x" * (9 * rates.BODY_BYTES)}})
    assert bench.client.post(RUNS, large).status_code == 201
    refused = bench.client.post(RUNS, run_body("vision", name="small"))
    problem(refused, 429, code="rate_limited")
    with freeze(NOW + timedelta(seconds=int(refused["Retry-After"]))):
        assert bench.client.post(RUNS, run_body("vision", name="small")).status_code == 201


def test_a_body_that_is_passed_on_and_not_kept_counts_as_one_request(bench, small, settings):
    settings.REST_RATES = {kind.value: 1000 for kind in Kind} | {Kind.WRITES.value: 6}
    url = f"{ENDPOINTS}{bench.endpoint()['id']}/invoke/v1"
    asked = [bench.client.post(url, {"x": "y" * (9 * rates.BODY_BYTES)}).status_code for _ in range(2)]
    assert asked == [307, 307]


def test_what_the_scope_forbids_counts_too(bench, small):
    reader = api_client(bench.user, scopes=("read",))
    assert [reader.post(RUNS, {}).status_code for _ in range(3)] == [403, 403, 429]


def test_what_is_expensive_has_a_rate_of_its_own_besides(bench, small, settings):
    settings.REST_RATES = {kind.value: 1000 for kind in Kind} | {Kind.EXPENSIVE.value: 4}
    body = {"manifest": "kind: Job"}
    assert [bench.client.post(f"{RUNS}import/", body).status_code for _ in range(3)] == [422, 422, 429]
    assert bench.client.post(RUNS, run_body("vision")).status_code == 201
    assert bench.client.get(RUNS, HTTP_ACCEPT="text/csv").status_code == 200
    assert bench.client.get("/api/v1/costs/export.csv").status_code == 429
    assert "import_" in TrainingRunViewSet.expensive


def test_a_query_is_tried_only_so_often_wherever_it_is_sent(bench, small, settings):
    settings.REST_RATES = {kind.value: 1000 for kind in Kind} | {Kind.EXPENSIVE.value: 2}
    scaling = {"trigger": "prometheus", "threshold": 1, "query": "up"}
    WatchCursor.objects.create(kind=kinds.SCALED_OBJECT.address)
    with planted_metrics() as (url, _):
        settings.PROMETHEUS_URL = url
        body = endpoint_body("vision", max_replicas=3, scaling=scaling)
        asked = [bench.client.post("/api/v1/endpoints/preview/", body).status_code for _ in range(3)]
    assert asked == [422, 422, 429]


def test_guesses_at_tokens_are_counted_by_address_and_lock_nobody_out(bench, small):
    guesser = APIClient()
    answers = []
    for number in range(5):
        guesser.credentials(HTTP_AUTHORIZATION=f"Bearer mlp_guess{number}")
        answers.append(guesser.get(FLAVORS).status_code)
    assert answers == [401, 401, 401, 429, 429]
    assert statuses(APIClient(), 1) == [429]
    assert statuses(bench.client, 1) == [200]
    assert statuses(APIClient(), 1, REMOTE_ADDR="192.0.2.7") == [401]


def test_what_a_persons_runs_and_tokens_send_is_that_persons(bench):
    """Of threads, bodies and unread answers a client has its share: nobody has one for each run."""
    for number in range(2):
        run = make_run(bench.team, bench.user, name=f"run-{number}")
        _, token = make_attempt(run)
        of_run = APIClient()
        of_run.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
        assert (
            of_run.post(
                f"{RUNS}{run.public_id}/progress/", {"progress_percentage": 50.0}, format="json"
            ).status_code
            == 201
        )
    assert statuses(api_client(bench.user), 1) == [200]
    assert sorted(clients._known.values()) == [f"user:{bench.user.pk}"] * 3


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
    ],
)
def test_an_address_of_ipv6_is_its_network(small, first, second, same):
    assert statuses(APIClient(), 4, REMOTE_ADDR=first)[-1] == 429
    assert (statuses(APIClient(), 1, REMOTE_ADDR=second) == [429]) == same


def test_behind_a_trusted_proxy_the_client_is_counted(small, settings):
    settings.TRUSTED_PROXIES = [ip_network("10.0.0.0/8")]
    ask = {"REMOTE_ADDR": "10.0.0.1"}
    assert statuses(APIClient(), 4, HTTP_X_FORWARDED_FOR="192.0.2.1", **ask)[-1] == 429
    assert statuses(APIClient(), 1, HTTP_X_FORWARDED_FOR="192.0.2.2", **ask) == [401]
    forged = "192.0.2.9, 192.0.2.1"
    assert statuses(APIClient(), 1, HTTP_X_FORWARDED_FOR=forged, **ask) == [429]


def test_what_was_refused_is_refused_again_without_a_statement(bench, small, django_assert_num_queries):
    assert statuses(bench.client, 4)[-1] == 429
    with django_assert_num_queries(0):
        assert bench.client.get(FLAVORS)["Retry-After"] == "20"


def test_of_many_at_once_as_many_are_counted_as_there_is_room_for(servers, settings):
    settings.REST_RATES = {Kind.READS.value: 10}
    bucket = [RateBucket(Kind.READS, "user:at-once")]
    with freeze(NOW), ThreadPoolExecutor(8) as pool:
        waits = list(pool.map(lambda _: rates.count(bucket), range(40)))
    assert waits.count(0) == 10
    assert {wait for wait in waits if wait} == {6.0}


def test_where_one_bucket_is_full_the_other_is_not_counted(servers, settings):
    settings.REST_RATES = {Kind.READS.value: 2}
    full, other = RateBucket(Kind.READS, "user:a"), RateBucket(Kind.READS, "user:b")
    with freeze(NOW):
        assert [rates.count([full]) for _ in range(3)] == [0, 0, 30]
        assert [rates.count([full, other]) > 0 for _ in range(3)] == [True] * 3
        assert [rates.count([other]) for _ in range(3)] == [0, 0, 30]


def test_without_valkey_all_requests_are_let_through(bench, small, settings, monkeypatch):
    settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": "redis://127.0.0.1:1"}}
    monkeypatch.setattr(rates._pause, "until", 0.0)
    assert set(statuses(bench.client, 8)) == {200}


def test_a_changed_rate_holds_with_the_next_request(bench, small, admin, django_capture_on_commit_callbacks):
    assert statuses(bench.client, 4)[-1] == 429
    with django_capture_on_commit_callbacks(execute=True):
        assert admin.patch(SETTINGS, {"reads_per_minute": 1000}).status_code == 200
    assert set(statuses(bench.client, 50)) == {200}


@pytest.mark.parametrize("name", SMALL)
def test_a_rate_is_a_whole_number_above_zero(admin, name):
    problem(admin.patch(SETTINGS, {name: 0}), 422, name)


def test_after_valkey_was_wiped_the_rates_are_those_of_the_settings(bench, small):
    assert statuses(bench.client, 1) == [200]
    rates._client().flushdb()
    assert statuses(bench.client, 4) == [200, 200, 200, 429]
