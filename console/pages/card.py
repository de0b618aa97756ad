"""A card as a page shows it: words for tokens, names for ids, and what can be pressed.

The facts are those of the card that REST answers too; nothing is computed here that decides anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from console.pages.gpu_choice import GpuTraits, loss_words, traits_named
from console.pages.words import FACTS, VERDICTS, change_words, held_words, readable, start_words
from controller.in_use import InUse
from controller.waiting_card import Ahead, Card, Leaving, LeverOffer
from costs.queries import CapacityQuote
from foundation.number_words import limit_words, span_words
from policy.levers import SUSPEND
from policy.verdicts import Outcome
from workloads.kinds import kind_of
from workloads.models import Workload
from workloads.podrequests import CPU, MEMORY, STORAGE, quantity_of

FORM_FIELDS: Mapping[str, str] = {
    "gpus_per_replica": "gpus",
    "flavor": "flavor",
    "capacity": "capacity",
    "time_limit_seconds": "time_limit",
    "replicas": "replicas",
    "max_replicas": "replicas",
    "cpu": "cpu",
    "memory": "memory",
    "ephemeral_storage": "storage",
}
"""The form's field for a field of the request that a lever can change."""
ASKED_OF_MANAGERS = frozenset({"ask_for_quota", "ask_for_budget"})
"""What a lever changes that is no field of the request."""
AHEAD_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What the page that shows a card lets one press; empty where nothing of the kind can be.

    `form` says that the form itself is on the page, `new` is its address elsewhere, `limit` takes a new time limit by
    POST, `quota` is the team's quota page. `current` are the request's fields as they are.
    """

    noun: str
    current: Mapping[str, int | str | None]
    form: bool = False
    new: str = ""
    limit: str = ""
    quota: str = ""
    traits: Mapping[str, GpuTraits] = field(default_factory=dict)
    """Of the flavors that are asked for and that levers name."""
    model_bytes: int | None = None
    """What the model needs on each GPU, where the form says which it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherWorkload:
    """A workload that is ahead or has to leave; it has a name and an address if it is of the reader's team."""

    name: str
    url: str
    team: str
    units: int = 0
    lost_seconds: int = 0
    count: int = 1
    """How many in a row this stands for, with all their units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverLook:
    """One thing that could be changed. `fields` fill the form, `url` leads to where it is done, `post` does it."""

    words: str
    verdict: str
    icon: str
    outcome: str
    p50: datetime | None
    p90: datetime | None
    rate_per_hour: int | None
    at_time_limit: int | None
    label: str = ""
    fields: str = ""
    url: str = ""
    post: str = ""
    seconds: int = 0
    losses: tuple[str, ...] = ()
    """What one gets less of, besides what the change says itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Others:
    """Runs of other teams that have to leave; the page does not distinguish them."""

    count: int
    lost_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CardLook:
    """A card in the words of a page."""

    card: Card
    on_form: bool
    verdict: str
    icon: str
    message: str
    start: str
    p50: datetime | None
    p90: datetime | None
    unknown: str
    held: str
    ahead: list[OtherWorkload]
    ahead_hidden: int
    victims: list[OtherWorkload]
    others: Others
    levers: list[LeverLook]
    evidence: list[dict[str, Any]]
    nodes_seen_at: datetime | None

    @property
    def next_ahead(self) -> list[OtherWorkload]:
        """The first ones ahead, which the card names at once; those in a row that have no name are one."""
        return _in_rows(self.ahead)[:AHEAD_NAMED]

    @property
    def ahead_unnamed(self) -> int:
        return self.card.ahead_count - sum(other.count for other in self.next_ahead)

    @property
    def in_use(self) -> list[OtherWorkload]:
        """Who holds what it waits for; those in a row that have no name are one."""
        return _in_rows([_other(holder, self.card.names) for holder in self.card.in_use])[:AHEAD_NAMED]

    @property
    def in_use_more(self) -> int:
        return len(self.card.in_use) - sum(other.count for other in self.in_use)

    @property
    def beside(self) -> tuple[CapacityQuote, ...]:
        """The costs on each capacity type, side by side; empty where there is but one to choose."""
        quotes = self.card.by_capacity
        return quotes if len(quotes) > 1 else ()

    @property
    def moment(self) -> bool:
        """Whether the estimate is a moment rather than a range."""
        return "about" in self.start

    @property
    def stops(self) -> str:
        """Whether runs have to leave for it, or would have to."""
        return "Would stop" if self.on_form else "Stops"

    @property
    def victim_count(self) -> int:
        return len(self.victims) + self.others.count


