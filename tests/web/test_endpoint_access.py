"""Tokens of an endpoint on its page."""

from __future__ import annotations

import re

import pytest

from gateway.models import EndpointToken
from teams import tokens

pytestmark = pytest.mark.django_db


def make(client, workload, **values):
    sent = {"name": "checkout", "expires_in_days": "30", **values}
    return client.post(f"/endpoints/{workload.public_id}/tokens/", sent)


def test_a_token_is_shown_once_and_then_only_its_beginning(ana, made):
    answer = make(ana, made["digits"])
    assert answer.status_code == 200
    assert answer["Cache-Control"] == "no-store"
    text = re.search(r'id="new-secret">([^<]+)<', answer.content.decode())[1]
    token = EndpointToken.objects.get()
    assert token.digest == tokens.digest(text)
    assert (token.endpoint, token.created_by.username) == (made["digits"], "ana")
    html = ana.get(f"/endpoints/{made['digits'].public_id}/?tab=access").content.decode()
    assert text not in html
    assert token.prefix in html


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"name": ""}, "This field is required."),
        ({"name": "x" * 101}, "at most 100 characters"),
        ({"expires_in_days": "0"}, "greater than or equal to 1"),
        ({"expires_in_days": "soon"}, "Enter a whole number."),
    ],
)
def test_what_makes_no_token_is_refused_beside_its_field(ana, made, values, said):
    answer = make(ana, made["digits"], **values)
    assert answer.status_code == 422
    assert said in answer.content.decode()
    assert not EndpointToken.objects.exists()


def test_a_token_is_revoked_from_its_row(ana, made):
    make(ana, made["digits"])
    token = EndpointToken.objects.get()
    url = f"/endpoints/{made['digits'].public_id}/tokens/{token.public_id}/revoke/"
    assert ana.post(url, follow=True).status_code == 200
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_a_token_of_another_endpoint_is_not_found_here(ana, made):
    make(ana, made["digits"])
    token = EndpointToken.objects.get()
    url = f"/endpoints/{made['captions'].public_id}/tokens/{token.public_id}/revoke/"
    assert ana.post(url).status_code == 404
    token.refresh_from_db()
    assert token.revoked_at is None


def test_a_viewer_sees_tokens_and_no_button(viewer, ana, made):
    make(ana, made["digits"])
    html = viewer.get(f"/endpoints/{made['digits'].public_id}/?tab=access").content.decode()
    assert "checkout" in html
    assert "Make token" not in html
    assert "Revoke" not in html


def test_a_live_token_is_shown_however_many_have_ended_since(ana, made):
    make(ana, made["digits"], name="the old one")
    first = EndpointToken.objects.get()
    values = {
        "endpoint": first.endpoint,
        "created_by": first.created_by,
        "created_at": first.created_at,
        "expires_at": first.expires_at,
        "revoked_at": first.created_at,
    }
    EndpointToken.objects.bulk_create(
        EndpointToken(name=f"gone {number}", digest=f"{number:064x}", **values) for number in range(150)
    )
    answer = ana.get(f"/endpoints/{made['digits'].public_id}/?tab=access")
    shown = answer.context["endpoint_tokens"]
    assert (shown[0], len(shown)) == (first, 100)
