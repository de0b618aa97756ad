"""The HTTP surface: paths to verbs on the cluster."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from aiohttp import web

from . import kinds, proxy, selectors
from .cluster import Cluster, Options
from .errors import ApiError, bad_request, details_of, expired, not_implemented
from .evict import evict
from .kinds import BY_PATH, POD, Kind
from .kubelet.base import Kubelet
from .objects import Obj, deleting, dig, key_of, uid_of
from .watch import Watches

VERSION = {
    "major": "1", "minor": "36", "gitVersion": "v1.36.3+devcluster", "gitCommit": "", "gitTreeState": "clean",
    "buildDate": "", "goVersion": "", "compiler": "python", "platform": "linux/amd64",
}  # fmt: skip
_YAML = "application/apply-patch+yaml"
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the "
    "continue parameter."
)
# Deleting these answers with the object, deleting others with a Status, as the real server does.
_ANSWER_OBJECT = {kinds.POD, kinds.SERVICE, kinds.CLAIM, kinds.SERVICE_ACCOUNT, kinds.QUOTA, kinds.NAMESPACE}


@dataclass(frozen=True, slots=True)
class Target:
    """What a path addresses."""

    kind: Kind
    namespace: str
    name: str
    sub: str


def parse_path(path: str) -> Target:
    parts = path.strip("/").split("/")
    group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in {"status", "finalize"}:
        namespace, rest = rest[1], rest[2:]
    kind = BY_PATH.get((group, version, rest[0]))
    if kind is None:
        raise not_implemented(f"{rest[0]}.{group}/{version}" if group else f"{rest[0]} of {version}")
    name, sub = [*rest[1:3], "", ""][:2]
    if sub and sub not in kind.subresources:
        raise not_implemented(f"the subresource {kind.resource}/{sub}")
    return Target(kind, namespace, name, sub)


class Api:
    """aiohttp handlers over one cluster."""

    def __init__(self, cluster: Cluster, kubelet: Kubelet, token: str) -> None:
        self.cluster, self.kubelet, self._token = cluster, kubelet, token
        self.watches = Watches(cluster.store)
        self.proxy = proxy.Proxy(cluster)

    def app(self) -> web.Application:
        app = web.Application(client_max_size=8 << 20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        app.on_cleanup.append(lambda _: self.proxy.close())
        return app

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.path in {"/healthz", "/livez", "/readyz"}:
            return web.Response(text="ok")
        try:
            return await self._route(request)
        except ApiError as error:
            headers = [("Retry-After", "1")] if error.code == 429 else []
            return _json(error.status(), error.code, headers)

    async def _route(self, request: web.Request) -> web.StreamResponse:
        authorization = request.headers.get("Authorization", "")
        if not hmac.compare_digest(authorization.encode(), f"Bearer {self._token}".encode()):
            raise ApiError(401, "Unauthorized", "Unauthorized")
        document = _DISCOVERY.get(request.path.rstrip("/"))
        if document is not None:
            return _json(document)
        parts = request.path.strip("/").split("/")
        if len(parts) < (3 if parts[0] == "api" else 4) or parts[0] not in {"api", "apis"}:
            return web.Response(status=404, text="404 page not found\n")
        target = parse_path(request.path)
        if target.sub == "proxy":
            path = request.rel_url.raw_path.partition("/proxy/")[2]
            return await self.proxy.forward(request, target.kind, target.namespace, target.name, path)
        if target.sub == "log":
            return await self.kubelet.log(request, self.cluster.get(POD, target.namespace, target.name))
        if request.method == "GET" and not target.sub and request.query.get("watch") in {"1", "true"}:
            return await self.watches.stream(request, target.kind, _selection(request.query, target))
        body = await _body(request)
        code, answer, warnings = self._call(request, target, body, _options(request))
        headers = [("Warning", f'299 - "{w.replace(chr(34), chr(92) + chr(34))}"') for w in warnings]
        return _json(answer, code, headers)

    def _call(
        self, request: web.Request, target: Target, body: Any, options: Options
    ) -> tuple[int, Obj, list[str]]:
        """Status, answer and warnings."""
        kind, where, name = target.kind, target.namespace, target.name
        method, query = request.method, request.query
        if target.sub == "scale":
            return 200, self._scale(method, target, body, options, request.content_type), options.warnings
        if target.sub == "eviction":
            return 201, evict(self.cluster, self.cluster.get(POD, where, name), body or {}), []
        if method == "GET":
            return 200, self.cluster.get(kind, where, name) if name else self._list(target, query), []
        if method == "DELETE":
            return 200, self._delete(target, query, body), []
        return *self._write(method, target, body, options, request.content_type), options.warnings

    def _write(self, method: str, target: Target, body: Any, options: Options, media: str) -> tuple[int, Obj]:
        kind, where, name = target.kind, target.namespace, target.name
        match method, bool(name):
            case "POST", False:
                return 201, self.cluster.create(kind, where, body, options)
            case "PUT", True:
                return 200, self.cluster.replace(kind, where, name, body, options, target.sub)
            case "PATCH", True:
                existed = self.cluster.store.get(kind, where, name) is not None
                answer = self.cluster.patch(kind, where, name, media, body, options, sub=target.sub)
                return 200 if existed else 201, answer
        message = "the server does not allow this method on the requested resource"
        raise ApiError(405, "MethodNotAllowed", message)

    def _list(self, target: Target, query: Mapping[str, str]) -> Obj:
        kind, store = target.kind, self.cluster.store
        chosen, version, start = _selection(query, target), store.version, ["", ""]
        if query.get("continue"):
            version, start = _read_token(query["continue"])
            if version < store.oldest:
                raise expired(_TOO_OLD)
        metadata: Obj = {"resourceVersion": str(version)}
        items = [o for key, o in sorted(store.at(kind, version).items()) if list(key) > start and chosen(o)]
        limit = int(query.get("limit") or 0)
        if limit and len(items) > limit:
            last = items[limit - 1]
            token = json.dumps([version, key_of(last)])
            metadata["continue"] = base64.urlsafe_b64encode(token.encode()).decode()
            metadata["remainingItemCount"] = len(items) - limit
            items = items[:limit]
        bare = [{k: v for k, v in o.items() if k not in {"kind", "apiVersion"}} for o in items]
        return _list_of(kind, bare, metadata)

    def _delete(self, target: Target, query: Mapping[str, str], body: Any) -> Obj:
        options: Obj = dict(body or {})
        for key in ("propagationPolicy", "gracePeriodSeconds", "dryRun"):
            if key in query:
                options[key] = int(query[key]) if key == "gracePeriodSeconds" else query[key]
        if isinstance(options.get("dryRun"), str):
            options["dryRun"] = [options["dryRun"]]
        kind = target.kind
        if not target.name:
            chosen = filter(_selection(query, target), self.cluster.store.list(kind, target.namespace))
            return _list_of(kind, [self.cluster.remove(kind, obj, **options) for obj in chosen], {})
        last = self.cluster.delete(kind, target.namespace, target.name, options)
        if deleting(last) or kind in _ANSWER_OBJECT:
            return last
        details = details_of(kind, target.name, uid=uid_of(last))
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

    def _scale(self, method: str, target: Target, body: Any, options: Options, media: str) -> Obj:
        kind, live = target.kind, self.cluster.get(target.kind, target.namespace, target.name)
        if method == "GET":
            return _scale_of(live)
        current = live["spec"]["replicas"]
        if method == "PATCH" and media == "application/json-patch+json":
            # So that a test of the field finds it, as the Scale has it.
            change: Any = [{"op": "add", "path": "/spec/replicas", "value": current}, *body]
        else:
            media, version = "application/merge-patch+json", dig(body or {}, "metadata.resourceVersion")
            replicas = dig(body or {}, "spec.replicas")
            unsaid = 0 if method == "PUT" else current
            change = {"spec": {"replicas": unsaid if replicas is None else replicas}}
            if version:
                change["metadata"] = {"resourceVersion": version}
        where, name = target.namespace, target.name
        return _scale_of(self.cluster.patch(kind, where, name, media, change, options, sub="scale"))


def _list_of(kind: Kind, items: list[Obj], metadata: Obj) -> Obj:
    return {"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": metadata, "items": items}


def _json(body: Obj, status: int = 200, headers: list[tuple[str, str]] | None = None) -> web.Response:
    text = json.dumps(body, separators=(",", ":")).encode()
    return web.Response(body=text, status=status, content_type="application/json", headers=headers)


def _scale_of(obj: Obj) -> Obj:
    labels = ((obj["spec"].get("selector") or {}).get("matchLabels") or {}).items()
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {k: v for k, v in obj["metadata"].items() if k in kept},
        "spec": {"replicas": obj["spec"]["replicas"]},
        "status": {
            "replicas": obj.get("status", {}).get("replicas", 0), "selector": ",".join(f"{k}={v}" for k, v in labels),
        },
    }  # fmt: skip


def _discovery() -> dict[str, Obj]:
    """Every document by its path."""
    groups = kinds.group_list()
    documents: dict[str, Obj] = {
        "/version": VERSION,
        "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
        "/api/v1": kinds.resource_list(""),
        "/apis": groups,
    }
    for group in groups["groups"]:
        documents[f"/apis/{group['name']}"] = {"kind": "APIGroup", "apiVersion": "v1"} | group
        documents[f"/apis/{group['preferredVersion']['groupVersion']}"] = kinds.resource_list(group["name"])
    return documents


_DISCOVERY = _discovery()


def _selection(query: Mapping[str, str], target: Target) -> selectors.Selection:
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    return selectors.selection(target.kind, target.namespace, target.name, labels, fields)


def _read_token(text: str) -> tuple[int, list[str]]:
    try:
        version, start = json.loads(base64.urlsafe_b64decode(text))
    except ValueError as error:
        raise bad_request(f"continue key is not valid: {error}") from error
    return version, start


def _options(request: web.Request) -> Options:
    query = request.query
    agent = request.headers.get("User-Agent", "unknown").partition("/")[0]
    manager = query.get("fieldManager") or ("" if request.content_type == _YAML else agent)
    validation = query.get("fieldValidation") or "Warn"
    return Options(manager, "All" in query.getall("dryRun", []), validation, query.get("force") == "true")


async def _body(request: web.Request) -> Any:
    data = await request.read()
    if not data:
        if request.method in {"POST", "PUT", "PATCH"}:
            raise bad_request("the request body is empty")
        return None
    if "protobuf" in request.content_type or "cbor" in request.content_type:
        raise ApiError(415, "UnsupportedMediaType", "devcluster reads JSON and YAML only")
    try:
        is_yaml = "yaml" in request.content_type and data[:1] not in b"{["
        return yaml.safe_load(data) if is_yaml else json.loads(data)
    except (ValueError, yaml.YAMLError) as error:
        raise bad_request(f"error decoding the body: {error}") from error
