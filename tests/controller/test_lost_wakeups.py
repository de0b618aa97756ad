"""A broker that is away is waited for once, however many rows a command woke."""

from __future__ import annotations

from uuid import uuid4

import pytest
from kombu.exceptions import OperationalError

from controller import wakeups

pytestmark = pytest.mark.django_db


def test_the_first_message_that_is_not_taken_is_the_last(monkeypatch, django_capture_on_commit_callbacks):
    tried = []

    def away(*_, **named):
        tried.append(named)
        raise OperationalError("the broker is away")

    monkeypatch.setattr(wakeups.current_app, "send_task", away)
    with django_capture_on_commit_callbacks(execute=True):
        wakeups.send_later([uuid4() for _ in range(30)])
    assert len(tried) == 1


def test_each_has_its_message_where_the_broker_takes_them(monkeypatch, django_capture_on_commit_callbacks):
    sent = []
    monkeypatch.setattr(wakeups.current_app, "send_task", lambda *_, kwargs, **__: sent.append(kwargs))
    ids = [uuid4() for _ in range(3)]
    with django_capture_on_commit_callbacks(execute=True):
        wakeups.send_later(ids)
    assert sent == [{"workload_id": str(each)} for each in ids]
