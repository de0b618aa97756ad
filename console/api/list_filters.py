"""How lists of workloads are searched in REST."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from console.api.search_conditions import (
    LABEL_LENGTH_MAX,
    LABEL_WORDS,
    PREFIX_WORDS,
    SEARCH_LENGTH_MAX,
    SEARCH_WORDS,
    beginning,
    labelled,
    matching,
    parse_label,
    parse_prefix,
    parse_search,
)
from foundation.http.filters import Filter, choice, moment, reference, text, uuid
from teams.models import Team, User
from workloads.models import ResourceFlavor
from workloads.states import Phase, Priority

LIST_FILTERS = {
    "team": reference("team", Team, "slug", many=True, description="Team slugs."),
    "phase": choice([phase.value for phase in Phase], "phase", many=True),
    "reason": text("reason", many=True),
    "name": text("name"),
    "owner": reference("owner", User, "username"),
    "flavor": reference("flavor", ResourceFlavor, "name", many=True),
    "capacity": text("capacity_type"),
    "priority": choice([priority.value for priority in Priority], "priority", many=True),
    "id": uuid("public_id"),
    "search": Filter(
        lookup="name",
        parse=parse_search,
        where=lambda values: matching(values[0]),
        description=SEARCH_WORDS,
        schema={"type": "string", "maxLength": SEARCH_LENGTH_MAX},
    ),
    "name_prefix": Filter(
        lookup="name",
        parse=parse_prefix,
        where=lambda values: beginning(values[0]),
        description=PREFIX_WORDS,
        schema={"type": "string", "maxLength": 40, "pattern": "^[a-z][a-z0-9-]*$"},
    ),
    "from": moment("created_at__gte", description="Submitted then or later."),
    "to": moment("created_at__lt", description="Submitted before then."),
    "label": Filter(
        lookup="labels",
        parse=parse_label,
        many=True,
        where=labelled,
        description=LABEL_WORDS,
        schema={"type": "string", "maxLength": LABEL_LENGTH_MAX},
    ),
}


def search_in(teams: Callable[[], Collection[int] | None]) -> dict[str, Filter]:
    """`?search=` and `?name_prefix=` where only workloads of `teams` can be shown, None for all; `teams` is called only
    for one of them.
    """
    return {
        "search": replace(LIST_FILTERS["search"], where=lambda values: matching(values[0], teams=teams())),
        "name_prefix": replace(
            LIST_FILTERS["name_prefix"], where=lambda values: beginning(values[0], teams=teams())
        ),
    }
