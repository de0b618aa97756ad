"""Trains a classifier of handwritten digits, checkpoints every epoch, and goes on from the last checkpoint.

Real data: the 1,797 images of the Optical Recognition of Handwritten Digits set that scikit-learn ships.
Reads MODEL_DIR, EPOCHS, and what the portal gives every run: PORTAL_CHECKPOINT_DIR, PORTAL_RESUME_FROM, PORTAL_URL,
PORTAL_RUN_ID and PORTAL_RUN_TOKEN.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

CLASSES = np.arange(10)
BATCH = 64


def main() -> int:
    checkpoints = Path(os.environ["PORTAL_CHECKPOINT_DIR"])
    model_dir = Path(os.environ["MODEL_DIR"])
    epochs = int(os.environ.get("EPOCHS", "20"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    digits = load_digits()
    train_x, test_x, train_y, test_y = train_test_split(
        digits.data / 16.0, digits.target, test_size=0.2, random_state=7, stratify=digits.target
    )
    model, first = resume(checkpoints)
    for epoch in range(first, epochs):
        started = time.perf_counter()
        order = np.random.default_rng(epoch).permutation(len(train_x))
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            model.partial_fit(train_x[batch], train_y[batch], classes=CLASSES)
        loss = log_loss(test_y, model.predict_proba(test_x), labels=CLASSES)
        accuracy = float(model.score(test_x, test_y))
        seconds = time.perf_counter() - started
        print(
            f"epoch {epoch + 1}/{epochs} loss {loss:.4f} accuracy {accuracy:.4f} ({seconds:.2f} s)",
            flush=True,
        )
        path = save(checkpoints / f"epoch-{epoch + 1:03}.pickle", (model, epoch + 1))
        report("checkpoints", {"step": epoch + 1, "path": str(path)})
        report(
            "progress",
            {
                "progress_percentage": 100 * (epoch + 1) / epochs,
                "metrics": {"loss": loss, "accuracy": accuracy},
            },
        )
    saved = save(model_dir / "digits.pickle", model)
    accuracy = float(model.score(test_x, test_y))
    size = saved.stat().st_size
    report("outputs", {"path": str(saved), "size_bytes": size, "metrics": {"accuracy": accuracy}})
    print(f"saved {saved}; held-out accuracy {accuracy:.4f}", flush=True)
    return 0


def resume(checkpoints: Path) -> tuple[MLPClassifier, int]:
    """The model and the next epoch, from the checkpoint that the portal names or the newest one there is."""
    named = os.environ.get("PORTAL_RESUME_FROM")
    kept = [Path(named)] if named else sorted(checkpoints.glob("epoch-*.pickle"))
    if not kept or not kept[-1].exists():
        return MLPClassifier(hidden_layer_sizes=(64,), random_state=7, learning_rate_init=0.002), 0
    model, epoch = pickle.loads(kept[-1].read_bytes())  # noqa: S301 (the run's own checkpoint)
    print(f"resuming after epoch {epoch} from {kept[-1]}", flush=True)
    return model, epoch


def save(path: Path, value: object) -> Path:
    """Write beside and move, so that a kill leaves no half checkpoint."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_bytes(pickle.dumps(value))
    beside.replace(path)
    return path


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
