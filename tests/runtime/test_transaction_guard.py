"""The suite's own guard: no call to the cluster while a database transaction is open."""

from __future__ import annotations

import pytest
from django.db import transaction

from cluster.client import ClusterClient


@pytest.fixture
def client() -> ClusterClient:
    """A client without a connection: only whether the guard lets the call pass is of interest."""
    return object.__new__(ClusterClient)


@pytest.mark.django_db
def test_call_inside_a_transaction_fails(client):
    with pytest.raises(AssertionError, match="inside transaction"), transaction.atomic():
        client._request("GET", "/version")


@pytest.mark.django_db
def test_transaction_of_the_test_itself_does_not_count(client):
    with pytest.raises(Exception) as caught:
        client._request("GET", "/version")
    assert not isinstance(caught.value, AssertionError)


@pytest.mark.django_db(transaction=True)
def test_call_after_a_transaction_passes(client):
    with transaction.atomic():
        pass
    with pytest.raises(Exception) as caught:
        client._request("GET", "/version")
    assert not isinstance(caught.value, AssertionError)
