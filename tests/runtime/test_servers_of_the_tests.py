from __future__ import annotations

import pickle

import pytest
import redis
from django.conf import settings
from django.core.cache import cache
from django.db import connection


@pytest.mark.django_db
def test_database_is_the_embedded_postgresql_with_timeouts():
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('server_version_num')::int, current_setting('lock_timeout')")
        version, lock_timeout = cursor.fetchone()
    assert version >= 160000
    assert lock_timeout == "10s"


def test_cache_answers(servers):
    cache.set("a", 1)
    assert cache.get("a") == 1


def test_cache_is_empty_at_the_start_of_each_test(servers):
    assert cache.get("a") is None


class Ran(Exception):
    pass


class RunsWhenUnpickled:
    def __reduce__(self):
        return exec, ("raise __import__('tests.runtime.test_servers_of_the_tests', fromlist=['Ran']).Ran",)


@pytest.mark.parametrize(
    "written", [pickle.dumps(RunsWhenUnpickled()), b"\xff", b"[" * 100_000], ids=["pickle", "bytes", "deep"]
)
def test_what_somebody_wrote_into_redis_is_no_value_and_never_runs(servers, written):
    cache.set("a", {"b": [1, "c", None]})
    assert cache.get("a") == {"b": [1, "c", None]}
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        client.set(cache.make_key("a"), written)
    assert cache.get("a") is None
    assert cache.get_many(["a"]) in ({}, {"a": None})


def test_workers_take_json_alone_and_no_commands():
    from portal.celery import app

    assert app.conf.accept_content == ["json"]
    assert (app.conf.task_serializer, app.conf.result_serializer) == ("json", "json")
    assert app.conf.worker_enable_remote_control is False
