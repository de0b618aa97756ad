"""The cluster's name, and names of its objects: deterministic, so that a repeated request meets the first one's object."""

from __future__ import annotations

import re

DEFAULT_CLUSTER = "default"
"""The one cluster that is configured; every observed row holds its name, and no page shows it."""
MAX_LENGTH = 40

_OTHER = re.compile(r"[^a-z0-9]+")
_SHORT_ID = re.compile(r"[a-z0-9]{1,16}")
_SEGMENT = re.compile(r"[A-Za-z0-9._:-]{1,253}")


def object_name(*, workload_name: str, short_id: str, attempt: int) -> str:
    """`<workload name>-<short id>-<attempt>`, matching `[a-z][a-z0-9-]*` and at most 40 characters.

    Only the name's part is shortened, so different (short id, attempt) pairs never share a name. Raises
    ValueError for a short id or attempt that is not the portal's own.
    """
    if not _SHORT_ID.fullmatch(short_id) or not 0 <= attempt <= 99_999:
        raise ValueError(f"not a short id and attempt: {short_id!r}, {attempt!r}")
    tail = f"-{short_id}-{attempt}"
    head = _OTHER.sub("-", workload_name.lower()).strip("-")
    if not head or not head[0].isalpha():
        head = f"w-{head}".rstrip("-")
    return head[: MAX_LENGTH - len(tail)].rstrip("-") + tail


def is_path_segment(text: str) -> bool:
    """Whether `text` can stand in a request path as one name without leaving its place."""
    return _SEGMENT.fullmatch(text) is not None and text not in {".", ".."}
