"""The rates as they are by default, on a real `manage.py serve` with its databases."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from foundation.models import PlatformSettings
from tests.factories.teams import make_member, make_team, make_token
from tests.runtime.raw_http import Raw, web_process

FLOODING, OTHER = "127.0.0.7", "127.0.0.8"


@pytest.fixture
def stores(settings):
    """The databases of the tests as a process is told them."""
    database = settings.DATABASES["default"]
    name, user, folder = (quote(str(database[key]), safe="") for key in ("NAME", "USER", "HOST"))
    url = f"postgresql://{user}@/{name}?host={folder}"
    return {"PORTAL_DATABASE_URL": url, "PORTAL_REDIS_URL": settings.REDIS_URL}


@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_an_address_that_asks_too_often_is_refused_and_all_others_are_served(tmp_path, stores):
    token = make_token(make_member("member", team=make_team("bystander")).user)
    rate = PlatformSettings().anonymous_per_minute
    with web_process(tmp_path, **stores) as (_, port, _):
        flood = Raw(port, source=FLOODING)
        answers = 0
        while (refused := _read(flood)).status == 401:
            answers += 1
            assert answers < rate * 10, "it is never refused"
        assert answers >= rate
        assert refused.status == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.headers["content-type"] == "application/problem+json"
        # A user at the same address, and who is not signed in at another one.
        assert _read(flood, token).status == 200
        stranger = Raw(port, source=OTHER)
        assert _read(stranger).status == 401
        for each in (flood, stranger):
            each.close()


def _read(raw, token=""):
    bearer = f"Authorization: Bearer {token}\r\n" if token else ""
    raw.send(f"GET /api/v1/me/ HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\n".encode())
    return raw.answer()
