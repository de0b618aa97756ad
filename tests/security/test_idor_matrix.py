"""Every route and everybody who may not: the matrix is `routes.py`, the routes are the resolver's."""

from __future__ import annotations

import inspect
import json
import re
import sys
from urllib.parse import quote

import pytest
from django.urls import reverse
from rest_framework.views import APIView

from tests.architecture.sources import PACKAGES
from tests.effort import SOAK
from tests.security.routes import ADMIN, METHODS, ROUTES, Need, all_routes, declared_methods
from tests.security.world import SECRET_WORD, TEAM, Principal, World, different, snapshot

API = sorted(name for name, row in ROUTES.items() if row.kind == "api")
PAGES = sorted(name for name, row in ROUTES.items() if row.kind == "page")
FRAGMENTS = (
    "live",
    "tabs",
    "panel",
    "log-more",
    "log-older",
    "log-view",
    "list",
    "home",
    "usage",
    "preview",
    "flavors",
    "answer",
    "found",
    "figures",
    "try",
    "serving",
    "costs-table",
    "change-set",
    "effects",
    "duties",
    "palette-found",
    "why-card",
    "preflight-line",
)
OTHERS_IN_TURN = 6


def content(response) -> str:
    raw = b"".join(response.streaming_content) if response.streaming else response.content
    return raw.decode(errors="replace")


def told(response) -> str:
    """What a body says, less what differs from request to request."""
    text = re.sub(r'(name="(?:csrfmiddlewaretoken|next)" value=|id="request-id")[^<]*', "", content(response))
    try:
        return json.dumps({key: value for key, value in json.loads(text).items() if key != "request_id"})
    except (ValueError, AttributeError):
        return text


def _without_echo(response, url: str, *, typed: bool) -> str:
    """What a body tells besides the address that was asked for, and the team that was typed into a form."""
    text = content(response).replace(url, "").replace(quote(url, safe=""), "")
    return text.replace(TEAM, "") if typed else text


class Asker:
    """Asks one route as many principals, and keeps what went wrong."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name, self.row = world, name, ROUTES[name]
        self.url = reverse(name, kwargs=world.kwargs(self.row.what))
        self.missing = reverse(name, kwargs=world.kwargs(self.row.what, foreign=False))
        self.wrong: list[str] = []

    def expect(self, principal: Principal, method: str, need: Need, statuses, *, hides: bool, **headers: str):
        response = principal.ask(method, self.url, self.world.body(need.body), **headers)
        said = f"{principal.name} {method} {self.url} {headers or ''}: {response.status_code}"
        if response.status_code not in statuses:
            self.wrong.append(f"{said}, expected {sorted(statuses)}: {content(response)[:200]}")
        elif hides and SECRET_WORD in _without_echo(response, self.url, typed=need.body == "form"):
            self.wrong.append(f"{said} tells of the team")
        return response

    def same_as_missing(self, foreign, principal: Principal, method: str, need: Need) -> None:
        """The answer about a foreign object and that about one that does not exist must look alike."""
        missing = principal.ask(method, self.missing, self.world.body(need.body))
        if (foreign.status_code, told(foreign)) != (missing.status_code, told(missing)):
            self.wrong.append(
                f"{principal.name} {method} can tell {self.url} from nothing: {told(foreign)[:200]}"
            )

    def check(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.wrong.append(otherwise)

    def report(self) -> None:
        assert not self.wrong, "\n".join(self.wrong)


def test_every_route_has_a_row_and_every_row_a_route():
    known = {name for name in all_routes() if not name.startswith(ADMIN)}
    assert known - set(ROUTES) == set(), "add a row to tests/security/routes.py"
    assert set(ROUTES) - known == set(), "no such route any more"


def test_every_method_of_a_view_is_in_its_row():
    routes = all_routes()
    declared = {name: declared_methods(routes[name]) for name in (*API, *PAGES)}
    known = {name: set(ROUTES[name].methods) for name, methods in declared.items() if methods is not None}
    assert {name: methods for name, methods in declared.items() if methods is not None} == known


# Whoever is signed in may have a token, and a stream of what they may see.
OPEN_TO_ALL = {"teams-api:token-list", "gateway-api:stream"}
# Who reads an endpoint may call it: what was changed is their ticket.
OPEN_TO_READERS = {"gateway-api:invoke", "gateway-api:invoke-root"}


@pytest.mark.parametrize(("names", "by_session"), [(API, False), (PAGES, True)], ids=["api", "pages"])
def test_no_route_forgets_whom_it_is_for(world, names, by_session):
    """The matrix below in short: nobody, another team's lead, and the first of the team who may not."""
    nobody, stranger = world.nobodies[0], world.strangers[by_session]
    team = [each[by_session] for each in (world.leads, world.members, world.viewers)]
    before, wrong = snapshot(), []
    for name in (name for name in names if name not in OPEN_TO_ALL):
        ask = Asker(world, name)
        for method, need in ask.row.methods.items():
            ask.expect(nobody, method, need, need.nobodies, hides=True)
            foreign = ask.expect(stranger, method, need, need.strangers, hides=need.hides)
            if ask.row.what and need.strangers == {404}:
                ask.same_as_missing(foreign, stranger, method, need)
            for own, statuses in zip(team, (need.leads, need.members, need.viewers), strict=True):
                if statuses <= {403, 404}:
                    ask.expect(own, method, need, statuses, hides=False)
                    break
        wrong += ask.wrong
    assert not wrong, "\n".join(wrong)
    assert different(before, snapshot()) == []


