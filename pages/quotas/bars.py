"""A quota as one stacked bar: what each part of it means, how wide it is, and the same in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass

_PATTERNS = {"idle": "quota-idle", "lent": "quota-lent", "over": "quota-over"}
"""Parts that colour alone would not tell apart, with their pattern in templates/portal/quota_patterns.html."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number of the legend. `part` names the part of the bar that it stands for, if there is one."""

    name: str
    units: int
    help: str
    part: str = ""
    pattern: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A rectangle of the bar; `left` and `width` are percentages, as SVG takes them."""

    part: str
    left: str
    width: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaFacts:
    """What the bar is drawn from, in units of the flavor.

    `headroom` is reserved by endpoints, `lent_headroom` of it runs of the same team live on. `lent` is what others
    of the cohort use of the nominal quota. `pending` waits and holds nothing. `available` is what one claim may still
    take, borrowing included; negative after a cut.
    """

    nominal: int
    used: int
    ceiling: int
    available: int
    headroom: int = 0
    lent_headroom: int = 0
    lent: int = 0
    pending: int = 0


class Bar:
    """The bar of some facts: parts from left to right, a lane for what waits, marks for quota and limit."""

    def __init__(self, facts: QuotaFacts, *, what: str) -> None:
        self.facts = facts
        self.over = max(0, facts.used - max(facts.ceiling, 0))
        self.borrowed = max(0, facts.used - facts.nominal - self.over)
        own = facts.used - self.over - self.borrowed
        self.idle = min(max(0, facts.headroom - facts.lent_headroom), own)
        self.firm = own - self.idle
        self.lent = min(facts.lent, max(0, facts.nominal - facts.used))
        self.free = max(0, facts.nominal - facts.used - self.lent)
        self.whole = max(facts.nominal, facts.ceiling, facts.used + facts.pending, 1)
        self.what = what

    @property
    def parts(self) -> list[Part]:
        """What is used and lent, in the order in which it is stacked."""
        sizes = (
            ("used", self.firm),
            ("idle", self.idle),
            ("borrowed", self.borrowed),
            ("over", self.over),
            ("free", self.free),
            ("lent", self.lent),
        )
        parts, left = [], 0
        for name, units in sizes:
            if units > 0:
                parts.append(self._part(name, left, units))
                left += units
        return parts

    @property
    def room(self) -> Part | None:
        """What may still be borrowed above quota and use."""
        left = max(self.facts.nominal, self.facts.used)
        more = self.facts.ceiling - left
        return self._part("room", left, more) if more > 0 else None

    @property
    def pending(self) -> Part | None:
        """What waits, from where use ends."""
        if not self.facts.pending:
            return None
        return self._part("pending", self.facts.used, self.facts.pending)

    @property
    def quota_at(self) -> str:
        return self._percent(self.facts.nominal)

    @property
    def limit_at(self) -> str:
        return self._percent(self.facts.ceiling)

    @property
    def figures(self) -> list[Figure]:
        """The same in numbers, always all of them and in one order."""
        facts = self.facts
        shown = [
            Figure(name="Guaranteed", units=facts.nominal, help="The team's own quota."),
            _figure("Used", self.firm, "used", "Held by runs and endpoints, within the team's own quota."),
            _figure("Borrowed", self.borrowed, "borrowed", "Used above the team's own quota."),
            Figure(name="Available", units=facts.available, help="What may still be taken now."),
            Figure(name="Limit", units=facts.ceiling, help="The most that the team can hold."),
            _figure("Reserved, unused", self.idle, "idle", "Held by endpoints for replicas to come."),
            _figure("Lent out", self.lent, "lent", "Used by other teams of the cohort."),
            _figure("Waiting", facts.pending, "pending", "Asked for by what is queued."),
        ]
        if self.over:
            shown.append(_figure("Over the limit", self.over, "over", "Still held since the quota was cut."))
        return shown

    @property
    def sentence(self) -> str:
        """All of it in one sentence, for a user who hears the page."""
        parts = [f"{self.facts.used} of {self.facts.nominal} used"]
        parts += [
            f"{units} {words}"
            for units, words in (
                (self.borrowed, "borrowed"),
                (self.over, "over the limit"),
                (self.idle, "reserved and unused"),
                (self.lent, "lent out"),
                (self.facts.pending, "waiting"),
            )
            if units
        ]
        return f"{self.what}: {', '.join(parts)}; limit {self.facts.ceiling}"

    def _part(self, name: str, left: int, units: int) -> Part:
        return Part(
            part=name, left=self._percent(left), width=self._percent(units), pattern=_PATTERNS.get(name, "")
        )

    def _percent(self, units: int) -> str:
        return f"{units * 100 / self.whole:.3f}%"


def _figure(name: str, units: int, part: str, help_text: str) -> Figure:
    return Figure(name=name, units=units, part=part, help=help_text, pattern=_PATTERNS.get(part, ""))
