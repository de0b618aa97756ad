"""What the gateway itself answers where an endpoint does not: problem documents."""

from __future__ import annotations

from typing import Final

from cluster.errors import ProxyFailed
from controller.routes import Route
from foundation.http.problems import Problem
from gateway.live.ratelimit import whole_seconds
from workloads.podspec.specs import RateLimit

NOT_LIVE_RETRY_SECONDS: Final = 5
HELD_RETRY_SECONDS: Final = 10

_TITLES: Final = {
    501: "Not supported",
    502: "Bad answer",
    503: "Temporarily unavailable",
    504: "No answer in time",
}

NO_WEBSOCKETS: Final = Problem(
    status=501,
    code="websockets_not_supported",
    title=_TITLES[501],
    detail="The gateway forwards plain HTTP, streamed answers included, but no WebSockets.",
)
STILL_ASLEEP: Final = Problem(
    status=503,
    code="endpoint_waking",
    title=_TITLES[503],
    detail="The endpoint was at zero replicas. It has been called and is not ready yet; ask again.",
    headers={"Retry-After": str(HELD_RETRY_SECONDS)},
)
TOO_MANY_HELD: Final = Problem(
    status=503,
    code="too_many_held",
    title=_TITLES[503],
    detail="The endpoint is waking up, and as many requests wait for it as may.",
    headers={"Retry-After": str(HELD_RETRY_SECONDS)},
)


def of_proxy(error: ProxyFailed) -> Problem:
    """The problem for a request that got no answer from the endpoint."""
    text = str(error).removesuffix(".")
    retry_after = error.retry_after or (1 if error.status == 503 else None)
    return Problem(
        status=error.status,
        code=error.reason.replace("-", "_"),
        title=_TITLES.get(error.status, ""),
        detail=f"{text[:1].upper()}{text[1:]}.",
        headers={"Retry-After": str(max(1, round(retry_after)))} if retry_after else {},
    )


def not_live(route: Route) -> Problem:
    return Problem(
        status=503,
        code="endpoint_not_live",
        title=_TITLES[503],
        detail=f"The endpoint is {route.phase} ({route.reason}), so nothing can answer now.",
        headers={"Retry-After": str(NOT_LIVE_RETRY_SECONDS)},
    )


def too_many_requests(rate: RateLimit, seconds: float) -> Problem:
    """The problem for a request beyond the endpoint's rate; one may pass after `seconds`."""
    return Problem(
        status=429,
        code="rate_limited",
        title="Too many requests",
        detail=f"The endpoint takes {rate.requests_per_second:g} requests a second, and {rate.burst} at once.",
        headers={"Retry-After": str(whole_seconds(seconds))},
    )


def phase_of(route: Route) -> dict[str, str]:
    return {"phase": route.phase, "reason": route.reason}
