"""Canaries in every secret that there is, one whole life of the portal, and a search of everything it left behind."""

from __future__ import annotations

import base64
import json
import logging
import re
from io import StringIO

import pytest
import redis
from django.conf import settings as conf
from django.db import connection
from django.test import Client
from django.urls import reverse

from cluster import kinds
from cluster.client import connect
from controller.reconcile.run_tokens import run_token
from foundation import clock
from foundation.apps import register_configured_secrets
from foundation.http import metrics
from foundation.logs import ConsoleFormatter, ContextFilter, JSONFormatter
from logs import api as logs
from teams import services as people
from tests.controller.conftest import Bench
from tests.factories.submitted import run_body
from tests.factories.teams import ACTOR, api_client, make_user
from workloads.models import Workload

pytestmark = pytest.mark.django_db(transaction=True)

PASSWORD = "canary-password-of-a-person"
DATABASE_PASSWORD = "canary-password-of-the-database"
KEY = "canary-key-of-django-" + "k" * 40


RUNS = "/api/v1/training-runs/"
_OF_A_RUN = (
    "",
    "events/",
    "pods/",
    "logs/",
    "manifests/",
    "waiting/",
    "cost/",
    "checkpoints/",
    "outputs/",
    "progress/",
)
API_ADDRESSES = (
    *(f"{{url}}{tail}" for tail in _OF_A_RUN),
    *(f"/api/v1/{name}/" for name in ("audit", "me", "tokens", "ledger", "schema", "nothing")),
    "/readyz",
)
PAGES = ("/profile/", "/runs/", "/runs/{run}/", "/", "/no-such-page/", "/teams/{team}/")
TOKEN = {"name": "ci", "scopes": ["read", "submit", "manage"]}


class Leaks:
    """Everything that came out, and the secrets that must not be in it."""

    def __init__(self, formatted: dict[str, StringIO]) -> None:
        self.secrets: dict[str, str] = {}
        self.out: dict[str, str] = {}
        self.formatted = formatted

    def keep(self, name: str, response) -> None:
        body = b"".join(response.streaming_content) if response.streaming else response.content
        self.out[name] = f"{dict(response.headers)}\n{response.cookies}\n{body.decode(errors='replace')}"

    def found(self) -> list[str]:
        places = {**self.out, **{name: stream.getvalue() for name, stream in self.formatted.items()}}
        return [
            f"{what} in {where}"
            for what, secret in self.secrets.items()
            for where, text in places.items()
            for form in (secret, base64.b64encode(secret.encode()).decode())
            if form in text
        ]


@pytest.fixture
def leaks(settings):
    settings.SECRET_KEY = KEY
    connection.settings_dict["PASSWORD"] = DATABASE_PASSWORD
    register_configured_secrets()
    formatted, handlers, root = {}, [], logging.getLogger()
    for formatter in (JSONFormatter, ConsoleFormatter):
        stream = formatted[formatter.__name__] = StringIO()
        handler = logging.StreamHandler(stream)
        handler.setFormatter(formatter())
        handler.addFilter(ContextFilter())
        root.addHandler(handler)
        handlers.append(handler)
    leaks = Leaks(formatted)
    leaks.secrets |= {
        "a person's password": PASSWORD,
        "the database's password": DATABASE_PASSWORD,
        "the key": KEY,
    }
    yield leaks
    for handler in handlers:
        root.removeHandler(handler)
    connection.settings_dict["PASSWORD"] = ""


