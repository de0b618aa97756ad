"""Rows of what is in a cluster are asked for by its name, and a client of it by its name: ADR 0022."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import pytest

from tests.architecture.sources import APART, modules

MODELS = "workloads/models/observed.py"
MANAGERS = {"objects", "_default_manager", "_base_manager"}
# What is nobody else's in any cluster: a UID, a key, and whatever is of a workload.
KEYS = {"cluster", "uid", "uid__in", "pk", "pk__in", "workload", "workload_id", "workload__in"}
# A UID that is excluded is named, and yet rows of every other cluster are left.
NARROWS = {"filter", "get", "update_or_create", "get_or_create"}
# These take rows that are there already, or none.
OF_ROWS = {"bulk_create", "bulk_update", "none"}
MAKES = {"create", "update_or_create", "get_or_create"}
# About all clusters, and why.
ABOUT_ALL = {
    "controller/retention.py forget": "what has long gone is forgotten alike, wherever it was: objects and nodes",
    "controller/retention.py _pods": "the same of pods",
    "workloads/metrics.py WatchCollector.collect": "every watch has an age, and its cluster is a label",
    "costs/ledger/services.py close_ended": "a bill is settled wherever the pod was",
    **dict.fromkeys(
        [f"costs/ledger/idle.py {name}" for name in ("_cursor", "_nodes_of", "_counted")],
        "a card costs the same in every cluster, and is idle in each",
    ),
    **dict.fromkeys(
        [f"costs/ledger/check.py {name}" for name in ("_step_of_pods", "_nodes_in")],
        "the ledger is of all clusters, and so is its check",
    ),
    "workloads/nodes/history.py flavors_changed": "a flavor means the same in every cluster",
}
# Who asks for a client, and of which cluster: entry points alone, which hand it on.
TEAM, STRAYS, LACKS = "of a team's namespace", "of the strays that are shown", "somebody asks what it lacks"
ENTRIES = {
    "console/api/cluster.py PreflightView.get": LACKS,
    "console/api/cluster.py StraysDeleteView.post": STRAYS,
    "console/api/secrets.py TeamSecretView.delete": TEAM,
    "console/api/secrets.py TeamSecretView.put": TEAM,
    "console/api/volumes.py TeamVolumesView.get": TEAM,
    "console/api/volumes.py TeamVolumesView.post": TEAM,
    "console/pages/preflight.py PreflightPage.get": LACKS,
    "console/pages/preflight.py PreflightPage.post": LACKS,
    "console/pages/secrets.py SecretDeletePage.post.delete": TEAM,
    "console/pages/secrets.py _register": TEAM,
    "console/pages/secrets.py _write": TEAM,
    "console/pages/strays.py StraysPage.post": STRAYS,
    "console/pages/volumes.py VolumesPage.post": TEAM,
    "console/pages/volumes.py _page": TEAM,
    "controller/tasks.py collect_garbage": "a periodic job",
    "controller/tasks.py keep_fences": "a periodic job",
    "controller/tasks.py pass_over_pool": "that of the pool",
    "controller/tasks.py reconcile_workload": "that of the workload",
    "controller/watch/watcher.py run_forever": "a watcher follows one",
    "demo/interruption.py take_a_node_away": "that of the demo",
    "demo/scaling.py _why": "that of the demo",
    "gateway/asgi.py Application.live": "the way to the pods of all endpoints",
    "gateway/invocations.py try_endpoint": "that of the endpoint",
    "portal/management/commands/preflight.py Command.handle": LACKS,
}


@cache
def observed() -> dict[str, ast.ClassDef]:
    """The models whose rows say which cluster they are of."""
    classes = (each for each in modules()[MODELS].body if isinstance(each, ast.ClassDef))
    return {each.name: each for each in classes if "cluster" in assigned(each)}


def assigned(node: ast.ClassDef) -> dict[str, str]:
    return {
        ast.unparse(each.targets[0]): ast.unparse(each.value)
        for each in node.body
        if isinstance(each, ast.Assign)
    }


def last(node: ast.AST) -> str:
    """`NodeRecord` of `models.NodeRecord`."""
    return getattr(node, "attr", None) or getattr(node, "id", "")


def within(tree: ast.AST, place: tuple[str, ...] = ()) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    """Every node with its parent, and the class and function that it stands in."""
    for child in ast.iter_child_nodes(tree):
        yield ".".join(place), tree, child
        named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        yield from within(child, (*place, child.name) if named else place)


@cache
def placed(tree: ast.Module) -> list[tuple[str, ast.AST, ast.AST]]:
    return list(within(tree))


def chain(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[ast.Call]:
    """The calls one behind the other that begin with this manager: `.filter(…)`, `.order_by(…)`."""
    while isinstance(method := parents[node], ast.Attribute):
        call = parents[method]
        if not isinstance(call, ast.Call) or call.func is not method:
            return
        yield call
        node = call


def names_it(calls: list[ast.Call]) -> bool:
    """Whether the query says of which cluster, or of which row or workload."""
    for call in calls:
        method, keywords = last(call.func), {each.arg for each in call.keywords}
        if method in MAKES and "cluster" not in keywords:
            return False
        if method == "of" or method in OF_ROWS or (method in {*NARROWS, *MAKES} and keywords & KEYS):
            return True
    return False


def nameless(tree: ast.Module) -> Iterator[str]:
    """Where rows of a cluster are asked for or made without its name."""
    models = observed()
    imports = [each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)]
    known = {alias.asname or alias.name for each in imports for alias in each.names if alias.name in models}
    parents = {child: parent for _, parent, child in placed(tree)}
    for place, _, node in placed(tree):
        if isinstance(node, ast.Attribute) and node.attr in MANAGERS:
            model = last(node.value)
            # `rows.objects` may be of any of them where one of them is imported at all.
            dynamic = bool(known) and not model[:1].isupper() and model != "cls"
            if (model in {*models, *known} or dynamic) and not names_it(list(chain(node, parents))):
                yield place
        if (
            isinstance(node, ast.Call)
            and last(node.func) in {*models, *known}
            and "cluster" not in {each.arg for each in node.keywords}
        ):
            yield place
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not all(statements(node.value)):
            yield place


@cache
def reading() -> re.Pattern[str]:
    """Where SQL reads or writes rows of such a model."""
    tables = "|".join(f"workloads_{name.lower()}" for name in observed())
    return re.compile(rf"\b(?:FROM|JOIN|UPDATE|INTO)\s+(?:{tables})\b")


def statements(sql: str) -> Iterator[bool]:
    """Of each such place, whether it says of which cluster or workload."""
    starts = [match.start() for match in reading().finditer(sql)]
    for start, end in pairwise([*starts, len(sql)]):
        part = re.split(r"\bUNION\b", sql[start:end])[0]
        yield bool(re.search(r"\bcluster = %\(cluster\)s|\bworkload_id = ", part))


def clients(tree: ast.Module) -> Iterator[str]:
    for place, _, node in placed(tree):
        if isinstance(node, ast.Name) and node.id == "get_client":
            yield place


def found(look) -> set[str]:
    return {
        f"{name} {place}".rstrip()
        for name, tree in modules().items()
        if not name.startswith(f"{APART}/")
        for place in look(tree)
    }


def test_every_model_with_a_cluster_is_asked_through_the_manager_that_names_it():
    assert len(observed()) == 9
    assert {assigned(each).get("objects") for each in observed().values()} == {"InCluster.as_manager()"}


def test_whoever_asks_for_rows_of_a_cluster_names_it():
    assert found(nameless) == set(ABOUT_ALL)


def test_only_entry_points_ask_for_a_client():
    assert found(clients) == set(ENTRIES)


def test_only_the_seam_makes_clients():
    makers = {
        name
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Call) and last(node.func) == "ClusterClient")
        or (
            isinstance(node, ast.ImportFrom)
            and node.module == "cluster.client"
            and "connect" in {each.name for each in node.names}
        )
    }
    assert makers == {"cluster/client.py"}


PLANTED = {
    "all nodes": "NodeRecord.objects.filter(gone_at__isnull=True)",
    "all there are": "NodeRecord.objects.all()",
    "the manager handed on": "count(NodeRecord.objects)",
    "what a list lacks": "NodeRecord.objects.exclude(uid__in=present).delete()",
    "by a name": "NodeRecord.objects.get(name=name)",
    "under another name": "Node.objects.count()",
    "of whichever model": "rows.objects.count()",
    "past the manager": "NodeRecord._default_manager.count()",
    "made without": "NodeRecord.objects.update_or_create(uid=uid, defaults=facts)",
    "built without": "NodeRecord(uid=uid, name=name)",
    "by a statement": "execute('SELECT name FROM workloads_noderecord WHERE gone_at IS NULL')",
    "by half of a statement": (
        "execute('SELECT name FROM workloads_foreignpod UNION SELECT name FROM workloads_noderecord"
        " WHERE cluster = %(cluster)s')"
    ),
}
HARMLESS = {
    "of one": "NodeRecord.objects.of(cluster).exclude(allocatable={})",
    "by uid": "NodeRecord.objects.select_for_update().filter(uid__in=uids).order_by('uid')",
    "of a workload": "PodRecord.objects.filter(workload=workload, gone_at=None)",
    "none": "NodeRecord.objects.none()",
    "rows that are there": "NodeRecord.objects.bulk_update(rows, ['gone_at'])",
    "made with it": "NodeRecord.objects.update_or_create(cluster=cluster, uid=uid, defaults=facts)",
    "built with it": "NodeRecord(cluster=cluster, uid=uid)",
    "of another model": "Workload.objects.all()",
    "by a statement": "execute('SELECT name FROM workloads_noderecord WHERE cluster = %(cluster)s')",
}
IMPORTS = "from workloads.models import NodeRecord, NodeRecord as Node, PodRecord, Workload\n"


def planted(body: str) -> ast.Module:
    return ast.parse(f"{IMPORTS}def planted(): return {body}")


@pytest.mark.parametrize("body", PLANTED.values(), ids=PLANTED)
def test_a_query_without_the_name_is_noticed(body):
    assert list(nameless(planted(body))) == ["planted"]


@pytest.mark.parametrize("body", HARMLESS.values(), ids=HARMLESS)
def test_a_query_that_names_it_is_not(body):
    assert list(nameless(planted(body))) == []


def test_a_client_that_is_asked_for_anywhere_is_noticed():
    assert list(clients(planted("nodes(get_client())"))) == ["planted"]
