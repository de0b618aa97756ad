from __future__ import annotations

import socket

import pytest

from portal.runtime.http_server import listener as _listener
from portal.settings.env import Bind


@pytest.mark.parametrize("handed_over", [False, True])
def test_an_answer_is_not_held_back_until_its_headers_are_acknowledged(handed_over):
    first = socket.create_server(("127.0.0.1", 0))
    bind = Bind(host="", port=0, fd=first.fileno()) if handed_over else Bind(host="127.0.0.1", port=0)
    with _listener(bind) as listener:
        caller = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        with caller, accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    if handed_over:
        first.detach()
    else:
        first.close()
