from __future__ import annotations

from foundation.errors import PortalError, Unavailable


class EndpointNotLive(Unavailable):
    code = "endpoint_not_live"


class BadGateway(PortalError):
    status = 502
    code = "bad_gateway"
    title = "Bad answer"


class GatewayTimeout(PortalError):
    status = 504
    code = "timeout"
    title = "No answer in time"


class DatabaseAway(Unavailable):
    code = "database_unavailable"
