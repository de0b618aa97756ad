from __future__ import annotations

from ipaddress import ip_network

import pytest

from tests.notices.bed import Bed
from tests.notices.receiver import Mailbox, Receiver


@pytest.fixture
def receiver(settings):
    """One on loopback, which the operator allows."""
    settings.NOTICE_NETWORKS = (ip_network("127.0.0.0/8"),)
    server = Receiver()
    yield server
    server.stop()


@pytest.fixture
def mailbox(settings):
    server = Mailbox()
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
    settings.EMAIL_TIMEOUT = 10
    yield server
    server.stop()


@pytest.fixture
def bed(db):
    return Bed()
