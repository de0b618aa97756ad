from __future__ import annotations

import pytest

from controller.reconcile import adapters
from controller.reconcile.adapters import WorkloadAdapter, adapter_for, register
from workloads import kinds
from workloads.kinds import UnknownKind, WorkloadKind, kind_of, register_kind


@pytest.fixture(autouse=True)
def _registries_of_its_own(monkeypatch):
    monkeypatch.setattr(kinds, "_registry", dict(kinds._registry))
    monkeypatch.setattr(adapters, "_registry", dict(adapters._registry))


def test_each_kind_is_known_by_what_others_have_to_know_of_it():
    run, endpoint = kind_of("training-run"), kind_of("endpoint")
    assert [run, endpoint] == list(kinds.kinds())
    assert (run.page_of("1"), run.resource_of("1")) == ("/runs/1/", "/api/v1/training-runs/1/")
    assert (endpoint.page_of("1"), endpoint.resource_of("1")) == ("/endpoints/1/", "/api/v1/endpoints/1/")
    assert (run.ends, run.takes_requests, run.tracks) == (True, False, True)
    assert (endpoint.ends, endpoint.takes_requests, endpoint.tracks) == (False, True, False)
    assert (run.replicas_field, endpoint.replicas_field) == ("replicas", "max_replicas")


@pytest.mark.parametrize("ask", [kind_of, adapter_for])
def test_a_kind_that_no_app_owns_is_named_and_so_are_those_that_there_are(ask):
    with pytest.raises(UnknownKind, match="kind 'notebook'; there are: training-run, endpoint"):
        ask("notebook")


def test_a_name_is_one_kind_and_a_kind_has_one_adapter():
    run = kind_of("training-run")
    register_kind(run)
    with pytest.raises(ValueError, match="Two apps want the kind training-run"):
        register_kind(
            WorkloadKind(name="training-run", noun="x", page_path="x", resource_path="x", ends=True)
        )
    register(type(adapter_for("training-run"))())
    other = type("Other", (type(adapter_for("training-run")),), {})
    with pytest.raises(ValueError, match="Two adapters want the kind training-run"):
        register(other())
    assert kind_of("training-run") is run


def test_an_adapter_without_what_every_kind_has_cannot_be_made():
    half = type("Half", (WorkloadAdapter,), {"kind": kind_of("endpoint"), "primaries": ()})
    with pytest.raises(TypeError, match=r"asked.*manifests.*observe"):
        half()
