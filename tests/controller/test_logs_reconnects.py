"""A log that is written fast, rotated, and followed over a line that breaks all the time: every line once."""

from __future__ import annotations

import random

import pytest

from cluster.client import connect
from foundation import clock
from logs import collector as module
from logs import store, workload_logs
from logs.collector import LogCollector
from tests.controller.logs_bed import LogBed, make_pod, make_workload, stamp
from tests.effort import SOAK, drawn
from tests.waiting import until
from workloads.models import PodRecord

pytestmark = pytest.mark.django_db(transaction=True)

SEED = 20261124
RECONNECTS = drawn(usual=10, soak=1_000)
LINES_A_SECOND = 10_000 if SOAK else 1_000
ROTATED_EVERY = 8


class Reader:
    """Who follows in a browser: page after page, from the cursor of the last."""

    def __init__(self, workload) -> None:
        self.workload, self.cursor, self.texts = workload, "", []
        self.wanted = 0

    def read(self):
        more = True
        while more:
            page = workload_logs.read_lines(self.workload, cursor=self.cursor or None, limit=2_000)
            self.texts += [line.text for line in page.lines]
            self.cursor, more = page.cursor, page.more
        return len(self.texts)


@pytest.fixture
def bed(tmp_path):
    bed = LogBed(tmp_path)
    yield bed
    bed.close()


@pytest.mark.parametrize("end", ["cut", "ended"])
def test_no_line_is_lost_or_repeated_over_reconnects_and_rotations(bed, monkeypatch, end):
    """Invariant: what is stored, and what a reader gets who reads while it is written, is what was written, in order.

    Each new connection finds the lines of the second in which the last one broke again, among them some that were
    written twice. The file is rotated while nothing of it is unread: a kubelet shows nobody what was in an older file.
    """
    monkeypatch.setattr(module, "REFOLLOW_SECONDS", 0.0)
    dice = random.Random(SEED)
    run = make_workload()
    pod = make_pod(run, "train-0")
    bed.add(pod.name, pod.uid)
    reader, written = Reader(run), []
    client = connect(str(bed.server.kubeconfig))
    collector = LogCollector(lambda: client)
    step = 1000 / LINES_A_SECOND
    collector.start()
    try:
        for connection in range(RECONNECTS):
            until(lambda seen=connection: bed.follows > seen, said=lambda: f"{bed.follows} connections")
            first = 0
            if connection % ROTATED_EVERY == ROTATED_EVERY - 1:
                until(lambda: reader.read() == reader.wanted, said=lambda: (len(reader.texts), reader.wanted))
                bed.rotate(pod.name)
                # What is the same to the nanosecond before and after a rotation nobody can tell apart.
                first = len(written)
            setattr(bed, "cut_after" if end == "cut" else "end_after", dice.randint(1, 40))
            lines = []
            for number in range(len(written), len(written) + dice.randint(80, 160)):
                at = max(first, number - number % 5) if dice.random() < 0.3 else number
                lines.append((at, "again" if at != number else f"line {number}"))
            lines.sort(key=lambda line: line[0])
            bed.write(pod.name, *(stamp(at, step_ms=step) + b" %s\n" % text.encode() for at, text in lines))
            written += [text for _, text in lines]
            reader.wanted = len(written)
            reader.read()
        bed.cut_after = bed.end_after = None
        bed.end(pod.name)
        PodRecord.objects.filter(pk=pod.pk).update(phase="Succeeded", finished_at=clock.now())
        collector.pod_changed(PodRecord.objects.select_related("workload").get(pk=pod.pk))
        until(lambda: store.is_stored(pod))
    finally:
        collector.stop()
        client.close()
    reader.read()
    assert len(reader.texts) == len(written)
    assert reader.texts == written
    assert bed.follows >= RECONNECTS
