"""The watcher behind a proxy that breaks: every row of docs/reference/faults.md that is about lists and watches."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field
from uuid import uuid4

import pytest
from typing_extensions import override

from cluster import kinds
from cluster.client import connect
from cluster.kinds import ObjectRef
from controller.watch import watcher as module
from controller.watch.objects import ObjectSink
from controller.watch.pods import PodSink
from controller.watch.volume_claims import ClaimSink
from controller.watch.watcher import EVERY, OWN, KindWatcher
from costs.models import UsageInterval
from logs.collector import LogCollector
from tests.controller import fault_proxy as faults
from tests.controller.clusters import OwnCluster, gone
from tests.controller.conftest import REAL
from tests.controller.fault_proxy import FaultProxy
from tests.controller.watch_bed import Pods, Waits, following, record, seen
from tests.factories.catalogue import make_flavor
from tests.factories.teams import make_team
from tests.factories.workloads import make_workload
from tests.waiting import until
from workloads.models import PodRecord, WatchCursor

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module", params=["devcluster", pytest.param("real", marks=pytest.mark.cluster)])
def kubeconfig(request, tmp_path_factory):
    if request.param == "real":
        if not REAL:
            pytest.skip("no PORTAL_TEST_KUBECONFIG")
        yield REAL
        return
    cluster = OwnCluster(tmp_path_factory.mktemp("faulty"))
    yield str(cluster.kubeconfig)
    cluster.stop()


@pytest.fixture
def direct(kubeconfig):
    client = connect(kubeconfig)
    yield client
    client.close()


@pytest.fixture
def run():
    return make_workload(team=make_team(f"t-{uuid4().hex[:8]}"), flavor=make_flavor(), units=1)


@pytest.fixture
def pods(direct, run):
    name = run.team.namespace_name
    made = direct.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    # The real control plane makes pods only once the namespace has its account.
    until(lambda: not gone(direct, ObjectRef("v1", "ServiceAccount", name, "default")))
    yield Pods(direct, name, run)
    direct.delete(ObjectRef("v1", "Namespace", "", name), uid=made["metadata"]["uid"])


@pytest.fixture
def proxy(kubeconfig, tmp_path):
    proxy = FaultProxy(tmp_path, kubeconfig)
    yield proxy
    proxy.close()


@pytest.fixture
def short(monkeypatch):
    """Seconds of a life are fractions of one here."""
    monkeypatch.setattr(module, "BACKOFF_SECONDS_MAX", 0.2)
    monkeypatch.setattr(module, "TOO_SHORT_SECONDS", 0.05)


@dataclass(frozen=True)
class Slow(PodSink):
    """Is kept busy by the first event until it may go on; what it is then given has lost a field."""

    writing: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    batches: list = field(default_factory=list)
    spoilt: set = field(default_factory=set)

    @override
    def seen(self, manifests, **facts):
        self.batches.append([pod["metadata"]["uid"] for pod in manifests])
        if not self.go_on.is_set():
            self.writing.set()
            assert self.go_on.wait(60)
        for pod in manifests:
            if pod["metadata"]["uid"] in self.spoilt:
                pod["metadata"].pop("creationTimestamp", None)
        super().seen(manifests, **facts)


def nothing_gone():
    return not PodRecord.objects.filter(gone_at__isnull=False).exists()


def waits_of(proxy, times):
    """How long a watch of pods is left alone, each time, and how often the server is asked meanwhile."""
    client = connect(proxy.kubeconfig, timeout=(2, 10))
    stop = Waits(times)
    sink = PodSink(LogCollector(lambda: client))
    KindWatcher(kind=kinds.POD, sink=sink, client=lambda: client, stop=stop, scope=OWN).run()
    client.close()
    return stop.seconds, len(proxy.seen)


@pytest.mark.parametrize("code", [500, 502, 503])
def test_f5_a_burst_of_server_errors_is_waited_out_and_nothing_is_missed(proxy, pods, short, code):
    """Invariant: whatever happened during the burst is in the rows after it; nothing is taken for gone."""
    with following(proxy) as follower:
        before = pods.make("before", BED_RUN_SECONDS="0.5")
        seen(before)
        proxy.meet(faults.watches("pods"), answer=faults.answers(code, "InternalError"))
        proxy.meet(faults.lists("pods"), answer=faults.answers(code, "InternalError"))
        # A watch that is being opened is not among those that a cut breaks.
        until(lambda: proxy.cut() or follower.failures >= 1)
        during = pods.make("during", BED_RUN_SECONDS="0.1")
        until(lambda: follower.failures >= 3)
        assert nothing_gone()
        proxy.mend()
        seen(before, phase="Succeeded")
        seen(during, phase="Succeeded")
        until(lambda: follower.failures == 0)


@pytest.mark.parametrize("where", ["list", "watch", "inside"])
def test_f6_a_server_that_asks_to_be_left_alone_is_left_alone_for_so_long(proxy, where):
    """Invariant: no request sooner than Retry-After says, whether it comes with a status or inside a watch."""
    if where == "list":
        proxy.meet(faults.lists("pods"), answer=faults.answers(429, "TooManyRequests", retry_after=40))
    elif where == "watch":
        proxy.meet(faults.watches("pods"), answer=faults.answers(429, "TooManyRequests", retry_after=40))
    else:
        proxy.meet(faults.watches("pods"), answer=faults.error_inside(429, "TooManyRequests", retry_after=40))
    seconds, asked = waits_of(proxy, 3)
    assert seconds == [40.0] * 3
    assert asked <= 4, "one list, and each time one request"


def test_f6_nobody_is_left_alone_for_hours(proxy):
    proxy.meet(faults.lists("pods"), answer=faults.answers(503, "ServiceUnavailable", retry_after=86400))
    seconds, _ = waits_of(proxy, 1)
    assert seconds == [module.ASKED_TO_WAIT_SECONDS_MAX]


@pytest.mark.parametrize("end", ["between two events", "inside an event"])
def test_f11_a_watch_that_is_cut_every_other_event_misses_no_final_state(proxy, pods, short, end):
    """Invariant: every pod's last state is in its row (10^3 and more transitions: test_watch_transitions.py)."""
    proxy.meet(faults.watches("pods"), spoil=faults.cut_after(2, inside=end == "inside an event"))
    with following(proxy):
        uids = [pods.make(f"pod-{number}", BED_RUN_SECONDS="0.1") for number in range(6)]
        for uid in uids:
            seen(uid, phase="Succeeded")
            until(lambda uid=uid: UsageInterval.objects.filter(pod_uid=uid, ended_at__isnull=False))
    assert nothing_gone()
    assert UsageInterval.objects.filter(pod_uid__in=uids).count() == len(uids), "each is charged once"


