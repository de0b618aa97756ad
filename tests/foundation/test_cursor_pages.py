from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import pytest
from django.urls import path
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.test import APIClient

from foundation.http import filters
from foundation.http.filters import DeclaredFilters
from foundation.http.pages import CursorPage
from foundation.models import Heartbeat
from teams.models import ApiToken
from tests.factories.teams import make_user
from tests.tables import each_row

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


class BeatSerializer(serializers.ModelSerializer):
    class Meta:
        model = Heartbeat
        fields = ["process"]


class BeatsView(ListAPIView):
    authentication_classes = ()
    permission_classes = ()
    pagination_class = CursorPage
    filter_backends = [DeclaredFilters]
    serializer_class = BeatSerializer
    queryset = Heartbeat.objects.all()
    ordering_fields = ("at", "process")
    ordering = "-at"
    filters = {
        "process": filters.text("process", many=True),
        "since": filters.moment("at__gte"),
        "kind": filters.choice(["a", "b"], "process"),
        "number": filters.integer("pk"),
        "flag": filters.boolean("detail__isnull"),
        "id": filters.uuid("process"),
    }


class UsedSerializer(serializers.ModelSerializer):
    class Meta:
        model = ApiToken
        fields = ["name"]


class UsedView(BeatsView):
    serializer_class = UsedSerializer
    queryset = ApiToken.objects.all()
    ordering_fields = {"used": "last_used_at", "owner": "user__username"}
    ordering = "used"
    filters = {}


urlpatterns = [path("api/v1/beats/", BeatsView.as_view()), path("api/v1/used/", UsedView.as_view())]
pytestmark = [pytest.mark.urls(__name__), pytest.mark.django_db]


def get(url: str = "/api/v1/beats/", **query):
    return APIClient().get(f"{url}?{urlencode(query)}" if query else url)


def names(body, key="process"):
    return [each[key] for each in body["results"]]


def beats(*offsets: int) -> None:
    Heartbeat.objects.bulk_create(
        Heartbeat(process=f"p{number:03}", at=NOON + timedelta(seconds=offset))
        for number, offset in enumerate(offsets)
    )


def walk(url: str, direction: str, key: str = "process") -> list[list[str]]:
    pages = []
    while url:
        body = get(url).json()
        pages.append(names(body, key))
        url = body[direction]
        assert len(pages) < 100
    return pages


def test_pages_follow_each_other_without_gap_or_repetition():
    beats(*range(7))
    pages = walk("/api/v1/beats/?limit=3", "next")
    assert pages == [["p006", "p005", "p004"], ["p003", "p002", "p001"], ["p000"]]


def test_the_first_page_has_no_previous_and_the_last_no_next():
    beats(*range(4))
    first = get(limit=2).json()
    assert first["previous"] is None
    last = get(first["next"]).json()
    assert last["next"] is None
    assert names(get(last["previous"]).json()) == names(first)
    assert get(last["previous"]).json()["previous"] is None


def test_a_list_that_fits_one_page_has_neither():
    beats(1, 2)
    assert get().json() == {
        "results": [{"process": "p001"}, {"process": "p000"}],
        "next": None,
        "previous": None,
    }


@pytest.mark.parametrize("direction", ["next", "previous"])
def test_a_page_costs_one_query_and_two_where_the_row_at_its_cut_has_gone(
    direction, django_assert_num_queries
):
    beats(*range(9))
    with django_assert_num_queries(1):
        first = get(limit=3).json()
    with django_assert_num_queries(1):
        second = get(first["next"]).json()
    with django_assert_num_queries(1):
        there = get(second[direction]).json()
    for beat in second["results"]:
        Heartbeat.objects.filter(process=beat["process"]).delete()
    with django_assert_num_queries(2):
        assert get(second[direction]).json()["results"] == there["results"]


def test_rows_inserted_before_the_cut_neither_shift_nor_repeat_what_follows():
    beats(*range(6))
    first = get(limit=3).json()
    Heartbeat.objects.create(process="new", at=NOON + timedelta(hours=1))
    assert names(get(first["next"]).json()) == ["p002", "p001", "p000"]


def test_rows_inserted_before_the_cut_are_found_by_going_back():
    beats(*range(6))
    second = get(get(limit=3).json()["next"]).json()
    Heartbeat.objects.create(process="new", at=NOON + timedelta(hours=1))
    back = get(second["previous"]).json()
    assert names(back) == ["p005", "p004", "p003"]
    assert names(get(back["previous"]).json()) == ["new"]