def look_at(card: Card, *, page: Page, submitted: bool) -> CardLook:
    """The card for a page. `submitted` says whether it waits already, or is only considered."""
    verdict = VERDICTS[card.verdict.outcome]
    ahead = [_other(waiter, card.names) for waiter in card.ahead]
    lost = [victim.lost_seconds for victim in card.victims if victim.id is None]
    start = card.estimate
    p50, p90 = _moment(start.p50), _moment(start.p90)
    message = card.verdict.message
    return CardLook(
        card=card,
        on_form=page.form,
        verdict=verdict.waiting if submitted else verdict.preview,
        icon=verdict.icon,
        message=readable(message),
        start=start_words(p50, p90, now=card.now) if p50 is not None and p90 is not None else "",
        p50=p50,
        p90=p90,
        unknown=readable((start.unknown_because or "").replace(message, "").strip()),
        held=held_words(card.past_hit_rate) if card.past_hit_rate is not None else "",
        ahead=ahead,
        ahead_hidden=max(0, card.ahead_count - len(ahead)),
        victims=[_victim(victim, card.names) for victim in card.victims if victim.id is not None],
        others=Others(count=len(lost), lost_seconds=sum(lost)),
        levers=[_lever(offer, page, card) for offer in card.offers],
        evidence=[{**vars(fact), "words": FACTS.get(fact.fact, fact.fact)} for fact in card.evidence],
        nodes_seen_at=next((fact.observed_at for fact in card.evidence if fact.fact == "free"), None),
    )


def current_of(workload: Workload) -> dict[str, int | str | None]:
    """The fields of a workload's request that a lever can change."""
    replicas = workload.units // workload.units_each if workload.units_each else None
    return {
        "gpus_per_replica": workload.units_each,
        "replicas": replicas,
        "max_replicas": replicas,
        "flavor": workload.flavor.name if workload.flavor else None,
        "capacity": workload.capacity_type,
        "time_limit_seconds": workload.time_limit_seconds,
        "cpu": quantity_of(CPU, workload.cpu_each) if workload.cpu_each else None,
        "memory": quantity_of(MEMORY, workload.memory_each) if workload.memory_each else None,
        "ephemeral_storage": quantity_of(STORAGE, workload.storage_each) if workload.storage_each else None,
    }


def _named(identity: str | None, names: Mapping[str, tuple[str, str]], *, otherwise: str) -> tuple[str, str]:
    """Name and address; those of other teams have come without an id."""
    name, kind = names.get(identity or "", (otherwise, ""))
    return name, kind_of(kind).page_of(identity) if kind and identity else ""


def _other(workload: Ahead | InUse, names: Mapping[str, tuple[str, str]]) -> OtherWorkload:
    name, url = _named(workload.id, names, otherwise="")
    return OtherWorkload(name=name, url=url, team=workload.team, units=workload.units)


def _in_rows(ahead: list[OtherWorkload]) -> list[OtherWorkload]:
    rows: list[OtherWorkload] = []
    for other in ahead:
        last = rows[-1] if rows else None
        if last and not other.url and not last.url and other.team == last.team:
            rows[-1] = replace(last, count=last.count + 1, units=last.units + other.units)
        else:
            rows.append(other)
    return rows


