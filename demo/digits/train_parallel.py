"""Trains a classifier of handwritten digits on several pods at once, and goes on from the last checkpoint.

Data-parallel: every pod computes the gradient of its share of each batch, pod 0 adds them up over sockets and sends the
sum back, so that all pods take the same step and hold the same weights. Pod 0 alone writes checkpoints and reports.

Reads MODEL_DIR, EPOCHS, CHECKPOINT_EVERY, what the portal gives every run (PORTAL_CHECKPOINT_DIR, PORTAL_RESUME_FROM,
PORTAL_URL, PORTAL_RUN_ID and PORTAL_RUN_TOKEN), and what runs of several pods find besides: MASTER_ADDR, MASTER_PORT,
PET_NODE_RANK and PET_NNODES.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

Array = np.ndarray

BATCH = 64
FEATURES, HIDDEN, CLASSES = 64, 64, 10
SHAPES = ((FEATURES, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,))
SIZES = [int(np.prod(shape)) for shape in SHAPES]
LEARNING_RATE, MOMENTUM = 0.05, 0.9
PATIENCE_SECONDS = 60.0
"""How long a pod waits for its peers to come, or to answer."""


class PeerLostError(Exception):
    """A peer has gone, or never came."""


# The model: one hidden layer, all its weights in one vector


def initial_weights() -> Array:
    """The same in every pod."""
    random = np.random.default_rng(7)
    scaled = [
        random.normal(0, np.sqrt(2 / shape[0]), shape) if len(shape) == 2 else np.zeros(shape)
        for shape in SHAPES
    ]
    return np.concatenate([part.ravel() for part in scaled])


def layers(weights: Array) -> list[Array]:
    """The vector's parts in their shapes."""
    return [
        part.reshape(shape)
        for part, shape in zip(np.split(weights, np.cumsum(SIZES)[:-1]), SHAPES, strict=True)
    ]


def probabilities(weights: Array, x: Array) -> tuple[Array, Array]:
    """The probability of each class for each image, and the output of the hidden layer."""
    first, first_bias, second, second_bias = layers(weights)
    hidden = np.maximum(x @ first + first_bias, 0)
    scores = hidden @ second + second_bias
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True), hidden


def gradient(weights: Array, x: Array, y: Array) -> tuple[Array, float]:
    """The gradient of the summed cross-entropy of the images, and that sum. Not means: shares may differ in size."""
    _, _, second, _ = layers(weights)
    likely, hidden = probabilities(weights, x)
    loss = float(-np.log(likely[np.arange(len(y)), y] + 1e-12).sum())
    error = likely.copy()
    error[np.arange(len(y)), y] -= 1
    behind = (error @ second.T) * (hidden > 0)
    parts = (x.T @ behind, behind.sum(axis=0), hidden.T @ error, error.sum(axis=0))
    return np.concatenate([part.ravel() for part in parts]), loss


def accuracy(weights: Array, x: Array, y: Array) -> float:
    return float((probabilities(weights, x)[0].argmax(axis=1) == y).mean())


# The pods


class Group:
    """All pods of the run. Pod 0 listens, the others connect to it; every message is a vector of known length."""

    def __init__(self, *, rank: int, size: int, address: str, port: int) -> None:
        self.rank, self.size = rank, size
        self._peers = self._accept(address, port) if rank == 0 else {0: self._connect(address, port)}

    def _accept(self, address: str, port: int) -> dict[int, socket.socket]:
        peers: dict[int, socket.socket] = {}
        if self.size == 1:
            return peers
        with _patiently(lambda: socket.create_server((address, port)), "the own name") as server:
            server.settimeout(PATIENCE_SECONDS)
            while len(peers) < self.size - 1:
                try:
                    peer, _ = server.accept()
                except TimeoutError as error:
                    raise PeerLostError(f"only {len(peers) + 1} of {self.size} pods came") from error
                _prepare(peer)
                peers[int(_receive(peer, 1, "a new pod")[0])] = peer
        return peers

    def _connect(self, address: str, port: int) -> socket.socket:
        peer = _patiently(lambda: socket.create_connection((address, port), 5), "pod 0")
        _prepare(peer)
        _send(peer, np.array([float(self.rank)]), "pod 0")
        return peer

    def total(self, vector: Array) -> Array:
        """The sum of all pods' vectors, the same to the last bit in each of them."""
        if self.rank:
            _send(self._peers[0], vector, "pod 0")
            return _receive(self._peers[0], len(vector), "pod 0")
        result = vector.copy()
        for rank in sorted(self._peers):
            result += _receive(self._peers[rank], len(vector), f"pod {rank}")
        self._tell(result)
        return result

    def share(self, vector: Array) -> Array:
        """Pod 0's vector, in all of them."""
        if self.rank:
            return _receive(self._peers[0], len(vector), "pod 0")
        self._tell(vector)
        return vector

    def _tell(self, vector: Array) -> None:
        for rank, peer in self._peers.items():
            _send(peer, vector, f"pod {rank}")

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()


