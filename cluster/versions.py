"""Which of two resourceVersions of one kind is the later one. Pure.

They are opaque to most of the API, but since Kubernetes 1.35 it promises that those of one kind compare as whole
numbers, and etcd has always made them so. Where a server writes anything else they say only "same" or "different".
"""

from __future__ import annotations

from foundation.digits import whole_number

DIGITS_MAX = 32


def is_older(version: str, *, than: str) -> bool:
    """Whether this one certainly came before the other."""
    mine, other = whole_number(version, digits=DIGITS_MAX), whole_number(than, digits=DIGITS_MAX)
    return mine is not None and other is not None and mine < other


def is_later(version: str, *, than: str) -> bool:
    """Whether this one came after the other; of two that do not compare, whether they differ."""
    return version != than and not is_older(version, than=than)


def latest(one: str, other: str) -> str:
    """The later of two; the first where they do not compare."""
    return other if is_older(one, than=other) else one
