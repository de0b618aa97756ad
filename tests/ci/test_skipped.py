"""A test that was skipped for want of Chromium is found in the report, whatever file it is in."""

from __future__ import annotations

import pytest

from tests.ci.skipped import main
from tests.web.browsing import needs_chromium

NO_CHROMIUM = needs_chromium.mark.kwargs["reason"]


@pytest.fixture
def said(tmp_path):
    """What the command says of a report with one case."""

    def said(classname: str, outcome: str) -> str | None:
        report = tmp_path / "report.xml"
        report.write_text(
            f'<testsuite><testcase classname="{classname}" name="test_it">{outcome}</testcase></testsuite>'
        )
        return main([str(report)])

    return said


@pytest.mark.parametrize(
    ("classname", "outcome"),
    [
        ("tests.web.test_what_fits", f'<skipped message="{NO_CHROMIUM}" />'),
        ("tests.web.test_browser", '<skipped message="of another reason" />'),
        ("tests.journeys.test_newcomer", '<skipped message="of another reason" />'),
    ],
)
def test_a_test_that_needs_a_browser_and_was_skipped_is_named(said, classname, outcome):
    assert f"{classname}.test_it" in said(classname, outcome)


@pytest.mark.parametrize(
    ("classname", "outcome"),
    [
        ("tests.web.test_browser", ""),
        ("tests.jobs.test_runs_on_a_cluster", '<skipped message="this cluster does not serve it" />'),
    ],
)
def test_other_tests_are_not_named(said, classname, outcome):
    assert said(classname, outcome) is None


def test_a_report_without_tests_fails(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text("<testsuite></testsuite>")
    assert main([str(report)])
