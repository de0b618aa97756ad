from __future__ import annotations

import random
from datetime import timedelta
from urllib.parse import parse_qsl

import pytest
from django.conf import settings

from foundation import clock
from foundation.errors import Malformed, NotFound
from logs import reading, store, workload_logs
from logs import search as log_search
from logs.places import LinePlace
from logs.store import ContainerLog, source_of
from teams import tickets
from teams.models import User
from tests.controller.logs_bed import START, make_pod, make_workload, stamp
from tests.factories.teams import api_client, make_member, make_user
from workloads.models import Attempt, LogChunk, Workload

pytestmark = pytest.mark.django_db


@pytest.fixture
def run():
    return make_workload()


def write(pod, *lines: bytes, container="main"):
    log = ContainerLog(source_of(pod, container=container))
    log.load()
    log.append(lines, now=clock.now())


def line(index: int, text: str = "line") -> bytes:
    return stamp(index) + f" {text} {index}".encode()


def texts(page) -> list[str]:
    return [each.text for each in page.lines]


def follow(run, **options) -> list[str]:
    """All pages from the beginning."""
    page = workload_logs.read_lines(run, **options)
    found = texts(page)
    while page.more:
        page = workload_logs.read_lines(run, cursor=page.cursor, limit=options.get("limit", 1000))
        found += texts(page)
    return found


def test_nothing_stored_is_an_empty_page(run):
    page = workload_logs.read_lines(run)
    assert (page.lines, page.more, page.complete, page.expires_at) == ([], False, False, None)


def test_lines_of_all_pods_come_by_time(run):
    pods = [make_pod(run, f"train-{index}") for index in range(3)]
    for index, pod in enumerate(pods):
        write(pod, *(line(at) for at in range(index, 300, 3)))
    page = workload_logs.read_lines(run)
    assert texts(page) == [f"line {at}" for at in range(300)]
    assert [each.pod for each in page.lines[:4]] == ["train-0", "train-1", "train-2", "train-0"]
    assert page.lines[1].at == START + timedelta(milliseconds=10)
    assert texts(workload_logs.read_lines(run, pod="train-1")) == [f"line {at}" for at in range(1, 300, 3)]


def test_a_follower_gets_every_line_once_in_whatever_order_pods_are_stored(run, monkeypatch):
    monkeypatch.setattr(store, "CHUNK_BYTES_MAX", 600)
    monkeypatch.setattr(store, "MERGE_BYTES_MAX", 300)
    monkeypatch.setattr(reading, "ROWS_MAX", 3)
    rng = random.Random(5)
    pods = [make_pod(run, f"train-{index}") for index in range(4)]
    waiting = {pod.uid: [line(at, pod.name) for at in range(index, 400, 4)] for index, pod in enumerate(pods)}
    wanted = sorted(each[31:].decode() for lines in waiting.values() for each in lines)
    cursor, found, more = None, [], True
    while any(waiting.values()) or more:
        pod = rng.choice(pods)
        count = rng.randrange(12)
        write(pod, *waiting[pod.uid][:count])
        del waiting[pod.uid][:count]
        page = workload_logs.read_lines(run, cursor=cursor, limit=rng.randrange(1, 20))
        cursor, more = page.cursor, page.more
        found += [(each.pod, each.text) for each in page.lines]
    assert sorted(text for _, text in found) == wanted
    for pod in pods:
        mine = [int(text.split()[1]) for name, text in found if name == pod.name]
        assert mine == sorted(mine)


def test_pages_end_by_size_and_go_on(run):
    pod = make_pod(run, "train-0")
    write(pod, *(stamp(at) + b" " + b"x" * 60_000 for at in range(60)))
    first = workload_logs.read_lines(run)
    assert 0 < len(first.lines) < 60
    assert first.more
    assert len(follow(run)) == 60


def test_a_tail_reads_only_the_last_chunks_and_its_cursor_goes_on_from_there(run, monkeypatch):
    monkeypatch.setattr(store, "CHUNK_BYTES_MAX", 2000)
    monkeypatch.setattr(store, "MERGE_BYTES_MAX", 0)
    pods = [make_pod(run, f"train-{index}") for index in range(2)]
    for index, pod in enumerate(pods):
        write(pod, *(line(at) for at in range(index, 2000, 2)))
    read, original = [], reading.read_chunk
    monkeypatch.setattr(reading, "read_chunk", lambda row: read.append(row) or original(row))
    page = workload_logs.read_lines(run, tail=10)
    assert texts(page) == [f"line {at}" for at in range(1990, 2000)]
    assert len(read) <= 4 < LogChunk.objects.count()
    assert not page.more
    assert texts(workload_logs.read_lines(run, cursor=page.cursor)) == []
    write(pods[0], line(2000))
    write(make_pod(run, "train-2"), line(3))
    assert texts(workload_logs.read_lines(run, cursor=page.cursor)) == ["line 3", "line 2000"]
    assert texts(workload_logs.read_lines(run, tail=0)) == []


