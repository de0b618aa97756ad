"""All migrations run once, however many workers and runs of the tests there are: their databases are copies of the first."""

from __future__ import annotations

import hashlib
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.db import connection

from portal.runtime import postgres

NAME = "test_template"
ROOT = Path(__file__).resolve().parents[1]
# Whatever a migration may call has a part in what it makes.
NO_SOURCES = {"tests", "benchmarks", "docs", "build", "dist"}
# Beside a run of the tests there may be another, of other code.
OLD_SECONDS = 86_400


def copied(made: Path) -> None:
    """This worker's database will be a copy of one that is migrated here unless the file says that it is."""
    if not made.exists():
        _make_template()
        made.touch()
    connection.settings_dict["TEST"]["TEMPLATE"] = NAME


def kept_tables() -> Path:
    """Where all tables that this code makes are kept, as statements of SQL; they may not be there yet."""
    digest = hashlib.sha256((ROOT / "requirements.lock").read_bytes())
    packages = (path.parent for path in ROOT.glob("[!.]*/__init__.py") if path.parent.name not in NO_SOURCES)
    for path in sorted(path for package in packages for path in package.rglob("*.py")):
        digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return ROOT / ".pytest_cache" / "migrated" / f"{digest.hexdigest()}.sql"


def keep_tables(kept: Path, of: dict[str, Any]) -> None:
    """Keep there those of a database that has been migrated and nothing else; `of` is how libpq finds it."""
    if kept != kept_tables():
        return  # The code was changed meanwhile: which of it made the tables nobody knows.
    kept.parent.mkdir(parents=True, exist_ok=True)
    # Whole at once, for who asks at this moment.
    whole = kept.with_suffix(f".{os.getpid()}")
    _ask("pg_dump", of, "--no-owner", f"--file={whole}")
    whole.rename(kept)
    for old in set(kept.parent.iterdir()) - {kept}:
        with suppress(FileNotFoundError):
            if old.stat().st_mtime < kept.stat().st_mtime - OLD_SECONDS:
                old.unlink()


def make_tables(kept: Path, to: dict[str, Any]) -> None:
    """Make the kept tables in an empty database."""
    _ask("psql", to, "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", f"--file={kept}")


def _make_template() -> None:
    own, test = connection.settings_dict["NAME"], connection.settings_dict["TEST"]
    address = {
        "PGHOST": connection.settings_dict["HOST"],
        "PGUSER": connection.settings_dict["USER"],
        "PGDATABASE": NAME,
    }
    kept = kept_tables()
    if kept.exists():
        with connection._nodb_cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {NAME}")
        make_tables(kept, address)
        return
    name, test["NAME"] = test["NAME"], NAME
    try:
        connection.creation.create_test_db(verbosity=0, autoclobber=True)
    finally:
        # What copies a database is alone with it.
        connection.close()
        test["NAME"] = name
        connection.settings_dict["NAME"] = own
    keep_tables(kept, address)


def _ask(program: str, address: dict[str, Any], *arguments: str) -> None:
    done = subprocess.run(
        [str(postgres.binaries() / program), "--no-password", *arguments],
        env={**os.environ, **address},  # noqa: TID251
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"
