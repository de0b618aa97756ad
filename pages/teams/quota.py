"""A team's quota page: what it may hold, what it holds, borrows, lends and waits for, and asking for more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views import View

from console.pages.detail import PAGE_TOP, see_other
from costs.queries import spans_by_card
from foundation import clock
from foundation.errors import Conflict, Invalid, NotFound
from foundation.number_words import limit_words
from pages.quotas.changes import Changed, differences_of
from pages.quotas.cohorts import by_field
from pages.quotas.draft import WHOLE_WANTED
from pages.teams.pools import TeamSeen, pool_lines, team_seen
from policy.decay import decayed, integral
from quotas.ceilings import VOLUME_STORAGE, ceilings_seen
from quotas.checks import check_may_ask
from quotas.limits import start_queue, stop_queue
from quotas.models import Claim, ClaimState, Fence, Quota, QuotaChange, QuotaRequest, TeamPolicy
from quotas.requests import request_quota, withdraw_request
from teams.actors import actor_of
from teams.models import Team
from teams.permissions import check_can_manage, has_global_role
from workloads.models import ResourceFlavor
from workloads.podrequests import MEMORY, PODS, STORAGE, quantity_of

CHANGES_MAX: Final = 20
REQUESTS_MAX: Final = 20
REASON_LENGTH_MAX: Final = 1000
FILLED_LENGTH_MAX: Final = 100
HOUR: Final = 3600


@dataclass(frozen=True, slots=True)
class Share:
    """What fair share knows of one quota: `use` is decayed, in GPU-equivalent hours, `weighted` what is compared."""

    quota: Quota
    use: float
    weighted: float


def shares_of(policy: TeamPolicy, quotas: Sequence[Quota], *, half_life: int, now: datetime) -> list[Share]:
    """What fair share counts of each quota, as admission does: past use and what is held now, both decayed by half in
    so many seconds.
    """
    use: dict[int, float] = {}
    for quota in quotas:
        seconds = max(0.0, (now - quota.decayed_at).total_seconds()) if quota.decayed_at else 0.0
        use[quota.pk] = decayed(quota.decayed_use, seconds, half_life)
    claims = Claim.objects.filter(quota__in=list(use)).exclude(state=ClaimState.RELEASED)
    for quota_id, units, reserved_at in claims.values_list("quota_id", "units", "reserved_at"):
        use[quota_id] += integral(units, max(0.0, (now - reserved_at).total_seconds()), half_life)
    hours = {quota.pk: use[quota.pk] * float(quota.flavor.gpu_fraction) / HOUR for quota in quotas}
    return [Share(quota, hours[quota.pk], hours[quota.pk] / policy.weight) for quota in quotas]


@dataclass(frozen=True, slots=True)
class FenceLine:
    """A resource name of the team's ResourceQuota: what it should be, and what was seen."""

    resource: str
    derived: str | None
    observed: str | None

    @property
    def differs(self) -> bool:
        return self.derived != self.observed


class TeamQuotaPage(LoginRequiredMixin, View):
    """GET is the page, with an `HX-Target` of its parts that one; POST asks for more."""

    def get(self, request: HttpRequest, slug: str) -> HttpResponse:
        # A waiting card that advises to ask for more says of what and how many.
        asked = {name: request.GET.get(name, "")[:FILLED_LENGTH_MAX] for name in ("pool", "units")}
        return self._page(request, team_seen(request, slug, "fence"), typed=asked)

    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        seen = team_seen(request, slug, "fence")
        team = seen.team
        check_may_ask(request.user, team)
        names = ("pool", "units", "until", "reason")
        typed = {name: request.POST.get(name, "").strip().replace("\x00", "") for name in names}
        try:
            made = _ask(request, team, typed)
        except (Invalid, Conflict, NotFound) as error:
            errors = {_FIELDS.get(name, name): message for name, message in by_field(error).items()}
            return self._page(request, seen, typed=typed, errors=errors, status=422)
        if seen.may_set_quota:
            messages.success(request, "This is what it would do. It is given once you approve it.")
            return see_other(reverse("portal:quota-request", args=[made.public_id]) + PAGE_TOP)
        messages.success(request, "Asked. A quota manager decides; the list shows what became of it.")
        return see_other(reverse("portal:team-quota", args=[team.slug]) + "#requests-title")

    def _page(self, request: HttpRequest, seen: TeamSeen, *, status: int = 200, **extra: Any) -> HttpResponse:
        now, part = clock.now(), request.headers.get("HX-Target")
        lines = pool_lines(seen.team, price_book=spans_by_card(), now=now)
        context = {"team": seen.team, "policy": seen.policy, "lines": lines, "now": now, **extra}
        if part == "pools":
            return render(request, "portal/team_quota.html#pools", context)
        context |= _behind(seen, [line.figures.quota for line in lines], now)
        if part == "behind":
            return render(request, "portal/team_quota.html#behind", context)
        context |= self._beside(seen, now)
        return render(request, "portal/team_quota.html", context, status=status)

    def _beside(self, seen: TeamSeen, now: datetime) -> dict[str, Any]:
        asked = QuotaRequest.objects.filter(team=seen.team)
        asked = asked.select_related("flavor", "requested_by", "decided_by")
        changes = QuotaChange.objects.filter(team_slug=seen.team.slug)
        changes = changes.select_related("change_set")[:CHANGES_MAX]
        return {
            "requests": list(asked[:REQUESTS_MAX]),
            "changes": [Changed(change, differences_of(change)) for change in changes],
            "may_set_quota": seen.may_set_quota,
            "may_steer_queue": seen.may_steer_queue,
            "may_ask": seen.may_submit or (seen.may_set_quota and seen.team.closing_since is None),
            "choices": _choices(),
            "earliest": (now + timedelta(days=1)).date(),
        }