def test_f12_a_half_open_watch_is_noticed_and_taken_up_again(proxy, pods, short, monkeypatch):
    """Invariant: what is silent for longer than a watch lasts is cut off by the portal itself, within 30 seconds."""
    assert module.WATCH_SECONDS + 5 <= module.SILENT_SECONDS <= 30
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.5)
    watched = faults.watches("pods")
    # What a list shows comes by no watch, and a watch that has told nothing yet is quiet, not half-open: pods until two were.
    proxy.meet(
        lambda method, path: proxy.half_open < 2 and watched(method, path), spoil=faults.silent_after(1)
    )
    numbers = itertools.count()
    with following(proxy):
        uid = pods.make("first", BED_RUN_SECONDS="0.1")
        until(lambda: proxy.half_open >= 2 or not pods.make(f"pod-{next(numbers)}"), longest=1.0)
        seen(uid, phase="Succeeded")
        seen(pods.make("last"))


def test_what_comes_while_rows_are_written_is_written_together_and_of_each_pod_the_last(proxy, pods, short):
    """Invariant: a watch that tells more than rows can be written one by one does not fall behind."""
    client = connect(proxy.kubeconfig, timeout=(2, 10))
    slow = Slow(LogCollector(lambda: client))
    with following(proxy, sink=slow):
        until(lambda: WatchCursor.objects.filter(kind="Pod"))
        first = pods.make("one")
        until(slow.writing.is_set)
        names = [f"pod-{number}" for number in range(5)]
        later = [pods.make(name) for name in names]
        for name in names:
            until(lambda name=name: pods.phase(name) == "Running")
        slow.go_on.set()
        for uid in (first, *later):
            seen(uid, phase="Running")
    client.close()
    assert max(map(len, slow.batches)) > 1
    assert all(len(batch) == len(set(batch)) for batch in slow.batches)


def test_one_of_a_batch_that_cannot_be_recorded_keeps_no_other_from_being_seen(proxy, pods, short):
    client = connect(proxy.kubeconfig, timeout=(2, 10))
    slow = Slow(LogCollector(lambda: client))
    with following(proxy, sink=slow) as follower:
        until(lambda: WatchCursor.objects.filter(kind="Pod"))
        pods.make("one")
        until(slow.writing.is_set)
        uids = [pods.make(name) for name in ("two", "three", "four")]
        for name in ("two", "three", "four"):
            until(lambda name=name: pods.phase(name) == "Running")
        slow.spoilt.add(uids[1])
        slow.go_on.set()
        seen(uids[0], phase="Running")
        seen(uids[2], phase="Running")
        assert follower.is_alive()
    client.close()
    assert record(uids[1]) is None


