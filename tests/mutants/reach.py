"""A plugin of pytest: which tests reach which lines, render which templates and use what which classes declare.

`python -m pytest -p tests.mutants.reach`, with the folder for what is recorded in PORTAL_TEST_REACH. Line coverage
sees neither a template nor the body of a class, which runs once, when its module is imported.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.mutants.faults import ROOT, packages

# Tests by the name of what is set up once for several of them.
ASKED = "asked.json"
TEMPLATES = "templates.json"
DECLARATIONS = "declarations.json"
SECONDS = "seconds.json"
# The tests that `make test` leaves to `make matrix`.
MATRIX = "matrix.json"


def shared(module: str, fixture: str) -> str:
    """The context of a fixture that stands for a module, or without one for the whole session."""
    return f"@{module}::{fixture}"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # With pytest-xdist the controller runs no test.
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.register(_Recorder(), "reach-recorder")


class _Recorder:
    def __init__(self) -> None:
        self._folder = folder = Path(os.environ["PORTAL_TEST_REACH"])  # noqa: TID251
        self._context = ""
        self._templates: dict[str, set[str]] = defaultdict(set)
        self._declarations: dict[str, set[str]] = defaultdict(set)
        self._seconds: Counter[str] = Counter()
        self._coverage = coverage.Coverage(
            data_file=folder / "reach",
            data_suffix=True,
            include=[f"{ROOT / package}/*" for package in packages()],
            omit=["*/migrations/*"],
            config_file=False,
        )
        self._coverage.start()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Who asks for what is set up for several tests: what that reaches counts for each of them."""
        asked: dict[str, list[str]] = {}
        for item in session.items:
            for name in getattr(item, "fixturenames", ()):
                for owner in ("", item.nodeid.partition("::")[0]):
                    asked.setdefault(shared(owner, name), []).append(item.nodeid)
        (self._folder / ASKED).write_text(json.dumps(asked))
        matrix = [item.nodeid for item in session.items if item.get_closest_marker("matrix")]
        (self._folder / MATRIX).write_text(json.dumps(matrix))
        self._watch()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Iterator[Any]:
        if fixturedef.scope == "function":
            return (yield)
        module = request.node.nodeid.partition("::")[0] if fixturedef.scope in {"module", "class"} else ""
        test = self._context
        self._enter(shared(module, fixturedef.argname))
        try:
            return (yield)
        finally:
            self._enter(test)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._enter(item.nodeid)
        try:
            return (yield)
        finally:
            self._enter("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()
        for name, seen in ((TEMPLATES, self._templates), (DECLARATIONS, self._declarations)):
            path = self._folder / f"{name}.{os.getpid()}"
            path.write_text(json.dumps({key: sorted(contexts) for key, contexts in seen.items()}))
        (self._folder / f"{SECONDS}.{os.getpid()}").write_text(json.dumps(self._seconds))

    def _enter(self, context: str) -> None:
        self._context = context
        self._coverage.switch_context(context)

    def _watch(self) -> None:
        """From now on note each template that is rendered and each class that a request, field or form is made of."""
        from django.forms import BaseForm
        from django.test.signals import template_rendered
        from django.views import View
        from rest_framework.serializers import BaseSerializer
        from template_partials.templatetags.partials import TemplateProxy

        template_rendered.connect(self._rendered, weak=False)
        for owner, name, note in (
            (TemplateProxy, "_render", lambda partial: self._note_template(partial.origin)),
            (View, "setup", lambda view: self._note_class(type(view))),
            (BaseForm, "__init__", lambda form: self._note_class(type(form))),
            (BaseSerializer, "__init__", lambda serializer: self._note_class(type(serializer))),
        ):
            setattr(owner, name, _noting(getattr(owner, name), note))

    def _rendered(self, *, template: Any, **_: Any) -> None:
        self._note_template(template.origin)

    def _note_template(self, origin: Any) -> None:
        path = Path(str(origin.name))
        if path.is_relative_to(ROOT):
            self._templates[str(path.relative_to(ROOT))].add(self._context)

    def _note_class(self, used: type) -> None:
        for each in used.__mro__:
            self._declarations[f"{each.__module__}.{each.__qualname__}"].add(self._context)


def _noting(original: Callable[..., Any], note: Callable[[Any], None]) -> Callable[..., Any]:
    def noting(self: Any, *args: Any, **kwargs: Any) -> Any:
        note(self)
        return original(self, *args, **kwargs)

    return noting


def merge(folder: Path) -> None:
    """One file of each kind of what the workers have noted, with the tests that each shared fixture stands for."""
    asked = json.loads((folder / ASKED).read_text())
    for name in (TEMPLATES, DECLARATIONS):
        tests: dict[str, set[str]] = defaultdict(set)
        for part in folder.glob(f"{name}.*"):
            for key, contexts in json.loads(part.read_text()).items():
                tests[key].update(tests_of(contexts, asked))
            part.unlink()
        (folder / name).write_text(json.dumps({key: sorted(found) for key, found in sorted(tests.items())}))
    seconds: dict[str, float] = {}
    for part in folder.glob(f"{SECONDS}.*"):
        seconds |= json.loads(part.read_text())
        part.unlink()
    (folder / SECONDS).write_text(json.dumps(seconds))


def tests_of(contexts: Iterable[str], asked: Mapping[str, list[str]]) -> set[str]:
    """The tests that were under way, or that asked for the fixture that was set up."""
    return {test for each in contexts if each for test in asked.get(each, [] if each[0] == "@" else [each])}
