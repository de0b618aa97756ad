"""How facts are written on pages: times, durations, money, phases, icons. Everything is escaped here or before."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django import template
from django.templatetags.static import static
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from controller.page_words import PHASES, duration_words
from foundation import clock
from foundation.money import format_usd

register = template.Library()

_STEPS: Final = ((86400 * 2, 86400, "d"), (3600 * 2, 3600, "h"), (120, 60, "min"), (0, 1, "s"))


@register.simple_tag
def icon(name: str) -> SafeString:
    """An icon of the sprite, for decoration: the word stands beside it."""
    return format_html(
        '<svg class="icon" aria-hidden="true" focusable="false"><use href="{}#{}"></use></svg>',
        static("portal/icons.svg"),
        name,
    )


@register.filter
def ago(moment: datetime | None) -> SafeString | str:
    """How long ago in words, the exact time in the title; in the future, how long until."""
    if moment is None:
        return "–"
    seconds = (clock.now() - moment).total_seconds()
    words = _span(abs(seconds))
    text = "just now" if abs(seconds) < 2 else f"in {words}" if seconds < 0 else f"{words} ago"
    return _time(moment, text)


@register.filter
def at(moment: datetime | None) -> SafeString | str:
    """The exact time in UTC."""
    return "–" if moment is None else _time(moment, f"{moment:%Y-%m-%d %H:%M:%S}")


def _time(moment: datetime, text: str) -> SafeString:
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>',
        moment.isoformat(),
        f"{moment:%Y-%m-%d %H:%M:%S}",
        text,
    )


def _span(seconds: float) -> str:
    size, name = next((size, name) for least, size, name in _STEPS if seconds >= least)
    return f"{int(seconds // size)} {name}"


@register.filter
def duration(value: timedelta | float | None) -> str:
    """`1h 04m`; a dash where there is none."""
    if value is None:
        return "–"
    return duration_words(value.total_seconds() if isinstance(value, timedelta) else value)


@register.filter
def usd(micro: int | None, places: int = 2) -> str:
    """`$1,234.50`, or the words that there is no price."""
    return "no price" if micro is None else format_usd(micro, places=places)


@register.filter
def phase_icon(phase: str) -> str:
    """The name of the phase's icon."""
    return PHASES[phase].icon if phase in PHASES else "dot"


@register.filter
def words(token: str) -> str:
    """`WaitingForQuota` as `Waiting for quota`; the token itself is what programs see."""
    out = "".join(
        f" {char.lower()}" if char.isupper() and i and not token[i - 1].isupper() else char
        for i, char in enumerate(token)
    )
    return out[:1].upper() + out[1:]


@register.filter
def as_json(value: Any) -> str:
    """Indented JSON as text; the template escapes it."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


@register.simple_tag(takes_context=True)
def query(context: dict[str, Any], **changes: Any) -> str:
    """The query of this page with some parameters changed (None: removed), always from the first page."""
    given = context["request"].GET.copy()
    given.pop("cursor", None)
    for name, value in changes.items():
        given.pop(name, None)
        if value not in (None, ""):
            given[name] = str(value)
    return "?" + urlencode([(name, value) for name, values in given.lists() for value in values])


@register.simple_tag
def meter(used: int, whole: int, label: str, asked: int = 0) -> SafeString:
    """A bar of `used` and, in another colour, `asked`; a line marks the `whole` where they reach beyond it."""
    scale = 100 / max(whole, used + asked, 1)
    inside = min(used, whole)
    parts = (("used", inside), ("over", used - inside), ("asked", asked))
    bars, left = [], 0.0
    for name, units in parts:
        if units > 0:
            bars.append((name, f"{left:.2f}", f"{units * scale:.2f}"))
            left += units * scale
    rects = format_html_join("", '<rect class="{}" x="{}%" width="{}%" y="0" height="100%"></rect>', bars)
    if used + asked > whole:
        rects += format_html(
            '<rect class="limit" x="{}%" width="2" y="0" height="100%"></rect>', f"{whole * scale:.2f}"
        )
    return format_html('<svg class="meter" role="img" aria-label="{}">{}</svg>', label, rects)