def test_f12_a_quiet_watch_is_ended_by_the_server_and_counts_as_heard(proxy, monkeypatch):
    """Invariant: a kind of which nothing happens is as fresh as one that changes, without a list or a broken watch."""
    monkeypatch.setattr(module, "WATCH_SECONDS", 2)
    monkeypatch.setattr(module, "CURSOR_EVERY_SECONDS", 0)
    with following(proxy, kind=kinds.CLAIM, sink=ClaimSink(), scope=EVERY):
        first = until(lambda: WatchCursor.objects.filter(kind=kinds.CLAIM.kind).first())
        until(lambda: WatchCursor.objects.get(pk=first.pk).seen_at > first.seen_at)
    asked = [path for _, path in proxy.seen]
    assert sum("watch=" not in path for path in asked) == 1


@pytest.mark.parametrize("answer", [faults.answers(410, "Expired"), faults.error_inside(410, "Expired")])
def test_f13_an_expired_version_leads_to_a_new_list_without_a_loss(proxy, pods, short, answer):
    """Invariant: the list brings the rows up to date, with no effect twice."""
    with following(proxy) as follower:
        uid = pods.make("one", BED_RUN_SECONDS="0.5")
        seen(uid)
        fault = proxy.meet(faults.watches("pods"), answer=answer, times=1)
        until(lambda: proxy.cut() or fault.met)
        seen(uid, phase="Succeeded")
        seen(pods.make("two"))
        # The new list may show the second one; what comes after it is told by the watch.
        seen(pods.make("three"))
        until(lambda: follower.expired == 0)
    assert UsageInterval.objects.filter(pod_uid=uid).count() == 1
    assert nothing_gone()


@pytest.mark.parametrize("answer", [faults.answers(410, "Expired"), faults.error_inside(410, "Expired")])
def test_f13_a_server_whose_own_lists_are_too_old_for_it_is_not_asked_in_a_busy_loop(proxy, answer):
    proxy.meet(faults.watches("pods"), answer=answer)
    seconds, asked = waits_of(proxy, 6)
    assert seconds == [1, 2, 4, 8, 16, 30]
    assert asked / sum(seconds) < 2


BROKEN = {
    "an error inside": {"answer": faults.error_inside(500, "InternalError")},
    "empty": {"answer": faults.empty},
    "cut at once": {"spoil": faults.cut_after(0)},
    "half an event": {"answer": lambda exchange: (exchange.start(), exchange.chunk(b'{"type":'), exchange.finish())},
    "no event": {"answer": lambda exchange: (exchange.start(), exchange.chunk(b"<html>\n"), exchange.finish())},
    "no kubernetes": {"answer": lambda exchange: exchange.reply(200, {})},
}  # fmt: skip


@pytest.mark.parametrize("how", BROKEN)
def test_f14_a_watch_that_says_nonsense_is_no_busy_loop(proxy, how, pods):
    """Invariant: fewer than two requests a second, however often it is answered so."""
    if how == "cut at once":
        pods.make("one")
    proxy.meet(faults.watches("pods"), **BROKEN[how])
    seconds, asked = waits_of(proxy, 6)
    assert asked / sum(seconds) < 2
    assert asked <= 8


def test_f14_events_that_come_twice_and_out_of_order_leave_the_newest_state(proxy, pods, short):
    """Invariant: a row never goes back, and a pod that has ended does not live again."""
    proxy.meet(faults.watches("pods"), spoil=faults.doubled_and_shuffled)
    with following(proxy):
        uids = [pods.make(f"pod-{number}", BED_RUN_SECONDS="0.1") for number in range(8)]
        for uid in uids:
            seen(uid, phase="Succeeded")
        pods.delete("pod-0", uids[0])
        seen(uids[0], gone_at__isnull=False)
        seen(pods.make("last"))
    assert PodRecord.objects.filter(uid__in=uids, phase="Succeeded").count() == len(uids)
    assert UsageInterval.objects.filter(pod_uid__in=uids, ended_at__isnull=False).count() == len(uids)


