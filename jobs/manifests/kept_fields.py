"""What is set back of a run's object where somebody else changes it: it is made once, and never applied again. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cluster.field_owners import Path, field_at, other_writers
from workloads.podspec.pod_template import ManifestSet

QUEUE: Final = "kueue"
"""A queue that suspends what it has not admitted is not fought."""


def set_back(manifests: ManifestSet, primary: Mapping[str, Any]) -> tuple[dict[str, Any], str] | None:
    """A merge patch, and what to say of it; None where nothing of it was changed.

    Kept are that it is not suspended, and how many pods a Job has; operators have the like of their kinds alone, or refuse it.
    """
    wanted: dict[Path, Any] = {manifests.suspend_path: False} if manifests.suspend_path else {}
    if "parallelism" in manifests.primary["spec"]:
        wanted["spec", "parallelism"] = manifests.primary["spec"]["parallelism"]
    by = {
        path: other_writers(primary, path)
        for path, value in wanted.items()
        if (field_at(primary, path) or False) != value
    }
    changed = [path for path, who in by.items() if who and not any(QUEUE in name for name in who)]
    if not changed:
        return None
    patch: dict[str, Any] = {}
    for *parents, name in changed:
        inner = patch
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[name] = wanted[*parents, name]
    fields = ", ".join(".".join(path) for path in changed)
    names = ", ".join(sorted({name for path in changed for name in by[path]}))
    return patch, f"Somebody else ({names}) changed {fields} of the {primary['kind']}; it was set back."
