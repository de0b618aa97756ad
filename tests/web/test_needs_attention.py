"""The first page begins with what somebody has to look at."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.django_db


def test_what_failed_within_a_day_stands_first_with_its_cause_and_what_to_do(ana, made):
    html = ana.get("/").content.decode()
    begin, _, rest = html.partition("My live runs")
    assert "Needs attention" in begin
    assert f'id="attention-{made["unet-3d"].public_id}"' in begin
    assert "Out of memory (OOMKilled)." in begin
    assert "Ask for more memory" in begin
    assert f'id="attention-{made["resnet50"].public_id}"' not in html
    assert made["resnet50"].name in rest
