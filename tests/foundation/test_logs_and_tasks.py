from __future__ import annotations

import json
import logging
from uuid import uuid4

import pytest
from celery import current_app
from celery.exceptions import Ignore
from django.db import InterfaceError, OperationalError, connection

from foundation import database, logs, outages
from foundation.tasks import task

SEEN: list[dict] = []


def record(message: str = "run.started", **extra):
    made = logging.getLogger("tests").makeRecord(
        "tests", logging.INFO, "f", 1, message, (), None, extra=extra
    )
    assert logs.ContextFilter().filter(made)
    return made


def test_bound_fields_are_on_every_record_made_inside_and_gone_afterwards():
    with logs.bind(team="vision", request_id="r1"), logs.bind(workload_id="w1", team=None):
        inside = record()
    assert inside.portal == {"team": "vision", "request_id": "r1", "workload_id": "w1"}
    assert record().portal == {}


def test_json_lines_hold_event_context_and_extra():
    with logs.bind(team="vision"):
        line = json.loads(logs.JSONFormatter().format(record(units=8)))
    assert (line["event"], line["team"], line["units"], line["level"]) == ("run.started", "vision", 8, "info")
    assert line["at"].endswith("Z")


def test_console_lines_are_one_line_without_json():
    assert "run.started units=8" in logs.ConsoleFormatter().format(record(units=8))


@pytest.mark.parametrize("formatter", [logs.JSONFormatter(), logs.ConsoleFormatter()])
@pytest.mark.parametrize(
    "leak",
    [
        "mlp_abcdefgh_" + "x" * 49,
        "Authorization: Bearer abcdefgh12345678",
        "postgresql://user:hunter22@db/portal",
        "a-registered-secret-value",
    ],
)
def test_secrets_never_leave_a_formatter(formatter, leak):
    logs.register_secret("a-registered-secret-value")
    line = formatter.format(record(f"seen {leak}", also=leak))
    assert logs.REDACTED in line
    for secret in ("x" * 49, "abcdefgh12345678", "hunter22", "a-registered-secret-value"):
        assert secret not in line


def test_secrets_in_a_traceback_are_redacted():
    logs.register_secret("a-registered-secret-value")
    with pytest.raises(RuntimeError) as caught:
        raise RuntimeError("a-registered-secret-value")
    made = record()
    made.exc_info = (caught.type, caught.value, caught.tb)
    assert "a-registered-secret-value" not in logs.JSONFormatter().format(made)


def test_too_short_a_secret_would_redact_plain_words_and_is_not_registered():
    logs.register_secret("run")
    assert "run.started" in logs.ConsoleFormatter().format(record())


@task(name="tests.look_around")
def look_around(*, workload_id: str, limit: int = 1, **_future) -> None:
    SEEN.append({**logs.bound(), "limit": limit, "workload": workload_id, "future": _future})


@pytest.fixture
def _eager(monkeypatch):
    SEEN.clear()
    monkeypatch.setitem(current_app.conf, "task_always_eager", True)


@pytest.mark.usefixtures("_eager")
@pytest.mark.django_db
def test_a_task_sees_its_ids_and_the_request_that_woke_it_in_the_log_context():
    workload = uuid4()
    with logs.bind(request_id="request-1"):
        look_around.delay(workload_id=workload)
    assert SEEN[0]["workload"] == SEEN[0]["workload_id"] == str(workload)
    assert SEEN[0]["request_id"] == "request-1"
    assert SEEN[0]["task"] == "tests.look_around"
    assert logs.bound() == {}


@pytest.mark.usefixtures("_eager")
@pytest.mark.django_db
def test_a_message_of_a_newer_release_reaches_an_older_task():
    look_around.delay(workload_id="1", invented_later=3)
    assert SEEN[0]["future"] == {"invented_later": 3}


@pytest.mark.parametrize("value", [object(), {"a": 1}, 1.5, [object()]])
def test_a_task_is_woken_with_ids_only(value):
    with pytest.raises(TypeError, match="pass an id"):
        look_around.delay(workload_id=value)


def test_a_task_takes_no_positional_arguments():
    with pytest.raises(TypeError, match="keyword"):
        look_around.delay("1")


def test_a_task_without_room_for_the_future_is_refused_when_declared():
    with pytest.raises(TypeError, match="_future"):

        @task()
        def narrow(*, workload_id: str) -> None: ...


def test_a_task_with_a_positional_parameter_is_refused_when_declared():
    with pytest.raises(TypeError, match="keyword-only"):

        @task()
        def positional(workload_id: str, **_future) -> None: ...


def test_a_time_limit_that_no_thread_would_keep_is_refused_when_declared():
    with pytest.raises(TypeError, match="does nothing in a thread"):
        task(time_limit=30)
    assert (look_around.time_limit, look_around.soft_time_limit) == (None, None)


@task(name="tests.use_wrongly")
def use_wrongly(*, leaving: int, **_future) -> None:
    with connection.cursor() as cursor:
        pass
    if leaving:
        connection.connection.close()
    cursor.execute("SELECT 1")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("leaving", "expected"), [(0, InterfaceError), (1, Ignore)])
def test_what_a_task_does_wrong_with_its_connection_is_not_taken_for_a_database_that_is_away(
    leaving, expected
):
    try:
        with pytest.raises(expected):
            use_wrongly(leaving=leaving)
    finally:
        connection.close()
        outages.database.answered()


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_an_outage_cut_is_no_new_outage_and_the_one_after_it_is(cut_off, caplog):
    """Another thread has found the database again; this one had nothing to ask until now."""
    outages.database.missed(OSError("gone"))
    outages.database.answered()
    told = []
    for _ in range(2):
        with pytest.raises(OperationalError) as caught:
            connection.cursor().execute("SELECT 1")
        assert database.is_missed(caught.value)
        told.append([record.message for record in caplog.records])
        connection.close()
        connection.settings_dict["HOST"] = "/nowhere"
    assert told == [["database.away", "database.back"], ["database.away", "database.back", "database.away"]]


@pytest.fixture
def cut_off():
    """This thread's connection was cut by the server; Django has not looked at it since."""
    connection.ensure_connection()
    host = connection.settings_dict["HOST"]
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [connection.connection.info.backend_pid])
    other.close()
    yield
    connection.settings_dict["HOST"] = host
    connection.close()
    outages.database.answered()


def test_tasks_are_acknowledged_late():
    assert look_around.acks_late
    assert look_around.reject_on_worker_lost
    assert look_around.ignore_result
