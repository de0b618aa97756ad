"""What the API serves, from its discovery documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cluster.errors import ClusterUnavailable, ObjectNotFound

Getter = Callable[[str], dict[str, Any]]


def served_kinds(read: Getter) -> set[tuple[str, str]]:
    """(group version, kind) of every served resource.

    A group whose own server is down is left out, as it serves nothing now. Raises what `read` raises for the
    rest.
    """
    served: set[tuple[str, str]] = set()
    for path in _group_versions(read):
        try:
            document = read(path)
        except (ClusterUnavailable, ObjectNotFound):
            if path == "/api/v1":
                raise
            continue
        version = str(document.get("groupVersion") or path.removeprefix("/apis/").removeprefix("/api/"))
        served |= {
            (version, str(resource["kind"]))
            for resource in document.get("resources") or ()
            if "/" not in resource.get("name", "/")
        }
    return served


def _group_versions(read: Getter) -> Iterator[str]:
    yield "/api/v1"
    for group in read("/apis").get("groups") or ():
        for version in group.get("versions") or ():
            yield f"/apis/{version['groupVersion']}"
