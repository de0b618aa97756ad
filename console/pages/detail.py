"""The detail page that runs and endpoints share, and the buttons on it. An app subclasses them with its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Generic, cast
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views import View

from console.api.representations import waiting_card
from console.pages import panels as page_panels
from console.pages.card import Page, current_of, look_at, traits_for
from console.pages.panels import Panel
from console.pages.queries import find_workload, role_on
from console.pages.reading import Own, PageReading, freshness_of
from console.reason_texts import next_step
from diagnosis.judge import DOING_WELL
from foundation import clock
from foundation.errors import Conflict, NotAllowed, NotFound, PortalError
from teams.actors import Actor, actor_of
from teams.models import Membership, User
from teams.permissions import check_can_submit
from workloads.kinds import kind_of
from workloads.models import Attempt, Workload
from workloads.podspec.specs import ContainerSpec
from workloads.states import HOLDS_CLAIM, Desired, Phase, Reason

TYPED_LENGTH_MAX = 40
TYPED_MAX = 8
"""How many values of a refused dialog return to it in the address, and how long each may be."""
REFUSED = "refused"
"""Where the session keeps what a refused dialog says, until its page shows it."""
POLL_SECONDS = 2
POLL_WAITING_SECONDS = 10
TAB_SECONDS: Mapping[str, int] = {
    "overview": 5,
    "analytics": 30,
    "gpus": 30,
    "revisions": 5,
    "events": 5,
    "pods": 5,
    "cost": 5,
    "outputs": 5,
}
"""How often what stands under a tab is asked for again; of other tabs nothing changes, or it says so itself."""
NAME_STEM_MAX = 38
"""How much of a name that is taken is kept, so that there is room to distinguish another one."""
LOG_PARTS: Mapping[str, str] = {
    "log-view": "console/panel_logs.html",
    "log-more": "console/log_more.html",
    "log-older": "console/log_older.html",
}
"""Templates of the parts that a log is asked for by."""


@dataclass(frozen=True, slots=True)
class CommandInput:
    """A number that is asked for before a button is pressed."""

    name: str
    label: str
    value: str = ""
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCommand:
    """A button. `refused` says why it cannot be pressed now; `effect` is what pressing it does, in words."""

    name: str
    label: str
    url: str
    icon: str
    effect: str = ""
    refused: str = ""
    danger: bool = False
    inputs: tuple[CommandInput, ...] = ()
    asks_name: bool = False
    """Whether the name of the workload has to be typed."""
    again: bool = False
    """Whether it was refused just now: its dialog stands open, with what was typed."""
    said: str = ""
    """Why it was refused then."""

    def typed(self, values: Mapping[str, str], *, refusals: Mapping[str, str]) -> PageCommand:
        """The same with what an address brings back of it, and with what was said of it."""
        if values.get("again") != self.name or not (self.inputs or self.asks_name):
            return self
        inputs = (replace(field, value=values.get(field.name, field.value)) for field in self.inputs)
        return replace(self, inputs=tuple(inputs), again=True, said=refusals.get(self.name, ""))


@dataclass(frozen=True, slots=True)
class Tab:
    """What the page shows one of. Some show one of several `parts`, each with an address of its own, the first of which
    has the name of its tab.
    """

    name: str
    label: str
    parts: tuple[Tab, ...] = ()
    steers: bool = False
    """Whether it is for those alone who may change something."""

    @property
    def names(self) -> frozenset[str]:
        """Those by which an address asks for it or for one of its parts."""
        return frozenset({self.name, *(part.name for part in self.parts)})

    @property
    def for_viewers(self) -> str:
        """The name of what it opens with for those who may change nothing."""
        return next((part.name for part in self.parts if not part.steers), self.name)


class OfOneKind:
    """A page about workloads of one kind."""

    kind: ClassVar[str]

    @property
    def noun(self) -> str:
        """What people call one of its kind."""
        return kind_of(self.kind).noun


class WorkloadPage(OfOneKind, LoginRequiredMixin, View):
    """Something about one workload. `app` is the URL namespace."""

    app: ClassVar[str]
    beside: ClassVar[tuple[str, ...]] = ()
    """Relations of a workload of this kind that are read with it."""
    annotated: ClassVar[Mapping[str, Any]] = {}
    """Expressions that are read with it, by the attribute that has their value."""

    def find(self, request: HttpRequest, public_id: UUID) -> Workload:
        """The workload, or NotFound, which is also the answer to a stranger."""
        return find_workload(
            request.user,
            public_id,
            kind=self.kind,
            noun=self.noun,
            beside=self.beside,
            annotated=self.annotated,
        )

    def url(self, name: str, workload: Workload) -> str:
        return reverse(f"{self.app}:{name}", args=[workload.public_id])


class WorkloadDetailPage(WorkloadPage, Generic[Own]):
    """GET is the page; with `HX-Target` one of its fragments: `live`, `tabs`, `panel`, or a part of the log."""

    template: ClassVar[str]
    tabs: ClassVar[tuple[Tab, ...]]
    tab: ClassVar[str] = ""
    """The tab that it shows; empty where its address says which."""
    panels: ClassVar[Mapping[str, Panel]] = page_panels.SHARED_PANELS
    fragments: ClassVar[frozenset[str]] = frozenset({"live", "tabs", "panel", *LOG_PARTS})
    limit_name: ClassVar[str] = ""
    """Name of the URL that takes a new time limit by POST; empty for a kind without one."""

    def get(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        return self.page(request, self.find(request, public_id))

    def page(
        self, request: HttpRequest, workload: Workload, *, status: int = 200, **extra: Any
    ) -> HttpResponse:
        """The page or the fragment that is asked for."""
        asked = PageReading(request, workload, clock.now(), self.read)
        target = request.headers.get("HX-Target", "")
        context = self._common(asked)
        known = target in self.fragments and (context["tab"] == "logs" or target not in LOG_PARTS)
        fragment = target if known else ""
        if fragment in {"", "live"}:
            context |= self._head(asked, may=context["may_steer"])
        if fragment != "live":
            panel = self.panels.get(context["tab"]) or page_panels.panel_of(self.kind, context["tab"])
            context |= panel(asked)
        context |= self.facts(asked) | extra
        if fragment == "log-more" and context["log_moves"]:
            response = render(request, f"{self.template}#panel", context, status=status)
            response["HX-Retarget"], response["HX-Reswap"] = "#panel", "outerHTML"
            return response
        whole = f"{self.template}#{fragment}" if fragment else self.template
        name = LOG_PARTS.get(fragment, whole)
        return render(request, name, context, status=status)

    def read(self, workload: Workload) -> Own:
        """What only this kind has and several parts of its page show."""
        raise NotImplementedError

    def facts(self, asked: PageReading[Own]) -> dict[str, Any]:
        """What only this kind shows: `spec` at least."""
        raise NotImplementedError

    def commands(self, asked: PageReading[Own], *, may: bool) -> list[PageCommand]:
        """The buttons of this kind."""
        raise NotImplementedError

    def _common(self, asked: PageReading[Own]) -> dict[str, Any]:
        request, workload = asked.request, asked.workload
        chosen = self.tab or request.GET.get("tab") or self.tabs[0].name
        under = next((tab for tab in self.tabs if chosen in tab.names), None)
        if under is None:
            raise NotFound("There is no such tab.")
        # A viewer sees the same facts and no buttons.
        may = role_on(workload, request.user) not in {None, Membership.Role.VIEWER}
        return {
            "workload": workload,
            "asked": asked,
            "noun": self.noun,
            "ends": workload.own_kind.ends,
            "tab": chosen,
            "under": under,
            "tabs": self.tabs,
            "may_steer": may,
            **command_facts(self._offered_commands(asked) if may else []),
            "asks_again": asks_again(workload, every=poll_seconds(workload)),
            "panel_asks_again": asks_again(workload, every=TAB_SECONDS[chosen])
            if chosen in TAB_SECONDS
            else "",
            "page_url": self.url(f"{self.noun}-detail", workload),
            "api_logs": f"{workload.own_kind.resource_of(workload.public_id)}logs/",
        }

    def _offered_commands(self, asked: PageReading[Own]) -> list[PageCommand]:
        request = asked.request
        # What was refused is said once, in its dialog; parts of the page that come anew have no dialogs.
        again = "again" in request.GET and "HX-Target" not in request.headers
        refusals = request.session.pop(REFUSED, {}) if again else {}
        return [command.typed(request.GET, refusals=refusals) for command in self.commands(asked, may=True)]

    def _head(self, asked: PageReading[Own], *, may: bool) -> dict[str, Any]:
        workload, now, attempts = asked.workload, asked.now, asked.attempts
        return {
            "cost": asked.cost,
            "burns": workload.phase in HOLDS_CLAIM,
            "next_step": next_step(workload.reason),
            "quiet": is_quiet(workload),
            "explains": may_be_explained(workload),
            "attempts": attempts,
            "lost_seconds": sum(attempt.lost_seconds for attempt in attempts),
            "lossy_attempts": sum(attempt.lost_seconds > 0 for attempt in attempts),
            **self._waiting(asked, may=may),
            **_ran(attempts, now),
        }

    def container(self, asked: PageReading[Own]) -> ContainerSpec | None:
        """What its pods run, where what the page has read says it; None where the adapter has to be asked."""
        return None

    def _waiting(self, asked: PageReading[Own], *, may: bool) -> dict[str, Any]:
        """The card, and how fresh what it is made from is, which the frame around it need not ask then."""
        workload, now = asked.workload, asked.now
        reader = cast("User", asked.request.user)
        known = self.container(asked)
        card = waiting_card(workload, reader=reader, now=now, price_book=asked.price_book, container=known)
        if card is None:
            return {"waiting": None}
        page = self._card_page(workload, may=may)
        page = replace(page, traits=traits_for(card, page.current))
        look = look_at(card, page=page, submitted=True)
        seen = {"freshness": freshness_of(card.seen.oldest_at, now=now)} if card.seen else {}
        return {"waiting": look, **seen}

    def _card_page(self, workload: Workload, *, may: bool) -> Page:
        """What can be pressed on the card: nothing by a viewer."""
        current = current_of(workload)
        if not may:
            return Page(noun=self.noun, current=current)
        name = f"{workload.name[:NAME_STEM_MAX]}-2"
        query = urlencode({"from": workload.public_id, "replaces": 1, "name": name})
        return Page(
            noun=self.noun,
            current=current,
            new=f"{reverse(f'{self.app}:{self.noun}-new')}?{query}",
            limit=self.url(self.limit_name, workload) if self.limit_name else "",
            quota=reverse("portal:team-quota", args=[workload.team.slug]),
        )


def _ran(attempts: Sequence[Attempt], now: datetime) -> dict[str, Any]:
    """How long it ran, in all its attempts: what counts towards its time limit. None before the first has started."""
    begun = [attempt for attempt in attempts if attempt.started_at is not None]
    seconds = sum(attempt.seconds(now=now) for attempt in begun)
    return {
        "ran": timedelta(seconds=seconds) if begun else None,
        "runs": any(attempt.ended_at is None for attempt in begun),
    }


def command_facts(commands: Sequence[PageCommand]) -> dict[str, Any]:
    """The buttons, and how many of them cannot be pressed now."""
    return {"commands": commands, "refused": sum(bool(command.refused) for command in commands)}


def is_quiet(workload: Workload) -> bool:
    """Whether what it says calls for nothing: it does well, or as somebody wished."""
    return workload.phase != Phase.FAILED and not next_step(workload.reason)


def may_be_explained(workload: Workload) -> bool:
    """Whether there may be something to say about why it failed or does not come up."""
    return workload.attempt_number > 0 and workload.phase not in DOING_WELL


def poll_seconds(workload: Workload) -> int:
    """How often an open page asks again, beside the events that it gets.

    The page of a workload that waits with a verdict gets an event when it starts. Only its place in the queue is asked
    for, which takes a look at every workload that waits.
    """
    waits = workload.phase == Phase.QUEUED and workload.reason != Reason.PENDING_EVALUATION
    return POLL_WAITING_SECONDS if waits else POLL_SECONDS


def asks_again(workload: Workload, *, every: int) -> str:
    """When a part of an open page is asked for again, as htmx reads it; empty once nothing can change any more.

    What is suspended does not change by itself: the page gets an event when a user resumes it, also in another window.
    """
    if workload.is_final:
        return ""
    events = f"live:workload:{workload.public_id} from:body throttle:1s, live:poll from:body"
    return events if workload.phase == Phase.SUSPENDED else f"every {every}s, {events}"


def refusal(workload: Workload) -> str:
    """Why nothing can be asked of the workload any more; empty while it can."""
    if workload.is_final:
        return f"It has ended: {workload.phase}."
    if workload.desired == Desired.CANCEL:
        return "It is being cancelled."
    return ""


def suspend_refusal(workload: Workload) -> str:
    """Why it cannot be suspended now; empty where it can."""
    if workload.phase == Phase.SUSPENDED or workload.desired == Desired.SUSPEND:
        return refusal(workload) or "It is suspended already."
    return refusal(workload)


def resume_refusal(workload: Workload) -> str:
    """Why it cannot be resumed now; empty where it can."""
    if workload.desired == Desired.RUN:
        return refusal(workload) or "It is not suspended."
    return refusal(workload)


class CommandPage(WorkloadPage):
    """POST asks for something, and leads back to the workload with a message."""

    command: ClassVar[Callable[..., Any]]
    done: ClassVar[str]
    after_the_end: ClassVar[bool] = False
    """Whether it may be asked of what has ended; its page offers no button for it otherwise."""
    asks: ClassVar[str] = ""
    """Name of the command in whose dialog something is typed, which is kept where it is refused."""

    def post(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        workload = self.find(request, public_id)
        check_can_submit(request.user, workload.team)
        try:
            if workload.is_final and not self.after_the_end:
                raise Conflict(f"{workload.name} is already {workload.phase}.", code="ended")
            target = self.carry_out_asked(request, workload, actor_of(request), clock.now())
            messages.success(request, self.done.format(name=workload.name))
        except NotAllowed:
            raise
        except PortalError as error:
            return self.refuse(request, workload, error.message)
        return see_other(self.url(f"{self.noun}-detail", target))

    def refuse(self, request: HttpRequest, workload: Workload, message: str) -> HttpResponse:
        """Back to the page: to the dialog with what was typed where there is one, which then says why."""
        if self.asks:
            request.session[REFUSED] = {self.asks: message}
        else:
            messages.error(request, message)
        return see_other(self.url(f"{self.noun}-detail", workload) + self._typed(request))

    def _typed(self, request: HttpRequest) -> str:
        """What was filled in beside the button, as a query string."""
        if not self.asks:
            return ""
        values = {name: str(value)[:TYPED_LENGTH_MAX] for name, value in request.POST.items()}
        values.pop("csrfmiddlewaretoken", None)
        return "?" + urlencode({"again": self.asks, **dict(list(values.items())[:TYPED_MAX])})

    def carry_out_asked(
        self, request: HttpRequest, workload: Workload, actor: Actor, now: datetime
    ) -> Workload:
        """Do it with what was filled in beside the button; the workload to go to afterwards."""
        return self.carry_out(workload, actor, now)

    def carry_out(self, workload: Workload, actor: Actor, now: datetime) -> Workload:
        """Do it; the workload to go to afterwards."""
        type(self).command(workload=workload, actor=actor, now=now)
        return workload


PAGE_TOP: Final = "#top"
"""Of an address that is gone on to: else the browser keeps the fragment that the form's page had."""


def see_other(url: str) -> HttpResponseRedirect:
    """303: whatever was posted, go on with a GET."""
    response = HttpResponseRedirect(url)
    response.status_code = 303
    return response
