"""Every route of the portal, and who gets which answer from it. A route that is missing here fails the build.

`what` names the path arguments that `World.kwargs` makes: those of an object of team canary, and of none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

Statuses = frozenset[int]


def _one(*statuses: int) -> Statuses:
    return frozenset(statuses)


# Carried out, or refused for what was asked and not for who asked. 503: the cluster is a port that refuses.
DONE = _one(200, 201, 202, 204, 303, 409, 422, 503)
OK, UNKNOWN, FORBIDDEN, NOBODY = _one(200), _one(404), _one(403), _one(401)


@dataclass(frozen=True, kw_only=True)
class Need:
    """What each principal is answered. `hides`: a stranger's answer holds nothing of team canary."""

    strangers: Statuses
    viewers: Statuses
    members: Statuses
    leads: Statuses
    readers: Statuses
    nobodies: Statuses = NOBODY
    body: str = "none"
    hides: bool = True


def need(strangers: Statuses, viewers: Statuses, members: Statuses, leads: Statuses, **more: Any) -> Need:
    """`readers`, a lead's token with the scope `read` alone, may what a viewer may, unless it says otherwise."""
    return Need(
        **{"strangers": strangers, "viewers": viewers, "members": members, "leads": leads, "readers": viewers}
        | more
    )


READ = need(UNKNOWN, OK, OK, OK)
LIST = need(OK, OK, OK, OK)
EVERYBODY = need(OK, OK, OK, OK, hides=False)
MANAGERS_ONLY = need(FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN)


def steer(body: str = "none") -> Need:
    return need(UNKNOWN, FORBIDDEN, DONE, DONE, body=body)


def lead(body: str = "none") -> Need:
    return need(UNKNOWN, FORBIDDEN, FORBIDDEN, DONE, body=body)


def leads_own(body: str = "none") -> Need:
    """Of what only leads know that it is there."""
    return need(UNKNOWN, UNKNOWN, UNKNOWN, DONE, readers=FORBIDDEN, body=body)


def managers(body: str) -> Need:
    return need(FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN, body=body)


def of_managers(body: str) -> Need:
    """Who knows of the team is told that it is for quota managers; strangers that there is nothing."""
    return need(UNKNOWN, FORBIDDEN, FORBIDDEN, FORBIDDEN, body=body)


# The token of the row is the member's own, so that even a lead of the same team has no business with it.
OWN_READ = need(UNKNOWN, UNKNOWN, OK, UNKNOWN)
OWN_WRITE = need(UNKNOWN, UNKNOWN, DONE, UNKNOWN, readers=FORBIDDEN)
OWN_NOTICE = need(UNKNOWN, UNKNOWN, DONE, UNKNOWN, readers=FORBIDDEN)
LEADS_READ = need(UNKNOWN, UNKNOWN, UNKNOWN, OK, readers=OK)
OWN_CREATE = need(_one(201, 403), DONE, DONE, DONE, readers=FORBIDDEN, body="token", hides=False)
# The run itself reports, with its own token; people are told so, strangers that there is nothing.
REPORT_READ = need(UNKNOWN, OK, OK, OK, nobodies=_one(401, 403))
TRY = need(UNKNOWN, *[_one(307)] * 3, nobodies=NOBODY)


def report(body: str) -> Need:
    return need(UNKNOWN, FORBIDDEN, FORBIDDEN, FORBIDDEN, nobodies=_one(401, 404), body=body)


@dataclass(frozen=True, kw_only=True)
class Row:
    what: str = ""
    methods: Mapping[str, Need] = field(default_factory=dict)
    kind: str = "api"
    """api, page (a session, no bearer), public (nothing to protect), function (answers whom it says itself)."""


def api(what: str = "", **methods: Need) -> Row:
    return Row(what=what, methods=methods)


_SIGN_IN = _one(302)


def page(what: str = "", **methods: Need) -> Row:
    return Row(what=what, methods=methods, kind="page")


def shown(strangers: Statuses, viewers: Statuses = OK, others: Statuses = OK, **more: Any) -> Need:
    return need(strangers, viewers, others, others, **{"nobodies": _SIGN_IN, **more})


