"""A container's environment and command line, expanded as Kubernetes does it."""

from __future__ import annotations

import re
import sys

from devcluster.kinds import CONFIG_MAP, SECRET, Kind
from devcluster.objects import Obj

from .sandbox import NotReady, Rewriter, Sandbox, decode_data

_REFERENCE = re.compile(r"\$(\$|\(([^()]+)\))")
_PATH = "/usr/local/bin:/usr/bin:/bin"


def expand(text: str, known: dict[str, str]) -> str:
    """`$(NAME)` where it is known; `$$` is one dollar sign; anything else stays as it is."""

    def one(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return known.get(match[2], match[0])

    return _REFERENCE.sub(one, text)


def environment(sandbox: Sandbox, container: Obj, rewrite: Rewriter) -> dict[str, str]:
    """Nothing is inherited: a search path, a home, and what the container names."""
    env: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        prefix = source.get("prefix", "")
        for key, kind in (("configMapRef", CONFIG_MAP), ("secretRef", SECRET)):
            if key in source:
                obj = sandbox.find(kind, source[key]["name"], optional=bool(source[key].get("optional")))
                values = decode_data(obj) if obj else {}
                env |= {prefix + k: v.decode() for k, v in values.items()}
    for variable in container.get("env") or ():
        if "valueFrom" in variable:
            value = _from(sandbox, variable["valueFrom"])
        else:
            value = rewrite(expand(variable.get("value", ""), env))
        if value is not None:
            env[variable["name"]] = value
    return {"PATH": _PATH, "HOME": str(sandbox.home), "HOSTNAME": sandbox.pod["metadata"]["name"]} | env


def _from(sandbox: Sandbox, source: Obj) -> str | None:
    if "fieldRef" in source:
        return sandbox.field(source["fieldRef"]["fieldPath"])
    if "secretKeyRef" in source:
        return _key(sandbox, SECRET, source["secretKeyRef"])
    return _key(sandbox, CONFIG_MAP, source["configMapKeyRef"])


def _key(sandbox: Sandbox, kind: Kind, reference: Obj) -> str | None:
    optional = bool(reference.get("optional"))
    obj = sandbox.find(kind, reference["name"], optional=optional)
    if obj is None:
        return None
    values = decode_data(obj)
    if reference["key"] not in values:
        if optional:
            return None
        where = f"{obj['metadata']['namespace']}/{reference['name']}"
        raise NotReady(f"couldn't find key {reference['key']} in {kind.name} {where}")
    return values[reference["key"]].decode()


def command_line(container: Obj, env: dict[str, str], rewrite: Rewriter) -> list[str]:
    """Command and arguments; `python` is the interpreter that runs devcluster."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    argv = [rewrite(expand(word, env)) for word in words]
    if argv and argv[0] in {"python", "python3"}:
        argv[0] = sys.executable
    return argv
