"""Whose requests are counted together: of a user, of one of its tokens, of a run; by address of who is not signed in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rest_framework.throttling import BaseThrottle
from typing_extensions import override

from foundation.http import clients, rates
from foundation.http.rates import Kind, RateBucket
from teams.models import ApiToken

TOKEN_PERCENT = 50
"""What one token may have of its user's rate: a program in a loop leaves its owner the other half."""


class RequestThrottle(BaseThrottle):
    """Counts a request as a read or a write, by the length of its body as several, and as expensive where the view says so of
    its action or method.

    A view that keeps nothing of a body says so: `passes_its_body_on = True`.
    """

    def __init__(self) -> None:
        self._wait = 0.0

    @override
    def allow_request(self, request: Any, view: Any) -> bool:
        plain = request._request  # noqa: SLF001 - what middleware sees
        subjects = list(_subjects(request))
        if not subjects:
            self._wait = rates.count_unknown(plain)
            return not self._wait
        # All that a person's runs and tokens send is that person's: each of them can have many.
        person = request.user.pk or request.auth.workload.owner_id
        clients.know(plain, f"user:{person}")
        named = getattr(view, "action", None) or request.method.lower()
        is_expensive = named in getattr(view, "expensive", ())
        kinds = [rates.of_method(request.method), *([Kind.EXPENSIVE] if is_expensive else [])]
        passed_on = getattr(view, "passes_its_body_on", False)
        costs = {Kind.WRITES: 1 if passed_on else rates.cost_of(plain, each=rates.BODY_BYTES)}
        self._wait = rates.count(
            [
                RateBucket(kind, subject, percent, costs.get(kind, 1))
                for kind in kinds
                for subject, percent in subjects
            ]
        )
        plain.is_counted = True
        if self._wait and not is_expensive:
            rates.remember(plain, self._wait)
        return not self._wait

    @override
    def wait(self) -> float:
        return self._wait


def _subjects(request: Any) -> Iterator[tuple[str, int]]:
    """Of whom, and what percentage of the rate each may have; nothing for who is not signed in."""
    if not request.user.is_authenticated:
        return
    if request.user.pk is None:
        # A run that reports of itself.
        yield f"attempt:{request.auth.pk}", 100
        return
    yield f"user:{request.user.pk}", 100
    if isinstance(request.auth, ApiToken):
        yield f"token:{request.auth.pk}", TOKEN_PERCENT
