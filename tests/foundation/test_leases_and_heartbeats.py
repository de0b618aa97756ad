from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from foundation import heartbeats, leases
from foundation.models import Heartbeat, IdempotencyKey, PlatformSettings

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def take(holder: str, *, at: datetime = NOON, name: str = "sweep") -> int | None:
    return leases.acquire(name=name, holder=holder, ttl_seconds=30, now=at)


@pytest.mark.django_db
def test_one_holder_at_a_time():
    assert take("a") == 1
    assert take("b", at=NOON + timedelta(seconds=29)) is None


@pytest.mark.django_db
def test_renewing_keeps_the_fencing_number():
    take("a")
    assert take("a", at=NOON + timedelta(seconds=20)) == 1
    assert take("b", at=NOON + timedelta(seconds=40)) is None


@pytest.mark.django_db
def test_the_fencing_number_grows_with_each_new_term_even_of_the_same_holder():
    take("a")
    assert take("b", at=NOON + timedelta(seconds=30)) == 2
    assert take("b", at=NOON + timedelta(seconds=61)) == 3


@pytest.mark.django_db
def test_a_late_holder_sees_that_it_lost_the_lease():
    first = take("a")
    later = NOON + timedelta(seconds=31)
    take("b", at=later)
    assert not leases.is_held(name="sweep", fencing=first, now=later)
    assert leases.is_held(name="sweep", fencing=2, now=later)


@pytest.mark.django_db
def test_a_released_lease_is_free_at_once_and_cannot_be_released_by_another():
    fencing = take("a")
    assert not leases.release(name="sweep", holder="b", fencing=fencing, now=NOON)
    assert leases.release(name="sweep", holder="a", fencing=fencing, now=NOON)
    assert take("b") == 2


@pytest.mark.django_db
def test_leases_of_other_names_are_independent():
    assert take("a") == take("b", name="rollup") == 1


@pytest.mark.django_db(transaction=True)
def test_of_many_who_ask_at_once_exactly_one_gets_the_lease():
    barrier, got = threading.Barrier(8), []

    def ask(number: int) -> None:
        try:
            barrier.wait(10)
            got.append(take(f"holder-{number}"))
        finally:
            connection.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each for each in got if each is not None) == [1]
    assert len(got) == 8


@pytest.mark.django_db
def test_a_heartbeat_is_one_row_a_process():
    heartbeats.beat(process="worker", now=NOON)
    heartbeats.beat(process="worker", now=NOON + timedelta(seconds=30), detail={"queue": "portal"})
    assert list(Heartbeat.objects.values_list("process", "at", "detail")) == [
        ("worker", NOON + timedelta(seconds=30), {"queue": "portal"})
    ]


@pytest.mark.django_db
def test_heartbeats_of_processes_long_gone_are_forgotten():
    heartbeats.beat(process="old", now=NOON - timedelta(days=8))
    heartbeats.beat(process="new", now=NOON)
    assert heartbeats.forget_older_than(days=7, now=NOON) == 1
    assert Heartbeat.objects.get().process == "new"


@pytest.mark.django_db
def test_platform_settings_have_the_defaults_until_somebody_changes_them():
    assert PlatformSettings.current().default_time_limit_seconds == 86_400
    assert PlatformSettings.current().optional_kinds == ["pytorchjob", "keda", "podmonitor"]
    PlatformSettings.objects.create(grace_seconds=5)
    assert PlatformSettings.current().grace_seconds == 5


@pytest.mark.django_db
@pytest.mark.parametrize("values", [{"id": 2}, {"log_retention_days": 0}, {"fair_share_half_life_hours": 0}])
def test_the_database_refuses_a_second_row_of_settings_and_senseless_values(values):
    with pytest.raises(IntegrityError), transaction.atomic():
        PlatformSettings.objects.create(**values)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "values", [{"state": "done"}, {"state": "in-flight", "status": 201}, {"state": "in-flight", "body": b"x"}]
)
def test_the_database_refuses_a_half_finished_idempotency_key(values):
    with pytest.raises(IntegrityError), transaction.atomic():
        IdempotencyKey.objects.create(
            principal="user:1", key="k", fingerprint="f", method="POST", path="/", created_at=NOON, **values
        )
