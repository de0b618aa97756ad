from __future__ import annotations

import json
import threading

import pytest
from kubernetes import watch
from kubernetes.client.exceptions import ApiException

from tests.waiting import until

from .kube import MERGE, config_map, on_node, pod, unique


@pytest.fixture
def maps(kube, ns):
    """Everything a case watches carries one label, so that the namespace's own objects stay out."""

    class Maps:
        def create(self, name, **labels):
            body = config_map(name, labels={"watched": "yes", **labels})
            return kube.core.create_namespaced_config_map(ns, body)

        def patch(self, name, body):
            return kube.core.patch_namespaced_config_map(name, ns, body, _content_type=MERGE)

        def delete(self, name):
            kube.core.delete_namespaced_config_map(name, ns)

        def version(self):
            return kube.core.list_namespaced_config_map(ns).metadata.resource_version

        def events(self, count, **options):
            """The first so many events, as (type, name)."""
            stream = watch.Watch()
            options = {"label_selector": "watched", "timeout_seconds": 20, **options}
            found = []
            for event in stream.stream(kube.core.list_namespaced_config_map, ns, **options):
                found.append((event["type"], event["object"].metadata.name))
                if len(found) == count:
                    stream.stop()
            return found

    return Maps()


def test_a_watch_from_a_version_replays_what_came_after(maps):
    maps.create("before")
    version = maps.version()
    maps.create("a")
    maps.patch("a", {"data": {"b": "c"}})
    maps.delete("before")
    expected = [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "before")]
    assert maps.events(3, resource_version=version) == expected


def test_a_watch_from_an_objects_version_skips_that_object(maps):
    made = maps.create("a")
    maps.create("b")
    assert maps.events(1, resource_version=made.metadata.resource_version) == [("ADDED", "b")]


@pytest.mark.parametrize("version", [None, "0"], ids=["unset", "any"])
def test_a_watch_without_a_version_starts_with_what_is_there(maps, version):
    maps.create("a")
    maps.create("b")
    more = {} if version is None else {"resource_version": version}
    assert sorted(maps.events(2, **more)) == [("ADDED", "a"), ("ADDED", "b")]


def test_a_watch_sees_what_comes_while_it_waits(maps):
    version = maps.version()
    later = threading.Timer(0.3, lambda: maps.create("late"))
    later.start()
    try:
        assert maps.events(1, resource_version=version) == [("ADDED", "late")]
    finally:
        later.join()


def test_an_object_that_leaves_the_selector_is_deleted_and_one_that_enters_is_added(maps):
    version = maps.version()
    maps.create("a", color="red")
    maps.patch("a", {"metadata": {"labels": {"color": "blue"}}})
    maps.patch("a", {"metadata": {"labels": {"color": "red"}}})
    seen = maps.events(3, resource_version=version, label_selector="color=red")
    assert seen == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]


def test_a_watch_of_one_name(maps):
    version = maps.version()
    maps.create("a")
    maps.create("b")
    seen = maps.events(1, resource_version=version, field_selector="metadata.name=b")
    assert seen == [("ADDED", "b")]


def test_a_deleted_event_carries_the_last_state_and_a_new_version(kube, ns, maps):
    made = maps.create("a")
    version = maps.version()
    maps.delete("a")
    stream = watch.Watch()
    options = {"resource_version": version, "timeout_seconds": 20, "label_selector": "watched"}
    (event,) = [
        (seen, stream.stop())[0]
        for seen in stream.stream(kube.core.list_namespaced_config_map, ns, **options)
    ]
    assert event["type"] == "DELETED"
    assert event["object"].metadata.uid == made.metadata.uid
    assert int(event["object"].metadata.resource_version) > int(made.metadata.resource_version)


def test_objects_of_a_watch_carry_their_kind(kube, ns, maps):
    maps.create("a")
    lines = _lines(kube, f"/api/v1/namespaces/{ns}/configmaps", labelSelector="watched", timeoutSeconds=1)
    assert [(line["type"], line["object"]["kind"], line["object"]["apiVersion"]) for line in lines] == [
        ("ADDED", "ConfigMap", "v1")
    ]


def test_a_watch_ends_after_its_timeout_without_an_error(maps):
    assert maps.events(1, resource_version=maps.version(), timeout_seconds=1) == []


