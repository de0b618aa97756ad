"""What the journeys run: programs of nothing but Python, which devcluster starts as real processes."""

from __future__ import annotations

import shlex

IMAGE = "python:3.13"
STEPS = 6


def lines(*arguments: str) -> str:
    """A command as the form takes it, an argument a line."""
    return "\n".join(arguments)


COUNTS = shlex.join(
    [
        "python",
        "-u",
        "-c",
        f"import time; [(print('step', i), time.sleep(1)) for i in range({STEPS})]; print('all done')",
    ]
)
"""Writes a line a second, so that there is something to watch; as one line, the way people paste it."""
ENDS = lines("python", "-c", "print('hello')")
STAYS = lines("python", "-c", "import time; time.sleep(900)")
MIB = 2**20
FILLS = lines(
    "python", "-c", f"import time; held = b'x' * (300 * {MIB}); time.sleep(3); print('held', len(held))"
)
"""Holds 300 MiB for a while."""
LEARNS = lines(
    "python",
    "-c",
    "import json, os, time, urllib.request; rate = float(os.environ['MATRIX_LR'])"
    "; url = os.environ['PORTAL_URL'] + '/api/v1/training-runs/' + os.environ['PORTAL_RUN_ID'] + '/progress/'"
    "; head = {'Authorization': 'Bearer ' + os.environ['PORTAL_RUN_TOKEN'], 'Content-Type': 'application/json'}"
    "; said = json.dumps({'progress_percentage': 50, 'metrics': {'loss': rate}}).encode()"
    "; urllib.request.urlopen(urllib.request.Request(url, said, head)); time.sleep(900 * (rate > 0.1))",
)
"""Reports its rate as its loss, half way; that of 0.1 ends at once, the others only when they are stopped."""
WRITES = lines(
    "python",
    "-c",
    "import json, os, urllib.request"
    "; url = os.environ['PORTAL_URL'] + '/api/v1/training-runs/' + os.environ['PORTAL_RUN_ID'] + '/outputs/'"
    "; head = {'Authorization': 'Bearer ' + os.environ['PORTAL_RUN_TOKEN'], 'Content-Type': 'application/json'}"
    "; said = {'path': '/'.join(['', 'models', 'best.pt']), 'size_bytes': 3_000_000, 'metrics': {'accuracy': 0.97}}"
    "; urllib.request.urlopen(urllib.request.Request(url, json.dumps(said).encode(), head))",
)
"""Reports a model as what it wrote to the volume that is mounted at /models, which devcluster would replace if it stood here."""
SERVES = "python -m http.server --bind 0.0.0.0 8080"