def test_a_tail_is_right_when_one_pod_is_far_behind(run):
    early, late = make_pod(run, "early"), make_pod(run, "late")
    write(late, *(line(at) for at in range(1000, 1003)))
    write(early, *(line(at) for at in range(500)))
    assert texts(workload_logs.read_lines(run, tail=5)) == [
        "line 498",
        "line 499",
        "line 1000",
        "line 1001",
        "line 1002",
    ]


def test_since_leaves_out_older_lines_also_of_pods_that_come_later(run):
    pod = make_pod(run, "train-0")
    write(pod, *(line(at) for at in range(100)))
    page = workload_logs.read_lines(run, since=START + timedelta(milliseconds=955))
    assert texts(page) == [f"line {at}" for at in range(96, 100)]
    write(make_pod(run, "train-1"), line(1), line(100))
    assert texts(workload_logs.read_lines(run, cursor=page.cursor)) == ["line 100"]


def test_expired_lines_are_passed_over(run):
    pod = make_pod(run, "train-0")
    write(pod, line(0))
    cursor = workload_logs.read_lines(run).cursor
    write(pod, line(400_000))
    workload_logs.expire(now=clock.now() + timedelta(days=31))
    page = workload_logs.read_lines(run, cursor=cursor)
    assert (page.lines, page.more) == ([], False)


def test_a_lost_file_stops_no_reader(run):
    pod = make_pod(run, "train-0")
    write(pod, line(0))
    write(pod, line(400_000))
    store.store().delete(LogChunk.objects.order_by("sequence").first().storage_key)
    page = workload_logs.read_lines(run)
    assert texts(page) == ["line 400000"]
    assert texts(workload_logs.read_lines(run, cursor=page.cursor)) == []


def test_complete_means_ended_and_all_stored(run):
    pod = make_pod(run, "train-0")
    write(pod, line(0))
    store.mark_stored(pod, now=clock.now())
    assert not workload_logs.read_lines(run).complete
    Attempt.objects.update(ended_at=clock.now())
    page = workload_logs.read_lines(run)
    assert page.complete
    assert page.expires_at == LogChunk.objects.get(container="main").stored_at + timedelta(days=30)
    make_pod(run, "train-1")
    assert not workload_logs.read_lines(run).complete
    assert workload_logs.read_lines(run, pod="train-0").complete


def test_who_waits_for_the_first_attempt_reads_it_from_its_beginning(run):
    Attempt.objects.all().delete()
    run.attempt_number = 0
    run.save()
    waits = workload_logs.read_lines(run)
    assert (waits.attempt, waits.lines, waits.complete) == (0, [], False)
    assert workload_logs.read_lines(run, cursor=waits.cursor).attempt == 0
    # The follower goes on with the row that it began with.
    Attempt.objects.create(workload=run, number=1, object_name="train-1", created_at=clock.now())
    Workload.objects.update(attempt_number=1)
    write(make_pod(run, "train-0"), line(0), line(1))
    page = workload_logs.read_lines(run, cursor=waits.cursor)
    assert (page.attempt, texts(page)) == (1, ["line 0", "line 1"])
    assert workload_logs.read_lines(run, cursor=page.cursor).lines == []


def test_a_page_that_was_read_before_the_first_attempt_began_finds_nothing_yet(run):
    run.attempt_number = 0
    before = workload_logs.read_lines(run, attempts=[])
    page = workload_logs.read_lines(run, cursor=before.cursor, attempts=[])
    assert (page.attempt, page.lines, page.complete) == (0, [], False)
    assert page.cursor == before.cursor


def test_the_log_of_what_ended_without_an_attempt_is_complete(run):
    Attempt.objects.all().delete()
    run.attempt_number = 0
    run.save()
    cursor = workload_logs.read_lines(run).cursor
    Workload.objects.update(phase="Cancelled", finished_at=clock.now())
    assert workload_logs.read_lines(run, cursor=cursor).complete


