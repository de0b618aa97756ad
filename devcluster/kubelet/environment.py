"""A container's environment and command line, expanded as Kubernetes does it."""

from __future__ import annotations

import re
import sys

from devcluster.kinds import SECRET
from devcluster.objects import Obj, namespace_of

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
    reference = source["secretKeyRef"]
    optional = bool(reference.get("optional"))
    secret = sandbox.find(SECRET, reference["name"], optional=optional)
    values = decode_data(secret) if secret else {}
    if reference["key"] in values:
        return values[reference["key"]].decode()
    if optional:
        return None
    where = f"{namespace_of(sandbox.pod)}/{reference['name']}"
    raise NotReady(f"couldn't find key {reference['key']} in Secret {where}")


def command_line(container: Obj, env: dict[str, str], rewrite: Rewriter) -> list[str]:
    """Command and arguments; `python` is the interpreter that runs devcluster."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    argv = [rewrite(expand(word, env)) for word in words]
    if argv and argv[0] in {"python", "python3"}:
        argv[0] = sys.executable
    return argv
