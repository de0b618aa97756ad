"""The token that a run's pods report back with. It is derived, so nothing of it needs to be stored."""

from __future__ import annotations

import base64
import hashlib
import hmac

from django.conf import settings

from workloads.models import Workload

PREFIX = "mlr_"


def run_token(workload: Workload, *, attempt: int) -> str:
    """Token of one attempt: the same one whenever it is asked for, worthless when the attempt has ended."""
    message = f"run-token:{workload.public_id}:{attempt}".encode()
    digest = hmac.new(settings.SECRET_KEY.encode(), message, hashlib.sha256).digest()
    return PREFIX + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def digest(token: str) -> str:
    """What the attempt's row keeps, to find it by a token that is presented."""
    return hashlib.sha256(token.encode()).hexdigest()
