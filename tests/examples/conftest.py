"""A portal that has the example installed, for one module of tests, and a bench on a devcluster in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.apps import AppConfig, apps
from django.db import connection
from django.db.models import Model
from django.template.utils import get_app_template_dirs
from django.test import override_settings
from django_cotton.cotton_loader import Loader

from cluster.client import connect
from controller.reconcile import adapters
from tests.controller.conftest import Bench, leave_nothing
from tests.kept_connections import close_kept
from workloads import kinds

EXAMPLE = "tests.examples.batch_inference"


@contextmanager
def installed(entry: str) -> Iterator[list[type[Model]]]:
    """The app as if it stood last in INSTALLED_APPS; its models. All others stay as they are, and are not made ready again."""
    config = AppConfig.create(entry)
    before = [(registry, dict(registry)) for registry in (kinds._registry, adapters._registry)]
    apps.app_configs[config.label], config.apps = config, apps
    try:
        config.import_models()
        _forget_which_apps_there_were()
        config.ready()
        yield list(config.get_models())
    finally:
        for registry, content in before:
            registry.clear()
            registry.update(content)
        del apps.app_configs[config.label]
        _forget_which_apps_there_were()


def _forget_which_apps_there_were() -> None:
    """What Django and the loaders of templates keep of it: a page may have been drawn before."""
    apps.clear_cache()
    get_app_template_dirs.cache_clear()
    Loader.get_dirs.cache_clear()


def _forget_which_tables_there_were() -> None:
    """A connection keeps the statement that looks which tables have rows (`tests/emptying.py`)."""
    connection.close()
    close_kept()


@pytest.fixture(scope="module")
def portal_with_example(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The tables of its models are made by hand, so that the example needs no migration."""
    with installed(EXAMPLE) as models, override_settings(ROOT_URLCONF="tests.examples.urls"):
        with django_db_blocker.unblock():
            with connection.schema_editor() as editor:
                for model in models:
                    editor.create_model(model)
            _forget_which_tables_there_were()
        try:
            yield
        finally:
            with django_db_blocker.unblock():
                with connection.schema_editor() as editor:
                    for model in models:
                        editor.delete_model(model)
                _forget_which_tables_there_were()


@pytest.fixture
def bench(portal_with_example: None, devcluster: str, transactional_db: None) -> Iterator[Bench]:
    bench = Bench(connect(devcluster))
    yield bench
    leave_nothing(bench.client, bench.team.namespace_name)