def test_f14_events_that_come_late_take_nothing_back_and_are_not_lost(proxy, pods, short):
    """Invariant: a row is as new as the newest that was seen of it, whoever saw it; what is late is no end."""
    with following(proxy):
        until(lambda: WatchCursor.objects.filter(kind="Pod"))
        # What the list does not show is told by a watch: the one that is cut is open.
        seen(pods.make("before"))
        late = proxy.late(faults.watches("pods"), times=1)
        proxy.cut()
        uid = pods.make("one", BED_RUN_SECONDS="0.1")
        until(lambda: late.held)
        assert record(uid) is None
        with following(proxy):
            seen(uid, phase="Succeeded")
            second = seen(pods.make("two"))
            late.let_go()
            until(lambda: late.held > 1)
        seen(pods.make("three"))
        assert record(uid).phase == "Succeeded"
        assert record(second.uid).gone_at is None
    assert UsageInterval.objects.filter(pod_uid=uid, ended_at__isnull=False).count() == 1
    assert nothing_gone()


def test_f15_a_list_that_comes_late_ends_nothing_that_began_meanwhile(proxy, pods, short):
    """Invariant: a list tells of the time when it was made; what came after it is told by the watch that begins there."""
    first = pods.make("one", BED_RUN_SECONDS="0.1")
    late = proxy.late(faults.lists("pods"), times=1)
    with following(proxy):
        until(lambda: late.held)
        with following(proxy):
            second = seen(pods.make("two")).uid
            seen(first, phase="Succeeded")
        late.let_go()
        seen(pods.make("three"))
        assert record(first).phase == "Succeeded"
        assert record(second).gone_at is None
    assert nothing_gone()


@pytest.mark.parametrize("shown", ["nothing", "half", "no list", "half a document"])
def test_f15_a_list_that_is_wrong_once_ends_nothing(proxy, pods, short, shown):
    """Invariant: what a list lacks is gone only when a read by its name finds it gone."""
    with following(proxy):
        uids = [pods.make("one"), pods.make("two")]
        for uid in uids:
            seen(uid, phase="Running")
    whole = pods.client.list(kinds.POD, namespace=pods.namespace)
    document = {"metadata": {"resourceVersion": whole.resource_version}, "items": whole.items}
    answer = {
        "nothing": faults.lists_only([], version=whole.resource_version),
        "half": faults.lists_only(whole.items[:1], version=whole.resource_version),
        "no list": lambda exchange: exchange.reply(200, {}),
        "half a document": faults.truncated(document),
    }[shown]
    fault = proxy.meet(faults.lists("pods"), answer=answer, times=1)
    with following(proxy):
        seen(pods.make("three"))
    assert fault.met == 1
    assert nothing_gone()
    assert not UsageInterval.objects.filter(ended_at__isnull=False).exists()


def test_f16_what_ended_while_nobody_listened_is_known_with_its_own_times(proxy, pods, short):
    """Invariant: after the API server is back, every pod's end is in its row and paid up to the pod's own end."""
    with following(proxy) as follower:
        uid = pods.make("one", BED_RUN_SECONDS="0.5")
        seen(uid)
        until(lambda: WatchCursor.objects.filter(kind="Pod"))
        proxy.refuse_connections()
        until(lambda: follower.failures >= 1)
        last = record(uid)
        until(lambda: follower.failures >= 4)
        heard = WatchCursor.objects.get(kind="Pod").seen_at
        assert record(uid).phase == last.phase, "the last known state stays, with its age"
        second = pods.make("two")
        assert WatchCursor.objects.get(kind="Pod").seen_at == heard
        proxy.listen_again()
        ended = seen(uid, phase="Succeeded")
        seen(second)
        interval = until(lambda: UsageInterval.objects.filter(pod_uid=uid, ended_at__isnull=False).first())
        assert interval.ended_at == ended.finished_at
    assert nothing_gone()


def test_f38_a_kind_whose_api_goes_away_stops_no_other_and_is_followed_again(proxy, pods, monkeypatch, short):
    """Invariant: a missing CRD takes its own cursor and rows alone; the other watches go on."""
    monkeypatch.setattr(module, "UNSERVED_SECONDS", 0.1)
    kind = kinds.PYTORCH_JOB
    gone = [
        proxy.meet(lambda _, path: path == "/apis/kubeflow.org/v1", answer=faults.answers(404, "NotFound")),
        proxy.meet(
            lambda _, path: path.startswith("/apis/kubeflow.org/v1/"), answer=faults.answers(404, "NotFound")
        ),
    ]
    scope = module._own(kind)
    with following(proxy), following(proxy, kind=kind, sink=ObjectSink(kind), scope=scope):
        seen(pods.make("one"))
        until(lambda: gone[0].met >= 2)
        assert not WatchCursor.objects.filter(kind=scope.name).exists()
        seen(pods.make("two"))
        proxy.mend()
        until(lambda: WatchCursor.objects.filter(kind=scope.name))
