"""Fails where a test that needs Chromium was left out although it is here: `python -m tests.ci.skipped REPORT…`."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET

WORDS = ("browser", "journeys")
REASON = "no Chromium"


def left_out(cases: list[ET.Element]) -> list[str]:
    return [f"{case.get('classname')}.{case.get('name')}" for case in cases if _needs_a_browser(case)]


def _needs_a_browser(case: ET.Element) -> bool:
    """Whether it was skipped because Chromium is missing, or is in a file whose tests all need it."""
    skipped = case.find("skipped")
    if skipped is None:
        return False
    return REASON in skipped.get("message", "") or any(word in case.get("classname", "") for word in WORDS)


def main(reports: list[str]) -> str | None:
    cases = [case for report in reports for case in ET.parse(report).iter("testcase")]  # noqa: S314
    skipped = left_out(cases)
    if skipped or not cases:
        return "\n  ".join(["browser tests were skipped although Chromium is here:", *skipped])
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
