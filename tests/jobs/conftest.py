from __future__ import annotations

from tests.manifest_clusters import baseline_bench, real_bench

__all__ = ["baseline_bench", "real_bench"]