@pytest.mark.matrix
@pytest.mark.parametrize("name", API)
def test_the_api_answers_everybody_as_the_row_of_the_route_says(world, name):
    ask = Asker(world, name)
    before = snapshot()
    refuse_who_has_no_business(ask, name)
    changed = different(before, snapshot())
    if name in OPEN_TO_READERS:
        changed = [each for each in changed if each != "teams.LiveTicket"]
    ask.check(name in OPEN_TO_ALL or not changed, f"refused, and yet changed: {changed}")
    refuse_methods_that_are_not_there(ask, name)
    leak_nothing_by_options_and_head(ask)
    let_in_who_may(ask)
    ask.report()


def refuse_who_has_no_business(ask: Asker, name: str) -> None:
    own_report = name.endswith(("-checkpoints", "-outputs", "-progress"))
    world = ask.world
    for method, need in ask.row.methods.items():
        for nobody in nobodies_for(name, world):
            if own_report and method == "POST" and nobody.name == "run token of this team":
                continue
            ask.expect(nobody, method, need, need.nobodies, hides=True)
        for stranger in world.strangers:
            foreign = ask.expect(stranger, method, need, need.strangers, hides=need.hides)
            if ask.row.what and need.strangers == {404}:
                ask.same_as_missing(foreign, stranger, method, need)
        for reader in world.readers:
            ask.expect(reader, method, need, need.readers, hides=False)
        for viewer in world.viewers:
            if need.viewers == {403}:
                ask.expect(viewer, method, need, need.viewers, hides=False)


def nobodies_for(name: str, world: World) -> list[Principal]:
    """All of them where a view looks at credentials in a way of its own; elsewhere who has none, and others in turn."""
    if SOAK or all_routes()[name].callback.cls.authentication_classes != APIView.authentication_classes:
        return world.nobodies
    turn, (anonymous, *others) = API.index(name), world.nobodies
    return [anonymous, *(others[(turn + more) % len(others)] for more in range(3))]


def refuse_methods_that_are_not_there(ask: Asker, name: str) -> None:
    need = next(iter(ask.row.methods.values()))
    allowed = {405, 403} if name.endswith(("checkpoints", "outputs", "progress")) else {405}
    for method in set(METHODS) - set(ask.row.methods):
        response = ask.expect(ask.world.members[0], method, need, allowed, hides=False)
        if response.status_code == 405:
            kind, listed = response["Content-Type"], set(response["Allow"].split(", ")) - {"OPTIONS", "HEAD"}
            ask.check(kind == "application/problem+json", f"{method} is refused in {kind}")
            ask.check(listed == set(ask.row.methods), f"{method} is refused, and {listed} allowed")


def leak_nothing_by_options_and_head(ask: Asker) -> None:
    stranger = ask.world.strangers[0]
    ask.expect(ask.world.nobodies[0], "OPTIONS", next(iter(ask.row.methods.values())), {401}, hides=True)
    foreign, missing = (stranger.ask("OPTIONS", url) for url in (ask.url, ask.missing))
    ask.check(foreign.status_code < 500, f"OPTIONS: {foreign.status_code}")
    ask.check(
        (foreign.status_code, told(foreign)) == (missing.status_code, told(missing)),
        f"OPTIONS can tell {ask.url} from nothing: {told(foreign)[:200]}",
    )
    if need := ask.row.methods.get("GET"):
        head = ask.expect(stranger, "HEAD", need, need.strangers, hides=True)
        ask.check(content(head) == "", "HEAD has a body")


def let_in_who_may(ask: Asker) -> None:
    """Without it the matrix could pass because everybody is refused."""
    world = ask.world
    for method in sorted(ask.row.methods, key=["GET", "PATCH", "POST", "PUT", "DELETE"].index):
        need = ask.row.methods[method]
        for principals, statuses in (
            (world.viewers[:1], need.viewers),
            (world.members, need.members),
            (world.leads, need.leads),
        ):
            if method == "DELETE" and statuses != {403} and principals is not world.members:
                continue
            for principal in principals:
                gone = {404} if method == "DELETE" and principal is not principals[0] else set()
                ask.expect(principal, method, need, statuses | gone, hides=False)


