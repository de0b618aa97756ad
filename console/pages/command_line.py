"""A command as people write it: one argument on each line, or one line as a shell would take it (pure).

The container has no shell of its own, so what only a shell can do (`&&`, `|`, `$HOME`, `A=1 run`) is refused rather than
handed to the program as words. What stands in quotes is an argument as it is: a shell that it is given to may do the rest.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from contextlib import suppress

_SHELLS_OWN = re.compile(
    r"""'[^']*' | "(?:\\.|[^"\\])*" | \\.       # quoted: an argument's own
        | \$\([A-Za-z_][-A-Za-z0-9_.]*\)        # the kubelet fills in $(NAME)
        | \$\{\{matrix\.\w*\}\}                 # a sweep fills in its values
        | (?P<found>\&\& | \|\| | >> | << | [|&;<>()`\n] | \$\(?\w* | (?<!\S)\#)""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=", re.ASCII)
_PLACEHOLDER = re.compile(
    r"""'[^']*' | "(?:\\.|[^"\\])*" | (?P<found>\$\{\{\s*(?P<name>matrix\.\w*)\s*\}\})""",
    re.VERBOSE | re.DOTALL,
)
_CONTINUED = re.compile(r"\\\n[ \t]*")
INSTEAD = "or write one argument on each line."


def read_arguments(typed: str) -> list[str]:
    """The arguments of a text with ends of lines of one kind. Raises ValueError with a sentence for whoever wrote it."""
    lines = [line for line in typed.split("\n") if line]
    written = [line for line in lines if line.strip()]
    if len(written) <= 1:
        return _split(written[0]) if written else []
    if all(line.endswith("\\") for line in written[:-1]):
        return _split(_CONTINUED.sub(" ", typed.strip()))
    return _split(typed.strip()) if _is_one_quoted(typed.strip()) else lines


def write_arguments(arguments: Sequence[str]) -> str:
    """A text that is read as exactly these; empty where there is none."""
    for text in ("\n".join(arguments), shlex.join(arguments)):
        with suppress(ValueError):
            if "\r" not in text and read_arguments(text) == list(arguments):
                return text
    return ""


def _is_one_quoted(text: str) -> bool:
    """Whether it is a program with a quoted text of several lines, such as `sh -c "` and its script."""
    first = text.partition("\n")[0]
    return bool(re.search(r"\S\s", first)) and not _closed(first) and _closed(text)


def _closed(text: str) -> bool:
    try:
        shlex.split(text)
    except ValueError:
        return False
    return True


def _split(line: str) -> list[str]:
    line = _PLACEHOLDER.sub(_without_spaces, line)
    try:
        arguments = shlex.split(line)
    except ValueError as error:
        message = str(error)
        raise ValueError(
            f"No shell could split this line ({message[:1].lower()}{message[1:]}). Close it, {INSTEAD}"
        ) from None
    for piece in _SHELLS_OWN.finditer(line):
        if (sign := piece["found"]) is not None:
            raise ValueError(_refusal(sign))
    if arguments and _ASSIGNMENT.match(line.strip()):
        name = arguments[0].partition("=")[0]
        raise ValueError(f"{name}=… sets a variable in a shell only: write it under Environment.")
    return arguments


def _without_spaces(found: re.Match[str]) -> str:
    """Of `${{ matrix.lr }}` outside quotes what a shell would not split."""
    return f"${{{{{found['name']}}}}}" if found["found"] else found[0]


def _refusal(sign: str) -> str:
    if sign == "\n":
        return f"These are several commands. Write sh -c '…' around them, {INSTEAD}"
    if sign == "#":
        return f"# begins a comment in a shell. Put it in quotes, {INSTEAD}"
    return (
        f"{sign} means something to a shell, and the container has none. Write sh -c '…' around the command, "
        f"put {sign} in quotes, {INSTEAD}"
    )