def every_row() -> str:
    """All there is in the database, the tables of Django too."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"
        )
        tables = [name for (name,) in cursor.fetchall()]
        rows = []
        for table in tables:
            cursor.execute(f'SELECT row_to_json(t)::text FROM "{table}" t')  # noqa: S608 - the catalogue's own names
            rows += [f"{table} {row}" for (row,) in cursor.fetchall()]
    assert len(tables) > 30
    return "\n".join(rows)


def every_message() -> str:
    """All there is in Valkey: the queues with their messages, and the cache."""
    texts = []
    with redis.Redis.from_url(conf.REDIS_URL) as client:
        read = {
            "list": lambda key: client.lrange(key, 0, -1),
            "zset": lambda key: client.zrange(key, 0, -1),
            "hash": client.hgetall,
            "set": client.smembers,
            "string": client.get,
        }
        for key in client.scan_iter():
            kind = client.type(key).decode()
            value = read[kind](key)
            texts.append(f"{key!r} {value!r}")
            bodies = re.findall(r'"body": ?"([\w+/=]+)"', str(value))
            texts.extend(base64.b64decode(body).decode() for body in bodies)
    return "\n".join(texts)


def sign_in(leaks, page: Client, link: str) -> None:
    """Wrongly and rightly, with a link, and without a CSRF token; the wrong password's page shows what was typed."""
    page.post("/sign-in/", {"username": PASSWORD, "password": PASSWORD[:-1]})
    strict, address = Client(enforce_csrf_checks=True), reverse("teams:sign-in-link", args=[link])
    leaks.keep("link without csrf", strict.post(address))
    leaks.keep("link by put", strict.put(address))
    leaks.keep("sign-in", page.post("/sign-in/", {"username": "canary-person", "password": PASSWORD}))
    leaks.keep("link used", Client().post(address))
    leaks.keep("link used up", Client().post(address))


def make_tokens(leaks, page: Client) -> str:
    """One over REST and one on the page, each shown in one answer."""
    headers = {"Idempotency-Key": "token"}
    made = page.post("/api/v1/tokens/", TOKEN, "application/json", headers=headers)
    assert made.status_code == 201
    leaks.secrets["an API token"] = made.json()["secret"]
    leaks.keep("token again", page.post("/api/v1/tokens/", TOKEN, "application/json", headers=headers))
    shown = page.post("/profile/", {"name": "page", "scopes": ["read"], "expires_in_days": "5"})
    leaks.secrets["a token of the page"] = re.search(r"mlp_\w+", shown.content.decode())[0]
    return made.json()["secret"]


def write_secrets(leaks, client, page: Client, team: str) -> None:
    """Over REST and on the page, rightly and wrongly."""
    url = f"/api/v1/teams/{team}/secrets/"
    value = leaks.secrets["a team's secret"] = "canary-value-of-a-secret"
    put = client.put(f"{url}hf/", {"values": {"token": value}})
    assert put.status_code == 200, put.content
    leaks.keep("secret written", put)
    leaks.keep("secret refused", client.put(f"{url}hf/", {"values": {"to ken": value}}))
    leaks.keep("secret with a bad name", client.put(f"{url}Bad_name/", {"values": {"token": value}}))
    leaks.keep("secrets", client.get(url))
    typed = {"name": "page", "key": "token", "value": value}
    assert page.post(f"/teams/{team}/secrets/", typed).status_code == 303
    leaks.keep("secret refused by the page", page.post(f"/teams/{team}/secrets/", {**typed, "key": "a b"}))


