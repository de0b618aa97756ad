"""Where one can go and what one can begin, by name: the table that the palette searches. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A page. `words` are further ones that people look for it by; `route` is the name of its URL."""

    title: str
    route: str
    icon: str
    words: str = ""
    key: str = ""
    """The keys that lead there, as `g r`."""
    submits: bool = False
    """Whether it is for those alone who may submit something."""
    manages: bool = False
    """Whether it is for quota managers and platform admins alone."""
    acts: bool = False
    """Whether it begins something new, instead of showing what is there."""


DESTINATIONS: Final = (
    Destination(title="Home", route="portal:home", icon="home", key="g h", words="start attention"),
    Destination(title="Runs", route="jobs:run-list", icon="runs", key="g r", words="training jobs"),
    Destination(title="Sweeps", route="jobs:sweep-list", icon="runs", words="parameters search tuning"),
    Destination(
        title="Endpoints",
        route="inference:endpoint-list",
        icon="endpoints",
        key="g e",
        words="serving models inference",
    ),
    Destination(
        title="Costs", route="portal:costs", icon="coin", key="g m", words="money bill budget spent month"
    ),
    Destination(
        title="Teams", route="portal:team-list", icon="team", key="g t", words="members quota tokens"
    ),
    Destination(
        title="Cluster", route="portal:cluster", icon="chip", key="g c", words="capacity free gpus nodes map"
    ),
    Destination(
        title="Settings", route="portal:settings", icon="gear", words="platform configuration environment"
    ),
    Destination(title="Idle GPUs", route="portal:idle", icon="pause", words="waste alerts utilization"),
    Destination(
        title="What fits?",
        route="portal:what-fits",
        icon="search",
        words="memory model size which gpu advice",
    ),
    Destination(
        title="Notices", route="notices:list", icon="send", words="webhooks mail slack notifications"
    ),
    Destination(
        title="Profile and tokens",
        route="teams:profile",
        icon="user",
        words="api token account keyboard time zone settings",
    ),
    Destination(title="API docs", route="docs", icon="book", words="rest openapi swagger reference"),
    Destination(title="Quotas", route="portal:quota-console", icon="chip", manages=True, words="grid limits"),
    Destination(
        title="Quota requests", route="portal:quota-requests", icon="chip", manages=True, words="inbox"
    ),
    Destination(
        title="Quota changes", route="portal:quota-changes", icon="clock", manages=True, words="undo"
    ),
    Destination(
        title="Cohorts", route="portal:quota-cohorts", icon="team", manages=True, words="borrow lend share"
    ),
    Destination(
        title="Rules of teams", route="portal:quota-teams", icon="team", manages=True, words="ceilings weight"
    ),
    Destination(
        title="Capacity costs", route="portal:costs-capacity", icon="coin", manages=True, words="idle money"
    ),
    Destination(title="Audit trail", route="portal:audit", icon="clock", words="who changed what history"),
    Destination(
        title="New run", route="jobs:run-new", icon="plus", submits=True, acts=True, words="submit train job"
    ),
    Destination(
        title="New endpoint",
        route="inference:endpoint-new",
        icon="plus",
        submits=True,
        acts=True,
        words="deploy serve model",
    ),
    Destination(
        title="Import a manifest",
        route="jobs:run-import",
        icon="plus",
        submits=True,
        acts=True,
        words="yaml kubernetes paste",
    ),
    Destination(title="New notice", route="notices:new", icon="plus", acts=True, words="webhook subscribe"),
    Destination(title="Change password", route="teams:password", icon="gear", acts=True, words="account"),
)

GO_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {each.key: each.route for each in DESTINATIONS if each.key}
)


KEY_LIST: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (("Ctrl K",), "Find a page, a run, an endpoint or a team; do something (Cmd K on a Mac)"),
    *((tuple(each.key.split()), f"Go to {each.title}") for each in DESTINATIONS if each.key),
    (("/",), "Filter the list; without one, find a page or a run"),
    (("j",), "Next row"),
    (("k",), "Row before"),
    (("Enter",), "Open the row"),
    (("n",), "Begin what the page offers, as a new run"),
    (("[",), "Tab before"),
    (("]",), "Next tab"),
    (("?",), "This list"),
    (("Esc",), "Close"),
)
"""What `static/portal/keys.js` listens to, as its list shows it."""


@dataclass(frozen=True, slots=True)
class Verb:
    """What can be done to a workload from the palette; `live` says whether to those that have not ended."""

    command: str
    """The command of its page: the button `do-cancel` asks before anything is done."""
    title: str
    live: bool


VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        "cancel": Verb("cancel", "Cancel", live=True),
        "stop": Verb("stop", "Stop", live=True),
        "suspend": Verb("suspend", "Suspend", live=True),
        "resume": Verb("resume", "Resume", live=True),
        "scale": Verb("scale", "Scale", live=True),
        "start": Verb("start", "Start", live=True),
        "retry": Verb("retry", "Run again", live=False),
    }
)
"""By the first word that is typed, as in `cancel bert`."""
COMMANDS_OF: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "run": frozenset({"cancel", "suspend", "resume", "retry"}),
        "endpoint": frozenset({"stop", "start", "scale"}),
    }
)
"""Which of them the page of a kind has, by the noun of the kind."""


def found(search: str, *, submits: bool, manages: bool) -> Iterator[Destination]:
    """Those that a person with these rights may use, each of whose words begins one of the title or of what it is
    looked for by; those whose title has them first.
    """
    wanted = search.lower().split()
    open_to = [
        each for each in DESTINATIONS if (submits or not each.submits) and (manages or not each.manages)
    ]
    by_title = [each for each in open_to if _begins(wanted, each.title)]
    yield from by_title
    yield from (
        each for each in open_to if each not in by_title and _begins(wanted, f"{each.title} {each.words}")
    )


def _begins(wanted: list[str], text: str) -> bool:
    words = text.lower().split()
    return all(any(word.startswith(each) for word in words) for each in wanted)