PAGE = shown(UNKNOWN)
PAGE_LIST = shown(_one(200, 302), _one(200, 302), _one(200, 302))
BUTTON = shown(UNKNOWN, FORBIDDEN, _one(303))
# Who was removed from their only team may submit nowhere.
FORM = shown(_one(200, 403), FORBIDDEN)
TEAM_FORM = shown(UNKNOWN, FORBIDDEN)
# Refused in the fragments that show what is wrong with what was typed (200) as in the page.
SENT_FORM = shown(_one(200, 403, 404, 422), _one(200, 403, 422), DONE, body="form")
LEADS_BUTTON = need(UNKNOWN, FORBIDDEN, FORBIDDEN, DONE, nobodies=_SIGN_IN)
OWN_BUTTON = need(UNKNOWN, UNKNOWN, DONE, UNKNOWN, nobodies=_SIGN_IN)
CONSOLE = shown(FORBIDDEN, FORBIDDEN, FORBIDDEN)
OF_ADMINS = shown(UNKNOWN, FORBIDDEN, FORBIDDEN)
PUBLIC = Row(kind="public")

ROUTES: dict[str, Row] = {
    "schema": PUBLIC,
    "docs": PUBLIC,
    "api_not_found": PUBLIC,
    "foundation:healthz": PUBLIC,
    "foundation:readyz": PUBLIC,
    # --- people
    "teams-api:me": api(GET=EVERYBODY),
    "teams-api:team-list": api(GET=LIST, POST=managers("team")),
    "teams-api:team": api("team", GET=READ, PATCH=lead("team-patch"), DELETE=need(UNKNOWN, *[FORBIDDEN] * 3)),
    # What closing ends is for leads to see, and closing for platform admins.
    "console-api:team-close": api(
        "team", GET=need(UNKNOWN, FORBIDDEN, FORBIDDEN, OK, readers=OK), POST=of_managers("close-team")
    ),
    "console-api:team-reopen": api("team", POST=of_managers("reason")),
    "teams-api:member-list": api("team", GET=READ, POST=lead("member")),
    "teams-api:member": api(
        "member",
        GET=READ,
        PATCH=lead("member-patch"),
        # The row is the viewer's own membership, which everybody may end.
        DELETE=need(UNKNOWN, DONE, FORBIDDEN, DONE, readers=FORBIDDEN),
    ),
    "teams-api:token-list": api(GET=EVERYBODY, POST=OWN_CREATE),
    "teams-api:token": api("token", GET=OWN_READ, DELETE=OWN_WRITE),
    # A name and a password are its credential: tests/teams/test_first_token.py.
    "teams-api:token-exchange": Row(kind="function", methods={"POST": EVERYBODY}),
    "teams-api:audit-list": api(GET=LIST),
    "teams-api:audit-export": api(GET=LIST),
    # --- catalogue, quotas, costs, cluster
    "workloads-api:flavor-list": api(GET=EVERYBODY, POST=managers("flavor")),
    "workloads-api:flavor": api("flavor", GET=EVERYBODY, PATCH=managers("flavor-patch")),
    "workloads-api:node-list": api(GET=EVERYBODY),
    "quotas-api:quota-list": api("team", GET=READ, POST=of_managers("quota")),
    "quotas-api:usage-list": api("team", GET=READ),
    "quotas-api:team-policy": api("team", GET=READ, PATCH=of_managers("policy")),
    "quotas-api:queue": api("team", GET=READ),
    "quotas-api:queue-stop": api("team", POST=lead("reason")),
    "quotas-api:queue-start": api("team", POST=lead()),
    "quotas-api:cohort-list": api(GET=LIST, POST=managers("cohort")),
    "quotas-api:cohort": api("cohort", GET=EVERYBODY, PATCH=managers("cohort-patch"), DELETE=MANAGERS_ONLY),
    "quotas-api:cohort-limits-list": api("cohort", GET=EVERYBODY, POST=managers("cohort-limits")),
    "quotas-api:quota-change-list": api(GET=LIST, POST=managers("changes")),
    "quotas-api:quota-change-preview": api(POST=managers("changes")),
    "quotas-api:quota-change": api("change-set", GET=READ),
    "quotas-api:quota-change-undo": api("change-set", POST=of_managers("reason")),
    "quotas-api:quota-request-list": api(GET=LIST, POST=steer("quota-request")),
    "quotas-api:quota-request": api("quota-request", GET=READ),
    "quotas-api:quota-request-approve": api("quota-request", POST=of_managers("comment")),
    "quotas-api:quota-request-deny": api("quota-request", POST=of_managers("comment")),
    # The request of the row is the member's own: nobody else takes it back, not even a lead.
    "quotas-api:quota-request-withdraw": api("quota-request", POST=need(UNKNOWN, FORBIDDEN, DONE, FORBIDDEN)),
    "quotas-api:decision": api("decision", GET=READ),
    "quotas-api:decision-replay": api("decision", GET=READ),
    "budgets-api:budget-list": api(GET=LIST, POST=managers("budget")),
    "budgets-api:budget-preview": api(POST=managers("budget")),
    "budgets-api:budget": api(
        "budget", GET=READ, PATCH=of_managers("budget_change"), DELETE=of_managers("none")
    ),
    "budgets-api:budget-override-list": api("budget", GET=READ, POST=of_managers("override")),
    "budgets-api:team-budget": api("team", GET=READ),
    "costs-api:price-list": api(GET=EVERYBODY, POST=managers("price")),
    "costs-api:price-preview": api(POST=managers("price-preview")),
    "costs-api:price-import": api(POST=managers("price-import")),
    "costs-api:price-import-preview": api(POST=managers("price-import-preview")),
    "costs-api:price": api("price", GET=EVERYBODY, DELETE=managers("none")),
    "costs-api:ledger-list": api(GET=LIST),
    "costs-api:cost-summary": api(GET=LIST),
    "costs-api:cost-idle": api(GET=MANAGERS_ONLY),
    "costs-api:cost-export": api(GET=LIST),
    "costs-api:adjustment-list": api(POST=managers("adjustment")),
    "teams-api:settings": api(GET=EVERYBODY, PATCH=managers("settings")),
    "console-api:volume-list": api("team", GET=need(UNKNOWN, DONE, DONE, DONE), POST=steer("volume")),
    "console-api:secret-list": api("team", GET=READ),
    "console-api:secret": api("secret", PUT=steer("secret"), DELETE=steer()),
    "console-api:capacity-list": api(GET=EVERYBODY),
    "console-api:capacity-node-list": api(GET=EVERYBODY),
    "telemetry-api:idle-list": api(GET=LIST),
    "telemetry-api:alert-list": api(GET=LIST),
    "telemetry-api:alert-rule-list": api(GET=EVERYBODY),
    "telemetry-api:alert-rule": api("alert-rule", GET=EVERYBODY, PATCH=managers("alert-rule")),
    "console-api:stray-list": api(GET=MANAGERS_ONLY),
    "console-api:compare": api(GET=need(_one(400), _one(400), _one(400), _one(400))),
    "console-api:stray-delete": api(POST=managers("strays")),
    "console-api:preflight-list": api(GET=MANAGERS_ONLY),
    "advisor-api:advice": api(POST=need(UNKNOWN, OK, OK, OK, body="advice")),
    # --- training runs
    "jobs-api:template-list": api(GET=EVERYBODY, POST=managers("template")),
    "jobs-api:template": api(
        "template", GET=EVERYBODY, PATCH=managers("template-patch"), DELETE=MANAGERS_ONLY
    ),
    "jobs-api:sweep-list": api(GET=LIST),
    "jobs-api:sweep": api("sweep", GET=READ, PATCH=steer("sweep-patch")),
    "jobs-api:sweep-cancel": api("sweep", POST=steer()),
    "jobs-api:sweep-waiting": api("sweep", GET=READ),
    "jobs-api:training-run-list": api(GET=LIST, POST=steer("run")),
    "jobs-api:training-run-preview": api(POST=steer("run")),
    # Of what a stranger may see, nothing fits the filter.
    "jobs-api:training-run-bulk": api(POST=need(OK, FORBIDDEN, DONE, DONE, readers=FORBIDDEN, body="bulk")),
    "jobs-api:training-run-bulk-preview": api(
        POST=need(OK, FORBIDDEN, OK, OK, readers=FORBIDDEN, body="bulk")
    ),
    "jobs-api:training-run-import": api(
        POST=need(DONE, DONE, DONE, DONE, readers=FORBIDDEN, body="manifest")
    ),
    "jobs-api:training-run-detail": api("run", GET=READ, PATCH=steer("run-patch"), DELETE=steer()),
    "jobs-api:training-run-cancel": api("run", POST=steer()),
    "jobs-api:training-run-suspend": api("run", POST=steer()),
    "jobs-api:training-run-resume": api("run", POST=steer()),
    "jobs-api:training-run-retry": api("run", POST=steer()),
    "jobs-api:training-run-clone": api("run", POST=steer("edits")),
    "jobs-api:training-run-events": api("run", GET=READ),
    "jobs-api:training-run-metrics": api("run", GET=READ),
    "jobs-api:training-run-right-size": api("run", GET=READ),
    "jobs-api:training-run-pods": api("run", GET=READ),
    "jobs-api:training-run-logs": api("run", GET=READ),
    "jobs-api:training-run-manifests": api("run", GET=READ),
    "jobs-api:training-run-waiting": api("run", GET=READ),
    "jobs-api:training-run-diagnosis": api("run", GET=READ),
    "jobs-api:training-run-timeline": api("run", GET=READ),
    "jobs-api:training-run-decisions": api("run", GET=READ),
    "jobs-api:training-run-cost": api("run", GET=READ),
    "jobs-api:training-run-outputs": api("run", GET=REPORT_READ, POST=report("output")),
    "jobs-api:training-run-checkpoints": api("run", GET=REPORT_READ, POST=report("checkpoint")),
    "jobs-api:training-run-progress": api("run", GET=REPORT_READ, POST=report("progress")),
    # --- endpoints
    "inference-api:endpoint-list": api(GET=LIST, POST=steer("endpoint")),
    "inference-api:endpoint-preview": api(POST=steer("endpoint")),
    "inference-api:endpoint-detail": api("endpoint", GET=READ, PATCH=steer("endpoint-patch"), DELETE=steer()),
    "inference-api:endpoint-stop": api("endpoint", POST=steer()),
    "inference-api:endpoint-start": api("endpoint", POST=steer()),
    "inference-api:endpoint-scale": api("endpoint", POST=steer()),
    "inference-api:endpoint-pause-scaler": api("endpoint", POST=steer()),
    "inference-api:endpoint-resume-scaler": api("endpoint", POST=steer()),
    "inference-api:endpoint-scaling": api("endpoint", GET=READ),
    "inference-api:endpoint-events": api("endpoint", GET=READ),
    "inference-api:endpoint-pods": api("endpoint", GET=READ),
    "inference-api:endpoint-logs": api("endpoint", GET=READ),
    "inference-api:endpoint-manifests": api("endpoint", GET=READ),
    "inference-api:endpoint-waiting": api("endpoint", GET=READ),
    "inference-api:endpoint-diagnosis": api("endpoint", GET=READ),
    "inference-api:endpoint-timeline": api("endpoint", GET=READ),
    "inference-api:endpoint-decisions": api("endpoint", GET=READ),
    "inference-api:endpoint-cost": api("endpoint", GET=READ),
    "inference-api:endpoint-revision-list": api("endpoint", GET=READ),
    "inference-api:endpoint-revision-detail": api("revision", GET=READ),
    "inference-api:endpoint-revision-diff": api("revision", GET=READ),
    "inference-api:endpoint-revision-preview": api("endpoint", POST=steer("endpoint-patch")),
    "inference-api:endpoint-rollback": api("endpoint", POST=steer("rollback")),
    # --- notices: of a team for its leads, of a person for nobody else
    "notices-api:subscription-list": api(
        GET=LIST, POST=need(UNKNOWN, FORBIDDEN, FORBIDDEN, DONE, body="subscription")
    ),
    "notices-api:subscription": api(
        "subscription", GET=LEADS_READ, PATCH=leads_own("subscription-patch"), DELETE=leads_own()
    ),
    "notices-api:subscription-secret": api("subscription", POST=leads_own()),
    "notices-api:subscription-test": api("own-subscription", POST=OWN_NOTICE),
    "notices-api:notice-list": api(GET=LIST),
    "notices-api:notice": api("notice", GET=LEADS_READ),
    "notices-api:notice-replay": api("own-notice", POST=OWN_NOTICE),
    "notices:list": page(GET=PAGE_LIST),
    "notices:new": page(GET=PAGE_LIST, POST=shown(*[_one(422)] * 3, readers=_SIGN_IN)),
    "notices:subscription": page(
        "subscription",
        GET=need(UNKNOWN, UNKNOWN, UNKNOWN, OK, nobodies=_SIGN_IN),
        POST=need(UNKNOWN, UNKNOWN, UNKNOWN, DONE, nobodies=_SIGN_IN),
    ),
    "notices:secret": page("own-subscription", POST=OWN_BUTTON),
    "notices:test": page("own-subscription", POST=OWN_BUTTON),
    "notices:delete": page("subscription", POST=need(UNKNOWN, UNKNOWN, UNKNOWN, DONE, nobodies=_SIGN_IN)),
    "notices:replay": page("notice", POST=need(UNKNOWN, UNKNOWN, UNKNOWN, DONE, nobodies=_SIGN_IN)),
    "notices:team-list": page("team", GET=need(UNKNOWN, FORBIDDEN, FORBIDDEN, OK, nobodies=_SIGN_IN)),
    "notices:team-new": page(
        "team",
        GET=need(UNKNOWN, FORBIDDEN, FORBIDDEN, OK, nobodies=_SIGN_IN),
        POST=need(UNKNOWN, FORBIDDEN, FORBIDDEN, DONE, nobodies=_SIGN_IN),
    ),
    # --- streams and calls
    "gateway-api:endpoint-tokens": api("endpoint", GET=READ, POST=steer("endpoint-token")),
    "gateway-api:endpoint-token": api("endpoint-token", GET=READ, DELETE=steer()),
    "gateway-api:team-endpoint-tokens": api("team", GET=need(UNKNOWN, FORBIDDEN, FORBIDDEN, OK, readers=OK)),
    "gateway-api:team-endpoint-token": api("team-endpoint-token", DELETE=lead()),
    "gateway-api:endpoint-metrics": api("endpoint", GET=READ),
    "gateway-api:stream": api(GET=need(*[_one(307)] * 4)),
    "gateway-api:invoke-root": api(
        "endpoint", **dict.fromkeys(("GET", "POST", "PUT", "PATCH", "DELETE"), TRY)
    ),
    "gateway-api:invoke": api("invoke", **dict.fromkeys(("GET", "POST", "PUT", "PATCH", "DELETE"), TRY)),
    "gateway:live-ticket": Row(kind="function"),
    # --- pages
    "teams:sign-in": PUBLIC,
    "teams:sign-in-link": PUBLIC,
    "teams:sign-out": Row(kind="function"),
    "teams:profile": page(GET=shown(OK, OK, OK)),
    # POST takes the old password: tests/teams/test_own_password.py.
    "teams:password": page(
        GET=shown(OK, OK, OK, hides=False), POST=shown(*[_one(422)] * 3, readers=_SIGN_IN, hides=False)
    ),
    "teams:token-revoke": page(
        "token", POST=need(UNKNOWN, UNKNOWN, _one(302, 303), UNKNOWN, nobodies=_SIGN_IN, readers=_SIGN_IN)
    ),
    "portal:home": page(GET=PAGE_LIST),
    "portal:theme": Row(kind="function"),
    "portal:keys": Row(kind="function"),
    "portal:zone": Row(kind="function"),
    "portal:palette": page(GET=PAGE_LIST),
    "portal:what-fits": page(GET=PAGE_LIST),
    "portal:audit": page(GET=PAGE_LIST),
    "portal:team-list": page(GET=PAGE_LIST),
    "portal:team-detail": page("team", GET=PAGE),
    "portal:team-endpoint-tokens": page(
        "team", GET=need(UNKNOWN, FORBIDDEN, FORBIDDEN, OK, nobodies=_SIGN_IN)
    ),
    "portal:team-endpoint-token-revoke": page("team-endpoint-token", POST=LEADS_BUTTON),
    "teams:member-add": page("team", POST=LEADS_BUTTON),
    "teams:member-role": page("member", POST=LEADS_BUTTON),
    # The row is the viewer's own membership, which everybody may end.
    "teams:member-remove": page(
        "member", POST=need(UNKNOWN, DONE, FORBIDDEN, DONE, nobodies=_SIGN_IN, readers=_SIGN_IN)
    ),
    "console:volumes": page("team", GET=shown(UNKNOWN, DONE, DONE), POST=shown(UNKNOWN, FORBIDDEN, DONE)),
    "console:secret-write": page("team", POST=shown(UNKNOWN, FORBIDDEN, DONE)),
    "console:secret-delete": page("secret", POST=shown(UNKNOWN, FORBIDDEN, DONE)),
    "portal:team-quota": page("team", GET=PAGE, POST=shown(UNKNOWN, FORBIDDEN, DONE)),
    "portal:team-close": page("team", GET=OF_ADMINS, POST=OF_ADMINS),
    "portal:team-reopen": page("team", POST=OF_ADMINS),
    "portal:team-queue": page("team", POST=LEADS_BUTTON),
    "portal:team-quota-withdraw": page("team-request", POST=shown(UNKNOWN, FORBIDDEN, DONE)),
    "console:why": page("run", GET=PAGE),
    # Of the person's own lists; nobody has the view that is asked for: tests/web/test_list_chips.py.
    "console:saved-views": page(POST=shown(*[UNKNOWN] * 3)),
    "console:saved-view-delete": page("run", POST=shown(*[UNKNOWN] * 3)),
    "console:compare": page(GET=shown(UNKNOWN, UNKNOWN, UNKNOWN)),
    "console:strays": page(GET=CONSOLE, POST=CONSOLE),
    "portal:costs": page(GET=PAGE_LIST),
    "portal:costs-line": page(GET=PAGE_LIST),
    "portal:costs-capacity": page(GET=CONSOLE),
    "portal:idle": page(GET=shown(OK)),
    "portal:alert-rule": page("alert-rule", GET=CONSOLE, POST=CONSOLE),
    # Where its tables were goes on to it.
    "portal:capacity": page(GET=shown(*[_one(301)] * 3, hides=False)),
    "portal:cluster": page(GET=shown(OK)),
    "portal:cluster-node": page("node", GET=shown(OK)),
    "portal:settings": page(GET=shown(OK, hides=False), POST=CONSOLE),
    "console:preflight": page(GET=CONSOLE, POST=CONSOLE),
    "portal:duties": page(GET=PAGE_LIST),
    # Whoever may see what has failed may have seen it.
    "portal:attention": page("run", POST=shown(UNKNOWN, DONE, DONE, body="attention")),
    "portal:quota-console": page(GET=CONSOLE, POST=CONSOLE),
    "portal:quota-draft": page(GET=CONSOLE, POST=CONSOLE),
    "portal:quota-changes": page(GET=CONSOLE),
    "portal:quota-change-set": page("change-set", GET=CONSOLE, POST=CONSOLE),
    "portal:quota-requests": page(GET=CONSOLE),
    "portal:quota-request": page("quota-request", GET=CONSOLE, POST=CONSOLE),
    "portal:quota-export": page(GET=CONSOLE),
    "portal:quota-import": page(POST=CONSOLE),
    "portal:quota-cohorts": page(GET=CONSOLE, POST=CONSOLE),
    "portal:quota-cohort": page("cohort-id", GET=CONSOLE, POST=CONSOLE),
    "portal:quota-teams": page(GET=CONSOLE),
    "portal:quota-team": page("team", GET=CONSOLE, POST=CONSOLE),
    "portal:endpoint-tokens": page(
        "endpoint", GET=PAGE, POST=shown(UNKNOWN, FORBIDDEN, _one(200, 422), body="endpoint-token")
    ),
    "portal:endpoint-token-revoke": page("endpoint-token", POST=BUTTON),
    "portal:endpoint-try": page("endpoint", GET=PAGE, POST=PAGE),
    "jobs:run-list": page(GET=PAGE_LIST),
    "jobs:sweep-list": page(GET=PAGE_LIST),
    "jobs:team-sweep-list": page("team", GET=PAGE),
    "jobs:sweep-detail": page("sweep", GET=PAGE),
    "jobs:sweep-cancel": page("sweep", POST=BUTTON),
    "jobs:sweep-parallel": page("sweep", POST=BUTTON),
    # Without a filter it refuses everybody alike: tests/web/test_bulk_pages.py.
    "jobs:run-bulk": page(GET=shown(*[_one(400)] * 3), POST=shown(*[_one(400)] * 3)),
    "jobs:run-export": page(GET=PAGE_LIST),
    "jobs:run-new": page(GET=FORM, POST=SENT_FORM),
    # It makes nothing; what comes of it is sent by the form.
    "jobs:run-import": page(GET=FORM, POST=shown(_one(200, 403, 422), FORBIDDEN, DONE, body="manifest")),
    "jobs:team-run-list": page("team", GET=PAGE),
    "jobs:team-run-new": page("team", GET=TEAM_FORM, POST=SENT_FORM),
    "jobs:run-detail": page("run", GET=PAGE),
    "jobs:run-cancel": page("run", POST=BUTTON),
    "jobs:run-suspend": page("run", POST=BUTTON),
    "jobs:run-resume": page("run", POST=BUTTON),
    "jobs:run-time-limit": page("run", POST=shown(UNKNOWN, FORBIDDEN, DONE)),
    "jobs:run-retry": page("run", POST=BUTTON),
    "inference:endpoint-list": page(GET=PAGE_LIST),
    "inference:endpoint-export": page(GET=PAGE_LIST),
    # Without a filter it refuses everybody alike: tests/web/test_list_chips.py.
    "inference:endpoint-bulk": page(GET=shown(*[_one(400)] * 3), POST=shown(*[_one(400)] * 3)),
    "inference:endpoint-new": page(GET=FORM, POST=SENT_FORM),
    "inference:team-endpoint-list": page("team", GET=PAGE),
    "inference:team-endpoint-new": page("team", GET=TEAM_FORM, POST=SENT_FORM),
    "inference:endpoint-detail": page("endpoint", GET=PAGE),
    "inference:endpoint-update": page("endpoint", GET=PAGE, POST=shown(UNKNOWN, FORBIDDEN, DONE)),
    "inference:endpoint-rollback": page("endpoint", GET=PAGE, POST=shown(UNKNOWN, FORBIDDEN, DONE)),
    "inference:endpoint-stop": page("endpoint", POST=BUTTON),
    "inference:endpoint-start": page("endpoint", POST=BUTTON),
    "inference:endpoint-scale": page("endpoint", POST=BUTTON),
    "inference:endpoint-pause-scaler": page("endpoint", POST=BUTTON),
    "inference:endpoint-resume-scaler": page("endpoint", POST=BUTTON),
    "inference:endpoint-delete": page("endpoint", POST=BUTTON),
}

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
ADMIN = "admin:"


def all_routes() -> dict[str, URLPattern]:
    """Every route that Django would resolve, by its full name; one without a name by its function's."""
    return dict(_walk(get_resolver(), ()))


def schema_path(pattern: URLPattern) -> str:
    """The path of a REST route as the OpenAPI document writes it."""
    return "/api/v1/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(pattern.pattern))


def _walk(resolver: URLResolver, namespaces: tuple[str, ...]) -> Iterator[tuple[str, URLPattern]]:
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLResolver):
            inner = (*namespaces, pattern.namespace) if pattern.namespace else namespaces
            yield from _walk(pattern, inner)
        else:
            yield ":".join([*namespaces, pattern.name or pattern.callback.__name__]), pattern


def declared_methods(pattern: URLPattern) -> set[str] | None:
    """The methods that a class of views has; None for a function, which cannot be asked."""
    actions = getattr(pattern.callback, "actions", None)
    if actions:
        return {method.upper() for method in actions} & set(METHODS)
    view = getattr(pattern.callback, "cls", None) or getattr(pattern.callback, "view_class", None)
    return None if view is None else {each for each in METHODS if hasattr(view, each.lower())}
