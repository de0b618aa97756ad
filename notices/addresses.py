"""Which addresses a notice may go to: public ones alone, and private networks that the operator names.

A request that the portal sends for somebody may reach what only the portal can reach: metadata services, the API
server, stores. So an address is looked at when it is typed and again, as the number that it is, whenever a connection
is opened (`guarded_socket`): between the two a name may have come to mean something else.
"""

from __future__ import annotations

import queue
import socket
import threading
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

from notices.errors import AddressRefused

URL_LENGTH_MAX: Final = 2000
LOOKUP_SECONDS: Final = 3.0
LOOKUPS: Final = 3
"""How many of a process's threads may wait for name services at the same time, one for each who asks: whoever owns a name
says how long they take.
"""
_NAT64: Final = IPv6Network("64:ff9b::/96")
_GIVEN_OUT: Final = IPv6Network("2000::/3")
"""All that is public of IPv6. Elsewhere are sites' own networks and translators to IPv4, not all of which Python knows as such."""
REFUSED: Final = "This address is not a public one, and no network that the portal's operator allows."
NO_ADDRESS: Final = "This name has no address that notices may go to: a public one, or one of a network that the portal's operator allows."
"""Said alike of a name that there is and of one that there is not: the portal knows names that nobody else does."""
_asking: set[int] = set()
"""For whom a name is looked up just now, by their keys; guarded by `_lock`."""
_lock = threading.Lock()


def is_allowed(text: str) -> bool:
    """Whether a notice may go to the address, written as a number."""
    try:
        address = _plain(ip_address(text.partition("%")[0]))
    except ValueError:
        return False
    if any(address in network for network in settings.NOTICE_NETWORKS):
        return True
    given_out = address.version == 4 or address in _GIVEN_OUT
    return given_out and address.is_global and not address.is_multicast and not _carries_another(address)


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that one of IPv6 means."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _carries_another(address: IPv4Address | IPv6Address) -> bool:
    """Tunnels to IPv4, which nobody's receiver needs."""
    return isinstance(address, IPv6Address) and (address.sixtofour is not None or address.teredo is not None)


def guarded_socket(info: tuple[Any, ...]) -> socket.socket:
    """A socket for the address of `getaddrinfo` that is about to be connected to. OSError for one that is refused."""
    family, kind, protocol, _, address = info
    if not is_allowed(str(address[0])):
        raise PermissionError(REFUSED)
    return socket.socket(family, kind, protocol)


def check_url(url: str) -> SplitResult:
    """The parts of an address that notices may go to, as far as its text tells. Raises AddressRefused (field `url`)."""
    parts = _split(url)
    if parts.scheme not in {"https", "http"} or not parts.hostname:
        raise _refused("Give an address that begins with https://.")
    if parts.username is not None or parts.password is not None:
        raise _refused("Give the address without a user and password.")
    if parts.fragment:
        raise _refused("Give the address without a fragment.")
    return parts


def check_reachable(url: str, *, asker: int) -> None:
    """The same, and every address that its name means now. http is for the operator's own networks alone.

    `asker` is the key of the user who typed it. A number that is refused is told so; a name as if it were not
    there, so that nobody learns which names there are.
    """
    parts = check_url(url)
    host = parts.hostname or ""
    numbers = _looked_up(host, parts.port or 443, asker)
    if not numbers or not all(map(is_allowed, numbers)):
        raise _refused(REFUSED if numbers == {host} else NO_ADDRESS)
    if parts.scheme == "http" and not all(map(_is_of_the_operator, numbers)):
        raise _refused("Give an address that begins with https://: over http anybody on the way reads it.")


def _looked_up(host: str, port: int, asker: int) -> set[str]:
    """What the name means now; nothing where that is not known in time. A thread that goes on waiting is not the caller's."""
    with _lock:
        if asker in _asking or len(_asking) >= LOOKUPS:
            raise _refused("As many names are looked up as may be at a time; try again in a moment.")
        _asking.add(asker)
    answer: queue.SimpleQueue[set[str]] = queue.SimpleQueue()

    def look_up() -> None:
        found: set[str] = set()
        try:
            found = {str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
        except (OSError, UnicodeError):
            # As a name without an address.
            pass
        finally:
            with _lock:
                _asking.discard(asker)
            answer.put(found)

    threading.Thread(target=look_up, name="notice-name", daemon=True).start()
    try:
        return answer.get(timeout=LOOKUP_SECONDS)
    except queue.Empty:
        return set()


def origin_of(url: str) -> str:
    """Scheme, name and port: what is shown of an address, whose path may be a credential."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _is_of_the_operator(text: str) -> bool:
    address = _plain(ip_address(text.partition("%")[0]))
    return any(address in network for network in settings.NOTICE_NETWORKS)


def _split(url: str) -> SplitResult:
    if len(url) > URL_LENGTH_MAX or any(ord(letter) < 33 or ord(letter) > 126 for letter in url):
        raise _refused(f"Give an address of at most {URL_LENGTH_MAX:,} characters, without spaces.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _refused("This is no address.") from error
    if port == 0:
        raise _refused("This is no address.")
    return parts


def _refused(message: str) -> AddressRefused:
    return AddressRefused.of_field("url", message)
