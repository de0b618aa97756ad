"""Every code that an error or a warning can have is found in the code and told in docs/reference/error-codes.md."""

from __future__ import annotations

from functools import cache

import pytest

from docs.generate import error_codes
from docs.generate.code_sentences import SENTENCES, WARNINGS

WHERE = "docs/generate/code_sentences.py has one sentence for each code; then run `make docs`"


@cache
def found():
    return error_codes.found()


def test_every_code_has_a_sentence_and_no_sentence_is_of_none():
    codes, warnings = found()
    unsaid = sorted(set(codes) - set(SENTENCES)), sorted(warnings - set(WARNINGS))
    of_none = sorted(set(SENTENCES) - set(codes)), sorted(set(WARNINGS) - warnings)
    assert unsaid == of_none == ([], []), WHERE


def test_every_sentence_is_one():
    said = {**SENTENCES, **WARNINGS}
    assert [code for code, sentence in said.items() if not sentence.endswith(".") or ". " in sentence] == []


@pytest.mark.parametrize(
    ("code", "statuses"),
    [
        ("already_member", {409}),  # the code of a class
        ("lead_only", {403}),  # named, in a raise and in of_field
        ("changed", {409, 422}),  # by its position, in a function of its own
        ("no_place", {422}),  # the default of a parameter
        ("sharing_mismatch", {422}),  # by its position, where there is a default
        ("endpoint_waking", {503}),  # a constant
        ("too_many_waits", {429, 503}),  # a table of constants
        ("above_maximum", {422}),  # what a function answers
        ("invalid_label", {422}),  # a fault of the grammar
        ("repeated", {400}),  # a query
        ("surrogate", {400}),  # a body that cannot be read
        ("max_value", {422}),  # a field of DRF
        ("cluster_busy", {503}),  # a reason of the service proxy
        ("cluster_unavailable", {503}),
        ("unsupported_media_type", {415}),
    ],
)
def test_a_code_is_found_with_its_statuses_however_it_is_written(code, statuses):
    assert found()[0][code] == statuses
