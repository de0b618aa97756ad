"""The page of docs/reference that says what the portal's words mean."""

from __future__ import annotations

from foundation.glossary import WORDS


def page() -> list[str]:
    """The lines of the page."""
    rows = [
        f"| {word} | {each.meaning} | {each.instead or word} |"
        for word, each in sorted(WORDS.items(), key=lambda item: item[0].lower())
    ]
    return [
        "# Words",
        "",
        "What the words of the portal mean. Code, REST and documentation keep the words of the field, Kueue's and Kubernetes'. Pages say",
        'beside the first of them what it is: a template writes `{% gloss "cohort" %}`, from the same table (`foundation/glossary.py`). What',
        "reasons are called on pages stands among [phases and reasons](workload-phases.md).",
        "",
        "| word | what it means | pages say |",
        "|---|---|---|",
        *rows,
        "",
        "## Numbers and times",
        "",
        "| what | as | by |",
        "|---|---|---|",
        "| how long something took or takes | `3m 41s`, `1h 04m`; what stands still without a part that is zero: `20m` | `duration`, `span` |",
        "| how long ago | `3 min ago`, `in 2 h`, the exact time in the title | `ago` |",
        "| a time | `2026-03-01 14:05:00` in the zone of the profile, else of the browser | `at`, `minute`, `day`, `clock` |",
        "| a day of bills, budgets and quotas | `2026-03-01`, in UTC | `utc_day` |",
        "| money | `$1,234.50`; what costs something is never `$0.00` but `<$0.01` | `usd` |",
        "| CPU | `3.6 cores` | `cores`; in sentences `workloads.podrequests.said_of` |",
        "| memory | `12.5 GiB`; what a request names as it is written there: `8Gi` | `gib` |",
        "| a count | `7,000,000` | `thousands` |",
        "| a share | `12.5 %` | `percent` |",
        "",
        "Which zone that is, what a palette finds and what keys do is kept in the browser ([why](../adr/0040-kept-in-the-browser.md)).",
        "Templates format nothing by themselves: they use these filters of `console/pages/tags.py`, which a test sees to.",
    ]
