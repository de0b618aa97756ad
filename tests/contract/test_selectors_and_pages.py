from __future__ import annotations

import pytest

from tests.waiting import until

from .conftest import make_namespace
from .kube import config_map, on_node, pod, refusal, unique

COLORS = {
    "a": {"color": "red", "size": "1"},
    "b": {"color": "red", "size": "2"},
    "c": {"color": "blue", "size": "1"},
    "d": {"size": "3"},
}


@pytest.fixture(scope="module")
def painted(kube):
    name = make_namespace(kube)
    for item, labels in COLORS.items():
        kube.core.create_namespaced_config_map(name, config_map(item, labels={"set": "painted", **labels}))
    yield name
    kube.core.delete_namespace(name)


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("color=red", "ab"),
        ("color==red", "ab"),
        ("color!=red,set=painted", "cd"),
        ("color,set", "abc"),
        ("!color,set", "d"),
        ("color in (red, blue)", "abc"),
        ("color notin (red),set", "cd"),
        ("color=red,size=2", "b"),
        ("size in (1,2),color notin (blue)", "ab"),
        ("size>1", "bd"),
        ("size<2", "ac"),
        ("color=green", ""),
    ],
)
def test_a_label_selector_chooses(kube, painted, selector, names):
    found = kube.core.list_namespaced_config_map(painted, label_selector=selector).items
    assert sorted(item.metadata.name for item in found) == list(names)


@pytest.mark.parametrize("selector", ["color in red", "a b", "color=red blue"])
def test_a_broken_label_selector_is_bad_request(kube, painted, selector):
    status = refusal(kube.core.list_namespaced_config_map, painted, label_selector=selector)
    assert (status["code"], status["reason"]) == (400, "BadRequest")


def test_a_field_selector_by_name(kube, painted):
    found = kube.core.list_namespaced_config_map(painted, field_selector="metadata.name=b").items
    assert [item.metadata.name for item in found] == ["b"]
    rest = kube.core.list_namespaced_config_map(
        painted, field_selector="metadata.name!=b", label_selector="set"
    ).items
    assert [item.metadata.name for item in rest] == ["a", "c", "d"]


def test_a_field_selector_by_namespace_over_all(kube, painted):
    found = kube.core.list_config_map_for_all_namespaces(
        field_selector=f"metadata.namespace={painted}", label_selector="set"
    ).items
    assert len(found) == 4


def test_pods_are_selected_by_phase_and_node(kube, ns, own_node):
    kube.core.create_namespaced_pod(ns, pod("ends", {"BED_RUN_SECONDS": "0"}, **on_node(own_node)))
    kube.core.create_namespaced_pod(ns, pod("runs", **on_node(own_node)))

    def names(selector):
        found = kube.core.list_namespaced_pod(ns, field_selector=selector).items
        return [item.metadata.name for item in found]

    until(lambda: names("status.phase=Succeeded") == ["ends"])
    until(lambda: names("status.phase=Running") == ["runs"])
    assert names("status.phase!=Running,status.phase!=Pending") == ["ends"]
    assert names(f"spec.nodeName={own_node}") == ["ends", "runs"]
    assert names("spec.nodeName=") == []


def test_events_are_selected_by_what_they_speak_of(kube, ns):
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "told"},
        "involvedObject": {"kind": "Job", "namespace": ns, "name": "run", "uid": unique("uid")},
        "reason": "FailedCreate",
        "message": "told",
        "type": "Warning",
        "count": 2,
    }
    kube.core.create_namespaced_event(ns, body)
    uid = body["involvedObject"]["uid"]
    for selector in (
        f"involvedObject.uid={uid}",
        "involvedObject.name=run,involvedObject.kind=Job",
        "reason=FailedCreate,type=Warning",
    ):
        (found,) = kube.core.list_namespaced_event(ns, field_selector=selector).items
        assert (found.metadata.name, found.count, found.message) == ("told", 2, "told")
    assert kube.core.list_namespaced_event(ns, field_selector="involvedObject.uid=other").items == []


def test_an_unknown_field_selector_is_bad_request(kube, painted):
    status = refusal(kube.core.list_namespaced_config_map, painted, field_selector="data.a=b")
    assert (status["code"], status["reason"]) == (400, "BadRequest")
    assert '"data.a" is not a known field selector' in status["message"]


def test_pages_hold_everything_once_and_in_order(kube, painted):
    seen, token, pages = [], None, 0
    while True:
        page = kube.core.list_namespaced_config_map(painted, label_selector="set", limit=3, _continue=token)
        seen += [item.metadata.name for item in page.items]
        pages, token = pages + 1, page.metadata._continue
        if not token:
            break
    assert (seen, pages) == (["a", "b", "c", "d"], 2)


def test_pages_of_one_list_share_its_version_and_do_not_see_later_writes(kube, ns):
    for name in "abc":
        kube.core.create_namespaced_config_map(ns, config_map(name, labels={"set": "paged"}))
    first = kube.core.list_namespaced_config_map(ns, label_selector="set", limit=2)
    kube.core.create_namespaced_config_map(ns, config_map("d", labels={"set": "paged"}))
    kube.core.delete_namespaced_config_map("c", ns)
    second = kube.core.list_namespaced_config_map(
        ns, label_selector="set", limit=2, _continue=first.metadata._continue
    )
    assert [item.metadata.name for item in second.items] == ["c"]
    assert second.metadata.resource_version == first.metadata.resource_version


def test_a_page_without_selector_counts_what_remains(kube, painted):
    page = kube.core.list_namespaced_config_map(painted, limit=1)
    total = len(kube.core.list_namespaced_config_map(painted).items)
    assert page.metadata.remaining_item_count == total - 1


def test_a_broken_continue_token_is_bad_request(kube, painted):
    status = refusal(kube.core.list_namespaced_config_map, painted, limit=1, _continue="broken")
    assert (status["code"], status["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize("version", [None, "0"], ids=["latest", "any"])
def test_a_list_carries_the_version_to_watch_from(kube, painted, version):
    more = {} if version is None else {"resource_version": version}
    listed = kube.core.list_namespaced_config_map(painted, label_selector="set", **more)
    assert len(listed.items) == 4
    newest = max(int(item.metadata.resource_version) for item in listed.items)
    assert int(listed.metadata.resource_version) >= newest


def test_items_of_a_list_carry_no_kind(kube, painted):
    listed = kube.raw(kube.core.list_namespaced_config_map, painted)
    assert listed["kind"] == "ConfigMapList"
    assert all("kind" not in item and "apiVersion" not in item for item in listed["items"])


def test_a_list_of_an_absent_namespace_is_empty(kube):
    assert kube.core.list_namespaced_config_map("contract-absent").items == []
