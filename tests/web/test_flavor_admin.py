"""Flavors in the admin console: begun with what nodes report, typed in rows, refused at the cell that is wrong."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from teams.models import AuditEvent
from tests.effort import spread
from tests.factories.catalogue import make_flavor, make_node
from tests.factories.teams import make_user
from tests.security.test_csrf_and_headers import no_inline
from workloads.models import NodeRecord, ResourceFlavor

pytestmark = pytest.mark.django_db

ADD = "/admin/workloads/resourceflavor/add/"
LIST = "/admin/workloads/resourceflavor/"
PRODUCT = "nvidia.com/gpu.product"


@pytest.fixture
def manager():
    client = Client()
    client.force_login(make_user("quinn", quota_manager=True))
    return client


def rows(name, *entries):
    return {
        f"{name}-{number}-{column}": text
        for number, row in enumerate(entries)
        for column, text in row.items()
    }


def typed(**values):
    body = {"name": "l4", "card": "l4", "memory_gib": "22", "enabled": "on", "resource": "nvidia.com/gpu"}
    return body | {"sharing": "none", "gpu_fraction": "1", **rows("offered", {"kind": "on-demand"}), **values}


def form_of(answer):
    return answer.context["adminform"].form


def faults(answer):
    form = form_of(answer)
    return {
        (name, *cell)
        for name in ("labels", "tolerations", "offered")
        for cell in form.fields[name].widget.faults
    }


def test_a_new_flavor_begins_with_what_no_flavor_offers(manager):
    make_flavor()
    make_node()
    make_node("l4-0", units=2, product="NVIDIA-L4")
    NodeRecord.objects.filter(name="l4-0").update(
        taints=[{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]
    )
    html = manager.get(ADD).content.decode()
    assert no_inline(html) == []
    assert re.findall(r"<h2 id=\"choice-\w+\">([^<]+)</h2>", html) == ["NVIDIA-L4"]
    assert "2 of nvidia.com/gpu on 1 node" in html
    assert '<th scope="row">a100-40gb</th>' in html
    filled = manager.get(ADD + re.search(r'href="(\?offer=\w+)"', html)[1])
    page = filled.content.decode()
    assert no_inline(page) == []
    assert "Filled in from what l4-0 reports" in page
    for name, text in {
        "name": "l4", "card": "l4", "labels-0-key": PRODUCT, "labels-0-values": "NVIDIA-L4",
        "tolerations-0-key": "nvidia.com/gpu",
    }.items():  # fmt: skip
        assert re.search(rf'name="{name}" value="{text}"', page), name
    assert ResourceFlavor.objects.count() == 1, "nothing is made before it is saved"


def test_one_click_and_a_save_make_the_flavor_and_take_the_choice_away(manager):
    make_node("l4-0", units=2, product="NVIDIA-L4")
    offer = re.search(r'href="(\?offer=\w+)"', manager.get(ADD).content.decode())[1]
    form = form_of(manager.get(ADD + offer))
    body = {
        name: form[name].value()
        for name in ("name", "card", "memory_gib", "resource", "sharing", "gpu_fraction")
    }
    body |= {"enabled": "on"}
    for name in ("labels", "tolerations", "offered"):
        body |= rows(name, *form[name].value())
    assert manager.post(ADD + offer, body).status_code == 302
    made = ResourceFlavor.objects.get()
    assert (made.name, made.node_selector, made.capacity) == (
        "l4",
        {PRODUCT: ["NVIDIA-L4"]},
        {"on-demand": {}},
    )
    assert AuditEvent.objects.filter(action="flavor.changed", actor_label="quinn").count() == 1
    assert "All units that nodes report are offered" in manager.get(ADD).content.decode()
    gone = manager.get(ADD + offer).content.decode()
    assert "no longer report that" in gone


def test_without_nodes_there_is_an_empty_form(manager):
    html = manager.get(ADD).content.decode()
    assert "No node has been seen yet" in html
    page = manager.get(f"{ADD}?offer=").content.decode()
    assert re.search(r'<option value="on-demand"\s+selected', page)


def test_rows_are_written_as_kubernetes_has_them(manager):
    answer = manager.post(ADD, typed(
        **rows("labels",
               {"key": PRODUCT, "values": "NVIDIA-L4, NVIDIA-L4-24GB"},
               {"key": "", "values": ""},
               {"key": "zone", "values": 'a, ""', "kind": "spot"}),
        **rows("tolerations",
               {"key": "nvidia.com/gpu"},
               {"key": "dedicated", "value": "vision", "effect": "NoSchedule"},
               {"key": "lost", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": "60"}),
        **rows("offered",
               {"kind": "on-demand"},
               {"kind": "spot", "block": "8", "units": "32", "memory": "100Gi"}),
    ))  # fmt: skip
    assert answer.status_code == 302
    made = ResourceFlavor.objects.get()
    assert made.node_selector == {PRODUCT: ["NVIDIA-L4", "NVIDIA-L4-24GB"]}
    assert made.tolerations == [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "dedicated", "operator": "Equal", "value": "vision", "effect": "NoSchedule"},
        {"key": "lost", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
    ]
    assert made.capacity == {
        "on-demand": {},
        "spot": {
            "node_selector": {"zone": ["a", ""]},
            "provisionable": {"block": 8, "units": 32, "memory": "100Gi"},
        },
    }
    before = dict(ResourceFlavor.objects.values().get())
    form = form_of(manager.get(f"{LIST}{made.pk}/change/"))
    body = {
        name: form[name].value() for name in ("card", "memory_gib", "resource", "sharing", "gpu_fraction")
    }
    for name in ("labels", "tolerations", "offered"):
        body |= rows(name, *form[name].value())
    assert manager.post(f"{LIST}{made.pk}/change/", body | {"enabled": "on"}).status_code == 302
    assert dict(ResourceFlavor.objects.values().get()) == before, "saved as it stands, it stays as it is"


@pytest.mark.parametrize(
    ("values", "cells"),
    spread([
        (rows("tolerations", {"key": "a"}, {"key": "no key!"}), {("tolerations", 1, "key")}),
        (rows("tolerations", {"operator": "Equal"}), {("tolerations", 0, "operator")}),
        (rows("tolerations", {"key": "a", "operator": "Exists", "value": "b"}), {("tolerations", 0, "value")}),
        (
            rows("tolerations", {"key": "a", "effect": "NoExecute", "tolerationSeconds": "soon"}),
            {("tolerations", 0, "tolerationSeconds")},
        ),
        (rows("labels", {"key": "-", "values": "a"}), {("labels", 0, "key")}),
        (rows("labels", {"key": "a.b/c", "values": "ok, not ok"}), {("labels", 0, "values")}),
        (rows("labels", {"key": "a", "values": ""}), {("labels", 0, "values")}),
        (rows("labels", {"values": "a"}), {("labels", 0, "key")}),
        (rows("labels", {"key": "a", "values": "1"}, {"key": "a", "values": "2"}), {("labels", 1, "key")}),
        (rows("labels", {"key": "a", "values": "1", "kind": "spot"}), {("labels", 0, "kind")}),
        (rows("labels", {"key": "a", "values": "x y", "kind": "on-demand"}), {("labels", 0, "values")}),
        (rows("offered", {"kind": "on-demand", "block": "9", "units": "8"}), {("offered", 0, "block")}),
        (rows("offered", {"kind": "on-demand", "block": "many", "units": "8"}), {("offered", 0, "block")}),
        (rows("offered", {"kind": "on-demand", "block": "8"}), {("offered", 0, "units")}),
        (rows("offered", {"kind": "on-demand", "block": "1", "units": "1", "cpu": "-2"}), {("offered", 0, "cpu")}),
        (rows("offered", {"kind": "spot"}, {"kind": "spot"}), {("offered", 1, "kind")}),
        (rows("offered", {"kind": "", "block": "8"}), {("offered", 0, "kind")}),
    ], usual=5),
)  # fmt: skip
def test_what_is_wrong_is_said_at_its_cell(manager, values, cells):
    answer = manager.post(ADD, typed(**values))
    assert answer.status_code == 200
    assert faults(answer) == cells
    ((name, number, column),) = cells
    html = answer.content.decode()
    assert re.search(rf'name="{name}-{number}-{column}"[^>]*aria-invalid="true"', html)
    assert f'id="id_{name}-{number}-{column}_error"' in html
    assert not ResourceFlavor.objects.exists()


@pytest.mark.parametrize(
    ("values", "field"),
    spread(
        [
            ({"name": "L4!"}, "name"),
            ({"name": "taken"}, "name"),
            ({"resource": "gpu"}, "resource"),
            ({"gpu_fraction": "2"}, "gpu_fraction"),
            ({"gpu_fraction": "1/4"}, "gpu_fraction"),
            ({"sharing": "mig"}, "labels"),
            ({"resource": "nvidia.com/gpu.shared"}, "sharing"),
            ({"memory_gib": "-1"}, "memory_gib"),
            ({"offered-0-kind": ""}, "offered"),
        ],
        usual=4,
    ),
)
def test_what_is_wrong_is_said_at_its_field_and_what_was_typed_stays(manager, values, field):
    make_flavor("taken")
    kept = rows("labels", {"key": "zone", "values": "here"})
    answer = manager.post(ADD, typed(**{**kept, **values}))
    assert list(form_of(answer).errors) == [field]
    assert re.search(r'name="labels-0-values" value="here"', answer.content.decode())
    assert ResourceFlavor.objects.count() == 1


def test_a_flavor_says_which_nodes_it_takes(manager):
    flavor = make_flavor()
    page = f"{LIST}{flavor.pk}/change/"
    assert "takes no node" in manager.get(page).content.decode()
    make_node()
    assert "it takes 1 node with 8 units: a100-0" in manager.get(page).content.decode()


def test_others_have_no_business_there():
    client = Client()
    client.force_login(make_user("ana"))
    assert client.get(ADD).status_code == 302
    assert client.post(ADD, typed()).status_code == 302
    assert not ResourceFlavor.objects.exists()
