from __future__ import annotations

import pytest
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
