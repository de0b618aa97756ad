"""How facts are written on pages: times, durations, money, phases, icons. Everything is escaped here or before."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from typing import Any, Final
from urllib.parse import urlencode

from django import template
from django.templatetags.static import static
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString

from console.pages.words import PHASES
from console.reason_texts import called
from costs.queries import Cost
from foundation import clock
from foundation.glossary import WORDS
from foundation.money import format_usd
from foundation.number_words import cores_words, duration_words, gib, percent_words, span_words
from foundation.time_zones import as_read, exactly, last_day_words

register = template.Library()

_STEPS: Final = ((86400 * 2, 86400, "d"), (3600 * 2, 3600, "h"), (120, 60, "min"), (0, 1, "s"))


@register.simple_tag
@cache
def icon(name: str) -> SafeString:
    """An icon of the sprite, for decoration: the word stands beside it. Kept: a page has hundreds."""
    return format_html(
        '<svg class="icon" aria-hidden="true" focusable="false"><use href="{}#{}"></use></svg>',
        static("portal/icons.svg"),
        name,
    )


@register.filter
def ago(moment: datetime | None) -> SafeString | str:
    """How long ago in words, the exact time in the title; in the future, how long until.

    It goes on by `static/portal/times.js`.
    """
    if moment is None:
        return "–"
    seconds = (clock.now() - moment).total_seconds()
    words = _span(abs(seconds))
    text = "just now" if abs(seconds) < 2 else f"in {words}" if seconds < 0 else f"{words} ago"
    return format_html(
        '<time datetime="{}" title="{}" data-age="{}">{}</time>',
        moment.isoformat(),
        exactly(moment),
        f"{seconds:.1f}",
        text,
    )


@register.filter
def with_code(text: str) -> SafeString:
    """What stands between backticks as code; the rest as it is."""
    parts = enumerate(text.split("`")) if text.count("`") % 2 == 0 else ((0, text),)
    return format_html_join(
        "", "{}", ((format_html("<code>{}</code>", part) if index % 2 else part,) for index, part in parts)
    )


@register.filter
def file_name(path: str) -> str:
    """The last part of a path."""
    return path.rstrip("/").rpartition("/")[2]


@register.filter
def at(moment: datetime | None) -> SafeString | str:
    """The exact time, in the reader's zone."""
    return "–" if moment is None else _time(moment, f"{as_read(moment):%Y-%m-%d %H:%M:%S}")


@register.filter
def minute(moment: datetime | None) -> SafeString | str:
    """The time to the minute, in the reader's zone."""
    return "–" if moment is None else _time(moment, f"{as_read(moment):%Y-%m-%d %H:%M}")


@register.filter
def day(moment: datetime | None) -> SafeString | str:
    """The day, in the reader's zone."""
    return "–" if moment is None else _time(moment, f"{as_read(moment):%Y-%m-%d}")


@register.filter
def utc_day(moment: date | datetime | None) -> str:
    """`2026-03-01` of what is counted in days of UTC, as bills and budgets are, or of a field that takes one."""
    return "" if moment is None else f"{moment:%Y-%m-%d}"


@register.filter
def utc_moment(moment: datetime) -> str:
    """`2026-03-01T12:00:00Z`, as a field takes a moment."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


@register.filter
def utc(moment: datetime) -> str:
    """`2026-03-01 12:00:00 UTC`, where all have to read the same."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


@register.filter
def exact(moment: datetime) -> str:
    """To the second with its zone, as text alone: of a title."""
    return exactly(moment)


@register.filter
def zone(moment: datetime | None) -> str:
    """What the reader's zone is called at that time, as `UTC` or `CET`; beside times that stand without it."""
    return "" if moment is None else f"{as_read(moment):%Z}"


@register.filter
def at_with_zone(moment: datetime) -> SafeString:
    """The exact time, in the reader's zone, which is named behind it."""
    return _time(moment, exactly(moment))


@register.filter
def last_day(until: datetime) -> SafeString:
    """As `last_day_words`, in its element."""
    return _time(until, last_day_words(until))


@register.filter(name="clock")
def clock_time(moment: datetime, now: datetime) -> SafeString:
    """`14:50`, with the day where it is another one; in the reader's zone, exact in the title."""
    read = as_read(moment)
    same = read.date() == as_read(now).date()
    return _time(moment, f"{read:%H:%M}" if same else f"{read:%a %d %b %H:%M}")


