"""Whatever changes something by a request is in the audit trail, with who did it: routes of REST and of pages."""

from __future__ import annotations

import pytest
from django.urls import reverse

from teams.models import AuditEvent, User
from tests.factories.teams import make_token, make_user
from tests.security.routes import ROUTES, Need
from tests.security.world import Principal, World, different, snapshot
from tests.tables import every_row, undone

# What says nothing of what somebody did: tickets, which open once, what is kept so that a request is not done twice, and what
# a person's own first page leaves out.
KEPT = {
    "teams.AuditEvent",
    "teams.AuditCount",
    "teams.LiveTicket",
    "foundation.IdempotencyKey",
    "workloads.Dismissal",
}
# A run says itself how far it is; its attempt is in the row.
REPORTS = {
    "jobs-api:training-run-checkpoints",
    "jobs-api:training-run-outputs",
    "jobs-api:training-run-progress",
}
REFUSED = {403, 404}
CHANGES = sorted(
    (name, method)
    for name, row in ROUTES.items()
    if row.kind in {"api", "page"} and name not in REPORTS
    for method in row.methods
    if method != "GET"
)
A_THIRD = CHANGES[::3]


def who_may(world: World, need: Need, root: User) -> User:
    """The least of those who may."""
    if not need.members <= REFUSED:
        return world.member
    return root if need.leads <= REFUSED else world.lead


def test_whoever_may_change_something_is_told_with_what_changed(world):
    """A third of the operations; the matrix below has all of them, and more people."""
    root = make_user("root", platform_admin=True)
    users = {
        user.username: (asking(user, "api"), asking(user, "page"))
        for user in (root, world.lead, world.member)
    }
    known, changes = Known(), 0
    with every_row() as row:
        for name, method in A_THIRD:
            with row(f"{method} {name}"), undone():
                user = who_may(world, ROUTES[name].methods[method], root)
                asker = users[user.username][ROUTES[name].kind == "page"]
                changes += bool(changed_and_told(world, name, method, asker, known))
    assert changes > len(A_THIRD) / 3


@pytest.mark.matrix
@pytest.mark.parametrize(("name", "method"), CHANGES)
def test_a_request_that_changes_something_is_told_with_who_sent_it_and_from_where(world, name, method):
    # Who may, whoever that is: each changes something, or nothing.
    for user in (make_user("root", platform_admin=True), world.lead, world.member):
        asker = asking(user, ROUTES[name].kind)
        changed_and_told(world, name, method, asker, Known())


def asking(user: User, kind: str) -> Principal:
    if kind == "page":
        return Principal(user.username, user=user)
    return Principal(user.username, bearer=make_token(user))


class Known:
    """What there is before a request."""

    def __init__(self) -> None:
        self.events = set(AuditEvent.objects.values_list("pk", flat=True))
        self.rows = snapshot()


def changed_and_told(world: World, name: str, method: str, asker: Principal, known: Known) -> set[str]:
    """What the request changed; the audit trail tells of it."""
    row = ROUTES[name]
    url, body = reverse(name, kwargs=world.kwargs(row.what)), world.body(row.methods[method].body)
    sent = body or {} if row.kind == "page" else body
    answer = asker.ask(method, url, sent, X_Forwarded_For="192.0.2.77")
    changed = set(different(known.rows, snapshot())) - KEPT
    told = set(AuditEvent.objects.exclude(pk__in=known.events).values_list("actor__username", "ip"))
    assert not changed or (asker.name, "127.0.0.1") in told, (answer.status_code, changed, told)
    # Beside them only parts of the portal, which come from nowhere.
    assert told <= {(asker.name, "127.0.0.1"), (None, None)}
    return changed
