"""A request to an endpoint as one would write it elsewhere: for a shell, and in Python. Pure."""

from __future__ import annotations

import json
import pprint
import shlex
from typing import Final

TOKEN = "PORTAL_TOKEN"  # noqa: S105 - the name of a variable
LITERAL_CHARS_MAX: Final = 20_000
"""A longer body is not written as a literal: no one reads it, and to lay it out takes long."""


def curl_of(*, url: str, method: str, path: str, body: str) -> str:
    """A command line for any POSIX shell; whatever was typed stays one argument."""
    parts = [
        f"curl -sS -X {shlex.quote(method)} {shlex.quote(address(url, path))}",
        f'-H "Authorization: Bearer ${TOKEN}"',
    ]
    if body:
        # Not --data-binary, to which a body that begins with @ is the name of a file.
        parts += [
            f"-H {shlex.quote(f'Content-Type: {content_type(body)}')}",
            f"--data-raw {shlex.quote(body)}",
        ]
    return " \\\n  ".join(parts)


def python_of(*, url: str, method: str, path: str, body: str) -> str:
    """A program that needs nothing but `requests`."""
    literal = _literal(body)
    headers, sent = [f"'Authorization': f\"Bearer {{os.environ['{TOKEN}']}}\""], ""
    if literal:
        sent = f"    json={literal},\n"
    elif body:
        headers.append(f"'Content-Type': {content_type(body)!r}")
        sent = f"    data={body.encode()!r},\n"
    return (
        "import os\n"
        "import requests\n\n"
        "answer = requests.request(\n"
        f"    {method!r},\n"
        f"    {address(url, path)!r},\n"
        f"    headers={{{', '.join(headers)}}},\n"
        f"{sent}"
        "    timeout=60,\n"
        ")\n"
        "answer.raise_for_status()\n"
        "print(answer.text)"
    )


def address(url: str, path: str) -> str:
    """Where the gateway answers for the endpoint's `path`; `url` ends with a slash."""
    return url + path.lstrip("/")


def content_type(body: str) -> str:
    """What is said of the body when it is sent: JSON, or text."""
    try:
        json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return "text/plain; charset=utf-8"
    return "application/json"


def _literal(body: str) -> str:
    """A JSON body as Python writes it; empty for what is none, is better left as text, or `requests` takes for none."""
    if len(body) > LITERAL_CHARS_MAX or content_type(body) != "application/json" or body.strip() == "null":
        return ""
    try:
        return pprint.pformat(json.loads(body), width=88, sort_dicts=False).replace("\n", "\n    ")
    except RecursionError:
        return ""


def _refuse(constant: str) -> None:
    """NaN and the infinities, which Python would read, are no JSON."""
    raise ValueError(constant)
