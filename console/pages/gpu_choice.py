"""Which GPU a form offers: memory, price, what is free and what is left of the quota, and what holds a model that is named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from advisor.advice import Advice, advise
from advisor.demand import FLOATS, demand_of
from advisor.fitting import USABLE_PERCENT, Fit, Isolation, isolation_of
from advisor.memory_sum import GIB, memory_sum
from advisor.model_text import TEXT_LENGTH_MAX, Precision, Purpose, read_text
from console.pages.queries import FlavorCard
from foundation.errors import Invalid
from foundation.number_words import gib
from teams.models import Team
from workloads.models import ResourceFlavor
from workloads.placement import ON_DEMAND, SPOT, Sharing
from workloads.podspec.specs import SPOT_FIRST

PLACES_MAX = 3
"""How many GPUs that hold a model are offered as buttons."""


@dataclass(frozen=True, slots=True)
class GpuTraits:
    """What changes with another flavor besides its price: memory in GiB, 0 where it is unknown, and who shares the card."""

    memory_gib: int
    sharing: Sharing

    @classmethod
    def of(cls, flavor: ResourceFlavor) -> GpuTraits:
        return cls(flavor.memory_gib, Sharing(flavor.sharing))

    @property
    def usable_bytes(self) -> int:
        return self.memory_gib * GIB * USABLE_PERCENT // 100


def traits_named(names: Iterable[str]) -> dict[str, GpuTraits]:
    """By the names of flavors; one query."""
    return {
        flavor.name: GpuTraits.of(flavor) for flavor in ResourceFlavor.objects.filter(name__in=set(names))
    }


def loss_words(before: GpuTraits, after: GpuTraits, *, model_bytes: int | None = None) -> list[str]:
    """What one gets less of with another flavor: memory, against what the model needs where that is known, and isolation."""
    words = []
    if before.memory_gib > after.memory_gib > 0:
        less = f"{after.memory_gib} GiB instead of {before.memory_gib}"
        needs = "" if model_bytes is None else f": your model needs {gib(model_bytes)}"
        small = model_bytes is not None and model_bytes > after.usable_bytes
        words.append(f"{less}{needs}{', which is too much' if small else ''}")
    levels = list(Isolation)
    if levels.index(isolation_of(after.sharing)) < levels.index(isolation_of(before.sharing)):
        words.append(
            "its memory is its own, its time is shared with neighbours on the card"
            if after.sharing is Sharing.MPS
            else "nothing isolates it from neighbours on the card"
        )
    return words


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlace:
    """One way to hold the model. `fields` fills in the form."""

    flavor: str
    units: int
    capacity_type: str
    rate_per_hour: int | None
    fields: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFits:
    """What the adviser says of the model that was named; `wrong` where its words are not understood."""

    message: str = ""
    wrong: str = ""
    places: tuple[ModelPlace, ...] = ()
    more: int = 0
    fits: Mapping[str, Fit] | None = None


def model_bytes(text: str, *, trains: bool, cards: int) -> int | None:
    """What the model that is named needs on each of so many GPUs; None where none is named, or none that is understood."""
    try:
        demand = demand_of(_question(text, trains=trains)) if text.strip() else None
    except Invalid:
        return None
    return memory_sum(demand, cards=max(1, cards)).total_bytes if demand else None


def model_fits(text: str, *, team: Team, trains: bool, now: datetime) -> ModelFits | None:
    """The answer to "What fits?"; None where nothing was asked. `trains` is what it is for where the words do not say."""
    if not text.strip():
        return None
    try:
        demand = demand_of(_question(text, trains=trains))
        advice = advise(demand=demand, team=team, isolation=Isolation.NONE, cards=None, now=now)
    except Invalid as error:
        return ModelFits(wrong=error.message)
    places = [place for fit in advice.fits if fit.holds for place in _places(advice, fit)]
    how = f"{demand.purpose}, {demand.precision}" + (f", {demand.optimizer}" if demand.trains else "")
    return ModelFits(
        message=f"{advice.message} For {how}.",
        places=tuple(places[:PLACES_MAX]),
        more=max(0, len(places) - PLACES_MAX),
        fits={fit.offered.facts.name: fit for fit in advice.fits},
    )


def _question(text: str, *, trains: bool) -> dict[str, Any]:
    text = text.strip()[:TEXT_LENGTH_MAX]
    words = read_text(text)
    for_training = trains and "purpose" not in words and words.get("precision", Precision.BF16) in FLOATS
    return {"text": text, **({"purpose": Purpose.TRAINING} if for_training else {})}


def _places(advice: Advice, fit: Fit) -> list[ModelPlace]:
    name = fit.offered.facts.name
    return [
        ModelPlace(
            flavor=name,
            units=place.units,
            capacity_type=place.capacity_type,
            rate_per_hour=place.rate_per_hour,
            fields=urlencode(
                {
                    "flavor": name,
                    "capacity": place.capacity_type,
                    "gpus": place.units_each,
                    **({"replicas": place.replicas} if advice.demand.trains else {}),
                }
            ),
        )
        for place in fit.places
        if not place.refused
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRow:
    """A flavor in the table. `room` says whether what is asked for is free and left now; `fit` what the adviser says."""

    card: FlavorCard
    room: bool
    asked: bool
    """Whether the team has quota for it."""
    fit: Fit | None

    @property
    def name(self) -> str:
        return str(self.card.flavor.name)

    @property
    def small(self) -> bool:
        return self.fit is not None and not self.fit.holds


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuChoice:
    """The rows in the order in which they are offered, and the folded ones that the team has no quota for."""

    rows: list[GpuRow]
    folded: list[GpuRow]
    fits: ModelFits | None
    chosen: str

    @property
    def folded_chosen(self) -> bool:
        return any(row.name == self.chosen for row in self.folded)


def gpu_choice(
    cards: Sequence[FlavorCard], *, capacity: str, each: int, pods: int, chosen: str, fits: ModelFits | None
) -> GpuChoice:
    """What can start now comes first, then by price; what cannot hold the model that was named comes after the others."""
    wanted = {SPOT, ON_DEMAND} if capacity == SPOT_FIRST else {capacity}
    rows = [_row(card, wanted, (each, pods), fits) for card in cards]
    rows.sort(key=lambda row: _order(row, wanted))
    return GpuChoice(
        rows=[row for row in rows if row.asked],
        folded=[row for row in rows if not row.asked],
        fits=fits,
        chosen=chosen,
    )


def _row(card: FlavorCard, wanted: set[str], asked: tuple[int, int], fits: ModelFits | None) -> GpuRow:
    open_offers = [
        offer for offer in card.offers if offer.nominal is not None and offer.capacity_type in wanted
    ]
    room = any(offer.has_room(*asked) for offer in open_offers)
    fit = (fits.fits or {}).get(card.flavor.name) if fits else None
    return GpuRow(card=card, room=room, asked=card.offered, fit=fit)


def _order(row: GpuRow, wanted: set[str]) -> tuple[bool, bool, bool, int, str]:
    rates = [offer.rate_per_hour for offer in row.card.offers if offer.capacity_type in wanted]
    known = [rate for rate in rates if rate is not None]
    return row.small, not row.room, not known, min(known, default=0), row.name
