"""The demo's data-parallel training script in real processes: what several compute together is what one computes alone."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.ports import reserved_port

SCRIPT = Path(__file__).resolve().parents[2] / "demo" / "digits" / "train_parallel.py"
PATIENCE_SECONDS = 60
STEP = f"""
import sys
sys.path.insert(0, {str(SCRIPT.parent)!r})
import numpy as np
import train_parallel as digits

rank, size, port = map(int, sys.argv[1:4])
random = np.random.default_rng(1)
x, y = random.random((37, 64)), random.integers(0, 10, 37)
weights = digits.initial_weights()
group = digits.Group(rank=rank, size=size, address="127.0.0.1", port=port)
slope, loss = digits.gradient(weights, x[rank::size], y[rank::size])
np.save(sys.argv[4], group.total(np.concatenate([slope, [loss]])) / len(x))
group.close()
"""


class Pods:
    """The script, once for each pod, in an environment of its own."""

    def __init__(self, folder, port):
        self.folder, self.port = folder, port
        self.checkpoints = folder / "checkpoints" / "run"
        self.running = []

    def start(self, rank, size, **more):
        env = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.port),
            "PET_NODE_RANK": str(rank),
            "PET_NNODES": str(size),
            "MODEL_DIR": str(self.folder),
            "PORTAL_CHECKPOINT_DIR": str(self.folder / "checkpoints"),
            "PORTAL_RUN_ID": "run",
            "PORTAL_RUN_TOKEN": "none",
            # Nobody listens there: training goes on.
            "PORTAL_URL": "http://127.0.0.1:1",
            "PATH": os.environ["PATH"],
            **{name: str(value) for name, value in more.items()},
        }
        command = [sys.executable, "-u", str(SCRIPT)]
        made = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.running.append(made)
        return made

    def run(self, size, **more):
        """All of them to their end; their outputs by rank."""
        pods = [self.start(rank, size, **more) for rank in range(size)]
        outputs = [pod.communicate(timeout=PATIENCE_SECONDS)[0] for pod in pods]
        assert [pod.returncode for pod in pods] == [0] * size, outputs
        return outputs

    def checkpoint(self, epoch):
        with np.load(self.checkpoints / f"epoch-{epoch:04}.npz") as kept:
            return {name: kept[name] for name in kept.files}


@pytest.fixture
def pods(tmp_path):
    made = Pods(tmp_path, reserved_port())
    yield made
    for process in made.running:
        process.kill()
        process.communicate()


@pytest.mark.processes
def test_the_averaged_gradient_is_that_of_one_process(tmp_path):
    port = reserved_port()
    files = [tmp_path / f"{rank}.npy" for rank in range(3)]
    running = [
        subprocess.Popen([sys.executable, "-c", STEP, str(rank), "3", str(port), str(file)])
        for rank, file in enumerate(files)
    ]
    assert [process.wait(timeout=PATIENCE_SECONDS) for process in running] == [0, 0, 0]
    together = [np.load(file) for file in files]
    digits = runpy.run_path(str(SCRIPT))
    random = np.random.default_rng(1)
    x, y = random.random((37, 64)), random.integers(0, 10, 37)
    slope, loss = digits["gradient"](digits["initial_weights"](), x, y)
    alone = np.concatenate([slope, [loss]]) / len(x)
    assert np.abs(alone).max() > 1e-3
    for each in together:
        np.testing.assert_allclose(each, alone, rtol=1e-10, atol=1e-14)
        assert np.array_equal(each, together[0]), "all of them take the very same step"


@pytest.mark.processes
def test_two_pods_train_the_model_that_one_trains(pods):
    pods.run(1, EPOCHS=3, CHECKPOINT_EVERY=1)
    alone = pods.checkpoint(3)
    first, second = pods.run(2, EPOCHS=3, CHECKPOINT_EVERY=1)
    np.testing.assert_allclose(pods.checkpoint(3)["weights"], alone["weights"], rtol=1e-8, atol=1e-10)
    assert "held-out accuracy 0.9" in first.splitlines()[-1]
    assert second == "pod 1 of 2 is here\n"


@pytest.mark.processes
def test_a_resumed_training_ends_where_an_uninterrupted_one_does(pods):
    pods.run(2, EPOCHS=4, CHECKPOINT_EVERY=2)
    whole = pods.checkpoint(4)
    (pods.checkpoints / "epoch-0004.npz").unlink()
    path = pods.checkpoints / "epoch-0002.npz"
    first, _ = pods.run(2, EPOCHS=4, CHECKPOINT_EVERY=2, PORTAL_RESUME_FROM=path)
    assert f"resuming after epoch 2 from {path}" in first
    assert "epoch 3/4" in first
    assert "epoch 2/4" not in first
    again = pods.checkpoint(4)
    assert all(np.array_equal(again[name], whole[name]) for name in whole)


@pytest.mark.processes
@pytest.mark.parametrize("lost", [0, 1])
def test_who_loses_a_peer_gives_up_and_names_it(pods, lost):
    both = [pods.start(rank, 2, EPOCHS=100_000) for rank in range(2)]
    for line in both[0].stdout:
        if line.startswith("epoch 2/"):
            break
    both[lost].send_signal(signal.SIGKILL)
    left = both[1 - lost]
    output = left.communicate(timeout=PATIENCE_SECONDS)[0]
    assert left.returncode == 1
    assert f"pod {1 - lost} of 2 gives up: lost pod {lost}: " in output


@pytest.mark.processes
def test_a_stop_is_heard_and_leaves_no_half_checkpoint(pods):
    both = [pods.start(rank, 2, EPOCHS=100_000, CHECKPOINT_EVERY=1) for rank in range(2)]
    for line in both[0].stdout:
        if line.startswith("epoch 3/"):
            break
    both[0].terminate()
    for pod in both:
        pod.communicate(timeout=PATIENCE_SECONDS)
    assert both[0].returncode == 143
    assert len(list(pods.checkpoints.glob("*.npz"))) >= 2
    for kept in pods.checkpoints.glob("*.npz"):
        with np.load(kept) as checkpoint:
            assert set(checkpoint.files) == {"weights", "velocity", "epoch"}
