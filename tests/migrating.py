"""All migrations run once, however many workers and runs of the tests there are: their databases are copies of the first."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from django.db import connection

from portal.runtime import postgres
from tests.kept_files import ROOT, keep, kept_file

NAME = "test_template"


def copied(made: Path) -> None:
    """This worker's database will be a copy of one that is migrated here unless the file says that it is."""
    if not made.exists():
        _make_template()
        made.touch()
    connection.settings_dict["TEST"]["TEMPLATE"] = NAME


def kept_tables(root: Path = ROOT) -> Path:
    """Where all tables that the code of this checkout makes are kept, as statements of SQL; they may not be there yet.

    Whatever a migration may call has a part in what it makes.
    """
    return kept_file("migrated", ".sql", root=root)


def keep_tables(kept: Path, of: dict[str, Any]) -> None:
    """Keep there those of a database that has been migrated and nothing else; `of` is how libpq finds it."""
    if kept != kept_tables():
        return  # The code was changed meanwhile: which of it made the tables nobody knows.
    keep(kept, lambda whole: _ask("pg_dump", of, "--no-owner", f"--file={whole}"))


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
