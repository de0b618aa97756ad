"""The contract suite: one set of cases, true on the real API server and on devcluster."""

from __future__ import annotations
