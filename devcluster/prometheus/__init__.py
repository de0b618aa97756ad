"""A small Prometheus: it scrapes, keeps some minutes in memory, and answers a stated part of PromQL over the usual API."""

from __future__ import annotations
