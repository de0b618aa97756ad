"""All migrations run once, however many workers there are: their databases are copies of the first."""

from __future__ import annotations

from pathlib import Path

from django.db import connection

NAME = "test_template"


def copied(made: Path) -> None:
    """This worker's database will be a copy of one that is migrated here unless the file says that it is."""
    if not made.exists():
        _migrate()
        made.touch()
    connection.settings_dict["TEST"]["TEMPLATE"] = NAME


def _migrate() -> None:
    own, test = connection.settings_dict["NAME"], connection.settings_dict["TEST"]
    name, test["NAME"] = test["NAME"], NAME
    try:
        connection.creation.create_test_db(verbosity=0, autoclobber=True)
    finally:
        # What copies a database is alone with it.
        connection.close()
        test["NAME"] = name
        connection.settings_dict["NAME"] = own
