"""`python -m benchmarks.worlds.planned_pods COUNT`: makes the rows of running runs, and prints pods of theirs, one a line."""

from __future__ import annotations

import importlib
import json
import logging
import sys
from typing import Any

import django


def main() -> None:
    django.setup()
    logging.disable(logging.INFO)
    # Only now: models cannot be imported before the settings are.
    lists = importlib.import_module("benchmarks.watch_relist")
    runs = lists.made_runs(int(sys.argv[1]) // lists.PODS_EACH)
    for pod in lists.made_pods(runs, 0):
        print(json.dumps(_for_earnest(pod)))


def _for_earnest(pod: dict[str, Any]) -> dict[str, Any]:
    """As a client would ask a real API server for it; a gate keeps every scheduler from it."""
    given = ("name", "namespace", "labels")
    spec = {name: value for name, value in pod["spec"].items() if name != "nodeName"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {name: pod["metadata"][name] for name in given},
        "spec": {
            **spec,
            "schedulingGates": [{"name": "example.org/benchmark"}],
            "terminationGracePeriodSeconds": 0,
        },
    }


if __name__ == "__main__":
    main()
