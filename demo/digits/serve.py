"""Serves the digits model by the Open Inference Protocol (V2), with nothing but the standard library.

`python serve.py --host 0.0.0.0 --port 8080 --model /models/digits.pickle`
"""

from __future__ import annotations

import argparse
import json
import pickle
import signal
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

NAME = "digits"
FEATURES = 64
BODY_BYTES_MAX = 8 * 1024 * 1024


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Any
    gpu_seconds = 0.0
    gpu = threading.Lock()

    def do_GET(self) -> None:
        routes = {
            "/v2/health/live": {"live": True},
            "/v2/health/ready": {"ready": True},
            "/v2": {"name": "digits-server", "version": "1", "extensions": []},
            f"/v2/models/{NAME}": {
                "name": NAME,
                "platform": "sklearn",
                "inputs": [{"name": "pixels", "datatype": "FP64", "shape": [-1, FEATURES]}],
                "outputs": [
                    {"name": "digit", "datatype": "INT64", "shape": [-1]},
                    {"name": "probability", "datatype": "FP64", "shape": [-1, 10]},
                ],
            },
            f"/v2/models/{NAME}/ready": {"name": NAME, "ready": True},
        }
        body = routes.get(self.path)
        if body is None:
            self.answer(HTTPStatus.NOT_FOUND, {"error": f"there is no {self.path}"})
        else:
            self.answer(HTTPStatus.OK, body)

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if self.path != f"/v2/models/{NAME}/infer":
            self.rfile.read(min(length, BODY_BYTES_MAX))
            self.answer(HTTPStatus.NOT_FOUND, {"error": f"there is no {self.path}"})
            return
        try:
            if length > BODY_BYTES_MAX:
                raise ValueError(f"a body has at most {BODY_BYTES_MAX} bytes")
            request = json.loads(self.rfile.read(length))
            with self.gpu:
                answer = infer(self.model, request)
                time.sleep(self.gpu_seconds)
            self.answer(HTTPStatus.OK, answer)
        except (ValueError, KeyError, TypeError) as error:
            self.answer(HTTPStatus.BAD_REQUEST, {"error": str(error)})

    def answer(self, status: HTTPStatus, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def infer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Answer an inference request with one input tensor `pixels` of shape [n, 64], values 0 to 1."""
    (tensor,) = request["inputs"]
    shape = tensor["shape"]
    if len(shape) != 2 or shape[1] != FEATURES:
        raise ValueError(f"pixels has the shape [n, {FEATURES}]")
    pixels = np.asarray(tensor["data"], dtype=np.float64).reshape(shape)
    probability = model.predict_proba(pixels)
    digit = probability.argmax(axis=1)
    outputs = [
        {"name": "digit", "datatype": "INT64", "shape": [len(digit)], "data": digit.tolist()},
        {
            "name": "probability",
            "datatype": "FP64",
            "shape": list(probability.shape),
            "data": probability.ravel().tolist(),
        },
    ]
    return {"model_name": NAME, "id": request.get("id", ""), "outputs": outputs}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="0.0.0.0")  # noqa: S104 (a pod serves its own address)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument(
        "--gpu-seconds", type=float, default=0.0, help="how long a pretended GPU is busy with each request"
    )
    options = parser.parse_args()
    Handler.model = pickle.loads(options.model.read_bytes())  # noqa: S301 (a file of the team's own volume)
    Handler.gpu_seconds = options.gpu_seconds
    server = ThreadingHTTPServer((options.host, options.port), Handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(f"serving {options.model} on {options.host}:{options.port}", flush=True)
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
