"""A Kubernetes-API-compatible cluster in one process, for laptops and tests. See docs/reference/devcluster.md."""

from __future__ import annotations