def test_bookmarks_carry_a_version_and_little_else(kube, ns, maps):
    made = maps.create("a")
    path = f"/api/v1/namespaces/{ns}/configmaps"
    since = maps.version()

    def marks():
        lines = _lines(kube, path, resourceVersion=since, allowWatchBookmarks=True, timeoutSeconds=3)
        return [line["object"] for line in lines if line["type"] == "BOOKMARK"]

    # One comes shortly before a watch ends, as a rule: no server promises it.
    bookmarks = until(marks)
    assert all((mark["kind"], mark["apiVersion"]) == ("ConfigMap", "v1") for mark in bookmarks)
    versions = [int(mark["metadata"]["resourceVersion"]) for mark in bookmarks]
    assert min(versions) >= int(made.metadata.resource_version)
    assert not any(mark["metadata"].get("name") for mark in bookmarks)


def test_initial_events_end_with_a_marked_bookmark(kube, ns, maps):
    maps.create("a")
    lines = _lines(
        kube,
        f"/api/v1/namespaces/{ns}/configmaps",
        labelSelector="watched",
        sendInitialEvents=True,
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks=True,
        timeoutSeconds=2,
    )
    assert [line["type"] for line in lines[:2]] == ["ADDED", "BOOKMARK"]
    annotations = lines[1]["object"]["metadata"]["annotations"]
    assert annotations == {"k8s.io/initial-events-end": "true"}


def test_a_watch_over_all_namespaces_sees_a_new_pod(kube, ns):
    label = unique("all")
    version = kube.core.list_pod_for_all_namespaces().metadata.resource_version
    kube.core.create_namespaced_pod(ns, pod("p", labels={"watched": label}))
    stream = watch.Watch()
    options = {"resource_version": version, "timeout_seconds": 20, "label_selector": f"watched={label}"}
    phases = []
    for event in stream.stream(kube.core.list_pod_for_all_namespaces, **options):
        phases.append(event["object"].status.phase)
        if phases[-1] == "Running":
            stream.stop()
    assert (phases[0], phases[-1]) == ("Pending", "Running")


def test_a_pod_enters_a_watch_of_what_holds_nodes_when_it_is_bound_and_leaves_it_when_it_ends(
    kube, ns, own_node
):
    """By a negated label and negated fields, as whoever counts the use of others watches."""
    chosen = {
        "label_selector": "mine!=yes",
        "field_selector": "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed",
    }
    version = kube.core.list_namespaced_pod(ns, **chosen).metadata.resource_version
    unbound = pod("unbound")
    unbound["spec"]["nodeSelector"] = {"nowhere": "true"}
    mine = pod("mine", {"BED_RUN_SECONDS": "0"}, **on_node(own_node))
    mine["metadata"]["labels"] = {"mine": "yes"}
    for body in (unbound, mine, pod("ends", {"BED_RUN_SECONDS": "1"}, **on_node(own_node))):
        kube.core.create_namespaced_pod(ns, body)
    stream = watch.Watch()
    events = []
    for event in stream.stream(
        kube.core.list_namespaced_pod, ns, resource_version=version, timeout_seconds=30, **chosen
    ):
        events.append((event["type"], event["object"].metadata.name))
        if event["type"] == "DELETED":
            stream.stop()
    assert events[0] == ("ADDED", "ends")
    assert events[-1] == ("DELETED", "ends")
    assert {kind for kind, _ in events[1:-1]} <= {"MODIFIED"}
    assert {name for _, name in events} == {"ends"}
    # It ended, and is still there.
    assert kube.core.read_namespaced_pod("ends", ns).status.phase == "Succeeded"


def test_a_watch_from_before_the_history_is_gone(kube):
    """Nodes beat often, so that a server forgets their first versions within minutes."""

    def refused():
        stream = watch.Watch()
        options = {"resource_version": "1", "timeout_seconds": 1}
        try:
            for _ in stream.stream(kube.core.list_node, **options):
                stream.stop()
        except ApiException as error:
            return error
        return None

    error = until(refused, seconds=240, longest=1)
    assert error.status == 410
    assert "too old resource version: 1 (" in error.reason


def _lines(kube, path, **query):
    response = kube.api.call_api(
        *kube.api.param_serialize(
            "GET",
            path,
            query_params=[("watch", "true"), *query.items()],
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
        )
    )
    assert response.status == 200
    assert response.headers["Content-Type"] == "application/json"
    return [json.loads(line) for line in response.read().splitlines()]
