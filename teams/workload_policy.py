"""What a platform admin lets the pods of a team do: the forms of these fields, and their defaults."""

from __future__ import annotations

import re
from collections.abc import Collection
from ipaddress import ip_network
from typing import Any

from foundation.validators import check_each

EVERYWHERE = "everywhere"
METADATA = "metadata"
API_SERVER = "api-server"
STORES = "stores"
EGRESS_WORDS = (EVERYWHERE, METADATA, API_SERVER, STORES)
"""What `egress` may name besides networks: all but what is closed, and the three things that are closed."""

_LABEL_PREFIX = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(/[-A-Za-z0-9_.]+)?", re.ASCII
)


def default_egress() -> list[str]:
    """Named here for the migrations."""
    return [EVERYWHERE]


def is_reserved_namespace(name: str, *, own: Collection[str]) -> bool:
    """Whether a namespace is Kubernetes' or the portal's own, so that no team can have it."""
    return name == "default" or name.startswith("kube-") or name in own


def validate_egress(value: Any) -> None:
    """A list of EGRESS_WORDS and networks in CIDR notation. Raises ValidationError."""
    check_each(value, _egress)


def validate_allowed_labels(value: Any) -> None:
    """A list of label keys, or of domains that stand for all keys below them. Raises ValidationError."""
    check_each(value, _label_prefix)


def _egress(text: str) -> str | None:
    if text in EGRESS_WORDS:
        return None
    try:
        ip_network(text)
    except ValueError:
        return f"it is none of {', '.join(EGRESS_WORDS)}, and no network such as 10.20.0.0/16"
    return None


def _label_prefix(text: str) -> str | None:
    return None if _LABEL_PREFIX.fullmatch(text) else "write a label's key, or the domain of one"
