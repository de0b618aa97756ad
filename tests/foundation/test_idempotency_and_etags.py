from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.urls import path
from rest_framework.response import Response
from rest_framework.test import APIClient, APIRequestFactory
from rest_framework.views import APIView

from foundation import clock
from foundation.errors import Conflict, Malformed, PreconditionFailed
from foundation.http import etag, idempotency
from foundation.http.idempotency import idempotent
from foundation.models import Heartbeat, IdempotencyKey
from tests.factories.teams import api_client, make_user

ENTERED, LEAVE = threading.Event(), threading.Event()


def make(request) -> Response:
    if request.data.get("fail"):
        Heartbeat.objects.create(process="half", at=clock.now())
        raise Conflict("No.")
    made = Heartbeat.objects.create(
        process=f"{Heartbeat.objects.count()}-{request.data.get('n')}", at=clock.now()
    )
    return Response({"process": made.process}, status=201, headers={"Location": "/x/"})


def _anybody(request) -> None:
    """Whoever may ask at all may ask again."""


class MakeView(APIView):
    @idempotent()
    def post(self, request):
        return make(request)


class SecretView(APIView):
    @idempotent(store_body=False)
    def post(self, request):
        return make(request)


class TwoStepsView(APIView):
    @idempotent(judge=_anybody)
    def post(self, request):
        return make(request)


class SlowView(APIView):
    @idempotent()
    def post(self, request):
        ENTERED.set()
        assert LEAVE.wait(30)
        return make(request)


class SlowTwoStepsView(APIView):
    @idempotent(judge=_anybody)
    def post(self, request):
        ENTERED.set()
        assert LEAVE.wait(30)
        return make(request)


urlpatterns = [
    path("api/v1/things/", MakeView.as_view()),
    path("api/v1/secrets/", SecretView.as_view()),
    path("api/v1/two-steps/", TwoStepsView.as_view()),
    path("api/v1/slow/", SlowView.as_view()),
    path("api/v1/slow-two-steps/", SlowTwoStepsView.as_view()),
]
pytestmark = [pytest.mark.urls(__name__), pytest.mark.django_db]
BOTH = pytest.mark.parametrize("url", ["/api/v1/things/", "/api/v1/two-steps/"])


def post(client: APIClient, url: str = "/api/v1/things/", body=None, key: str | None = "key-1"):
    headers = {} if key is None else {"Idempotency-Key": key}
    return client.post(url, {"n": 1} if body is None else body, headers=headers)


@pytest.fixture
def client() -> APIClient:
    return api_client(make_user())


@BOTH
def test_the_same_key_and_body_give_the_first_answer_and_make_nothing_twice(client, url):
    first, second = post(client, url), post(client, url)
    assert first.status_code == second.status_code == 201
    assert first.json() == second.json()
    assert second["Location"] == "/x/"
    assert second["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first
    assert Heartbeat.objects.count() == 1


def test_key_order_and_spaces_in_the_body_make_no_difference(client):
    post(client, body={"n": 1, "m": 2})
    again = client.generic(
        "POST",
        "/api/v1/things/",
        b'{"m":2,  "n":1}',
        content_type="application/json",
        headers={"Idempotency-Key": "key-1"},
    )
    assert again["Idempotency-Replayed"] == "true"


@BOTH
def test_the_same_key_with_another_body_is_refused(client, url):
    post(client, url)
    response = post(client, url, body={"n": 2})
    assert (response.status_code, response.json()["code"]) == (422, "key_reused")
    assert Heartbeat.objects.count() == 1


def test_the_same_key_on_another_resource_is_refused(client):
    post(client)
    assert post(client, "/api/v1/two-steps/").status_code == 422


def test_keys_of_two_users_do_not_meet(client):
    post(client)
    assert "Idempotency-Replayed" not in post(api_client(make_user()))
    assert Heartbeat.objects.count() == 2


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "é"])
def test_a_malformed_key_is_named(client, key):
    response = post(client, key=key)
    assert response.status_code == 400
    assert response.json()["errors"][0]["field"] == "Idempotency-Key"


