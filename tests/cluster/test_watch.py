from __future__ import annotations

import json
import threading
from contextlib import closing

import pytest
from cluster_faults import status

from cluster import kinds
from cluster.client import connect
from cluster.errors import ClusterUnavailable
from cluster.kinds import ref_of
from cluster.watch import WatchEvent, WatchExpired, _Told, watch_batches


def config_map(namespace, name="data", **data):
    metadata = {"namespace": namespace, "name": name, "labels": {"watched": "yes"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def event(name, version, kind="ConfigMap"):
    found = {"kind": kind, "metadata": {"name": "x", "resourceVersion": version}}
    return json.dumps({"type": name, "object": found}).encode() + b"\n"


def watch(client, **options):
    given = {"resource_version": "1", "timeout_seconds": 5, "read_timeout_seconds": 5} | options
    with closing(watch_batches(client, kinds.CONFIG_MAP, **given)) as batches:
        for batch in batches:
            yield from batch


def test_changes_after_the_list_arrive_in_order(client, namespace):
    start = client.list(kinds.CONFIG_MAP, namespace=namespace).resource_version

    def change():
        made = client.create(config_map(namespace, a="1"))
        client.patch_merge(ref_of(made), {"data": {"a": "2"}})
        client.delete(ref_of(made), uid=made["metadata"]["uid"])

    thread = threading.Thread(target=change)
    thread.start()
    seen = []
    for found in watch(
        client, resource_version=start, namespace=namespace, label_selector="watched=yes", timeout_seconds=20
    ):
        if found.type != "BOOKMARK":
            seen.append((found.type, found.object["kind"], found.resource_version != ""))
        if found.type == "DELETED":
            break
    thread.join()
    assert seen == [
        ("ADDED", "ConfigMap", True),
        ("MODIFIED", "ConfigMap", True),
        ("DELETED", "ConfigMap", True),
    ]


def test_a_watch_ends_quietly_when_the_server_says_so(client, namespace):
    start = client.list(kinds.CONFIG_MAP, namespace=namespace).resource_version
    # A new namespace soon gets ConfigMaps of the cluster's own.
    for found in watch(
        client, resource_version=start, namespace=namespace, label_selector="watched=yes", timeout_seconds=1
    ):
        assert found.type == "BOOKMARK"


def test_a_version_that_is_no_longer_kept_expires(faulty, faulty_client):
    faulty.script = lambda exchange: exchange.reply(410, status(410, "Expired", "too old"))
    with pytest.raises(WatchExpired, match="too old"):
        next(watch(faulty_client))


def test_a_version_may_also_expire_within_the_stream(faulty, faulty_client):
    def script(exchange):
        exchange.start()
        exchange.chunk(event("ADDED", "5"))
        exchange.chunk(
            json.dumps({"type": "ERROR", "object": status(410, "Expired", "too old: 5")}).encode() + b"\n"
        )
        exchange.finish()

    faulty.script = script
    events = watch(faulty_client)
    assert next(events).resource_version == "5"
    with pytest.raises(WatchExpired, match="too old: 5"):
        next(events)


def test_another_error_in_the_stream_is_a_reason_to_back_off(faulty, faulty_client):
    def script(exchange):
        exchange.start()
        failure = status(500, "InternalError", "etcd is gone", retryAfterSeconds=3)
        exchange.chunk(json.dumps({"type": "ERROR", "object": failure}).encode() + b"\n")
        exchange.finish()

    faulty.script = script
    with pytest.raises(ClusterUnavailable, match="etcd is gone") as caught:
        next(watch(faulty_client))
    assert caught.value.retry_after == 3.0


def test_events_split_over_packets_and_many_in_one_are_whole(faulty, faulty_client):
    lines = b"".join(event("ADDED", str(number)) for number in range(50)) + event("BOOKMARK", "99")

    def script(exchange):
        exchange.start()
        for begin in range(0, len(lines), 37):
            exchange.chunk(lines[begin : begin + 37])
        exchange.finish()

    faulty.script = script
    found = list(watch(faulty_client))
    assert [item.resource_version for item in found] == [*map(str, range(50)), "99"]
    assert found[-1].type == "BOOKMARK"


def test_an_event_that_breaks_off_is_no_event(faulty, faulty_client):
    def script(exchange):
        exchange.start()
        exchange.chunk(event("ADDED", "5") + event("MODIFIED", "6")[:-20])
        if "labelSelector" in exchange.request.path:
            exchange.cut()
        else:
            exchange.finish()

    faulty.script = script
    for options in ({}, {"label_selector": "a=b"}):
        events = watch(faulty_client, **options)
        assert next(events).resource_version == "5"
        with pytest.raises(ClusterUnavailable):
            next(events)


@pytest.mark.parametrize(
    "line", [b"not json\n", b"[]\n", b'{"type": "ADDED"}\n', b'{"type": "ADDED", "object": 1}\n']
)
def test_a_line_that_is_no_event_ends_the_watch(faulty, faulty_client, line):
    def script(exchange):
        exchange.start()
        exchange.chunk(line)
        exchange.finish()

    faulty.script = script
    with pytest.raises(ClusterUnavailable):
        next(watch(faulty_client))


def test_silence_ends_after_the_read_timeout(faulty, faulty_client):
    def script(exchange):
        exchange.start()
        exchange.chunk(event("ADDED", "5"))
        exchange.hang()

    faulty.script = script
    events = watch(faulty_client, read_timeout_seconds=0.3)
    assert next(events).resource_version == "5"
    with pytest.raises(ClusterUnavailable):
        next(events)


def test_the_server_is_told_when_to_end_and_where_to_begin(faulty, faulty_client):
    def script(exchange):
        exchange.start()
        exchange.finish()

    faulty.script = script
    assert list(watch(faulty_client, resource_version="77", timeout_seconds=9)) == []
    path = faulty.requests[0].path
    for part in ("watch=true", "allowWatchBookmarks=true", "resourceVersion=77", "timeoutSeconds=9"):
        assert part in path


def test_closing_the_iterator_closes_the_connection(faulty):
    ended = threading.Event()

    def script(exchange):
        exchange.start()
        exchange.chunk(event("ADDED", "5"))
        if exchange._handler.connection.recv(1) == b"":
            ended.set()

    faulty.script = script
    events = watch(connect(str(faulty.kubeconfig)))
    next(events)
    events.close()
    assert ended.wait(30)


def told(version):
    return WatchEvent(type="ADDED", object={}, resource_version=version)


def test_what_was_not_taken_yet_is_one_batch_and_an_end_comes_after_it():
    waiting = _Told()
    batches = waiting.batches()
    assert all(waiting.put(told(str(number))) for number in range(3))
    assert [event.resource_version for event in next(batches)] == ["0", "1", "2"]
    waiting.put(told("3"))
    waiting.end(ClusterUnavailable("cut"))
    waiting.end()
    assert not waiting.put(told("4")), "nobody takes it any more"
    assert [event.resource_version for event in next(batches)] == ["3"]
    with pytest.raises(ClusterUnavailable, match="cut"):
        next(batches)


def test_who_reads_waits_while_as_much_is_there_as_is_given_at_once(faulty, faulty_client):
    sent = b"".join(event("ADDED", str(number)) for number in range(1_700))

    def script(exchange):
        exchange.start()
        exchange.chunk(sent)
        exchange.finish()

    faulty.script = script
    given = {"resource_version": "1", "timeout_seconds": 5, "read_timeout_seconds": 5}
    batches = list(watch_batches(faulty_client, kinds.CONFIG_MAP, **given))
    assert max(map(len, batches)) <= 500
    assert [int(found.resource_version) for batch in batches for found in batch] == list(range(1_700))


def test_who_leaves_a_silent_watch_does_not_wait_for_it(faulty, faulty_client):
    left = threading.Event()

    def script(exchange):
        exchange.start()
        exchange.chunk(event("ADDED", "5"))
        left.wait()

    faulty.script = script
    events = watch(faulty_client, read_timeout_seconds=3600)
    assert next(events).resource_version == "5"
    events.close()
    left.set()
    assert "read-configmaps" not in {thread.name for thread in threading.enumerate()}
