from __future__ import annotations

import pytest
from django.core import exceptions as django_errors
from django.http import Http404, HttpResponse
from django.test import Client, RequestFactory
from django.urls import path
from rest_framework import exceptions as drf
from rest_framework import serializers
from rest_framework.test import APIClient
from rest_framework.views import APIView

from foundation import errors
from foundation.http import problems
from foundation.http.serializers import StrictSerializer

KEYS = {"type", "title", "status", "detail", "code", "request_id", "errors"}
RAISED: dict[str, Exception] = {}


class BodySerializer(StrictSerializer):
    units = serializers.IntegerField(max_value=8)


class RaisingView(APIView):
    authentication_classes = ()
    permission_classes = ()

    def get(self, request):
        raise RAISED["error"]

    def post(self, request):
        BodySerializer(data=request.data).is_valid(raise_exception=True)
        return HttpResponse(status=204)


def crash(request):
    raise RuntimeError("select secret from table")


def forbid(request):
    raise django_errors.PermissionDenied("internal reason")


urlpatterns = [
    path("api/v1/raise/", RaisingView.as_view()),
    path("api/v1/crash/", crash),
    path("api/v1/forbid/", forbid),
    path("crash/", crash),
]
handler400 = problems.bad_request
handler403 = problems.permission_denied
handler404 = problems.page_not_found
handler500 = problems.server_error

pytestmark = pytest.mark.urls(__name__)


def answer(error: Exception):
    RAISED["error"] = error
    response = APIClient(raise_request_exception=False).get("/api/v1/raise/")
    body = response.json()
    assert response["Content-Type"] == "application/problem+json"
    assert set(body) == KEYS
    assert body["status"] == response.status_code
    assert body["request_id"] == response["X-Request-ID"]
    return response, body


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.Malformed("m"), 400, "malformed"),
        (errors.NotSignedIn("m"), 401, "not_signed_in"),
        (errors.NotAllowed("m", code="viewer_only"), 403, "viewer_only"),
        (errors.NotFound("m"), 404, "not_found"),
        (errors.Conflict("m"), 409, "conflict"),
        (errors.PreconditionFailed("m"), 412, "precondition_failed"),
        (errors.TooLarge("m"), 413, "too_large"),
        (errors.Invalid("m"), 422, "invalid"),
        (errors.RateLimited("m", retry_after_seconds=7), 429, "rate_limited"),
        (errors.Unavailable("m"), 503, "unavailable"),
        (drf.ParseError(), 400, "malformed"),
        (drf.NotAuthenticated(), 401, "not_signed_in"),
        (drf.AuthenticationFailed(code="invalid_token"), 401, "invalid_token"),
        (drf.PermissionDenied(), 403, "not_allowed"),
        (drf.NotFound(), 404, "not_found"),
        (drf.MethodNotAllowed("GET"), 405, "method_not_allowed"),
        (drf.UnsupportedMediaType("text/csv"), 415, "unsupported_media_type"),
        (drf.Throttled(wait=3.2), 429, "rate_limited"),
        (drf.ValidationError({"name": ["no"]}), 422, "invalid"),
        (Http404(), 404, "not_found"),
        (django_errors.PermissionDenied(), 403, "not_allowed"),
        (django_errors.RequestDataTooBig(), 413, "too_large"),
        (django_errors.SuspiciousOperation(), 400, "malformed"),
        (django_errors.ValidationError({"slug": ["no"]}), 422, "invalid"),
        (RuntimeError("password=hunter2"), 500, "internal_error"),
    ],
)
def test_each_error_is_a_problem_document_with_its_status_and_code(error, status, code):
    response, body = answer(error)
    assert (response.status_code, body["code"]) == (status, code)


def test_an_unexpected_error_tells_nothing_of_the_inside():
    response, _ = answer(RuntimeError("password=hunter2"))
    assert b"hunter2" not in response.content
    assert b"RuntimeError" not in response.content


