"""Refusals of writes that were meant for another object or another version of it."""

from __future__ import annotations

from .errors import bad_request, conflict
from .kinds import Kind
from .objects import Obj, name_of, uid_of


def check_identity(kind: Kind, live: Obj, new: Obj) -> None:
    """An update names the object that it was made from."""
    metadata, name = new.setdefault("metadata", {}), name_of(live)
    if metadata.get("name", name) != name:
        text = f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
        raise bad_request(text)
    if metadata.get("uid", uid_of(live)) != uid_of(live):
        uids = f"UID in precondition: {metadata['uid']}, UID in object meta: {uid_of(live)}"
        raise conflict(kind, name, f"Precondition failed: {uids}")
    if metadata.get("resourceVersion") not in {None, "", "0", live["metadata"]["resourceVersion"]}:
        raise conflict(kind, name)


def check_delete(kind: Kind, live: Obj, wanted: Obj) -> None:
    """`preconditions` of a delete."""
    advice = {"uid": "deleted and then recreated", "resourceVersion": "modified"}
    for key, word in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(key) not in {None, live["metadata"][key]}:
            why = (
                f"the {word} in the precondition ({wanted[key]}) does not match the {word} in record "
                f"({live['metadata'][key]}). The object might have been {advice[key]}"
            )
            raise conflict(kind, name_of(live), why)
