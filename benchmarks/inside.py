"""`python -m benchmarks.inside NAME FILE`: one benchmark inside the portal's settings; started by benchmarks.worlds.database."""

from __future__ import annotations

import argparse
import importlib
import json
import logging
from dataclasses import asdict
from pathlib import Path

import django


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.inside")
    parser.add_argument("name")
    parser.add_argument("answer", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int)
    options = parser.parse_args()
    django.setup()
    # What the portal logs of each move goes to a file or a collector in earnest, not to this terminal.
    logging.disable(logging.INFO)
    # Only now: models cannot be imported before the settings are.
    module = importlib.import_module(f"benchmarks.{options.name}")
    counts = {} if options.count is None else {"count": options.count}
    result = module.measure(rounds=options.rounds, **counts)
    options.answer.write_text(json.dumps(asdict(result)), encoding="utf-8")


if __name__ == "__main__":
    main()
