from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, OperationalError, connection, transaction
from django.db.models import Count, F
from django.db.models.functions import JSONObject
from django.forms import model_to_dict

from foundation import clock, heartbeats, leases
from foundation.models import Heartbeat, IdempotencyKey, Lease, PlatformSettings
from tests.waiting import until

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def take(holder: str, *, name: str = "sweep") -> int | None:
    return leases.acquire(name=name, holder=holder, ttl_seconds=30)


def let_pass(seconds: float) -> None:
    """The database's clock cannot be moved, so what it is compared with is."""
    Lease.objects.update(expires_at=F("expires_at") - timedelta(seconds=seconds))


@pytest.mark.django_db
def test_one_holder_at_a_time():
    assert take("a") == 1
    let_pass(25)
    assert take("b") is None


@pytest.mark.django_db
def test_renewing_keeps_the_fencing_number():
    take("a")
    let_pass(20)
    assert take("a") == 1
    let_pass(20)
    assert take("b") is None


@pytest.mark.django_db
def test_the_fencing_number_grows_with_each_new_term_even_of_the_same_holder():
    take("a")
    let_pass(30)
    assert take("b") == 2
    let_pass(31)
    assert take("b") == 3


@pytest.mark.django_db
@pytest.mark.parametrize("hours", [-5, 5])
def test_a_process_whose_clock_is_wrong_neither_steals_a_lease_nor_keeps_one(hours):
    with clock.freeze(clock.now() + timedelta(hours=hours)):
        take("wrong")
    assert take("right") is None
    let_pass(31)
    assert take("right") == 2
    with clock.freeze(clock.now() + timedelta(hours=hours)):
        assert take("wrong") is None


@pytest.mark.django_db
def test_a_lease_really_ends_with_time():
    assert leases.acquire(name="sweep", holder="a", ttl_seconds=0.001) == 1
    assert until(lambda: take("b")) == 2


@pytest.mark.django_db
def test_a_released_lease_is_free_at_once_and_cannot_be_released_by_another():
    fencing = take("a")
    assert not leases.release(name="sweep", holder="b", fencing=fencing)
    assert leases.release(name="sweep", holder="a", fencing=fencing)
    assert take("b") == 2


def overtaken() -> None:
    """The job took longer than its lease, and another process has begun it anew."""
    let_pass(31)
    assert leases.acquire(name="periodic:sweep", holder="elsewhere", ttl_seconds=30) == 2


@pytest.mark.django_db
def test_a_job_that_was_overtaken_writes_nothing_more():
    written = []
    with leases.periodic("sweep", seconds=30) as ours:
        assert ours
        leases.check()
        written.append("in time")
        overtaken()
        leases.check()
        written.append("too late")
    assert written == ["in time"]
    leases.check()


@pytest.mark.django_db
def test_a_job_that_another_process_does_is_not_done():
    leases.acquire(name="periodic:sweep", holder="elsewhere", ttl_seconds=30)
    with leases.periodic("sweep", seconds=30) as ours:
        assert not ours
        leases.check()


@pytest.mark.django_db(transaction=True)
def test_nobody_takes_a_job_over_while_it_writes():
    """Between the question and the write there is no gap: whoever takes over waits for the commit."""
    took = []

    def take_over() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '10ms'")
            took.append(take("b", name="periodic:sweep"))
        except OperationalError:
            took.append("waits")
        finally:
            connection.close()

    with leases.periodic("sweep", seconds=30):
        let_pass(31)
        with transaction.atomic():
            leases.check()
            other = threading.Thread(target=take_over)
            other.start()
            other.join()
    assert took == ["waits"]


@pytest.mark.django_db
def test_a_process_that_starts_anew_under_the_same_host_and_number_is_another_holder():
    """As a container does: its name stays, and its number is 1 each time."""
    program = "from foundation import leases; print(leases.this_process())"
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    host, number, start = leases.this_process().rsplit(":", 2)
    assert (host, int(number)) == (socket.gethostname(), os.getpid())
    before = f"{host}:{number}:{other.strip().rsplit(':', 1)[1]}"
    leases.acquire(name="periodic:sweep", holder=before, ttl_seconds=30)
    with leases.periodic("sweep", seconds=30) as ours:
        assert not ours
    let_pass(31)
    with leases.periodic("sweep", seconds=30) as ours:
        assert ours
    assert Lease.objects.get().holder.startswith(f"{host}:{number}:{start}:")


@pytest.mark.django_db(transaction=True)
def test_a_thread_beside_it_does_not_do_what_this_process_does_already():
    seen = []

    def beside() -> None:
        try:
            with leases.periodic("sweep", seconds=30) as ours:
                seen.append(ours)
        finally:
            connection.close()

    with leases.periodic("sweep", seconds=30) as ours:
        other = threading.Thread(target=beside)
        other.start()
        other.join()
        assert (ours, seen) == (True, [False])
        leases.check()


@pytest.mark.django_db
def test_leases_of_other_names_are_independent():
    assert take("a") == take("b", name="rollup") == 1


@pytest.mark.django_db(transaction=True)
def test_of_many_who_ask_at_once_exactly_one_gets_the_lease():
    barrier, got = threading.Barrier(8), []

    def ask(number: int) -> None:
        try:
            barrier.wait(30)
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
def test_platform_settings_have_the_defaults_until_somebody_changes_them():
    assert PlatformSettings.current().default_time_limit_seconds == 86_400
    assert PlatformSettings.current().optional_kinds == ["pytorchjob", "keda", "podmonitor"]
    PlatformSettings.objects.create(grace_seconds=5)
    assert PlatformSettings.current().grace_seconds == 5


@pytest.mark.django_db
def test_the_settings_that_are_read_beside_something_else_are_the_same():
    def beside():
        both = JSONObject(count=Count("pk"), settings=PlatformSettings.as_json())
        return PlatformSettings.of_json(Heartbeat.objects.aggregate(both=both)["both"]["settings"])

    assert model_to_dict(beside()) == model_to_dict(PlatformSettings())
    PlatformSettings.objects.create(grace_seconds=5, optional_kinds=["keda"], gang_scheduler="volcano")
    current = PlatformSettings.current()
    assert model_to_dict(beside()) == model_to_dict(current)
    assert beside().updated_at == current.updated_at
    with PlatformSettings.held(current):
        assert PlatformSettings.current() is current


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
