"""How long a watch that broke is left alone."""

from __future__ import annotations

import pytest

from cluster import kinds
from cluster.errors import ClusterUnavailable
from controller.watch import watcher
from controller.watch.capacity import NodeSink
from controller.watch.watcher import EVERY, KindWatcher
from tests.controller.watch_bed import Waits


def refused():
    raise ClusterUnavailable("connection refused")


@pytest.mark.django_db(transaction=True)
def test_each_time_it_is_left_alone_twice_as_long_up_to_a_limit(caplog):
    stop = Waits(10)
    KindWatcher(kind=kinds.NODE, sink=NodeSink(), client=refused, stop=stop, scope=EVERY).run()
    longest = [min(watcher.BACKOFF_SECONDS_MAX, 0.5 * 2**failures) for failures in range(10)]
    assert longest[-1] == watcher.BACKOFF_SECONDS_MAX
    assert all(most / 2 <= waited <= most for waited, most in zip(stop.seconds, longest, strict=True))
    assert [
        record.wait_seconds for record in caplog.records if record.message == "watch.broken"
    ] == stop.seconds
