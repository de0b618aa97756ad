"""Names and labels of the gateway's request metrics of served workloads, shared by writers and readers.

`live` shows them at `/-/metrics`; a scaler's query and the analytics read them from Prometheus. Pure.
"""

from __future__ import annotations

from typing import Final

ENDPOINT_LABEL: Final = "endpoint_id"
"""The workload's public id."""
REVISION_LABEL: Final = "revision"
"""The number of the revision that was live when the request came."""
CODE_LABEL: Final = "code"
"""The status as three digits; 499 where the caller hung up."""

REQUESTS_TOTAL: Final = "mlportal_gateway_requests_total"
"""Counter of requests that have ended, by endpoint, revision and code."""
REQUESTS_IN_FLIGHT: Final = "mlportal_gateway_requests_in_flight"
"""Gauge of requests that have come and not ended, those that are held for a waking endpoint among them."""
REQUESTS_HELD: Final = "mlportal_gateway_requests_held"
"""Gauge: of those in flight, the ones that wait for the endpoint to wake."""
REQUEST_DURATION: Final = "mlportal_gateway_request_duration_seconds"
"""Histogram from the first byte in to the last byte out, by endpoint and revision."""
GATEWAY_UP: Final = "mlportal_gateway_up"
"""Gauge, 1 of each process that serves: distinguishes an endpoint without calls from a gateway that is not scraped."""

GATEWAYS: Final = f"count({GATEWAY_UP})"
FEWEST_SAMPLES: Final = f"min(count_over_time({GATEWAY_UP}[5m]) and {GATEWAY_UP} and {GATEWAY_UP} offset 5m)"
"""Of the gateways that are up and were so five minutes ago, how often the one that is scraped least was in between."""
SAMPLES_MIN: Final = 3
"""Of these, so that two are left when one is lost."""
