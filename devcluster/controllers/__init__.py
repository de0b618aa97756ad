"""What makes the stored objects come true: scheduler and controllers, each a synchronous reconcile in the one event loop."""

from __future__ import annotations