# No JSON, so its own tests ask it (tests/api/test_costs_api.py).
FILES = {"costs-api:cost-export", "teams-api:audit-export"}
LISTS = sorted(
    name
    for name in API
    if name not in FILES
    and (listed := ROUTES[name].methods.get("GET"))
    and listed.strangers == {200}
    and listed.hides
)


# Of all who are strangers one, and the others in the matrix.
STRANGERS = [
    pytest.param(slice(1), id="a lead of another team"),
    pytest.param(slice(1, None), id="the others", marks=pytest.mark.matrix),
]


@pytest.mark.parametrize("strangers", STRANGERS)
@pytest.mark.parametrize("name", LISTS)
def test_no_filter_order_or_cursor_of_a_list_reaches_over_the_fence(world, name, strangers):
    view = all_routes()[name].callback.cls
    url = reverse(name, kwargs=world.kwargs(ROUTES[name].what))
    foreign = {
        "team": TEAM,
        "slug": TEAM,
        "id": str(world.run.public_id),
        "workload": str(world.run.public_id),
        "name": "canary-run",
        "owner": "canary-member",
        "actor": "canary-member",
        "target_id": str(world.run.public_id),
        "account": f"team:{TEAM}",
        "pod_uid": world.run.pods.get().uid,
        "flavor": world.flavor.name,
    }
    queries = [f"{key}={foreign[key]}" for key in getattr(view, "filters", {}) if key in foreign]
    for order in getattr(view, "ordering_fields", ()):
        queries += [f"ordering={order}&limit=1", f"ordering=-{order}&limit=1"]
    first = world.members[0].ask("GET", f"{url}?limit=1").json()
    if first.get("next"):
        queries.append(first["next"].partition("?")[2])
    if name == "costs-api:cost-summary":
        # Sums of groups and no list of rows: its parameters are no filters of a list.
        queries += ["group_by=workload", "group_by=user", f"flavor={world.flavor.name}&group_by=workload"]
    assert queries
    for stranger in world.strangers[strangers]:
        for query in queries:
            response = stranger.ask("GET", f"{url}?{query}")
            assert response.status_code == 200, (query, content(response))
            assert SECRET_WORD not in json.dumps(response.json()["results"]), (stranger.name, query)


@pytest.mark.matrix
@pytest.mark.parametrize("name", PAGES)
def test_a_page_and_its_fragments_answer_everybody_as_the_row_of_the_route_says(world, name):
    ask = Asker(world, name)
    before = snapshot()
    show_nothing_to_who_has_no_business(ask)
    changed = different(before, snapshot())
    ask.check(not changed, f"refused, and yet changed: {changed}")
    for method, need in ask.row.methods.items():
        for principals, statuses in ((world.viewers, need.viewers), (world.members, need.members)):
            ask.expect(principals[1], method, need, statuses, hides=False)
    ask.report()


def fragments_for(name: str) -> list[str]:
    """The names that the modules of a page's view know, and of the others some, in turn."""
    view = all_routes()[name].callback
    modules = {view.__module__, *(each.__module__ for each in getattr(view, "view_class", object).__mro__)}
    sources = "".join(
        inspect.getsource(sys.modules[each]) for each in modules if each.partition(".")[0] in PACKAGES
    )
    turn = PAGES.index(name)
    return [
        each
        for number, each in enumerate(FRAGMENTS, turn)
        if SOAK or each in sources or number % OTHERS_IN_TURN == 0
    ]


def show_nothing_to_who_has_no_business(ask: Asker) -> None:
    world, turn = ask.world, PAGES.index(ask.name)
    # A bearer token is for the API: on a page it is nobody's, so that pages are asked with one of them each, in turn.
    bearers = [*(each for each in world.nobodies if each.bearer), world.members[0], world.strangers[-1]]
    nobodies = [*(each for each in world.nobodies if not each.bearer), bearers[turn % len(bearers)]]
    for method, need in ask.row.methods.items():
        for nobody in nobodies:
            response = ask.expect(nobody, method, need, need.nobodies, hides=True)
            away = response.get("Location", "")
            signs_in = response.status_code != 302 or away.startswith("/sign-in/?next=")
            ask.check(signs_in, f"{nobody.name} {method} is sent to {away}")
        strangers = [each for each in world.strangers if each.user]
        for stranger in strangers:
            foreign = ask.expect(stranger, method, need, need.strangers, hides=need.hides)
            if ask.row.what and need.strangers == {404}:
                ask.same_as_missing(foreign, stranger, method, need)
        # In turn, and on the next page the other way round: a page that forgets a stranger was found above.
        for number, fragment in enumerate(fragments_for(ask.name), turn):
            stranger = strangers[number % len(strangers)]
            headers = {"HX_Request": "true", "HX_Target": fragment}
            ask.expect(stranger, method, need, need.strangers, hides=need.hides, **headers)
        for viewer in (each for each in world.viewers if each.user):
            if need.viewers == {403}:
                ask.expect(viewer, method, need, need.viewers, hides=False)
                ask.expect(viewer, method, need, need.viewers, hides=False, HX_Request="true")