def test_without_a_key_every_request_counts(client):
    post(client, key=None)
    post(client, key=None)
    assert Heartbeat.objects.count() == 2


@BOTH
def test_a_failed_try_leaves_no_key_behind(client, url):
    assert post(client, url, body={"fail": True}).status_code == 409
    assert not IdempotencyKey.objects.exists()
    assert post(client, url).status_code == 201


def test_a_failed_try_leaves_no_row_of_the_service_behind(client):
    post(client, body={"fail": True})
    assert not Heartbeat.objects.exists()


def test_an_answer_that_holds_a_secret_is_never_stored(client):
    post(client, "/api/v1/secrets/")
    assert IdempotencyKey.objects.get().body is None
    again = post(client, "/api/v1/secrets/")
    assert (again.status_code, again.json()["code"]) == (409, "answer_not_kept")
    assert Heartbeat.objects.count() == 1


def test_a_key_counts_for_24_hours_and_is_then_free(client):
    user = make_user()
    with clock.freeze(clock.now() - timedelta(hours=24, seconds=1)):
        old = api_client(user)
        post(old)
    assert "Idempotency-Replayed" not in post(old)
    assert Heartbeat.objects.count() == 2


def test_old_keys_are_purged_and_young_ones_kept(client):
    post(client)
    assert idempotency.purge_expired(now=clock.now() + timedelta(hours=23)) == 0
    assert idempotency.purge_expired(now=clock.now() + timedelta(hours=25)) == 1


def test_a_key_left_in_flight_by_a_crash_is_taken_over_after_five_minutes(client):
    post(client, "/api/v1/two-steps/")
    IdempotencyKey.objects.update(state="in-flight", status=None, body=None)
    assert post(client, "/api/v1/two-steps/").json()["code"] == "in_flight"
    IdempotencyKey.objects.update(created_at=clock.now() - timedelta(minutes=6))
    assert post(client, "/api/v1/two-steps/").status_code == 201


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("url", ["/api/v1/slow/", "/api/v1/slow-two-steps/"])
def test_a_request_still_in_flight_is_a_conflict(client, url):
    ENTERED.clear()
    LEAVE.clear()
    answers = []

    def first() -> None:
        try:
            answers.append(post(client, url))
        finally:
            connection.close()

    thread = threading.Thread(target=first)
    thread.start()
    try:
        assert ENTERED.wait(30)
        second = post(client, url)
        assert (second.status_code, second.json()["code"]) == (409, "in_flight")
    finally:
        LEAVE.set()
        thread.join()
    assert answers[0].status_code == 201
    assert post(client, url)["Idempotency-Replayed"] == "true"
    assert Heartbeat.objects.count() == 1


def versions(value: str | None):
    headers = {} if value is None else {"If-Match": value}
    return etag.expected_versions(APIRequestFactory().patch("/", headers=headers))


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("*", None),
        ('"7"', {"7"}),
        ('"7", "8"', {"7", "8"}),
        ('W/"7"', {"7"}),
        ('"7-0123456789abcdef-gzip"', {"7"}),
        ('"abc"', {"abc"}),
        ('"7-0123456789abcdef"', {"7"}),
        ('"No-version"', set()),
    ],
)
def test_if_match_names_the_versions_that_will_do(header, expected):
    assert versions(header) == expected


@pytest.mark.parametrize("header", ["7", '"7', "", '"7",,"8"'])
def test_a_malformed_if_match_is_named(header):
    with pytest.raises(Malformed) as caught:
        versions(header)
    assert caught.value.errors[0].field == "If-Match"


def test_a_version_that_moved_on_fails_the_precondition():
    etag.check_version(expected=None, current=3)
    etag.check_version(expected=frozenset({"3"}), current=3)
    with pytest.raises(PreconditionFailed):
        etag.check_version(expected=frozenset({"2"}), current=3)
