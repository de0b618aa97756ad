"""What an image reference names, written out in full, and whether it lies below a prefix. Pure.

`python:3.12` is `docker.io/library/python`: a container runtime completes the name so, and an allow-list that compared
texts would take two names of one thing for two things.
"""

from __future__ import annotations

from collections.abc import Iterable

DEFAULT_REGISTRY = "docker.io"
DEFAULT_FOLDER = "library"
_OTHER_NAMES = frozenset({"index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"})
"""Of the default registry."""


def full_name(image: str) -> str:
    """Registry and path of a reference that `grammar.image` lets pass, without tag and digest."""
    text = image.partition("@")[0]
    first, slash, rest = text.partition("/")
    if not slash or not _is_registry(first):
        return _complete(DEFAULT_REGISTRY, _untagged(text))
    return _complete(first, _untagged(rest))


def full_prefix(prefix: str) -> str:
    """The same of an entry of an allow-list, in which a registry may stand alone."""
    first, slash, rest = prefix.rstrip("/").partition("/")
    if not _is_registry(first):
        return _complete(DEFAULT_REGISTRY, f"{first}{slash}{rest}")
    return _complete(first, rest) if rest else _registry(first)


def lies_below(image: str, prefixes: Iterable[str]) -> bool:
    """Whether the image is one of the prefixes or lies below it: whole parts of the path are compared, not letters."""
    name = full_name(image)
    return any(name == full or name.startswith(f"{full}/") for full in map(full_prefix, prefixes))


def _is_registry(first: str) -> bool:
    """As the reference grammar of registries decides it."""
    return "." in first or ":" in first or first == "localhost" or first != first.lower()


def _complete(registry: str, path: str) -> str:
    host = _registry(registry)
    return (
        f"{host}/{DEFAULT_FOLDER}/{path}"
        if host == DEFAULT_REGISTRY and "/" not in path
        else f"{host}/{path}"
    )


def _registry(text: str) -> str:
    host = text.lower()
    return DEFAULT_REGISTRY if host in _OTHER_NAMES else host


def _untagged(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{name.partition(':')[0]}"
