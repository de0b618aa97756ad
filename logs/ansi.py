"""Terminal colours in logs as HTML (pure). Everything is escaped first; only classes from a fixed list are written."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Final

from django.utils.safestring import SafeString, mark_safe

_COLOURS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
# CSI sequences; OSC, DCS, SOS, PM and APC strings, also without an end; escapes of two bytes; the 8-bit CSI.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)(?P<parameters>[0-?]*)[ -/]*(?P<final>[@-~])"
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
    r"|\x9b"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SWITCHES: Final[dict[int, tuple[str, bool]]] = {
    1: ("bold", True),
    2: ("dim", True),
    3: ("italic", True),
    4: ("underline", True),
    23: ("italic", False),
    24: ("underline", False),
}


@dataclass(frozen=True, slots=True)
class _Style:
    foreground: str = ""
    background: str = ""
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False

    def classes(self) -> str:
        names = [name for name in ("bold", "dim", "italic", "underline") if getattr(self, name)]
        names += [self.foreground] if self.foreground else []
        names += [f"bg-{self.background}"] if self.background else []
        return " ".join(f"ansi-{name}" for name in names)


def ansi_to_html(line: str, search: re.Pattern[str] | None = None) -> SafeString:
    """One line as HTML: colours and weights become `<span class="ansi-…">`, other escape sequences are dropped. What matches
    `search` becomes a `<mark>`, as far as it is of one colour.

    Classes: ansi-bold, -dim, -italic, -underline, ansi-<colour>, ansi-bright-<colour>, and the same behind `ansi-bg-`.
    Colours beyond the sixteen are left out. Spans are closed at the end of the line.
    """
    parts: list[str] = []
    style = _Style()
    at = 0
    for match in _ESCAPES.finditer(line):
        _write(parts, line[at : match.start()], style, search)
        at = match.end()
        if match["final"] == "m":
            style = _styled(style, match["parameters"])
    _write(parts, line[at:], style, search)
    return mark_safe("".join(parts))  # noqa: S308 - every text in it went through escape()


def _write(parts: list[str], text: str, style: _Style, search: re.Pattern[str] | None) -> None:
    shown = _marked(_CONTROLS.sub("", text), search)
    classes = style.classes()
    if shown:
        parts.append(f'<span class="{classes}">{shown}</span>' if classes else shown)


def _marked(text: str, search: re.Pattern[str] | None) -> str:
    """The text, escaped."""
    if search is None:
        return escape(text)
    parts, at = [], 0
    for match in search.finditer(text):
        parts += [escape(text[at : match.start()]), "<mark>", escape(match[0]), "</mark>"]
        at = match.end()
    return "".join([*parts, escape(text[at:])])


def _styled(style: _Style, parameters: str) -> _Style:
    if not re.fullmatch(r"[0-9;]{0,64}", parameters):
        return style
    codes = [int(code or 0) for code in parameters.split(";")]
    while codes:
        code = codes.pop(0)
        if code in {38, 48}:
            # 5;n and 2;r;g;b: a colour of the large palettes, which is left out.
            codes = codes[{5: 2, 2: 4}.get(codes[0] if codes else 0, 0) :]
        else:
            style = _one(style, code)
    return style


def _one(style: _Style, code: int) -> _Style:
    if code == 0:
        return _Style()
    if code == 22:
        return replace(style, bold=False, dim=False)
    if code in _SWITCHES:
        name, on = _SWITCHES[code]
        changes: dict[str, Any] = {name: on}
        return replace(style, **changes)
    tens, colour = divmod(code, 10)
    if tens not in {3, 4, 9, 10} or colour == 8:
        return style
    name = "" if colour == 9 else ("bright-" if tens > 4 else "") + _COLOURS[colour]
    if colour == 9 and tens > 4:
        return style
    return replace(style, background=name) if tens in {4, 10} else replace(style, foreground=name)
