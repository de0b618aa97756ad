"""A request to an endpoint as one would write it elsewhere: for a shell, and in Python. Pure."""

from __future__ import annotations

import json
import pprint
import shlex
from typing import Any

TOKEN = "PORTAL_TOKEN"  # noqa: S105 - the name of a variable


def curl_of(*, url: str, method: str, path: str, body: str) -> str:
    """A command line for any POSIX shell; whatever was typed stays one argument."""
    parts = [
        f"curl -sS -X {shlex.quote(method)} {shlex.quote(address(url, path))}",
        f'-H "Authorization: Bearer ${TOKEN}"',
    ]
    if body:
        kind = "application/json" if is_json(body) else "text/plain; charset=utf-8"
        parts += [f"-H {shlex.quote(f'Content-Type: {kind}')}", f"--data-binary {shlex.quote(body)}"]
    return " \\\n  ".join(parts)


def python_of(*, url: str, method: str, path: str, body: str) -> str:
    """A program that needs nothing but `requests`."""
    sent = ""
    if body and is_json(body):
        sent = f"    json={_literal(json.loads(body))},\n"
    elif body:
        sent = f"    data={body.encode()!r},\n"
    return (
        "import os\n"
        "import requests\n\n"
        "answer = requests.request(\n"
        f"    {method!r},\n"
        f"    {address(url, path)!r},\n"
        f"    headers={{'Authorization': f\"Bearer {{os.environ['{TOKEN}']}}\"}},\n"
        f"{sent}"
        "    timeout=60,\n"
        ")\n"
        "answer.raise_for_status()\n"
        "print(answer.text)"
    )


def address(url: str, path: str) -> str:
    """Where the gateway answers for the endpoint's `path`; `url` ends with a slash."""
    return url + path.lstrip("/")


def is_json(text: str) -> bool:
    """Whether the text is a JSON value."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _literal(value: Any) -> str:
    return pprint.pformat(value, width=88, sort_dicts=False).replace("\n", "\n    ")
