"""What one client may cost all others: each of these stopped a part of the portal once."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys

import pytest

from foundation.logs import redact
from gateway.live.table import Ages, Table
from inference.enforced_query import Border, QueryRefusedError, enforced
from tests.runtime.raw_http import ROOT

CPU_SECONDS = 3


LINES = {
    "a sweep's values": (
        "from jobs.sweeps.written import read_parameters as read",
        "a = x," + " " * 2000 + 'b"',
    ),
    "a time limit": ("from foundation.number_words import seconds_of as read", "1d" + " " * 1900 + "x"),
}


@pytest.mark.parametrize("case", LINES)
def test_what_is_typed_into_a_form_is_read_in_little_time(case):
    imports, text = LINES[case]
    code = f"{imports}\ntry:\n    read({text!r})\nexcept ValueError:\n    pass"

    def limited():
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, preexec_fn=limited, capture_output=True, check=False
    )
    assert done.returncode == 0, (
        f"more than {CPU_SECONDS} s of the processor: {done.returncode} {done.stderr[-200:]}"
    )


@pytest.mark.parametrize(
    "query",
    [
        "max_over_time(vector(1)[365d:1ms])",
        "max_over_time(vector(1)[13h:1ms])",
        "max_over_time(max_over_time(vector(1)[1h:1s])[1h:1s])",
        "sum(rate(a[5y]))",
        "sum(a offset 10y)",
    ],
)
def test_a_query_that_costs_prometheus_gigabytes_is_refused(query):
    with pytest.raises(QueryRefusedError):
        enforced(query, Border("team-ours"))


def test_the_log_shows_no_token_of_an_endpoint_and_no_ticket_of_a_call():
    token = "mle_abcdefgh_" + "x" * 49
    ticket = "t1cket" * 7
    said = redact(f"failed for {token} at /-/invoke/{ticket}/v1/models")
    assert token not in said
    assert ticket not in said


def test_unknown_tokens_are_not_asked_about_again_and_again():
    asked = []

    async def scenario():
        async def ask(keys):
            asked.extend(keys)
            return dict.fromkeys(keys)

        table = Table(ask, ages=Ages(fresh=0.02, refusal=0.01), is_refusal=lambda value: value is None)
        for number in range(50):
            await table.get(f"made-up-{number}")
        assert not table._used()

    asyncio.run(scenario())
