"""Where the things are that no team's pod has a business with: the API server and the portal's stores. And the portal itself.

Addresses are looked up by name whenever a namespace is looked after; what was seen once stays closed while this process
lives, because a name may have several addresses and give one at a time.
"""

from __future__ import annotations

import logging
import socket
import time
from ipaddress import ip_address
from threading import Lock
from urllib.parse import urlsplit

from django.conf import settings

from cluster import kinds
from cluster.client import ClusterClient
from cluster.errors import ClusterRejected, ObjectNotFound
from tenancy.network_policies import Surroundings

logger = logging.getLogger(__name__)

TRUSTED_SECONDS = 30.0
_SERVICE_LABELS = 2
_known: dict[tuple[str, str], tuple[Surroundings, float]] = {}
_seen: dict[str, set[str]] = {}
_lock = Lock()


def surroundings(client: ClusterClient) -> Surroundings:
    """What is known now, or was half a minute ago. Raises ClusterUnavailable if the cluster does not answer."""
    key = (client.cluster, client.source)
    found, at = _known.get(key, (Surroundings(), -TRUSTED_SECONDS))
    if time.monotonic() - at >= TRUSTED_SECONDS:
        found = _look(client)
        _known[key] = (found, time.monotonic())
    return found


def unresolved_stores() -> list[str]:
    """The stores' names that have no address known here: nothing closes them to pods."""
    return sorted({host for host in _store_hosts() if not _addresses(host)})


def _look(client: ClusterClient) -> Surroundings:
    url = urlsplit(settings.INTERNAL_URL)
    store_hosts = _store_hosts()
    api = {*_addresses(urlsplit(client.host).hostname or ""), *_behind(client, "kubernetes", "default")}
    stores: set[str] = set()
    for host in store_hosts:
        stores |= _addresses(host)
        if service := _service_of(host):
            stores |= _behind(client, *service)
    return Surroundings(
        api_server=_sorted(api),
        stores=_sorted(stores),
        store_namespaces=tuple(
            sorted({service[1] for host in store_hosts if (service := _service_of(host))})
        ),
        portal=_sorted(_addresses(url.hostname or "")),
        portal_port=url.port or (443 if url.scheme == "https" else 80),
        portal_namespaces=tuple(sorted(settings.OWN_NAMESPACES)),
    )


def _store_hosts() -> list[str]:
    """Host names of the database and of Redis; none for one on a socket of this machine."""
    database = str(settings.DATABASES["default"].get("HOST") or "")
    redis = urlsplit(settings.REDIS_URL).hostname or ""
    # A database may be a list of servers of which one is primary.
    return [host for host in (*database.split(","), redis) if host and not host.startswith("/")]


def _service_of(host: str) -> tuple[str, str] | None:
    """(name, namespace) of the Service that the name would be inside the cluster."""
    parts = host.rstrip(".").split(".")
    if len(parts) == _SERVICE_LABELS or (len(parts) > _SERVICE_LABELS and parts[2] == "svc"):
        return (parts[0], parts[1]) if not parts[0].isdigit() else None
    return None


def _behind(client: ClusterClient, service: str, namespace: str) -> set[str]:
    """Addresses of the pods or servers behind a Service: most network plugins judge a packet by these."""
    try:
        listing = client.list(
            kinds.ENDPOINT_SLICE, namespace=namespace, label_selector=f"kubernetes.io/service-name={service}"
        )
    except (ObjectNotFound, ClusterRejected):
        return set()
    return {
        address
        for item in listing.items
        for endpoint in item.get("endpoints") or []
        for address in endpoint.get("addresses") or []
    }


def _addresses(host: str) -> set[str]:
    """Every address that the name has had; none for one that is not known."""
    try:
        found = {str(entry[4][0]).partition("%")[0] for entry in socket.getaddrinfo(host, None)}
    except OSError:
        logger.warning("address.unknown", extra={"host": host})
        found = set()
    with _lock:
        known = _seen.setdefault(host, set())
        known |= found
        return set(known)


def _sorted(addresses: set[str]) -> tuple[str, ...]:
    known = (ip_address(text) for text in addresses)
    return tuple(sorted(str(each) for each in known if not (each.is_loopback or each.is_unspecified)))
