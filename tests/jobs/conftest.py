from __future__ import annotations

from tests.manifest_clusters import bench, real_bench

__all__ = ["bench", "real_bench"]
