"""Preflight says where pods have what the portal trusts, and where it cannot close what it should."""

from __future__ import annotations

from ipaddress import ip_network
from types import SimpleNamespace

import pytest

from portal.preflight import closed_stores, trusted_proxies
from tenancy import closed_addresses


def cluster(*networks):
    return SimpleNamespace(
        nodes=[{"spec": {"podCIDR": each[0], "podCIDRs": list(each)}} for each in networks]
    )


@pytest.mark.parametrize(
    ("trusted", "networks", "shared"),
    [
        (["10.0.0.0/8"], [("10.244.0.0/24",), ("10.244.1.0/24",)], "10.244.0.0/24, 10.244.1.0/24"),
        (["10.244.1.7/32"], [("10.244.0.0/24",), ("10.244.1.0/24",)], "10.244.1.0/24"),
        (["fd00::/8"], [("10.244.0.0/24", "fd12::/64")], "fd12::/64"),
        (["192.0.2.0/28"], [("10.244.0.0/24", "fd12::/64")], None),
        ([], [("10.244.0.0/24",)], None),
        (["10.0.0.0/8"], [], None),
    ],
)
def test_a_trusted_network_that_pods_have_is_warned_of(trusted, networks, shared, settings):
    settings.TRUSTED_PROXIES = [ip_network(each) for each in trusted]
    found = trusted_proxies(cluster(*networks))
    assert found.status == ("warn" if shared else "ok")
    if shared:
        assert f"Pods have addresses of {shared}, which PORTAL_TRUSTED_PROXIES trusts" in found.detail
        assert "NetworkPolicy" in found.fix


def test_a_store_whose_name_has_no_address_is_warned_of(settings, monkeypatch):
    monkeypatch.setattr(closed_addresses, "_seen", {})
    settings.REDIS_URL = "rediss://localhost:6379/0"
    assert closed_stores(None).status == "ok"
    settings.REDIS_URL = "rediss://cache.portal.invalid:6379/0"
    found = closed_stores(None)
    assert (found.status, "cache.portal.invalid cannot be looked up" in found.detail) == ("warn", True)
