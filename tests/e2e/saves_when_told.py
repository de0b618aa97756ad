"""Trains on the demo's digits until it is told to end, and saves a checkpoint then and only then. Run in a pod, beside
demo/digits/train.py.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from train import BATCH, CLASSES, report, resume, save

told: list[int] = []


def main() -> int:
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    digits, checkpoints = load_digits(), Path(os.environ["PORTAL_CHECKPOINT_DIR"])
    model, step = resume(checkpoints)
    while not told:
        batch = np.random.default_rng(step).choice(len(digits.data), BATCH)
        model.partial_fit(digits.data[batch] / 16.0, digits.target[batch], classes=CLASSES)
        step += 1
    path = save(checkpoints / f"epoch-{step:06}.pickle", (model, step))
    report("checkpoints", {"step": step, "path": str(path)})
    print(f"told to end: saved step {step}", flush=True)
    return 143


if __name__ == "__main__":
    sys.exit(main())