def _behind(seen: TeamSeen, quotas: Sequence[Quota], now: datetime) -> dict[str, Any]:
    """The part with what stands behind the numbers: ceilings, fair share and fence."""
    settings, ceilings = ceilings_seen(seen.policy)
    half_life = settings.fair_share_half_life_hours * HOUR
    fence: Fence | None = getattr(seen.team, "fence", None)
    return {
        "shares": shares_of(seen.policy, quotas, half_life=half_life, now=now),
        "half_life": limit_words(half_life),
        "fence": fence,
        "fence_lines": _fence_lines(fence),
        "ceilings": ceilings,
    }


class WithdrawPage(LoginRequiredMixin, View):
    """POST takes back what one has asked for."""

    def post(self, request: HttpRequest, slug: str, public_id: UUID) -> HttpResponse:
        team = team_seen(request, slug).team
        check_may_ask(request.user, team)
        asked = QuotaRequest.objects.filter(team=team, public_id=public_id).first()
        if asked is None:
            raise NotFound("There is no such request.")
        try:
            withdraw_request(request=asked, actor=actor_of(request), now=clock.now())
            messages.success(request, "The request is withdrawn.")
        except (Invalid, Conflict) as error:
            messages.error(request, error.message)
        return see_other(reverse("portal:team-quota", args=[team.slug]))


class QueuePage(LoginRequiredMixin, View):
    """POST stops or starts the team's queue; for its leads and quota managers."""

    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        team = team_seen(request, slug).team
        if not has_global_role(request.user, "quota-manager"):
            check_can_manage(request.user, team)
        reason = request.POST.get("reason", "").strip()[:REASON_LENGTH_MAX].replace("\x00", "")
        try:
            if request.POST.get("action") == "start":
                start_queue(team=team, actor=actor_of(request), now=clock.now())
                messages.success(request, "The queue admits again.")
            else:
                stop_queue(team=team, reason=reason, actor=actor_of(request), now=clock.now())
                messages.success(request, "The queue is stopped. What runs goes on.")
        except (Invalid, Conflict) as error:
            messages.error(request, error.message)
        return see_other(reverse("portal:team-quota", args=[team.slug]))


_FIELDS: Final[Mapping[str, str]] = {"flavor": "pool", "capacity": "pool", "capacity_type": "pool"}


def _ask(request: HttpRequest, team: Team, typed: Mapping[str, str]) -> QuotaRequest:
    flavor_name, _, capacity_type = typed["pool"].partition("~")
    flavor = ResourceFlavor.objects.filter(name=flavor_name, enabled=True).first()
    if flavor is None or capacity_type not in flavor.capacity:
        raise Invalid.of_field("pool", "Choose what you need.", code="required")
    units = typed["units"]
    if not (units.isascii() and units.isdigit() and len(units) < 10):
        raise Invalid.of_field("units", WHOLE_WANTED, code="invalid")
    return request_quota(
        team=team,
        flavor=flavor,
        capacity_type=capacity_type,
        units=int(units),
        until=_end_of(typed["until"]),
        reason=typed["reason"][:REASON_LENGTH_MAX],
        actor=actor_of(request),
        now=clock.now(),
    )


def _end_of(day: str) -> datetime:
    """When the day ends, in UTC."""
    try:
        chosen = date.fromisoformat(day)
        return datetime.combine(chosen + timedelta(days=1), time(), tzinfo=UTC)
    except (ValueError, OverflowError):
        raise Invalid.of_field("until", "Choose a day, such as 2027-01-31.", code="invalid") from None


def _choices() -> list[tuple[str, str]]:
    return [
        (f"{flavor.name}~{kind}", f"{flavor.name} ({kind})")
        for flavor in ResourceFlavor.objects.filter(enabled=True)
        for kind in sorted(flavor.capacity)
    ]


_BYTES = frozenset({MEMORY, STORAGE, VOLUME_STORAGE})


def _fence_lines(fence: Fence | None) -> list[FenceLine]:
    if fence is None:
        return []
    observed = fence.observed or {}
    return [
        FenceLine(name, _amount(name, fence.derived), _amount(name, observed))
        for name in sorted({*fence.derived, *observed})
    ]


def _amount(name: str, limits: Mapping[str, int]) -> str | None:
    if name not in limits:
        return None
    return quantity_of(STORAGE if name in _BYTES else PODS, limits[name])
