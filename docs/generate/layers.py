"""docs/reference/layers.md: the picture of the packages, from the import contracts and from each folder's docstring."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from portal.settings import env

ROOT = env.BASE_DIR
APART = ("cluster", "devcluster")
"""Packages that are in no layer: the contracts beside the layers name the packages that may import them."""


def page() -> list[str]:
    """The lines of the page. Raises ValueError for a folder of code whose `__init__` does not say what it is for."""
    layers = _layers()
    packages = [*(name for layer in layers for name in layer), *APART]
    return [
        "# Layers",
        "",
        "A package imports only packages that stand below it; names in one line do not import each other.",
        "`lint-imports` checks this with the contracts in pyproject.toml, and the order inside of every package and",
        "subpackage too; the reasons are in [ADR 0001](../adr/0001-layers.md), [0021](../adr/0021-the-house.md) and",
        "[0023](../adr/0023-pages-and-tenancy.md); that logs are a package: [0041](../adr/0041-logs-are-a-package.md).",
        "",
        "```text",
        *_picture(layers),
        "```",
        "",
        "`cluster` calls the API server for `controller`, `tenancy`, `logs` and `gateway`, and for `console` where somebody waits for a",
        "volume or a Secret; for nobody else. Prometheus is asked by `telemetry` too. Its pure modules (names, labels, quantities,",
        "kinds, errors) are open to the packages from `workloads` upwards. `devcluster` is started as a process.",
        "",
        "## Folders",
        "",
        "| folder | modules | question it answers |",
        "|---|---|---|",
        *(_row(folder) for package in packages for folder in _folders(package)),
        "",
        "## Imports, counted",
        "",
        "Import statements from one package into another, migrations left out.",
        "",
        "| package | imports |",
        "|---|---|",
        *_counted(packages),
    ]


def _layers() -> list[list[str]]:
    """The packages from the top down, siblings together, as the contract `layers` has them."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (contract,) = (contract for contract in contracts if contract["id"] == "layers")
    return [[name.strip() for name in line.split("|")] for line in contract["layers"]]


def _picture(layers: list[list[str]]) -> Iterator[str]:
    lines = [" | ".join(layer) for layer in layers]
    # The packages beside `cluster`: all that is above policy may see its pure modules, and so may workloads.
    beside = {"controller": "─┐", "workloads": " ├─ cluster", "foundation": "─┘"}
    inside, width = False, max(map(len, lines)) + 2
    for line in lines:
        mark = beside.get(line, " │" if inside else "")
        inside = line != "foundation" and (inside or line == "controller")
        yield f"{line:{width}}{mark}".rstrip()
    yield ""
    yield "devcluster"


def _folders(package: str) -> list[Path]:
    """The package and its subpackages that hold code of their own."""
    inits = sorted((ROOT / package).rglob("__init__.py"))
    return [init.parent for init in inits if "migrations" not in init.parts and _modules(init.parent)]


def _modules(folder: Path) -> int:
    return sum(1 for path in folder.glob("*.py") if path.name != "__init__.py")


def _row(folder: Path) -> str:
    name = folder.relative_to(ROOT).as_posix()
    return f"| `{name}/` | {_modules(folder)} | {question_of(folder)} |"


def question_of(folder: Path) -> str:
    """The first sentence of what the folder's `__init__` says. Raises ValueError where it says nothing."""
    question = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    if not question:
        raise ValueError(f"{folder}/__init__.py does not say which question the folder answers")
    return " ".join(question.partition("\n\n")[0].split())


def _counted(packages: list[str]) -> Iterator[str]:
    counts = {package: _imports(package) for package in packages}
    for package in packages:
        imported = [f"{name} {counts[package][name]}" for name in packages if counts[package][name]]
        yield f"| `{package}` | {', '.join(imported) or 'none of them'} |"


def _imports(package: str) -> Counter[str]:
    """How many import statements of the package name each other package."""
    counts: Counter[str] = Counter()
    for path in sorted((ROOT / package).rglob("*.py")):
        if "migrations" not in path.parts:
            counts.update(name for name in _imported_packages(path) if name != package)
    return counts


def _imported_packages(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        yield from (name.partition(".")[0] for name in names)
