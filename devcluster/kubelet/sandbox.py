"""A pod's folder: its volumes, and the rewriting that stands for a mount namespace.

There is no mount namespace without root, so `/checkpoints` of a container is a folder below the pod's own, and every
occurrence of the mount path in command, arguments, plain environment values and working directory is replaced by it.
"""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from devcluster.cluster import Cluster
from devcluster.kinds import CLAIM, CONFIG_MAP, POD, PYTORCH_JOB, SECRET, SERVICE, Kind
from devcluster.objects import Obj, controller_of, dig, finished, namespace_of, uid_of

_HOST = re.compile(r"(?<![\w./-])[a-z]([-a-z0-9]*[a-z0-9])?\.[a-z]([-a-z0-9]*[a-z0-9])?(?![\w./-])")
_ANY_ADDRESS = re.compile(r"(?<![\d.])0\.0\.0\.0(?![\d.])")


class NotReady(Exception):
    """The container cannot be configured yet; the text is the container's waiting message."""


class Unresolved(NotReady):
    """A peer has no address yet. A program in a container would ask its resolver again and again."""


Names = tuple[re.Pattern[str], Callable[[str], str]]
"""Which words are host names, and the address for one of them."""


def decode_data(obj: Obj) -> dict[str, bytes]:
    """The values of a ConfigMap or a Secret."""
    secret = obj["kind"] == "Secret"
    coded: dict[str, str] = obj.get("data" if secret else "binaryData") or {}
    plain: dict[str, str] = {} if secret else obj.get("data") or {}
    return {k: v.encode() for k, v in plain.items()} | {k: base64.b64decode(v) for k, v in coded.items()}


class Sandbox:
    """The folder of one pod."""

    def __init__(self, cluster: Cluster, data: Path, pod: Obj, address: str) -> None:
        self.pod, self.address = pod, address
        self.home = data / "pods" / uid_of(pod)
        self._cluster, self._claims = cluster, data / "volumes"

    def prepare(self) -> None:
        """Make the folders; NotReady while something that a volume needs is missing."""
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        for volume in self.pod["spec"].get("volumes") or ():
            self._volume(volume)

    def remove(self) -> None:
        shutil.rmtree(self.home, ignore_errors=True)

    def volume_folder(self, volume: Obj) -> Path:
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim is None:
            return self.home / "volumes" / str(volume["name"])
        stored = self._cluster.store.get(CLAIM, namespace_of(self.pod), claim)
        if stored is None:
            raise NotReady(f'persistentvolumeclaim "{claim}" not found')
        return self._claims / namespace_of(self.pod) / f"{claim}-{uid_of(stored)[:8]}"

    def _volume(self, volume: Obj) -> None:
        folder = self.volume_folder(volume)
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in self._files(volume):
            target = folder / path
            if not target.resolve().is_relative_to(folder.resolve()):
                raise NotReady(f"the path {path} leaves its volume")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)

    def _files(self, volume: Obj) -> Iterator[tuple[str, bytes]]:
        if "configMap" in volume:
            yield from self._items(CONFIG_MAP, volume["configMap"], volume["configMap"].get("name", ""))
        if "secret" in volume:
            yield from self._items(SECRET, volume["secret"], volume["secret"].get("secretName", ""))

    def _items(self, kind: Kind, source: Obj, name: str) -> Iterator[tuple[str, bytes]]:
        obj = self.find(kind, name, optional=bool(source.get("optional")))
        values = decode_data(obj) if obj else {}
        items = source.get("items") or [{"key": k, "path": k} for k in values]
        for item in items:
            if item["key"] in values:
                yield item["path"], values[item["key"]]
            elif not source.get("optional"):
                raise NotReady(f"references non-existent config key: {item['key']}")

    def find(self, kind: Kind, name: str, *, optional: bool) -> Obj | None:
        obj = self._cluster.store.get(kind, namespace_of(self.pod), name)
        if obj is None and not optional:
            raise NotReady(f'{kind.name.lower()} "{name}" not found')
        return obj

    def field(self, path: str) -> str:
        """A `fieldRef`."""
        if path == "status.podIP":
            return self.address
        if path == "status.hostIP":
            return "127.0.0.1"
        match = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
        if match:
            return str((self.pod["metadata"].get(match[1]) or {}).get(match[2], ""))
        value = dig(self.pod, path)
        return "" if value is None else str(value)

    def rewriter(self, container: Obj) -> Rewriter:
        volumes = {v["name"]: v for v in self.pod["spec"].get("volumes") or ()}
        folders = {
            mount["mountPath"].rstrip("/"): self.volume_folder(volumes[mount["name"]])
            for mount in container.get("volumeMounts") or ()
        }
        self._link(container, folders)
        return Rewriter(folders, self.address, self._names())

    def _names(self) -> Names | None:
        """The names under which a pod knows its peers: `host.subdomain`, or the Services of a PyTorchJob's replicas."""
        if self.pod["spec"].get("subdomain"):
            return _HOST, self._peer
        owner = controller_of(self.pod)
        if owner is None or owner["kind"] != PYTORCH_JOB.name:
            return None
        word = rf"{re.escape(owner['name'])}-(?:master|worker)-\d+"
        # Also in a URL, but not within a path.
        return re.compile(rf"(?<![\w.-])(?<![^/]/)(?<!^/){word}(?![\w./-])"), self._replica

    def _replica(self, name: str) -> str:
        """The address of the pod that a headless Service selects."""
        service = self._cluster.store.get(SERVICE, namespace_of(self.pod), name)
        if service is not None:
            wanted = {"matchLabels": service["spec"].get("selector")}
            for pod in self._cluster.pods_of(namespace_of(self.pod), wanted):
                address = pod.get("status", {}).get("podIP")
                if address and not finished(pod):
                    return str(address)
        raise Unresolved(f"the name {name} does not resolve yet")

    def _peer(self, name: str) -> str:
        """Addresses for names of the kind `host.subdomain`; other text as it is."""
        host, _, subdomain = name.partition(".")
        if subdomain != self.pod["spec"]["subdomain"]:
            return name
        if self._cluster.store.get(SERVICE, namespace_of(self.pod), subdomain) is not None:
            for pod in self._cluster.store.list(POD, namespace_of(self.pod)):
                spec, address = pod["spec"], pod.get("status", {}).get("podIP")
                if (spec.get("hostname"), spec.get("subdomain")) == (host, subdomain) and address:
                    return str(address)
        raise Unresolved(f"the name {name} does not resolve yet")

    def _link(self, container: Obj, folders: dict[str, Path]) -> None:
        """The mount paths as a tree of links, so that a person finds them."""
        for path, folder in folders.items():
            link = self.home / "root" / container["name"] / path.lstrip("/")
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():
                link.symlink_to(folder)


class Rewriter:
    """Replaces mount paths by folders, 0.0.0.0 by the pod's own address, and names of its peers by theirs."""

    def __init__(self, folders: dict[str, Path], address: str, names: Names | None = None) -> None:
        self._folders, self._address, self._names = {k: str(v) for k, v in folders.items()}, address, names
        longest_first = sorted(map(re.escape, folders), key=len, reverse=True)
        self._paths = re.compile(rf"(?<![\w./-])({'|'.join(longest_first)})(?![\w.-])") if folders else None

    def __call__(self, text: str) -> str:
        text = _ANY_ADDRESS.sub(self._address, text)
        if self._names is not None:
            pattern, resolve = self._names
            text = pattern.sub(lambda match: resolve(match[0]), text)
        return self._paths.sub(lambda m: self._folders[m[1]], text) if self._paths else text
