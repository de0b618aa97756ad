"""The one way to the Kubernetes API: raw JSON in and out, every request with a time limit, four kinds of
error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from django.conf import settings

from cluster import discovery, kinds
from cluster.errors import (
    AlreadyExists,
    ClusterConflict,
    ClusterExpired,
    ClusterRejected,
    ClusterUnavailable,
    ForeignObject,
    ObjectNotFound,
    UnknownCluster,
)
from cluster.kinds import ObjectRef, ResourceKind
from cluster.labels import MANAGER, WORKLOAD_ID
from cluster.names import DEFAULT_CLUSTER
from cluster.transport import DEFAULT_TIMEOUT, Timeout, Transport

Manifest = dict[str, Any]

PAGE_SIZE: Final = 500
LOG_LIMIT_BYTES: Final = 16 * 2**20
# Answers about Secrets carry metadata only: their values never travel to the portal.
_METADATA_ONLY: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


@dataclass(frozen=True, slots=True)
class Listing:
    """All objects of a kind as raw JSON, and the resource version from which to watch on."""

    items: list[dict[str, Any]]
    resource_version: str


class ClusterClient(Transport):
    """Calls to one cluster, whose name is `cluster`; safe for threads, and for use after a fork.

    All methods raise ClusterError's children only: ClusterUnavailable, ClusterConflict, ClusterRejected and
    ObjectNotFound. Objects are the server's own JSON.
    """

    def __init__(
        self, source: str, *, cluster: str = DEFAULT_CLUSTER, timeout: Timeout = DEFAULT_TIMEOUT
    ) -> None:
        super().__init__(source, timeout=timeout)
        self.cluster = cluster
        self._user: str | None = None

    # -- objects ------------------------------------------------------------------------------------------------

    def get(self, ref: ObjectRef) -> dict[str, Any]:
        """The object. Raises ObjectNotFound."""
        return self._json("GET", kinds.object_path(ref))

    def apply(self, manifest: Manifest, *, force: bool = True, manager: str = MANAGER) -> dict[str, Any]:
        """Server-side apply as `manager`; makes the object if it is not there. Returns it.

        Without `force`, a field of another manager raises ClusterConflict naming that manager. Unknown fields
        are refused, not dropped. Of a Secret only the metadata is returned.
        """
        ref = kinds.ref_of(manifest)
        return self._json(
            "PATCH",
            kinds.object_path(ref),
            query={"fieldManager": manager, "force": _flag(force), "fieldValidation": "Strict"},
            body=manifest,
            content_type="application/apply-patch+yaml",
            headers=_accept(ref),
        )

    def create(self, manifest: Manifest) -> dict[str, Any]:
        """Makes the object and returns it. Raises AlreadyExists."""
        ref = kinds.ref_of(manifest)
        return self._json(
            "POST",
            kinds.collection_path(ref),
            query={"fieldManager": MANAGER, "fieldValidation": "Strict"},
            body=manifest,
            headers=_accept(ref),
        )

    def warnings_of(self, manifest: Manifest) -> tuple[str, ...]:
        """What the server would warn of if the object were made; nothing is stored. Raises what `create`
        does.
        """
        response = self._request(
            "POST",
            kinds.collection_path(kinds.ref_of(manifest)),
            query={"fieldManager": MANAGER, "fieldValidation": "Strict", "dryRun": "All"},
            body=manifest,
        )
        return tuple(response.headers.getlist("Warning"))

    def create_or_adopt(self, manifest: Manifest, *, workload_id: str) -> dict[str, Any]:
        """Makes the object, or returns the one of that name if it carries the same workload id.

        Raises ClusterConflict, saying whose it is, if it does not. An unknown outcome (a timeout after
        sending) is resolved by reading the name; if that fails too, ClusterUnavailable is raised and the call
        may be repeated.
        """
        ref = kinds.ref_of(manifest)
        try:
            return self.create(manifest)
        except AlreadyExists:
            return self._adopt(ref, workload_id)
        except ClusterUnavailable as error:
            if not error.outcome_unknown:
                raise
            try:
                return self._adopt(ref, workload_id)
            except (ObjectNotFound, ClusterUnavailable):
                raise error from None

    def _adopt(self, ref: ObjectRef, workload_id: str) -> dict[str, Any]:
        standing = self.read_identity(ref)
        owner = (standing["metadata"].get("labels") or {}).get(WORKLOAD_ID)
        if owner == workload_id:
            return standing
        whose = f"belongs to workload {owner}" if owner else "was not made by the portal"
        raise ForeignObject(f"{ref} already exists and {whose}")

    def read_identity(self, ref: ObjectRef) -> dict[str, Any]:
        """The object, or a Secret's metadata: an empty patch that is not stored needs no right to read
        Secrets. Raises ObjectNotFound.
        """
        if ref.kind != kinds.SECRET.kind:
            return self.get(ref)
        return self._json(
            "PATCH",
            kinds.object_path(ref),
            query={"dryRun": "All"},
            body={},
            content_type="application/merge-patch+json",
            headers=_accept(ref),
        )

    def patch_merge(
        self, ref: ObjectRef, body: Mapping[str, Any], *, sub: str | None = None
    ) -> dict[str, Any]:
        """JSON merge patch of the object (or its subresource); returns it. Raises ObjectNotFound."""
        return self._json(
            "PATCH",
            kinds.object_path(ref, sub=sub),
            query={"fieldManager": MANAGER, "fieldValidation": "Strict"},
            body=dict(body),
            content_type="application/merge-patch+json",
            headers=_accept(ref),
        )

    def delete(
        self,
        ref: ObjectRef,
        *,
        uid: str,
        propagation: str = "Background",
        grace_seconds: int | None = None,
    ) -> None:
        """Deletes the object with this uid. An object that is gone already, or a name that is now another's, is
        success.
        """
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": propagation,
        }
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            self._request("DELETE", kinds.object_path(ref), body=options)
        except ObjectNotFound:
            return
        except ClusterConflict:
            try:
                standing = self.read_identity(ref)
            except ObjectNotFound:
                return
            if standing["metadata"].get("uid") == uid:
                raise

    # -- collections --------------------------------------------------------------------------------------------

    def list(
        self,
        kind: ResourceKind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str | None = None,
    ) -> Listing:
        """All objects of a kind, in one namespace or in all, read in pages of 500.

        A continue token that expires under way starts the list again once, then raises ClusterExpired.
        """
        asked: dict[str, Any] = {
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
            "resource_version": resource_version,
        }
        try:
            return _together(self.pages(kind, **asked))
        except ClusterExpired:
            return _together(self.pages(kind, **asked))

    def pages(
        self,
        kind: ResourceKind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str | None = None,
    ) -> Iterator[Listing]:
        """The same page by page, so that no more than one is in memory; all show one version of the cluster.

        Raises ClusterExpired if the next page is no longer available: the list then begins again.
        """
        path = kind.path(namespace=namespace)
        query: dict[str, str | int | None] = {
            "limit": PAGE_SIZE,
            "labelSelector": label_selector or None,
            "fieldSelector": field_selector or None,
            "resourceVersion": resource_version,
        }
        asked = dict(query)
        while True:
            page = self._json("GET", path, query=asked)
            metadata = page.get("metadata") or {}
            items = page.get("items") or []
            for item in items:
                # Servers leave these out of the items of a typed list.
                item.setdefault("apiVersion", kind.api_version)
                item.setdefault("kind", kind.kind)
            token = metadata.get("continue")
            yield Listing(items=items, resource_version=str(metadata.get("resourceVersion", "")))
            if not token:
                return
            # A page after the first belongs to the first one's version: naming another is refused.
            asked = {**query, "continue": token, "resourceVersion": None}

    # -- logs ---------------------------------------------------------------------------------------------------

    def read_log(
        self,
        namespace: str,
        pod: str,
        *,
        container: str | None = None,
        tail_lines: int | None = None,
        since_time: datetime | None = None,
        limit_bytes: int | None = None,
        timestamps: bool = True,
        previous: bool = False,
    ) -> bytes:
        """The log so far, at most `limit_bytes` (16 MiB by default).

        `since_time` counts in whole seconds, so lines of that second come again: the caller drops what it
        has. Raises ObjectNotFound, and ClusterRejected while the container has not started.
        """
        query = _log_query(container, tail_lines, since_time, timestamps=timestamps) | {
            "limitBytes": limit_bytes or LOG_LIMIT_BYTES,
            "previous": "true" if previous else None,
        }
        return self._request(
            "GET", kinds.POD.path(namespace=namespace, name=pod, sub="log"), query=query, own=False
        ).data

    def follow_log(
        self,
        namespace: str,
        pod: str,
        *,
        container: str | None = None,
        tail_lines: int | None = None,
        since_time: datetime | None = None,
        timestamps: bool = True,
        silence_seconds: float = 300.0,
    ) -> Iterator[bytes]:
        """The log's lines (each with its newline) as they are written, until the container ends.

        Raises ClusterUnavailable after `silence_seconds` without a byte, as a quiet container and a dead
        connection look the same: follow again from the last line's time. Close the iterator to stop.
        """
        query = _log_query(container, tail_lines, since_time, timestamps=timestamps) | {"follow": "true"}
        path = kinds.POD.path(namespace=namespace, name=pod, sub="log")
        limits = (DEFAULT_TIMEOUT[0], silence_seconds)
        with self.stream(path, query=query, timeout=limits, own=False) as chunks:
            rest = b""
            for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line + b"\n"
                if len(rest) > LOG_LIMIT_BYTES:
                    yield rest
                    rest = b""
            if rest:
                yield rest

    # -- the cluster itself -------------------------------------------------------------------------------------

    def version(self) -> dict[str, Any]:
        """The server's version document (`gitVersion`, `major`, `minor`)."""
        return self._json("GET", "/version")

    def served_kinds(self) -> set[tuple[str, str]]:
        """(group version, kind) of everything that the API serves; groups whose server is down are left
        out.
        """
        return discovery.served_kinds(lambda path: self._json("GET", path))

    @property
    def host(self) -> str:
        """The API server's base URL, without a slash at its end."""
        return self.connection().host

    def who_am_i(self) -> str | None:
        """The user as whom the portal calls, asked once; None where the server does not say."""
        if self._user is None:
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            try:
                answer = self._json("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=review)
            except (ObjectNotFound, ClusterRejected):
                return None
            self._user = str(((answer.get("status") or {}).get("userInfo") or {}).get("username", ""))
        return self._user or None

    def can_i(
        self, verb: str, group: str, resource: str, namespace: str | None = None, *, name: str = ""
    ) -> bool:
        """Whether the portal may: `resource` is a plural or `plural/subresource`, no namespace means in
        all, no name any.
        """
        plural, _, sub = resource.partition("/")
        attributes = {"verb": verb, "group": group, "resource": plural, "subresource": sub, "name": name}
        if namespace is not None:
            attributes["namespace"] = namespace
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = self._json("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=review)
        return bool((answer.get("status") or {}).get("allowed"))


def _together(pages: Iterator[Listing]) -> Listing:
    whole = Listing(items=[], resource_version="")
    for page in pages:
        whole = Listing(items=whole.items + page.items, resource_version=page.resource_version)
    return whole


def connect(
    kubeconfig: str, *, cluster: str = DEFAULT_CLUSTER, timeout: Timeout = DEFAULT_TIMEOUT
) -> ClusterClient:
    """A client of its own for a kubeconfig's path, or `in-cluster`; nothing is opened before the first call.

    `cluster` is the name under which rows keep what it sees; `timeout` is (to connect, between two reads) in
    seconds, for calls that have none of their own.
    """
    return ClusterClient(kubeconfig, cluster=cluster, timeout=timeout)


_shared: dict[tuple[str, str], ClusterClient] = {}


def get_client(cluster: str = DEFAULT_CLUSTER) -> ClusterClient:
    """The process's one client of the cluster of that name. Raises UnknownCluster for a name that is not configured."""
    key = (cluster, _kubeconfig_of(cluster))
    if key not in _shared:
        _shared.setdefault(key, connect(key[1], cluster=cluster))
    return _shared[key]


def _kubeconfig_of(cluster: str) -> str:
    """The configuration of how a cluster is reached: today of one cluster, by `settings.CLUSTER_KUBECONFIG`."""
    if cluster != DEFAULT_CLUSTER:
        raise UnknownCluster(cluster)
    return str(settings.CLUSTER_KUBECONFIG)


def _flag(value: bool) -> str:  # noqa: FBT001 - it is what is written
    return "true" if value else "false"


def _accept(ref: ObjectRef) -> dict[str, str]:
    return {"Accept": _METADATA_ONLY} if ref.kind == kinds.SECRET.kind else {}


def _log_query(
    container: str | None, tail_lines: int | None, since_time: datetime | None, *, timestamps: bool
) -> dict[str, str | int | None]:
    since = since_time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if since_time else None
    return {
        "container": container,
        "tailLines": tail_lines,
        "sinceTime": since,
        "timestamps": "true" if timestamps else None,
    }