def test_an_attempt_or_pod_that_is_not_there_is_not_found_and_a_wrong_cursor_refused(run):
    make_pod(run, "train-0")
    cursor = workload_logs.read_lines(run).cursor
    with pytest.raises(NotFound):
        workload_logs.read_lines(run, attempt=7)
    with pytest.raises(NotFound):
        workload_logs.read_lines(run, pod="other")
    with pytest.raises(Malformed):
        workload_logs.read_lines(run, attempt=2, cursor=cursor)


# -- over HTTP


@pytest.fixture
def get(run):
    client = api_client(User.objects.get(pk=run.owner_id))
    return lambda **query: client.get(f"/api/v1/training-runs/{run.public_id}/logs/", query)


def body(response) -> str:
    return b"".join(response.streaming_content).decode()


def test_text_is_the_whole_log_with_its_retention(run, get):
    pod = make_pod(run, "train-0")
    write(pod, *(line(at) for at in range(2500)), stamp(2500) + b" <b>\xff\x00")
    response = get()
    assert response.status_code == 200
    assert body(response).splitlines() == [*(f"line {at}" for at in range(2500)), "<b>�\x00"]
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert response["X-Content-Type-Options"] == "nosniff"
    expires = LogChunk.objects.order_by("first_at").first().stored_at + timedelta(days=30)
    assert response["X-Log-Retention-Expires"] == expires.isoformat().replace("+00:00", "Z")
    assert body(get(tail=2)) == "line 2499\n<b>�\x00\n"
    assert body(get(limit=1)) == "line 0\n"


def test_text_names_the_pod_where_there_are_several_and_joins_long_lines(run, get):
    write(make_pod(run, "train-0"), line(0))
    write(make_pod(run, "train-1"), line(1), stamp(1) + b"+ goes on")
    assert body(get()) == "[train-0] line 0\n[train-1] line 1 goes on\n"


def test_json_gives_lines_and_a_cursor(run, get):
    write(make_pod(run, "train-0"), *(line(at) for at in range(5)))
    first = get(format="json", limit=3).json()
    assert first["lines"][0] == {
        "at": "2026-10-03T12:00:00Z",
        "pod": "train-0",
        "container": "main",
        "text": "line 0",
        "continued": False,
        "number": 1,
    }
    assert first["more"]
    rest = get(format="json", cursor=first["cursor"]).json()
    assert [each["text"] for each in rest["lines"]] == ["line 3", "line 4"]
    assert not rest["more"]


def test_follow_goes_to_the_live_process_with_a_ticket(run, get):
    make_pod(run, "train-0")
    response = get(follow="1", attempt="1", tail="5")
    assert response.status_code == 307
    where, _, query = response["Location"].partition("?")
    assert where == f"{settings.LIVE_URL}/-/logs/{run.public_id}/"
    given = dict(parse_qsl(query))
    assert (given["attempt"], given["tail"]) == ("1", "5")
    told = tickets.read(given["ticket"], purpose="logs", resource=str(run.public_id), now=clock.now())
    assert told.principal.user_id == run.owner_id
    assert told.principal.token_id is not None


@pytest.mark.parametrize(
    "query",
    [
        {"tial": "5"},
        {"tail": "-1"},
        {"tail": "10001"},
        {"tail": "x"},
        {"attempt": "1", "format": "xml"},
        {"since": "yesterday"},
        {"since": "2026-01-01T00:00:00"},
        {"follow": "maybe"},
        {"cursor": "x"},
        {"limit": "0"},
    ],
)
def test_malformed_parameters_are_named(get, query):
    response = get(**query)
    assert response.status_code == 400
    assert response.json()["errors"][0]["field"] == list(query)[-1]


def test_strangers_and_other_kinds_are_told_that_nothing_is_there(run, get, settings):
    url = f"/api/v1/training-runs/{run.public_id}/logs/"
    assert api_client(make_user()).get(url).status_code == 404
    assert api_client(make_member("viewer", team=run.team).user).get(url).status_code == 200
    assert api_client().get(url).status_code == 401
    assert api_client(User.objects.get(pk=run.owner_id), scopes=("submit",)).get(url).status_code == 403
    endpoint = make_workload(kind="endpoint")
    other = api_client(User.objects.get(pk=endpoint.owner_id))
    assert other.get(f"/api/v1/training-runs/{endpoint.public_id}/logs/").status_code == 404
    assert get(attempt="9").status_code == 404


