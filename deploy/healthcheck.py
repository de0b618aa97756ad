"""Exit 0 when /healthz answers on a port of this container; the image has no curl."""

from __future__ import annotations

import http.client
import sys


def main() -> int:
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=4)
    try:
        connection.request("GET", "/healthz")
        return 0 if connection.getresponse().status == 200 else 1
    except (OSError, http.client.HTTPException):
        return 1
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main())
