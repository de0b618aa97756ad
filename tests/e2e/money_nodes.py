"""The nodes whose money is counted: made after the portal looks, watched by nobody else's code, and taken away at the end."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from cluster.client import ClusterClient
from cluster.kinds import ObjectRef

SHAPES: dict[str, dict[str, str]] = {
    "whole": {"nvidia.com/gpu": "8"},
    "shared": {"nvidia.com/gpu.shared": "4"},
    # Three sevenths of each card and two of one: one seventh and more is of no use to anybody.
    "mig": {"nvidia.com/mig-1g.10gb": "4", "nvidia.com/mig-3g.40gb": "2", "nvidia.com/gpu": "0"},
}
CARDS = {"whole": 8, "shared": 1, "mig": 2}
PRODUCTS = {
    "whole": "NVIDIA-A100-SXM4-40GB",
    "shared": "Tesla-T4-SHARED",
    "mig": "NVIDIA-A100-SXM4-80GB",
}
LANES = {
    ("whole", False): ("money-a100", "on-demand"),
    ("whole", True): ("money-a100", "spot"),
    ("shared", False): ("money-t4", "on-demand"),
    ("mig", False): ("money-a100-80", "on-demand"),
}


@dataclass(frozen=True)
class Lifetime:
    """Of a node, in whole seconds: made by its own API time, gone by when it was asked to go and when that was done."""

    uid: str
    lane: tuple[str, str]
    cards: int
    start: datetime
    asked: datetime
    end: datetime


def manifest(name: str, shape: str, team: str, *, spot: bool = False) -> dict[str, Any]:
    """A node as KWOK plays it, with the labels that GPU feature discovery sets."""
    labels = {
        "kubernetes.io/hostname": name,
        "mlportal-e2e": team,
        "e2e-shape": shape,
        "karpenter.sh/capacity-type": "spot" if spot else "on-demand",
        "nvidia.com/gpu.product": PRODUCTS[shape],
        "nvidia.com/gpu.count": str(CARDS[shape]),
    }
    capacity = {"cpu": "96", "memory": "1152Gi", "pods": "250", "ephemeral-storage": "500Gi", **SHAPES[shape]}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
        },
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


class Fleet:
    """Makes nodes and takes them away; what it read of each is all that is believed here of their times."""

    def __init__(self, client: ClusterClient, team: str) -> None:
        self._client, self._team = client, team
        self._made: dict[str, tuple[tuple[str, str], int, datetime]] = {}
        self._lock = threading.Lock()
        self.lifetimes: list[Lifetime] = []

    def add(self, name: str, shape: str, *, spot: bool = False) -> None:
        """A node of this shape."""
        made = self._client.create(manifest(name, shape, self._team, spot=spot))
        start = _time(made["metadata"]["creationTimestamp"])
        with self._lock:
            self._made[name] = LANES[shape, spot], CARDS[shape], start

    def remove(self, name: str) -> None:
        """Delete the node."""
        ref = ObjectRef("v1", "Node", "", name)
        uid = self._client.get(ref)["metadata"]["uid"]
        asked = datetime.now(UTC).replace(microsecond=0)
        self._client.delete(ref, uid=uid)
        end = datetime.now(UTC).replace(microsecond=0)
        with self._lock:
            lane, cards, start = self._made.pop(name)
            self.lifetimes.append(Lifetime(uid, lane, cards, start, asked, end))

    def names(self) -> list[str]:
        """Of the nodes that are there."""
        with self._lock:
            return sorted(self._made)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def money(
    lifetimes: Iterable[Lifetime], prices: Iterable[tuple[tuple[str, str], datetime, int]]
) -> dict[tuple[str, str], Fraction]:
    """Node GPU-seconds times price, in micro-USD, by card and capacity type: second by second, with code of its own.

    `prices` are (lane, from when, micro-USD an hour), of which the newest that has begun holds.
    """
    known = sorted(prices, key=lambda price: price[1])
    total: dict[tuple[str, str], Fraction] = {}
    for life in lifetimes:
        own = [(start, micro) for lane, start, micro in known if lane == life.lane]
        for second in range(int(life.start.timestamp()), int(life.end.timestamp())):
            micro = [price for start, price in own if start.timestamp() <= second][-1]
            total[life.lane] = total.get(life.lane, Fraction(0)) + Fraction(life.cards * micro, 3600)
    return total