# --- older lines, and lines that are looked for


def in_small_chunks(monkeypatch) -> None:
    monkeypatch.setattr(store, "CHUNK_BYTES_MAX", 600)
    monkeypatch.setattr(store, "MERGE_BYTES_MAX", 0)


def test_older_lines_are_read_page_before_page_to_the_beginning_each_once(run, monkeypatch):
    in_small_chunks(monkeypatch)
    for index in range(3):
        write(make_pod(run, f"train-{index}"), *(line(at) for at in range(index, 300, 3)))
    page = workload_logs.read_lines(run, tail=40)
    found = texts(page)
    while page.older is not None:
        page = workload_logs.read_lines(run, tail=40, before=page.older)
        found = [*texts(page), *found]
    assert found == [f"line {at}" for at in range(300)]


def test_what_was_written_meanwhile_is_not_older(run):
    pod = make_pod(run, "train-0")
    write(pod, *(line(at) for at in range(20)))
    page = workload_logs.read_lines(run, tail=5)
    write(pod, *(line(at) for at in range(20, 40)))
    older = workload_logs.read_lines(run, tail=100, before=page.older)
    assert texts(older) == [f"line {at}" for at in range(15)]
    assert older.older is None


def test_what_is_older_than_all_that_was_searched_in_vain_is_searched_next(run, monkeypatch):
    in_small_chunks(monkeypatch)
    monkeypatch.setattr(reading, "TAIL_BYTES_MAX", 2000)
    write(make_pod(run, "train-0"), line(0, "needle"), *(line(at) for at in range(1, 400)))
    wanted = workload_logs.LineFilter("needle")
    page, pages = workload_logs.read_lines(run, tail=10, wanted=wanted), 1
    while not page.lines and page.older is not None:
        page, pages = workload_logs.read_lines(run, tail=10, wanted=wanted, before=page.older), pages + 1
    assert texts(page) == ["needle 0"]
    assert 1 < pages < 15


def test_a_line_is_found_by_its_number_among_those_of_its_pod_and_container(run, monkeypatch):
    in_small_chunks(monkeypatch)
    first, second = make_pod(run, "train-0"), make_pod(run, "train-1")
    write(first, *(line(at) for at in range(0, 200, 2)))
    write(first, line(-1, "clone"), container="checkout")
    write(second, *(line(at) for at in range(1, 200, 2)))

    def after(text: str, pod: str | None = None) -> str:
        place = LinePlace.of(text, parameter="line")
        bound = log_search.bound_of(run, place, attempt=1, pod=pod)
        return texts(workload_logs.read_lines(run, tail=1, before=bound))[0]

    assert after("train-1-L50") == "line 98"
    assert after("L50", "train-0") == "line 97"
    with pytest.raises(IndexError):
        after("train-0:checkout-L1")
    with pytest.raises(NotFound):
        after("train-0-L101")
    with pytest.raises(Malformed):
        after("train-0")


def test_a_search_says_where_one_is_among_its_matches_and_what_is_beside(run, monkeypatch):
    in_small_chunks(monkeypatch)
    pods = [make_pod(run, f"train-{index}") for index in range(2)]
    for index, pod in enumerate(pods):
        write(pod, *(line(at, "needle" if at % 50 == index else "hay") for at in range(index, 300, 2)))
    wanted = workload_logs.LineFilter("needle")
    found = log_search.find_lines(run, wanted, attempt=1, pod=None)
    assert (found.count, found.complete, found.position, found.following.text) == (12, True, 0, "needle 0")
    place = LinePlace(number=26, pod="train-0")
    at = log_search.bound_of(run, place, attempt=1, pod=None)
    found = log_search.find_lines(run, wanted, attempt=1, pod=None, at=at)
    assert (found.position, found.previous.text, found.following.text) == (3, "needle 1", "needle 51")


def test_the_first_error_is_found_from_the_beginning(run, monkeypatch):
    in_small_chunks(monkeypatch)
    lines = [line(at, "ERROR" if at in {70, 150} else "INFO") for at in range(200)]
    write(make_pod(run, "train-0"), *lines)
    wanted = workload_logs.LineFilter(level="error")
    assert log_search.first_line(run, wanted, attempt=1, pod=None).text == "ERROR 70"
    assert log_search.first_line(run, workload_logs.LineFilter("odd"), attempt=1, pod=None) is None
