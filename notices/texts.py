"""Sentences of notices: subjects, mails, chat messages. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from foundation.money import format_usd
from notices.events import NoticeType

SUBJECT_LENGTH_MAX: Final = 200
CHAT_LENGTH_MAX: Final = 3500
DIGEST_LINES_MAX: Final = 50
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_VERBS: Final[Mapping[str, str]] = {
    NoticeType.FAILED: "failed",
    NoticeType.PREEMPTED: "was interrupted",
    NoticeType.UNHEALTHY: "is unhealthy",
    NoticeType.HEALTHY: "is well again",
    NoticeType.IDLE_WARNED: "does nothing with its GPUs",
    NoticeType.IDLE_STOPPED: "was stopped by its idle policy",
}

_OF_BUDGETS: Final[Mapping[str, str]] = {
    NoticeType.BUDGET_WARNED: "the budget has passed a threshold",
    NoticeType.BUDGET_EXHAUSTED: "the budget is spent",
    NoticeType.BUDGET_OVERRIDE: "the budget got something on top",
    NoticeType.BUDGET_FORECAST: "the budget will not last",
}


def one_line(text: str, most: int = SUBJECT_LENGTH_MAX) -> str:
    """The text without control characters and line ends, cut to a length: fit for a header."""
    line = _CONTROL.sub(" ", text).strip()
    return line if len(line) <= most else f"{line[: most - 1]}…"


def title_of(payload: Mapping[str, Any]) -> str:
    """What happened, in one line."""
    data = payload["data"]
    match payload["type"]:
        case NoticeType.TEST:
            return one_line(f"Test of the subscription {data['subscription']}")
        case NoticeType.DIGEST:
            count = len(data["notices"])
            return f"{count} notice{'' if count == 1 else 's'} of the portal"
        case NoticeType.QUOTA_DECIDED:
            asked = f"{data['units']} {data['flavor']} ({data['capacity']})"
            return one_line(f"Team {data['team']}: the request for {asked} was {data['state']}")
        case kind if kind in _OF_BUDGETS:
            return one_line(f"Team {data['team']}: {_OF_BUDGETS[kind]}")
        case NoticeType.COSTS_MONTHLY | NoticeType.COSTS_WEEKLY:
            whose = f" of team {data['team']}" if data["team"] else ""
            return one_line(f"Costs{whose} in {data['title']}: {_usd(data['total'])}")
        case NoticeType.FINISHED:
            verb = "was cancelled" if data["phase"] == "Cancelled" else "finished"
        case NoticeType.ALERT_OPENED:
            verb = f"has a GPU alert: {data['title']}"
        case NoticeType.ALERT_CLOSED:
            verb = f"no longer has the GPU alert: {data['title']}"
        case NoticeType.WAITING:
            verb = f"has waited for {data['waited_minutes']} minutes"
        case other:
            verb = _VERBS[other]
    return one_line(f"{data['noun'].capitalize()} {data['team']}/{data['name']} {verb}")


def details_of(payload: Mapping[str, Any]) -> str:
    """Why, in one line; empty where the title says it all."""
    return one_line(str(payload["data"].get("message") or ""), 1000)


def report_message(data: Mapping[str, Any]) -> str:
    """A report of costs in a few words: against the time before, its budgets, and what it was spent on most."""
    parts = [f"{_usd(data['total'])} in {data['title']}, {_against(data)}"]
    parts += [
        f"team {each['team']} has spent {each['budget_percent']} % of its budget of {_usd(each['budget'])}"
        for each in data["teams"]
        if each["budget"] and (data["team"] or each["budget_percent"] >= 100)
    ]
    if data["dearest"]:
        first = data["dearest"][0]
        parts.append(f"the dearest is {first['team']}/{first['name']} with {_usd(first['cost'])}")
    return "; ".join(parts) + "."


def _against(data: Mapping[str, Any]) -> str:
    percent, before = data["change_percent"], f"{data['previous_title']} ({_usd(data['previous'])})"
    if percent is None:
        return f"and nothing in {data['previous_title']}"
    if percent == 0:
        return f"as much as in {before}"
    return f"{abs(percent)} % {'more' if percent > 0 else 'less'} than in {before}"


def _usd(amount: Mapping[str, Any]) -> str:
    return format_usd(amount["amount_micro_usd"])


def chat_text(payload: Mapping[str, Any]) -> str:
    """The text of a chat message; what chat servers take for markup or for calling everybody is escaped."""
    lines = [_chat_line(each) for each in _parts(payload)]
    text = "\n".join([title_of(payload), *lines] if payload["type"] == NoticeType.DIGEST else lines)
    return text if len(text) <= CHAT_LENGTH_MAX else f"{text[: CHAT_LENGTH_MAX - 1]}…"


def mail_lines(payload: Mapping[str, Any]) -> list[dict[str, str]]:
    """For each of what it tells: `title`, `details`, `url` and `at`."""
    return [
        {
            "title": title_of(each),
            "details": details_of(each),
            "url": str(each["data"].get("url", "")),
            "at": str(each["timestamp"]),
        }
        for each in _parts(payload)
    ]


def _parts(payload: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if payload["type"] != NoticeType.DIGEST:
        return [payload]
    return list(payload["data"]["notices"][:DIGEST_LINES_MAX])


def _chat_line(payload: Mapping[str, Any]) -> str:
    said = [title_of(payload), details_of(payload)]
    text = ". ".join(part.rstrip(".") for part in said if part)
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "@\u200b")
    url = payload["data"].get("url", "")
    return f"{escaped}. {url}" if url else f"{escaped}."