def test_no_secret_is_in_any_answer_log_row_message_object_or_metric(
    leaks, devcluster, settings, monkeypatch
):
    settings.CLUSTER_KUBECONFIG = devcluster
    bench = Bench(connect(devcluster))
    person = make_user("canary-person", password=PASSWORD)
    people.add_member(actor=ACTOR, team=bench.team, user=person, role="lead", now=clock.now())
    link = people.create_sign_in_link(actor=ACTOR, user=person, now=clock.now())
    leaks.secrets["a sign-in link"] = link
    page = Client()
    sign_in(leaks, page, link)
    token = make_tokens(leaks, page)
    client = api_client()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")

    # --- a run that names a secret, from submission to its end
    write_secrets(leaks, client, page, bench.team.slug)
    env = [
        {"name": "BED_RUN_SECONDS", "value": "1"},
        {"name": "HF_TOKEN", "secret": "hf", "key": "token"},
    ]
    made = client.post("/api/v1/training-runs/", run_body(bench.team.slug, flavor=bench.flavor.name, env=env))
    assert made.status_code == 201, made.content
    leaks.keep("submit", made)
    run = Workload.objects.get(public_id=made.json()["id"])
    own = leaks.secrets["a run token"] = run_token(run, attempt=1)
    bench.until(run, lambda run: run.attempt_number == 1 and run.pods.exists())
    reporter = Client(headers={"Authorization": f"Bearer {own}"})
    url = f"/api/v1/training-runs/{run.public_id}/"
    if not run.is_final:
        leaks.keep(
            "progress", reporter.post(f"{url}progress/", {"progress_percentage": 5}, "application/json")
        )
    leaks.keep("run token elsewhere", reporter.get("/api/v1/me/"))
    objects = json.dumps(
        [
            bench.client.list(kind, namespace=bench.team.namespace_name).items
            for kind in (kinds.JOB, kinds.POD, kinds.CONFIG_MAP, kinds.EVENT)
        ]
    )
    leaks.out["objects of the cluster"] = objects
    assert "secretKeyRef" in objects
    assert "PORTAL_RUN_TOKEN" in objects
    bench.until(run, lambda run: run.is_final)

    # --- what can be read of it, and what goes wrong
    for address in API_ADDRESSES:
        leaks.keep(address, client.get(address.format(url=url)))
    leaks.out["metrics"] = metrics.exposition().decode()
    for address in PAGES:
        leaks.keep(address, page.get(address.format(run=run.public_id, team=bench.team.slug)))
    bad = client.generic("POST", RUNS, f'{{"name": "{token}', content_type="application/json")
    leaks.keep("bad json", bad)
    leaks.keep("conflict", client.post(f"{url}cancel/"))

    def fails(*args, **kwargs):
        raise RuntimeError(
            f"postgresql://portal:{DATABASE_PASSWORD}@db/portal {KEY} {token} {own} /sign-in/link/{link}/"
        )

    monkeypatch.setattr(logs, "read_lines", fails)
    quiet = Client(raise_request_exception=False, headers={"Authorization": f"Bearer {token}"})
    failed = quiet.get(f"{url}logs/")
    assert failed.status_code == 500
    leaks.keep("a failure", failed)
    assert "RuntimeError" in leaks.formatted["JSONFormatter"].getvalue()

    leaks.out["the database"] = every_row()
    leaks.out["Valkey"] = every_message()
    assert str(run.public_id) in leaks.out["Valkey"]
    assert len(leaks.out) > 30
    assert leaks.found() == []


def test_the_search_finds_what_is_there(leaks):
    """A canary that nothing could find would prove nothing."""
    leaks.out["somewhere"] = f"x{base64.b64encode(KEY.encode()).decode()}y"
    leaks.formatted["JSONFormatter"].write(PASSWORD)
    assert leaks.found() == ["a person's password in JSONFormatter", "the key in somewhere"]


@pytest.mark.parametrize(
    "text",
    [
        "Bearer canary-secret-of-a-header",
        "mlr_canary-secret_of_a_run",
        "GET /sign-in/link/canarysecretofalink/",
        "https://live/-/logs/x/?ticket=canary:secret:of-a-ticket&tail=5",
        "redis://:canary-secret@valkey/0",
        "postgresql://portal:canary-secret@db/portal",
    ],
)
def test_a_secret_that_a_log_line_holds_is_not_printed(text):
    record = logging.makeLogRecord(
        {"msg": "it was %s", "args": (text,), "name": "x", "levelname": "ERROR", "extra_field": text}
    )
    for formatter in (JSONFormatter(), ConsoleFormatter()):
        assert "canary" not in formatter.format(record)
