"""One seam for clients: by the name of their cluster."""

from __future__ import annotations

import pytest

from cluster.client import connect, get_client
from cluster.errors import ClusterError, UnknownCluster
from cluster.names import DEFAULT_CLUSTER


def test_the_configured_cluster_is_asked_for_by_its_name_or_by_none(settings):
    settings.CLUSTER_KUBECONFIG = "/nonexistent/kubeconfig"
    client = get_client(DEFAULT_CLUSTER)
    assert client is get_client()
    assert (client.cluster, client.source) == (DEFAULT_CLUSTER, "/nonexistent/kubeconfig")
    settings.CLUSTER_KUBECONFIG = "/another/kubeconfig"
    assert get_client().source == "/another/kubeconfig"


def test_a_name_that_is_not_configured_is_an_error_that_no_retry_mends():
    with pytest.raises(UnknownCluster, match="no cluster named 'elsewhere' is configured") as raised:
        get_client("elsewhere")
    assert raised.value.cluster == "elsewhere"
    assert not isinstance(raised.value, ClusterError)


def test_a_client_of_its_own_bears_the_name_that_it_is_given():
    assert connect("/nonexistent/kubeconfig").cluster == DEFAULT_CLUSTER
    assert connect("/nonexistent/kubeconfig", cluster="elsewhere").cluster == "elsewhere"
