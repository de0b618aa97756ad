"""A worker that is told to end while it has something in hand."""

from __future__ import annotations

import signal

import psycopg
import pytest
import redis
from kombu import Connection

from portal.celery import app
from portal.settings import queues, stores
from tests.crash.fleet import running_fleet
from tests.waiting import until

_WAITS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
_LEAVES = "Warm shutdown"


@pytest.fixture
def fleet(tmp_path, devcluster):
    with running_fleet(tmp_path, kubeconfig=devcluster, kinds=("worker",)) as fleet:
        yield fleet


@pytest.mark.crash
def test_what_a_worker_has_in_hand_when_it_is_told_to_end_is_given_to_no_other(fleet):
    worker = fleet.children["worker"]
    broker = redis.Redis(unix_socket_path=str(fleet.folders.valkey_socket))
    address = f"host={fleet.folders.postgres_sockets} user=portal dbname=portal"
    with broker, fleet.database() as database, psycopg.connect(address) as holder:
        holder.execute("LOCK TABLE foundation_lease")
        with Connection(stores.broker_url(stores.embedded_redis_url(fleet.folders))) as connection:
            app.send_task("quotas.return_requests", connection=connection)
        until(lambda: database.execute(_WAITS).fetchone()[0] == 1, seconds=60, said="it is in hand")
        worker.signal(signal.SIGTERM)
        until(lambda: _LEAVES in fleet.log("worker"), said="the worker is told")
        holder.rollback()
        assert worker.process.wait(60) == 0
        assert (sum(map(broker.llen, queues.THREADS)), broker.hlen("unacked")) == (0, 0)
