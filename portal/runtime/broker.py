"""Whether the broker answers; asked without Django, which beat does not load."""

from __future__ import annotations

import redis

TIMEOUT_SECONDS = 2


def is_away(url: str) -> bool:
    """In whatever way it is away: nothing can be sent or received then, and a new process could do as little."""
    try:
        with redis.Redis.from_url(
            url, socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS
        ) as client:
            client.ping()
    except (redis.RedisError, OSError):
        return True
    return False
