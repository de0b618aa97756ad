"""The token with which a run's pods report. It is derived, so it need not be stored."""

from __future__ import annotations

import base64
import hashlib
import hmac

from django.conf import settings

from workloads.models import Workload

PREFIX = "mlr_"


def run_token(workload: Workload, *, attempt: int) -> str:
    """The token of one attempt: deterministic, and invalid when the attempt has ended."""
    message = f"run-token:{workload.public_id}:{attempt}".encode()
    digest = hmac.new(settings.SECRET_KEY.encode(), message, hashlib.sha256).digest()
    return PREFIX + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def digest(token: str) -> str:
    """The digest stored in the attempt's row, to look it up by a presented token."""
    return hashlib.sha256(token.encode()).hexdigest()
