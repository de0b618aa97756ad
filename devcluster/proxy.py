"""`services/{name}/proxy` and `pods/{name}/proxy`: a reverse proxy to the pods' own loopback addresses."""

from __future__ import annotations

import asyncio

import aiohttp
from aiohttp import web
from yarl import URL

from .cluster import Cluster
from .errors import unavailable
from .kinds import POD, Kind
from .objects import Obj, deleting, is_true, labels_of, name_of, uid_of

# Hop-by-hop headers, and what is meant for the API server alone.
_DROPPED = {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host", "authorization",
            "proxy-authorization", "proxy-connection", "content-length"}  # fmt: skip


class Proxy:
    """One client session for all forwarded requests."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._session: aiohttp.ClientSession | None = None
        # One turn for each Service, so that one's requests do not skew another's.
        self._turns: dict[str, int] = {}

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def forward(
        self, request: web.Request, kind: Kind, namespace: str, name: str, path: str
    ) -> web.StreamResponse:
        address, port = self._endpoint(kind, namespace, name)
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, connect=10)
            # Shorter than what servers wait: else one of them closes a connection just when it is used.
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=2)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=timeout, auto_decompress=False, skip_auto_headers={"User-Agent"}
            )
        url = f"http://{address}:{port}/{path}" + (f"?{request.query_string}" if request.query_string else "")
        headers = [(k, v) for k, v in request.headers.items() if k.lower() not in _DROPPED]
        body = request.content if request.can_read_body else None
        if "Content-Length" in request.headers:
            headers.append(("Content-Length", request.headers["Content-Length"]))
        try:
            answer = await self._session.request(
                request.method, URL(url, encoded=True), headers=headers, data=body, allow_redirects=False,
            )  # fmt: skip
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            # Clients read from these words that nothing was sent.
            message = f"dial tcp {address}:{port}: connect: {_words(error)}"
            raise unavailable(f"error trying to reach service: {message}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise unavailable(f"error trying to reach service: {error}") from error
        return await _relay(request, answer)

    def _endpoint(self, kind: Kind, namespace: str, text: str) -> tuple[str, int]:
        name, _, port = text.partition(":")
        obj = self._cluster.get(kind, namespace, name)
        if kind is POD:
            return self._pod_endpoint(obj, port)
        wanted = _service_port(obj, port)
        if wanted is None:
            raise unavailable(f'no service port {port!r} found for service "{name}"')
        selector = obj["spec"].get("selector") or {}
        ready = [
            p for p in self._cluster.store.list(POD, namespace)
            if selector and is_true(p, "Ready") and not deleting(p) and selector.items() <= labels_of(p).items()
        ]  # fmt: skip
        if not ready:
            raise unavailable(f'no endpoints available for service "{text}"')
        turn = self._turns[uid_of(obj)] = self._turns.get(uid_of(obj), -1) + 1
        # The store keeps no order of its own.
        ready.sort(key=name_of)
        pod = ready[turn % len(ready)]
        return pod["status"]["podIP"], _pod_port(pod, wanted["targetPort"])

    @staticmethod
    def _pod_endpoint(pod: Obj, port: str) -> tuple[str, int]:
        address = pod.get("status", {}).get("podIP")
        if not address:
            raise unavailable("address not allowed: the pod has no address yet")
        declared = [p["containerPort"] for c in pod["spec"]["containers"] for p in c.get("ports") or ()]
        return address, int(port) if port else (declared or [80])[0]


def _service_port(service: Obj, wanted: str) -> Obj | None:
    ports: list[Obj] = service["spec"].get("ports") or []
    if not wanted:
        return ports[0] if len(ports) == 1 else next((p for p in ports if not p.get("name")), None)
    return next((p for p in ports if wanted in {p.get("name"), str(p["port"])}), None)


def _pod_port(pod: Obj, target: int | str) -> int:
    if isinstance(target, int) or target.isdigit():
        return int(target)
    named = (p for c in pod["spec"]["containers"] for p in c.get("ports") or () if p.get("name") == target)
    port = next(named, None)
    if port is None:
        raise unavailable(f"the pod names no port {target}")
    return int(port["containerPort"])


def _words(error: Exception) -> str:
    refused = isinstance(getattr(error, "os_error", None), ConnectionRefusedError)
    return "connection refused" if refused else str(error)


async def _relay(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, reason=answer.reason)
    for key, value in answer.headers.items():
        if key.lower() not in _DROPPED or key.lower() == "content-length":
            response.headers.add(key, value)
    try:
        await response.prepare(request)
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
        await response.write_eof()
    except (aiohttp.ClientError, ConnectionResetError, asyncio.CancelledError):
        answer.close()
        raise
    answer.release()
    return response