# --- routes that say themselves whom they answer


def test_a_ticket_to_the_streams_is_for_a_session(world):
    url = reverse("gateway:live-ticket")
    for nobody in (*world.nobodies, world.members[0]):
        response = nobody.ask("GET", url)
        assert response.status_code == 401, nobody.name
        assert "ticket" not in response.json()
    response = world.members[1].ask("GET", url)
    assert response.status_code == 200
    assert response["Cache-Control"].find("no-store") >= 0
    assert world.members[1].ask("POST", url).status_code == 405


def test_signing_out_and_what_a_browser_keeps_are_posts(world):
    for name in ("teams:sign-out", "portal:theme", "portal:keys", "portal:zone"):
        assert world.members[1].ask("GET", reverse(name)).status_code == 405
    assert world.nobodies[0].ask("POST", reverse("teams:sign-out")).status_code in {302, 303}


def test_what_lies_open_tells_nothing_of_a_team(world):
    for name in (name for name, row in ROUTES.items() if row is ROUTES["schema"] and name != "api_not_found"):
        url = reverse(name, kwargs=world.kwargs("link" if name == "teams:sign-in-link" else ""))
        response = world.nobodies[0].ask("GET", url)
        assert response.status_code in {200, 410, 503}, name
        assert SECRET_WORD not in content(response), name


# --- the run's own token


def test_a_run_token_reports_for_its_own_attempt_and_opens_nothing_else(world):
    run = Principal("the run", bearer=world.run_token)
    for tail, body in (("checkpoints", "checkpoint"), ("outputs", "output"), ("progress", "progress")):
        url = reverse(f"jobs-api:training-run-{tail}", kwargs=world.kwargs("run"))
        theirs = reverse(f"jobs-api:training-run-{tail}", kwargs={"public_id": world.theirs.public_id})
        assert run.ask("POST", url, world.body(body)).status_code == 201
        assert run.ask("POST", theirs, world.body(body)).status_code == 404
        for method in ("GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"):
            assert run.ask(method, url).status_code in {403, 405}, method
    assert world.theirs.checkpoints.count() == world.theirs.outputs.count() == 0


def test_a_run_token_dies_with_its_attempt(world):
    from foundation import clock
    from workloads.services import end_attempt
    from workloads.states import Phase

    end_attempt(
        world.attempt, phase=Phase.FAILED, reason="NodeLost", message="", exit_code=None, ended_at=clock.now()
    )
    url = reverse("jobs-api:training-run-progress", kwargs=world.kwargs("run"))
    assert Principal("the run", bearer=world.run_token).ask("POST", url, {}).status_code == 401


# --- the admin console


def admin_urls() -> list[str]:
    """Every page of the console, of row 1 where it is about a row, and one that is not there."""
    some = {"object_id": "1", "content_type_id": "1", "url": "x"}
    urls = ["/admin/no-such-page/", "/admin/teams/", "/admin/jsi18n/"]
    for name, pattern in all_routes().items():
        if name.startswith(ADMIN) and name.rpartition("_")[2] in {
            "changelist",
            "add",
            "change",
            "delete",
            "history",
        }:
            kwargs = {key: some[key] for key in pattern.pattern.converters}
            urls.append(reverse(name, kwargs=kwargs))
    return sorted(urls)


@pytest.mark.matrix
def test_every_page_of_the_admin_console_is_closed_to_everybody_but_admins(world):
    urls = admin_urls()
    assert len(urls) > 30
    users = [each for each in (*world.strangers, *world.leads) if each.user]
    for asker in (world.nobodies[0], world.members[0], *users):
        for url in urls:
            for method in ("GET", "POST"):
                response = asker.ask(method, url)
                said = (asker.name, method, url, response.status_code)
                assert response.status_code in {302, 403, 404, 405}, said
                assert SECRET_WORD not in content(response).replace("canary-lead", ""), said
                if response.status_code == 302:
                    assert response["Location"].startswith(("/admin/login/", "/sign-in/")), (
                        said,
                        response["Location"],
                    )
