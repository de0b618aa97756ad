"""Whatever changes something by a request is in the audit trail, with who did it: routes of REST and of pages."""

from __future__ import annotations

import pytest
from django.urls import reverse

from teams.models import AuditEvent
from tests.factories.teams import make_token, make_user
from tests.security.routes import ROUTES
from tests.security.world import Principal, different, snapshot

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
CHANGES = sorted(
    (name, method)
    for name, row in ROUTES.items()
    if row.kind in {"api", "page"} and name not in REPORTS
    for method in row.methods
    if method != "GET"
)


@pytest.mark.parametrize(("name", "method"), CHANGES)
def test_a_request_that_changes_something_is_told_with_who_sent_it_and_from_where(world, name, method):
    row = ROUTES[name]
    url, body = reverse(name, kwargs=world.kwargs(row.what)), world.body(row.methods[method].body)
    # Who may, whoever that is: each changes something, or nothing.
    for user in (make_user("root", platform_admin=True), world.lead, world.member):
        is_page = row.kind == "page"
        asker = (
            Principal(user.username, user=user)
            if is_page
            else Principal(user.username, bearer=make_token(user))
        )
        known, before = set(AuditEvent.objects.values_list("pk", flat=True)), snapshot()
        answer = asker.ask(method, url, body or {} if is_page else body, X_Forwarded_For="192.0.2.77")
        changed = set(different(before, snapshot())) - KEPT
        told = set(AuditEvent.objects.exclude(pk__in=known).values_list("actor__username", "ip"))
        assert not changed or (user.username, "127.0.0.1") in told, (answer.status_code, changed, told)
        # Beside them only parts of the portal, which come from nowhere.
        assert told <= {(user.username, "127.0.0.1"), (None, None)}
