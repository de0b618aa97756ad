"""Why something cannot be told. Pure."""

from __future__ import annotations

from foundation.errors import Conflict, Invalid


class AddressRefused(Invalid):
    """An address that no notice may go to."""

    code = "address_refused"


class TooManySubscriptions(Conflict):
    code = "too_many"


class AlreadyTesting(Conflict):
    """One test at a time: it goes to somebody else's server."""

    code = "test_under_way"


class NotReplayable(Conflict):
    code = "not_replayable"
