"""The worker's queues do not wait for each other."""

from __future__ import annotations

import threading

import pytest

from portal.runtime.lanes import MAIN, OTHERS, Lanes
from portal.settings import queues


@pytest.fixture
def lanes():
    pool = Lanes(limit=2)
    pool.start()
    yield pool
    pool.stop()


def give(pool, queue, work):
    """As a worker hands on a message: the task's name, its id, its request."""
    request = {"delivery_info": {"routing_key": queue}}
    return pool.apply_async(lambda *_: work(), ("task", "id", request), accept_callback=lambda *_: None)


@pytest.mark.parametrize("queue", sorted(OTHERS))
def test_a_queue_that_is_held_up_holds_up_no_other(lanes, queue):
    over, done = threading.Event(), threading.Event()
    try:
        for each, threads in (OTHERS | {MAIN: 2}).items():
            if each != queue:
                for _ in range(threads * 2):
                    give(lanes, each, over.wait)
        give(lanes, queue, done.set)
        assert done.wait(30)
    finally:
        over.set()


def test_a_message_of_no_known_queue_is_worked_on_all_the_same(lanes):
    done = threading.Event()
    give(lanes, "portal", done.set)
    assert done.wait(30)


def test_every_queue_that_a_task_goes_to_is_read_by_threads():
    named = {route["queue"] for route in queues.ROUTES.values()} | {queues.DEFAULT}
    assert named == set(queues.THREADS)
    assert all(queues.THREADS.values())