def _patiently(attempt: Callable[[], socket.socket], what: str) -> socket.socket:
    """Try until the peer listens and its name resolves."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return attempt()
        except OSError as error:
            if time.monotonic() > deadline:
                raise PeerLostError(f"{what} could not be reached: {error}") from error
            time.sleep(0.1)


def _prepare(peer: socket.socket) -> None:
    peer.settimeout(PATIENCE_SECONDS)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _send(peer: socket.socket, vector: Array, who: str) -> None:
    try:
        peer.sendall(vector.astype("<f8").tobytes())
    except OSError as error:
        raise PeerLostError(f"lost {who}: {error}") from error


def _receive(peer: socket.socket, length: int, who: str) -> Array:
    data, wanted = bytearray(), 8 * length
    while len(data) < wanted:
        try:
            more = peer.recv(wanted - len(data))
        except OSError as error:
            raise PeerLostError(f"lost {who}: {error}") from error
        if not more:
            raise PeerLostError(f"lost {who}: it closed the connection")
        data += more
    return np.frombuffer(bytes(data), "<f8").copy()


# Training


class State:
    """What a checkpoint holds."""

    def __init__(self, weights: Array, velocity: Array, epoch: int) -> None:
        self.weights, self.velocity, self.epoch = weights, velocity, epoch

    @classmethod
    def load(cls, path: str | None) -> State:
        """The state in the checkpoint that the portal names; the initial state without one."""
        if not path:
            weights = initial_weights()
            return cls(weights, np.zeros_like(weights), 0)
        with np.load(path) as kept:
            print(f"resuming after epoch {int(kept['epoch'])} from {path}", flush=True)
            return cls(kept["weights"], kept["velocity"], int(kept["epoch"]))

    def save(self, path: Path) -> Path:
        """Write beside and move, so that a kill leaves no half checkpoint."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".part")
        with beside.open("wb") as file:
            np.savez(file, weights=self.weights, velocity=self.velocity, epoch=self.epoch)
        beside.replace(path)
        return path

    def shared(self, group: Group) -> State:
        """Pod 0's, in all of them: the others need no checkpoint of their own."""
        vector = group.share(np.concatenate([self.weights, self.velocity, [float(self.epoch)]]))
        return State(*np.split(vector[:-1], 2), epoch=int(vector[-1]))


def train_epoch(state: State, group: Group, x: Array, y: Array) -> float:
    """One pass over all images, of which each pod takes its share of every batch; returns the mean loss."""
    order, lost = np.random.default_rng(state.epoch).permutation(len(x)), 0.0
    for start in range(0, len(order), BATCH):
        batch = order[start : start + BATCH]
        mine = batch[group.rank :: group.size]
        slope, loss = gradient(state.weights, x[mine], y[mine])
        total = group.total(np.concatenate([slope, [loss]]))
        state.velocity = MOMENTUM * state.velocity - LEARNING_RATE * total[:-1] / len(batch)
        state.weights = state.weights + state.velocity
        lost += float(total[-1])
    state.epoch += 1
    return lost / len(x)


def main() -> int:
    rank, size = int(os.environ["PET_NODE_RANK"]), int(os.environ["PET_NNODES"])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    place = {"address": os.environ["MASTER_ADDR"], "port": int(os.environ["MASTER_PORT"])}
    try:
        group = Group(rank=rank, size=size, **place)
        print(f"pod {rank} of {size} is here", flush=True)
        train(group)
    except PeerLostError as error:
        print(f"pod {rank} of {size} gives up: {error}", file=sys.stderr, flush=True)
        return 1
    group.close()
    return 0


def train(group: Group) -> None:
    """All epochs that are left; pod 0 keeps and reports what they give."""
    epochs, every = int(os.environ.get("EPOCHS", "400")), int(os.environ.get("CHECKPOINT_EVERY", "20"))
    digits = load_digits()
    train_x, test_x, train_y, test_y = train_test_split(
        digits.data / 16.0, digits.target, test_size=0.2, random_state=7, stratify=digits.target
    )
    first = State.load(os.environ.get("PORTAL_RESUME_FROM") if group.rank == 0 else None)
    state = first.shared(group)
    folder = Path(os.environ["PORTAL_CHECKPOINT_DIR"]) / os.environ["PORTAL_RUN_ID"]
    while state.epoch < epochs:
        started = time.perf_counter()
        loss = train_epoch(state, group, train_x, train_y)
        if group.rank:
            continue
        seconds = time.perf_counter() - started
        print(f"epoch {state.epoch}/{epochs} loss {loss:.4f} ({seconds:.3f} s)", flush=True)
        if state.epoch % every == 0 or state.epoch == epochs:
            path = state.save(folder / f"epoch-{state.epoch:04}.npz")
            report("checkpoints", {"step": state.epoch, "path": str(path)})
            metrics = {"loss": loss, "accuracy": accuracy(state.weights, test_x, test_y)}
            report("progress", {"progress_percentage": 100 * state.epoch / epochs, "metrics": metrics})
    if group.rank == 0:
        model = state.save(Path(os.environ["MODEL_DIR"]) / "digits-parallel.npz")
        print(f"saved {model}; held-out accuracy {accuracy(state.weights, test_x, test_y):.4f}", flush=True)


def report(what: str, body: dict[str, object]) -> None:
    """Report to the portal, with the run's own token. Training goes on if the portal is away."""
    url = f"{os.environ['PORTAL_URL']}/api/v1/training-runs/{os.environ['PORTAL_RUN_ID']}/{what}/"
    headers = {
        "Authorization": f"Bearer {os.environ['PORTAL_RUN_TOKEN']}",
        "Content-Type": "application/json",
    }
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310 (the portal's own address)
    try:
        urllib.request.urlopen(request, timeout=5).close()  # noqa: S310
    except OSError as error:
        print(f"not reported: {what}: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
