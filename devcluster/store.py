"""All objects in memory, one version counter, a bounded history for watches, and a journal that survives a restart.

Objects are never changed in place: every write stores a new dictionary, so readers may keep what they were given.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .kinds import BY_PATH, Kind
from .objects import Obj, key_of, uid_of

COMPACT_AT_BYTES = 16 << 20
# A real cluster is never at version 1; a client that asks from there gets 410.
FIRST_VERSION = 100


@dataclass(frozen=True, slots=True)
class Change:
    """One write. `old` lets a watch with a selector see an object leave it."""

    version: int
    kind: Kind
    type: str
    obj: Obj
    old: Obj | None


class Store:
    """The only holder of state; every reader and controller learns of writes through `subscribe`."""

    def __init__(self, folder: Path, history: int) -> None:
        self.version = FIRST_VERSION
        self.history: deque[Change] = deque(maxlen=history)
        # A watch may start at any version that is not older than this one.
        self.oldest = FIRST_VERSION
        self._objects: dict[Kind, dict[tuple[str, str], Obj]] = {kind: {} for kind in BY_PATH.values()}
        # uid of an owner -> where its dependants are.
        self._owned: dict[str, set[tuple[Kind, str, str]]] = {}
        self._subscribers: list[Callable[[Change], None]] = []
        self._path = folder / "journal.jsonl"
        self._load()
        for kind, obj in self.items():
            self._index(kind, None, obj)
        self._journal = self._compact()
        self._written = 0

    def get(self, kind: Kind, namespace: str, name: str) -> Obj | None:
        return self._objects[kind].get((namespace, name))

    def newest(self, kind: Kind, obj: Obj) -> Obj | None:
        """The version of `obj` that is stored now; None where it is gone, also when another has taken its name."""
        live = self.get(kind, *key_of(obj))
        return live if live is not None and uid_of(live) == uid_of(obj) else None

    def list(self, kind: Kind, namespace: str = "") -> Iterator[Obj]:
        """Objects of a namespace, or of all; safe against writes during the iteration."""
        for (where, _), obj in list(self._objects[kind].items()):
            if not namespace or where == namespace:
                yield obj

    def items(self) -> Iterator[tuple[Kind, Obj]]:
        for kind in self._objects:
            for obj in self.list(kind):
                yield kind, obj

    def at(self, kind: Kind, version: int) -> dict[tuple[str, str], Obj]:
        """The objects as they were at an older version that the history still reaches."""
        objects = dict(self._objects[kind])
        for change in reversed(self.history):
            if change.version <= version:
                break
            if change.kind is kind:
                key = key_of(change.obj)
                objects.pop(key, None)
                if change.old is not None:
                    objects[key] = change.old
        return objects

    def put(self, kind: Kind, obj: Obj) -> Obj:
        """Store a new version of `obj` and notify the subscribers."""
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        key = key_of(obj)
        old = self._objects[kind].get(key)
        self._objects[kind][key] = obj
        self._index(kind, old, obj)
        self._record(Change(self.version, kind, "MODIFIED" if old else "ADDED", obj, old))
        return obj

    def remove(self, kind: Kind, obj: Obj) -> Obj:
        self.version += 1
        old = self._objects[kind].pop(key_of(obj))
        self._index(kind, old, None)
        last = old | {"metadata": old["metadata"] | {"resourceVersion": str(self.version)}}
        self._record(Change(self.version, kind, "DELETED", last, old))
        return last

    def owned_by(self, uid: str) -> tuple[tuple[Kind, Obj], ...]:
        owned = self._owned.get(uid, ())
        return tuple((kind, self._objects[kind][where, name]) for kind, where, name in owned)

    def _index(self, kind: Kind, old: Obj | None, new: Obj | None) -> None:
        before, after = (
            {r["uid"] for r in obj["metadata"].get("ownerReferences") or ()} if obj else set()
            for obj in (old, new)
        )
        some = new or old
        if before == after or some is None:
            return
        place = (kind, *key_of(some))
        for uid in after - before:
            self._owned.setdefault(uid, set()).add(place)
        for uid in before - after:
            self._owned[uid].discard(place)
            if not self._owned[uid]:
                del self._owned[uid]

    def subscribe(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Call `callback` with every change from now on; the result ends it."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def close(self) -> None:
        os.close(self._journal)

    def _record(self, change: Change) -> None:
        if self.history.maxlen == len(self.history):
            self.oldest = self.history[0].version if self.history else change.version
        self.history.append(change)
        entry: dict[str, Any] = {
            "k": [change.kind.group, change.kind.version, change.kind.plural],
            "v": change.version,
        }
        if change.type == "DELETED":
            entry["d"] = key_of(change.obj)
        else:
            entry["o"] = change.obj
        line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        self._written += os.write(self._journal, line)
        if self._written > COMPACT_AT_BYTES:
            os.close(self._journal)
            self._journal, self._written = self._compact(), 0
        for callback in tuple(self._subscribers):
            callback(change)

    def _load(self) -> None:
        if not self._path.exists():
            return
        for line in self._path.read_bytes().splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                break  # The last line of a killed process may be cut.
            self.version = max(self.version, entry["v"])
            if "k" not in entry:
                continue
            objects = self._objects[BY_PATH[tuple(entry["k"])]]
            if "o" in entry:
                objects[key_of(entry["o"])] = entry["o"]
            else:
                objects.pop(tuple(entry["d"]), None)
        # Nothing of before the restart can be replayed: older watches get 410.
        self.oldest = self.version

    def _compact(self) -> int:
        """Write the live objects as a fresh journal and leave it open for appending."""
        fresh = self._path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(json.dumps({"v": self.version}).encode() + b"\n")
            for kind, obj in self.items():
                entry = {"k": [kind.group, kind.version, kind.plural], "v": 0, "o": obj}
                file.write(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
        fresh.chmod(0o600)
        fresh.replace(self._path)
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