def _time(moment: datetime, text: str) -> SafeString:
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.isoformat(),
        exactly(moment),
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
def going_on(value: timedelta | float) -> SafeString:
    """`duration` of what lasts still, which goes on by `static/portal/times.js`."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    return format_html('<span data-lasts="{}">{}</span>', f"{seconds:.1f}", duration_words(seconds))


@register.filter
def span(seconds: float) -> str:
    """`45s`, `20m`, `1h 30m`: an amount of time in a sentence."""
    return span_words(seconds)


@register.filter
def gpu_hours(seconds: int) -> str:
    """GPU-equivalent seconds as hours with one decimal."""
    return f"{seconds / 3600:,.1f}"


@register.filter
def thousands(number: int) -> str:
    """`7,000,000,000`."""
    return f"{number:,}"


@register.filter
def decimal(number: float | None, places: int = 2) -> str:
    """`1,234.5`: at most so many decimals, and none that is zero; a dash where there is none."""
    if number is None:
        return "–"
    text = f"{number:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@register.filter
def percent(number: float | None, places: int = 1) -> str:
    """`12.5 %` of a number of hundredths; a dash where there is none."""
    return "–" if number is None else percent_words(number, places)


@register.filter
def cores(millicores: int) -> str:
    """`3.6 cores`, `1 core`: CPU as people count it, with one decimal where there is one."""
    return cores_words(millicores)


@register.filter
def amount(value: int, unit: str) -> str:
    """A number behind a verdict with what it counts: money, cores, memory, a time, or a count alone."""
    if unit == "seconds":
        return span_words(value)
    if unit == "micro-USD":
        return format_usd(value)
    if unit == "millicores":
        return cores_words(value)
    return f"{gib(value)} GiB" if unit == "bytes" else f"{value:,}"


@register.filter(name="gib")
def gib_of(size: int) -> str:
    """Bytes as GiB with one decimal, rounded up."""
    return gib(size)


@register.filter
def subtract(value: int, other: int) -> int:
    """The difference of two counts."""
    return value - other


@register.filter
def usd(micro: int | None, places: int = 2) -> str:
    """`$1,234.50`, or the words that there is no price."""
    return "no price" if micro is None else format_usd(micro, places=places)


@register.filter
def ticking(cost: Cost, places: int = 2) -> SafeString:
    """The cost so far, which goes on by `static/portal/costs.js` while something is charged; no screen reader is told."""
    shown = usd(cost.so_far, places)
    if cost.so_far is None or not cost.current_rate_per_hour:
        return conditional_escape(shown)
    return format_html(
        '<span data-cost="{}" data-cost-hour="{}" data-cost-places="{}" aria-live="off">{}</span>',
        cost.so_far,
        cost.current_rate_per_hour,
        places,
        shown,
    )


@register.filter
def signed(number: int) -> str:
    """A whole number, with the minus sign that has the width of a digit."""
    return str(number) if number >= 0 else f"\N{MINUS SIGN}{-number}"


@register.filter
def above(number: int, limit: int) -> int:
    """By how much the number is above the limit; 0 where it is not."""
    return max(0, number - limit)


@register.filter
def phase_icon(phase: str) -> str:
    """The name of the phase's icon."""
    return PHASES[phase].icon if phase in PHASES else "dot"


@register.simple_tag
def phase_badge(workload: Any, size: str = "", word: str = "") -> SafeString:
    """Its phase with an icon; `word` is what people call the state where the kind has words of its own for it."""
    return _badge(str(workload.phase), size, word)


@cache
def _badge(phase: str, size: str, word: str) -> SafeString:
    """There are as many as states and their names; a list shows them once a row."""
    look = f"phase-{phase} phase-{size}" if size else f"phase-{phase}"
    return format_html('<span class="phase {}">{}{}</span>', look, icon(phase_icon(phase)), word or phase)


@register.filter
@lru_cache(maxsize=1024)
def words(token: str) -> str:
    """`WaitingForQuota` as `Waiting for quota`, or as `console.reason_texts` calls it; programs see the token itself."""
    if known := called(token):
        return known
    out = "".join(
        f" {char.lower()}" if char.isupper() and i and not token[i - 1].isupper() else char
        for i, char in enumerate(token)
    )
    return out[:1].upper() + out[1:]


@register.simple_tag(takes_context=True)
def gloss(context: dict[str, Any], word: str, shown: str = "") -> SafeString:
    """A word of the glossary, as `shown` where it is another form of it; with what it is, the first time on a page.

    Raises KeyError for a word that the glossary does not have.
    """
    meant = WORDS[word]
    told: set[str] = getattr(context.get("request"), "portal_glossed", set())
    if word in told:
        return conditional_escape(shown or word)
    if (request := context.get("request")) is not None:
        request.portal_glossed = told | {word}
    return format_html('{} <span class="gloss">({})</span>', shown or word, meant.gloss)


@register.filter
def as_json(value: Any) -> str:
    """Indented JSON as text; the template escapes it."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


@register.simple_tag(takes_context=True)
def query(context: dict[str, Any], **changes: Any) -> str:
    """The query of this page with some parameters changed (None: removed), always from the first page."""
    parameters = context["request"].GET.copy()
    parameters.pop("cursor", None)
    for name, value in changes.items():
        parameters.pop(name, None)
        if value not in (None, ""):
            parameters[name] = str(value)
    return "?" + urlencode([(name, value) for name, values in parameters.lists() for value in values])


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


@register.simple_tag
def claim_bar(before: Mapping[str, int], after: Mapping[str, int]) -> SafeString:
    """A team's quota with what is asked for on top: the thick mark is the guaranteed part, the other the limit."""
    used, wanted = before["used"], after["used"]
    nominal, limit = before["nominal"], before["limit"]
    scale = 100 / max(limit, wanted, nominal, 1)
    parts = (
        ("used", 0, min(used, nominal)),
        ("borrowed", nominal, used - nominal),
        ("asked", used, wanted - used),
    )
    bars = [(name, f"{at * scale:.2f}", f"{units * scale:.2f}") for name, at, units in parts if units > 0]
    drawn = format_html_join("", '<rect class="{}" x="{}%" width="{}%" y="4" height="12"></rect>', bars)
    # A mark at the very end would be cut in half.
    marks = [
        (name, f"{min(at * scale, 99.6):.2f}")
        for name, at in (("limit", limit), ("nominal", nominal))
        if name == "nominal" or limit > nominal
    ]
    drawn += format_html_join("", '<rect class="mark {}" x="{}%" width="2" y="0" height="20"></rect>', marks)
    label = f"{used} of {nominal} guaranteed units in use, {wanted} with this; at most {limit}"
    return format_html(
        '<svg class="claim-bar" role="img" aria-label="{}"><rect class="ground" width="100%" y="4" height="12" rx="3">'
        "</rect>{}</svg>",
        label,
        drawn,
    )
