"""Named places where a test may kill the process, to prove that nothing is lost there.

They do nothing unless the environment names one (`PORTAL_TEST_CRASH_POINT`, read in portal/settings/env.py).
"""

from __future__ import annotations

import os
import signal

from django.conf import settings


def crash_point(name: str) -> None:
    """Die here as if by `kill -9`, if this is the point that the test asked for."""
    if getattr(settings, "TEST_CRASH_POINT", "") == name:
        os.kill(os.getpid(), signal.SIGKILL)
