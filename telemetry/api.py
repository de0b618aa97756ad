"""REST: `metrics/` of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.response import Response

from foundation import clock
from foundation.http.query import check_query_parameters
from teams.api.base import PART
from telemetry.gpu_series import gpu_series
from telemetry.ranges import RANGE_NAMES, RANGE_PARAMETERS, asked_range
from telemetry.serializers import RunMetricsSerializer, shown_gpus
from workloads.models import Workload


class GpuMetricsAction:
    """`metrics/` of a workload that the view set finds."""

    find: Callable[[Any, UUID], Workload]

    @extend_schema(
        summary="GPU metrics of one {one}", parameters=RANGE_PARAMETERS, responses=RunMetricsSerializer
    )
    @action(detail=True, **PART)
    def metrics(self, request: Any, public_id: UUID) -> Response:
        """What its GPUs did, by DCGM: utilization, memory, temperature, power, clocks, tensor cores, copies, XID errors."""
        check_query_parameters(request, RANGE_NAMES)
        now = clock.now()
        begin, step, slots = asked_range(request, now=now)
        workload = self.find(request.user, public_id)
        series = gpu_series(workload, begin=begin, step=step, slots=slots, now=now)
        return Response(RunMetricsSerializer({"gpus": shown_gpus(series, simulated=workload.simulated)}).data)
