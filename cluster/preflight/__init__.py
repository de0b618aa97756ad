"""What the cluster has and lacks, each finding with its fix. Upper layers add their own checks by
`register`.
"""

from __future__ import annotations

from cluster.preflight import checks, gpus, own_admission
from cluster.preflight.registry import Check, CheckFunction, ClusterFacts, register, run

__all__ = ["Check", "CheckFunction", "ClusterFacts", "checks", "gpus", "own_admission", "register", "run"]