def test_the_way_back_survives_the_deletion_of_all_that_follows():
    beats(*range(6))
    first = get(limit=3).json()
    Heartbeat.objects.filter(process__in=["p002", "p001", "p000"]).delete()
    empty = get(first["next"]).json()
    assert (empty["results"], empty["next"]) == ([], None)
    assert names(get(empty["previous"]).json()) == ["p005", "p004", "p003"]


def test_equal_values_are_told_apart_by_id():
    beats(*([0] * 5))
    assert sum(walk("/api/v1/beats/?limit=2", "next"), []) == ["p004", "p003", "p002", "p001", "p000"]  # noqa: RUF017


def test_ascending_and_descending_are_each_others_reverse():
    beats(3, 1, 2)
    assert names(get(ordering="at").json()) == list(reversed(names(get(ordering="-at").json())))


@given(
    offsets=st.lists(st.none() | st.integers(0, 3), max_size=7),
    limit=st.integers(1, 4),
    ordering=st.sampled_from(["used", "-used", "owner"]),
)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_walking_forth_and_back_sees_every_row_once_nulls_last(db, offsets, limit, ordering):
    ApiToken.objects.all().delete()
    user = make_user()
    for number, offset in enumerate(offsets):
        used = None if offset is None else NOON + timedelta(seconds=offset)
        ApiToken.objects.create(
            user=user, name=str(number), prefix="p", digest=f"{user.pk:032x}{number:032x}", last_used_at=used,
            created_at=NOON, expires_at=NOON + timedelta(days=1),
        )  # fmt: skip
    url = f"/api/v1/used/?limit={limit}&ordering={ordering}"
    forth = walk(url, "next", "name")
    seen = [name for page in forth for name in page]
    assert sorted(seen, key=int) == [str(number) for number in range(len(offsets))]
    if ordering != "owner":
        nulls = [offsets[int(name)] is None for name in seen]
        assert nulls == sorted(nulls)
        values = [offsets[int(name)] for name in seen if offsets[int(name)] is not None]
        assert values == sorted(values, reverse=ordering.startswith("-"))
    last = url
    while (following := get(last).json()["next"]) is not None:
        last = following
    back = walk(last, "previous", "name")
    assert [name for page in reversed(back) for name in page] == seen


@each_row(
    ("query", "field"),
    [
        ({"limit": "0"}, "limit"), ({"limit": "201"}, "limit"), ({"limit": "x"}, "limit"), ({"limit": ""}, "limit"),
        ({"limit": "-1"}, "limit"), ({"limit": "٣"}, "limit"), ({"limit": "9" * 500}, "limit"),
        ({"ordering": "detail"}, "ordering"), ({"ordering": "--at"}, "ordering"), ({"ordering": ""}, "ordering"),
        ({"cursor": "x"}, "cursor"), ({"cursor": ""}, "cursor"), ({"cursor": "x" * 5000}, "cursor"),
        ({"nonsense": "1"}, "nonsense"), ({"page": "2"}, "page"),
        ({"since": "yesterday"}, "since"), ({"since": "2026-01-31"}, "since"), ({"since": "2026-13-01T00:00:00Z"}, "since"),
        ({"kind": "c"}, "kind"), ({"number": "1.5"}, "number"), ({"number": "9" * 30}, "number"),
        ({"flag": "yes"}, "flag"), ({"id": "1"}, "id"), ({"process": "x" * 201}, "process"),
        ({"process": ",".join("x" * 60)}, "process"),
    ],
)  # fmt: skip
def test_a_senseless_parameter_is_malformed_and_named(query, field):
    response = get(**query)
    assert response.status_code == 400
    assert [each["field"] for each in response.json()["errors"]] == [field]


def test_a_parameter_given_twice_is_malformed():
    response = APIClient().get("/api/v1/beats/?limit=1&limit=2")
    assert [each["field"] for each in response.json()["errors"]] == ["limit"]


def test_a_cursor_belongs_to_its_ordering():
    beats(1, 2)
    cursor = get(limit=1).json()["next"]
    response = get(f"{cursor}&ordering=at")
    assert response.status_code == 400
    assert response.json()["errors"][0]["field"] == "cursor"


def test_a_changed_cursor_is_refused():
    beats(1, 2)
    response = get(get(limit=1).json()["next"].replace("cursor=", "cursor=x"))
    assert response.json()["errors"][0]["field"] == "cursor"


def test_filters_narrow_the_list_and_stay_in_the_links():
    beats(*range(4))
    first = get(process="p001,p002", limit=1).json()
    assert names(first) == ["p002"]
    assert names(get(first["next"]).json()) == ["p001"]


def test_a_time_filter_takes_rfc_3339():
    beats(*range(4))
    assert names(get(since="2026-01-31T13:00:02+01:00").json()) == ["p003", "p002"]
