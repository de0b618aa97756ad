"""PromQL's words, with where each begins."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNITS = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
    "y": 31_536_000_000,
}
_DURATION = r"(?:\d+(?:ms|[smhdwy]))+"
_TOKEN = re.compile(
    rf"""(?P<space>\s+|\#[^\n]*)
    |(?P<duration>{_DURATION})(?![\w.])
    |(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])
    |(?P<word>[a-zA-Z_:][a-zA-Z0-9_:]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)
    |(?P<sign>=~|!~|==|!=|<=|>=|[-+*/%^=<>(){{}}\[\],:@])""",
    re.VERBOSE,
)
_PART = re.compile(r"(\d+)(ms|[smhdwy])")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class ParseError(Exception):
    """What is wrong, and at which offset of the text."""

    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.at = at

    def told(self, query: str) -> str:
        """`line:column: parse error: …`, as Prometheus says it."""
        before = query[: self.at]
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        return f"{line}:{column}: parse error: {self}"


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    at: int


def tokens(query: str) -> list[Token]:
    """Ends with a token of the kind `end`. Raises ParseError."""
    found, at = [], 0
    while at < len(query):
        match = _TOKEN.match(query, at)
        if match is None:
            if query[at] in "\"'`":
                raise ParseError(at, "unterminated quoted string")
            if query[at].isdigit():
                raise ParseError(
                    at, f"bad number or duration syntax: {query[at : at + 10]!r}".replace("'", '"')
                )
            raise ParseError(at, f"unexpected character: {query[at]!r}")
        kind = str(match.lastgroup)
        if kind != "space":
            found.append(Token(kind, match[0], at))
        at = match.end()
    return [*found, Token("end", "", len(query))]


def milliseconds(text: str) -> int:
    """Of a duration such as `1h30m`."""
    return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def unquoted(token: Token) -> str:
    """The text of a string; a backquoted one has no escapes."""
    inner = token.text[1:-1]
    if token.text[0] == "`":
        return inner
    return re.sub(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", lambda match: _unescaped(match[1], token), inner)


def _unescaped(text: str, token: Token) -> str:
    if len(text) > 1:
        return chr(int(text[1:], 16))
    if text in _ESCAPES:
        return _ESCAPES[text]
    if text in "\\\"'":
        return text
    raise ParseError(token.at, f"unknown escape sequence U+{ord(text):04X} {text!r}")