def _victim(victim: Leaving, names: Mapping[str, tuple[str, str]]) -> OtherWorkload:
    name, url = _named(victim.id, names, otherwise="a run")
    return OtherWorkload(name=name, url=url, team="", lost_seconds=victim.lost_seconds)


def _lever(offer: LeverOffer, page: Page, card: Card) -> LeverLook:
    outcome, estimate = offer.lever.verdict.outcome, offer.lever.estimate
    asks = not ASKED_OF_MANAGERS.isdisjoint(offer.change)
    p50, p90 = _moment(estimate.p50), _moment(estimate.p90)
    start = start_words(p50, p90, now=card.now) if p50 is not None and p90 is not None else ""
    # What is asked of a quota manager starts nothing by itself, nor does a run that has still to leave.
    shown = Outcome.WAIT if asks or SUSPEND in offer.change else outcome
    return LeverLook(
        words=change_words(_said(offer.change, card.names), page.current),
        verdict=shown.value,
        icon=VERDICTS[shown].icon,
        outcome=_outcome(outcome, start, asks=asks),
        p50=p50,
        p90=p90,
        rate_per_hour=offer.rate_per_hour,
        at_time_limit=offer.at_time_limit,
        losses=_losses(offer, page),
        **_action(offer.change, page, card.names),
    )


def _said(change: Mapping[str, int | str], names: Mapping[str, tuple[str, str]]) -> Mapping[str, int | str]:
    """The change with the name of the run that it would suspend."""
    if SUSPEND not in change:
        return change
    return {**change, SUSPEND: _named(str(change[SUSPEND]), names, otherwise="a run")[0]}


def traits_for(card: Card, current: Mapping[str, Any]) -> dict[str, GpuTraits]:
    """Of the flavors between which the card's levers change; a query only where one does."""
    named = {str(offer.change["flavor"]) for offer in card.offers if offer.change.get("flavor")}
    return traits_named({*named, str(current.get("flavor") or "")}) if named else {}


def _losses(offer: LeverOffer, page: Page) -> tuple[str, ...]:
    change, lost = offer.change, offer.lever.lost_seconds
    if SUSPEND in change:
        loses = f"loses {span_words(lost)} of work and " if lost else ""
        return (f"it {loses}waits until you resume it",)
    before, after = (page.traits.get(str(request.get("flavor") or "")) for request in (page.current, change))
    return tuple(loss_words(before, after, model_bytes=page.model_bytes)) if before and after else ()


def _outcome(outcome: Outcome, start: str, *, asks: bool) -> str:
    if outcome is Outcome.ADMIT:
        return "starts once a quota manager grants it" if asks else "starts now"
    return f"starts {start}" if start else "start unknown"


def _action(change: Mapping[str, Any], page: Page, names: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """What can be pressed for it on this page: nothing, where the form has no field for it."""
    if SUSPEND in change:
        # The page of that run has the button, and says what it costs.
        return {"label": "Open it", "url": _named(str(change[SUSPEND]), names, otherwise="")[1]}
    if "ask_for_quota" in change:
        pool = f"{page.current.get('flavor')}~{page.current.get('capacity')}"
        query = urlencode({"pool": pool, "units": change["ask_for_quota"]})
        return {"label": "Ask for it", "url": f"{page.quota}?{query}#ask"} if page.quota else {}
    if set(change) == {"time_limit_seconds"} and page.limit:
        return {"label": "Set this limit", "post": page.limit, "seconds": change["time_limit_seconds"]}
    if not set(change) <= set(FORM_FIELDS):
        return {}
    fields = urlencode({FORM_FIELDS[name]: _typed(name, value) for name, value in change.items()})
    if page.form:
        return {"label": "Fill in", "fields": fields}
    return {"label": f"As a new {page.noun}", "url": f"{page.new}&{fields}"} if page.new else {}


def _typed(name: str, value: Any) -> str:
    return limit_words(int(value)) if name == "time_limit_seconds" else str(value)


def _moment(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC)