@pytest.mark.parametrize(
    "error", [errors.NotSignedIn("m"), drf.NotAuthenticated(), drf.AuthenticationFailed()]
)
def test_401_says_how_to_sign_in(error):
    assert answer(error)[0]["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("error", "seconds"),
    [(errors.RateLimited("m", retry_after_seconds=7), "7"), (drf.Throttled(wait=3.2), "4")],
)
def test_429_says_when_to_come_back(error, seconds):
    assert answer(error)[0]["Retry-After"] == seconds


def test_nested_errors_have_dotted_fields():
    _, body = answer(
        drf.ValidationError(
            {"env": [{}, {"name": ["required"]}], "command": {0: ["empty"]}, "non_field_errors": ["x"]}
        )
    )
    assert [each["field"] for each in body["errors"]] == ["env.1.name", "command.0", ""]


def test_errors_of_a_list_serializer_are_numbered():
    _, body = answer(drf.ValidationError([{}, {"name": ["no"]}]))
    assert [each["field"] for each in body["errors"]] == ["1.name"]


def test_fields_of_a_portal_error_are_passed_on():
    _, body = answer(errors.Invalid.of_field("env.0.name", "Taken.", code="taken"))
    assert body["errors"] == [{"field": "env.0.name", "code": "taken", "message": "Taken."}]
    assert body["detail"] == "Taken."


def test_a_sane_request_id_is_kept_and_an_odd_one_replaced():
    client = APIClient()
    assert (
        client.get("/api/v1/none/", headers={"X-Request-ID": "build-1234567"})["X-Request-ID"]
        == "build-1234567"
    )
    for odd in ("short", "x" * 65, "a b c d e f g h", "<script>alert(1)</script>"):
        assert client.get("/api/v1/none/", headers={"X-Request-ID": odd})["X-Request-ID"] != odd


@pytest.mark.parametrize("url", ["/api/v1/none/", "/api/", "/api/v2/teams/"])
def test_an_unknown_route_below_api_is_a_json_404(url):
    response = Client().get(url)
    assert response.status_code == 404
    assert set(response.json()) == KEYS


def test_a_crash_outside_drf_is_a_problem_below_api_and_a_page_elsewhere():
    client = Client(raise_request_exception=False)
    below = client.get("/api/v1/crash/")
    assert (below.status_code, below.json()["code"]) == (500, "internal_error")
    assert b"secret" not in below.content
    page = client.get("/crash/")
    assert page.status_code == 500
    assert page["Content-Type"].startswith("text/html")


def test_a_refusal_outside_drf_keeps_its_reason_inside():
    response = Client().get("/api/v1/forbid/")
    assert (response.status_code, response.json()["code"]) == (403, "not_allowed")
    assert b"internal reason" not in response.content


def test_a_failed_csrf_check_is_a_problem_below_api():
    response = problems.csrf_failure(RequestFactory().post("/api/v1/teams/"), reason="no cookie")
    assert (response.status_code, response["Content-Type"]) == (403, "application/problem+json")


@pytest.mark.parametrize("url", ["/api/v1/raise/?a=%00", "/api/v1/a%00b/", "/sign-in/?next=%00"])
def test_a_nul_in_a_url_is_malformed(url):
    assert Client().get(url).status_code == 400


def post(body, **headers):
    return APIClient().generic("POST", "/api/v1/raise/", body, content_type="application/json", **headers)


def test_a_body_above_the_limit_is_refused_before_it_is_read():
    response = post(b'{"units": "' + b"x" * (2 * 1024 * 1024) + b'"}')
    assert (response.status_code, response.json()["code"]) == (413, "too_large")


def test_a_valid_body_is_accepted_and_an_invalid_one_named():
    assert post(b'{"units": 8}').status_code == 204
    response = post(b'{"units": 9}')
    assert response.status_code == 422
    assert [(each["field"], each["code"]) for each in response.json()["errors"]] == [("units", "max_value")]


def test_a_form_body_is_an_unsupported_media_type():
    response = APIClient().generic(
        "POST", "/api/v1/raise/", b"units=8", content_type="application/x-www-form-urlencoded"
    )
    assert response.status_code == 415
