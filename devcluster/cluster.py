"""The write path that HTTP and the controllers share: decode, default, admit, validate, store."""

from __future__ import annotations

import copy
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import admission, apply, defaults, events, objects, patch, preconditions, quota, schema, validation
from .errors import (
    ApiError,
    already_exists,
    bad_request,
    forbidden,
    forbidden_field,
    invalid,
    not_found,
    required,
)
from .kinds import EVENT, JOB, NAMESPACE, NODE, POD, SERVICE, Kind
from .objects import Obj, deleting, finished, key_of, name_of, namespace_of, random_suffix, timestamp, uid_of
from .store import Store

_STATUS_ON_CREATE = (NODE,)
_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds")
_KEPT_METADATA = (
    "name", "namespace", "uid", "creationTimestamp", "generation", "generateName", "managedFields", *_DELETION,
)  # fmt: skip
# Not served, but named in refusals.
PATCH_OPTIONS = Kind("meta.k8s.io", "v1", "PatchOptions", "patchoptions")


@dataclass(slots=True)
class Options:
    """What a request asks beside its body."""

    manager: str = "devcluster"
    dry_run: bool = False
    validation: str = "Warn"
    force: bool = False
    warnings: list[str] = field(default_factory=list)


INTERNAL = Options()


class Cluster:
    """Every change of every object passes through here."""

    def __init__(self, store: Store, backoff: float = 10.0) -> None:
        self.store = store
        # Seconds before the first retry of a Job's pod or of a container; both double.
        self.backoff = backoff

    # Reading

    def get(self, kind: Kind, namespace: str, name: str) -> Obj:
        obj = self.store.get(kind, namespace, name)
        if obj is None:
            raise not_found(kind, name)
        return obj

    def pods_on(self, node: str) -> list[Obj]:
        return [pod for pod in self.store.list(POD) if pod["spec"].get("nodeName") == node]

    def pods_of(self, namespace: str, selector: Obj | None) -> list[Obj]:
        """Those that a LabelSelector finds."""
        return [
            pod
            for pod in self.store.list(POD, namespace)
            if objects.matches(selector, objects.labels_of(pod))
        ]

    # Creating

    def create(self, kind: Kind, namespace: str, body: Any, options: Options = INTERNAL) -> Obj:
        obj = self._decode(kind, body, options)
        metadata = obj.setdefault("metadata", {})
        if metadata.setdefault("namespace", namespace) != namespace:
            text = "the namespace of the provided object does not match the namespace sent on the request"
            raise bad_request(text)
        if not kind.namespaced:
            del metadata["namespace"]
        else:
            self._check_namespace(kind, namespace, metadata.get("name", ""))
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"][:58] + random_suffix()
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": timestamp()}
        for name in ("resourceVersion", "managedFields", "generation", *_DELETION):
            metadata.pop(name, None)
        if kind.generation:
            metadata["generation"] = 1
        if "status" in kind.subresources and kind not in _STATUS_ON_CREATE:
            obj.pop("status", None)
        return self._store_new(kind, obj, options)

    def _store_new(self, kind: Kind, obj: Obj, options: Options) -> Obj:
        defaults.fill(kind, obj)
        if kind is JOB:
            defaults.own_job_pods(obj)
        if kind is SERVICE:
            address = obj["spec"].setdefault("clusterIP", defaults.cluster_ip(self.store.version))
            obj["spec"]["clusterIPs"] = [address]
        if kind is POD:
            admission.admit_pod(self.store, obj)
        faults = validation.on_create(kind, obj)
        name = obj["metadata"].get("name", "")
        if faults:
            raise invalid(kind, name, faults)
        validation.review(self.store, kind, obj)
        if kind.namespaced and kind is not EVENT:
            quota.admit(self.store, kind, obj)
        if self.store.get(kind, namespace_of(obj), name) is not None:
            raise already_exists(kind, name)
        if options is not INTERNAL:
            apply.note_update(kind, None, obj, options.manager)
        return obj if options.dry_run else self.store.put(kind, obj)

    def _decode(self, kind: Kind, body: Any, options: Options) -> Obj:
        obj, unknown = schema.decode(kind, body)
        declared = (obj.setdefault("apiVersion", kind.api_version), obj.setdefault("kind", kind.name))
        if declared[0] != kind.api_version:
            text = f"the API version in the data ({declared[0]}) does not match the expected API version"
            raise bad_request(f"{text} ({kind.api_version})")
        if declared[1] != kind.name:
            raise bad_request(f"{declared[1]} in version {kind.version!r} cannot be handled as a {kind.name}")
        if unknown and options.validation == "Strict":
            listed = ", ".join(f'unknown field "{path}"' for path in unknown)
            text = f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}'
            raise bad_request(f"{text}: strict decoding error: {listed}")
        if options.validation == "Warn":
            options.warnings += [f'unknown field "{path}"' for path in unknown]
        return obj

    def _check_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        live = self.get(NAMESPACE, "", namespace)
        if deleting(live) and kind is not EVENT:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            refusal = forbidden(kind, name, why)
            message = f"namespace {namespace} is being terminated"
            cause = {"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}
            refusal.details = (refusal.details or {}) | {"causes": [cause]}
            raise refusal

    # Updating

    def replace(
        self, kind: Kind, namespace: str, name: str, body: Any, options: Options, sub: str = ""
    ) -> Obj:
        live, new = self.get(kind, namespace, name), self._decode(kind, body, options)
        return self._update(kind, live, new, options, sub)

    def patch(
        self, kind: Kind, namespace: str, name: str, media: str, body: Any, options: Options, *, sub: str = ""
    ) -> Obj:
        live = self.store.get(kind, namespace, name)
        if media == "application/apply-patch+yaml":
            return self._apply(kind, (namespace, name), live, body, options, sub=sub)
        if options.force:
            fault = forbidden_field("force", "may not be specified for non-apply patch")
            raise invalid(PATCH_OPTIONS, "", [fault])
        if live is None:
            raise not_found(kind, name)
        match media:
            case "application/merge-patch+json":
                new = patch.merge(live, body)
            case "application/strategic-merge-patch+json" if not kind.custom:
                new = patch.strategic(kind.name, live, body)
            case "application/json-patch+json":
                new = patch.json_patch(live, body)
            case _:
                allowed = (
                    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
                )
                text = "the body of the request was in an unknown format - accepted media types include"
                raise ApiError(415, "UnsupportedMediaType", f"{text}: {allowed}")
        return self._update(kind, live, self._decode(kind, copy.deepcopy(new), options), options, sub)

    def _apply(
        self, kind: Kind, key: tuple[str, str], live: Obj | None, body: Any, options: Options, *, sub: str
    ) -> Obj:
        namespace, name = key
        if not options.manager:
            raise invalid(PATCH_OPTIONS, "", [required("fieldManager", "is required for apply patch")])
        unknown = schema.decode(kind, body)[1]
        if unknown:
            where = f"{namespace}/{name}; {kind.api_version if kind.group else '/v1'}, Kind={kind.name}"
            text = (
                f"failed to create typed patch object ({where}): .{unknown[0]}: field not declared in schema"
            )
            raise ApiError(500, "", text)
        wanted = self._decode(kind, body, options)
        if (wanted.get("metadata") or {}).get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        if live is None:
            wanted.setdefault("metadata", {})["name"] = name
            applied = apply.server_side_apply(kind, None, wanted, options.manager, force=options.force)
            created = self.create(kind, namespace, wanted, Options(options.manager, dry_run=True))
            created["metadata"]["managedFields"] = applied["metadata"]["managedFields"]
            return created if options.dry_run else self.store.put(kind, created)
        merged = apply.server_side_apply(kind, live, wanted, options.manager, force=options.force)
        managed = merged["metadata"]["managedFields"]
        return self._update(kind, live, copy.deepcopy(merged), options, sub, managed=managed)

    def _update(
        self, kind: Kind, live: Obj, new: Obj, options: Options, sub: str = "",
        managed: list[Obj] | None = None,
    ) -> Obj:  # fmt: skip
        preconditions.check_identity(kind, live, new)
        metadata = new["metadata"]
        # A writer of the object may also hand its fields from one manager, or kind of writing, to another.
        handed = apply.handed(metadata.get("managedFields"), live["metadata"].get("managedFields"))
        for name in _KEPT_METADATA:
            metadata.pop(name, None)
            if name in live["metadata"]:
                metadata[name] = live["metadata"][name]
        metadata["resourceVersion"] = live["metadata"]["resourceVersion"]
        if sub == "status":
            new = live | {"status": new.get("status", {}), "metadata": live["metadata"]}
        else:
            self._prepare_update(kind, live, new)
        if managed is not None:
            new["metadata"] = new["metadata"] | {"managedFields": managed}
        elif sub != "status":
            before = live | {"metadata": live["metadata"] | {"managedFields": handed}} if handed else live
            apply.note_update(kind, before, new, options.manager, sub)
        return live if new == live else self._store_update(kind, live, new, options)

    def _prepare_update(self, kind: Kind, live: Obj, new: Obj) -> None:
        if "status" in kind.subresources:
            new.pop("status", None)
            if "status" in live:
                new["status"] = live["status"]
        if kind is SERVICE:
            for name in ("clusterIP", "clusterIPs"):
                new.setdefault("spec", {}).setdefault(name, live["spec"].get(name))
        defaults.fill(kind, new)
        faults = validation.on_update(kind, live, new)
        if deleting(live):
            before, after = (set(o["metadata"].get("finalizers", ())) for o in (live, new))
            if after - before:
                detail = "no new finalizers can be added if the object is being deleted, found new finalizers"
                faults.append(forbidden_field("metadata.finalizers", f"{detail} {sorted(after - before)}"))
        if faults:
            raise invalid(kind, name_of(live), faults)
        validation.review(self.store, kind, new)
        _count_generation(kind, live, new)

    def _store_update(self, kind: Kind, live: Obj, new: Obj, options: Options = INTERNAL) -> Obj:
        if options.dry_run:
            return new
        new = new | {"metadata": dict(new["metadata"])}
        stored = self.store.put(kind, new)
        held = stored["metadata"].get("finalizers") or stored["metadata"].get("deletionGracePeriodSeconds")
        return self.store.remove(kind, stored) if deleting(stored) and not held else stored

    # What controllers and kubelets write

    def set_status(self, kind: Kind, obj: Obj, status: Obj) -> Obj:
        """Store `status` on the newest version of `obj`; nothing happens when it is gone or says so already."""
        live = self.store.newest(kind, obj)
        if live is None or live.get("status") == status:
            return live or obj
        return self._store_update(kind, live, live | {"status": status})

    def modify(self, kind: Kind, obj: Obj, change: Callable[[Obj], None]) -> Obj | None:
        """Let `change` edit a copy of the newest version; controllers need no optimistic locking in one loop."""
        live = self.store.newest(kind, obj)
        if live is None:
            return None
        new = copy.deepcopy(live)
        change(new)
        if new == live:
            return live
        _count_generation(kind, live, new)
        return self._store_update(kind, live, new)

    def drop_finalizer(self, kind: Kind, obj: Obj, finalizer: str) -> None:
        self.modify(
            kind, obj, lambda new: _without(new["metadata"], "finalizers", lambda item: item == finalizer)
        )

    # Deleting

    def delete(self, kind: Kind, namespace: str, name: str, options: Obj | None = None) -> Obj:
        """Delete as far as finalizers and grace allow; the last stored version is the answer."""
        options, live = options or {}, self.get(kind, namespace, name)
        preconditions.check_delete(kind, live, options.get("preconditions") or {})
        policy = options.get("propagationPolicy") or ("Orphan" if kind is JOB else "Background")
        if "All" in (options.get("dryRun") or ()):
            return live
        if policy == "Orphan":
            for child_kind, child in self.dependants(live):
                self.release(child_kind, child, uid_of(live))
        grace = self._grace(kind, live, options.get("gracePeriodSeconds"))

        def change(new: Obj) -> None:
            metadata = new["metadata"]
            finalizers = metadata.get("finalizers", [])
            if policy == "Foreground" and "foregroundDeletion" not in finalizers:
                metadata["finalizers"] = [*finalizers, "foregroundDeletion"]
            before = metadata.get("deletionGracePeriodSeconds")
            if before is None or grace < before:
                metadata["deletionGracePeriodSeconds"] = grace
                metadata["deletionTimestamp"] = timestamp(time.time() + grace)
            if kind is NAMESPACE:
                new["status"] = {"phase": "Terminating"}
                metadata["finalizers"] = list(dict.fromkeys([*metadata.get("finalizers", []), "kubernetes"]))

        held = grace or live["metadata"].get("finalizers") or policy == "Foreground" or kind is NAMESPACE
        if not held:
            return self.store.remove(kind, live)
        return self.modify(kind, live, change) or live

    @staticmethod
    def _grace(kind: Kind, live: Obj, asked: int | None) -> int:
        if kind is not POD or not live["spec"].get("nodeName") or finished(live):
            return 0
        return int(live["spec"].get("terminationGracePeriodSeconds", 30) if asked is None else asked)

    def remove(self, kind: Kind, obj: Obj, **options: Any) -> Obj:
        """Delete an object by itself, with the options of a delete as Kubernetes spells them."""
        return self.delete(kind, *key_of(obj), options)

    def dependants(self, owner: Obj) -> list[tuple[Kind, Obj]]:
        """What names `owner` as an owner, within its namespace."""
        where = namespace_of(owner)
        owned = self.store.owned_by(uid_of(owner))
        return [(kind, obj) for kind, obj in owned if not where or namespace_of(obj) == where]

    def release(self, kind: Kind, obj: Obj, owner_uid: str) -> None:
        """Take one owner off an object."""

        def is_it(reference: Obj) -> bool:
            return bool(reference["uid"] == owner_uid)

        self.modify(kind, obj, lambda new: _without(new["metadata"], "ownerReferences", is_it))

    # Events

    def event(
        self, kind: Kind, about: Obj, reason: str, message: str, *, source: str, warning: bool = False
    ) -> None:
        """Record an Event; the same one again only raises its count."""
        namespace = namespace_of(about) or "default"
        if self.store.get(NAMESPACE, "", namespace) is not None:
            new = events.made(kind, about, namespace, reason, message, source=source, warning=warning)
            live = self.store.get(EVENT, namespace, name_of(new))
            self.store.put(EVENT, events.repeated(live) if live else new)


def _count_generation(kind: Kind, live: Obj, new: Obj) -> None:
    if kind.generation and new.get("spec") != live.get("spec"):
        new["metadata"]["generation"] = live["metadata"].get("generation", 1) + 1


def _without(metadata: Obj, field: str, unwanted: Callable[[Any], bool]) -> None:
    """Take items off a list of the metadata; an empty one goes."""
    rest = [item for item in metadata.pop(field, ()) if not unwanted(item)]
    if rest:
        metadata[field] = rest
