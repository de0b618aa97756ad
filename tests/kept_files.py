"""What takes long to make of the code, kept from one run of the tests to the next: as files whose names are a digest of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# No part of the portal.
NO_SOURCES = {"tests", "benchmarks", "docs", "build", "dist"}
# Beside a run of the tests there may be another, of other code.
OLD_SECONDS = 86_400


def kept_file(folder: str, suffix: str, *, also: tuple[str, ...] = (), root: Path = ROOT) -> Path:
    """Where that is of all code that there is now, and of the packages' files that end as `also` says; it may not be there yet."""
    digest = hashlib.sha256((root / "requirements.lock").read_bytes())
    packages = [path.parent for path in root.glob("[!.]*/__init__.py") if path.parent.name not in NO_SOURCES]
    found = [path for package in packages for each in (".py", *also) for path in package.rglob(f"*{each}")]
    for path in sorted(found):
        digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return root / ".pytest_cache" / folder / f"{digest.hexdigest()}{suffix}"


def keep(kept: Path, write: Callable[[Path], object]) -> None:
    """Written whole at once, for who asks at this moment; what is of the code of other days is deleted."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    whole = kept.with_suffix(f".{os.getpid()}")
    write(whole)
    whole.rename(kept)
    for old in set(kept.parent.iterdir()) - {kept}:
        with suppress(FileNotFoundError):
            if old.stat().st_mtime < kept.stat().st_mtime - OLD_SECONDS:
                old.unlink()
