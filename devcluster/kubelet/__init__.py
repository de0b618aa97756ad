"""Two kubelets: `clock` plays pods by their environment, `process` really runs them."""

from __future__ import annotations
