"""`python -m tests.rest_coverage FILE… [--write]`: what the OpenAPI document declares, and what of it the tests saw.

Each FILE is what `make test PYTEST_ARGS="--rest-coverage=FILE"` wrote. Prints the counts and the unseen, and what was seen and is not
declared, for which it exits 1. With --write the codes that were seen become those that the document shows.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Described = Mapping[str, tuple[str, str, Mapping[str, Any]]]
Recorded = Mapping[str, Mapping[str, list[str]]]
NOTHING: Mapping[str, list[str]] = {}


def declared(operation: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What one operation declares: its kind as the recorder writes it, and its name."""
    for parameter in operation.get("parameters", ()):
        if parameter["in"] != "path":
            kind = "parameters" if parameter["in"] == "query" else "request_headers"
            yield kind, parameter["name"]
    for status, response in operation["responses"].items():
        yield "statuses", status
        yield from (("answer_headers", f"{status} {header}") for header in response.get("headers", ()))


def compare(described: Described, recorded: Recorded) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """By what is declared (`statuses 404`): the operations that it was seen of, and those that it was not."""
    seen: dict[str, list[str]] = defaultdict(list)
    unseen: dict[str, list[str]] = defaultdict(list)
    for name, (method, path, operation) in described.items():
        of_this = recorded.get(f"{method} {path}", NOTHING)
        for kind, what in declared(operation):
            (seen if what in of_this.get(kind, ()) else unseen)[f"{kind} {what}"].append(name)
    return seen, unseen


def undeclared(described: Described, recorded: Recorded) -> Iterator[str]:
    """What an operation answered and does not declare."""
    for name, (method, path, operation) in described.items():
        statuses = recorded.get(f"{method} {path}", NOTHING).get("statuses", ())
        yield from (f"{name}: {status}" for status in statuses if status not in operation["responses"])


def codes(described: Described, recorded: Recorded) -> dict[str, dict[str, list[str]]]:
    """The codes that were seen, by operation and status."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, (method, path, _) in sorted(described.items()):
        of_this = found.setdefault(name, {})
        for each in recorded.get(f"{method} {path}", NOTHING).get("codes", ()):
            status, _, code = each.partition(" ")
            of_this.setdefault(status, []).append(code)
    return found


def joined(files: Iterable[Path]) -> dict[str, dict[str, list[str]]]:
    """What was seen of each operation in any of the runs."""
    seen: dict[str, dict[str, list[str]]] = {}
    for file in files:
        for operation, kinds in json.loads(file.read_text(encoding="utf-8")).items():
            for kind, what in kinds.items():
                there = seen.setdefault(operation, {}).setdefault(kind, [])
                there += (each for each in what if each not in there)
    return seen


def main(files: Iterable[Path], *, write: bool) -> int:
    from django.conf import settings

    from foundation.http.codes import codes_of
    from tests.openapi import operations

    recorded, described = joined(files), operations()
    seen, unseen = compare(described, recorded)
    for what, names in sorted(unseen.items()):
        say(f"unseen: {what}: {', '.join(names)}")
    for kind in ("statuses", "parameters", "request_headers", "answer_headers"):
        there = count(seen, kind)
        say(f"{kind}: {there} of {there + count(unseen, kind)} declared were seen")
    found = codes(described, recorded)
    unlisted = new_codes(found, codes_of(settings.OPENAPI_PROBLEM_CODES))
    say(f"codes: {len({code for of in found.values() for each in of.values() for code in each})} were seen")
    if write:
        both = merged(codes_of(settings.OPENAPI_PROBLEM_CODES), found)
        settings.OPENAPI_PROBLEM_CODES.write_text(written(both), encoding="utf-8")
        say(f"wrote {settings.OPENAPI_PROBLEM_CODES}")
    elif unlisted:
        say(f"not listed yet (--write lists them): {'; '.join(unlisted)}")
    wrong = list(undeclared(described, recorded))
    if wrong:
        say(f"answered and not declared: {'; '.join(wrong)}")
    return int(bool(wrong))


def merged(
    listed: Mapping[str, Mapping[str, list[str]]], found: Mapping[str, Mapping[str, list[str]]]
) -> dict[str, dict[str, list[str]]]:
    """What was listed and what was seen, of the operations that there are: a run of a part takes nothing away."""
    both = {}
    for name, by_status in found.items():
        known = listed.get(name, {})
        statuses = sorted({*known, *by_status})
        if statuses:
            both[name] = {
                status: sorted({*known.get(status, ()), *by_status.get(status, ())}) for status in statuses
            }
    return both


def written(found: Mapping[str, Mapping[str, list[str]]]) -> str:
    """As JSON with a line for each status, so that a change shows where it is."""
    operations = []
    for name, by_status in found.items():
        lines = [f'  "{status}": {json.dumps(codes)}' for status, codes in sorted(by_status.items())]
        operations.append(f' "{name}": {{\n' + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(operations) + "\n}\n"


def new_codes(
    found: Mapping[str, Mapping[str, list[str]]], listed: Mapping[str, Mapping[str, list[str]]]
) -> list[str]:
    return [
        f"{name} {status} {code}"
        for name, by_status in found.items()
        for status, each in by_status.items()
        for code in each
        if code not in listed.get(name, {}).get(status, ())
    ]


def count(by_what: Mapping[str, list[str]], kind: str) -> int:
    return sum(len(names) for what, names in by_what.items() if what.startswith(f"{kind} "))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    parser = ArgumentParser(prog="python -m tests.rest_coverage", description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()

    import django

    from portal.settings import env

    env.set_variables({"DJANGO_SETTINGS_MODULE": "portal.settings"})
    django.setup()
    sys.exit(main(chosen.files, write=chosen.write))
