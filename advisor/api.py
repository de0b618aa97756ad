"""REST of the adviser: how much GPU memory a model needs, and what holds it."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from advisor.advice import advise
from advisor.demand import demand_of
from advisor.fitting import Isolation
from advisor.serializers import AdviceRequestSerializer, AdviceSerializer
from foundation import clock
from teams.api.base import PortalView
from teams.permissions import team_for


class AdviceView(PortalView):
    """The memory that a model needs, term by term, and the smallest flavors of a team that hold it; makes nothing."""

    serializer_class = AdviceSerializer
    scopes = {"POST": "read"}
    expensive = frozenset({"post"})

    @extend_schema(
        operation_id="advice", tags=["cluster"], request=AdviceRequestSerializer, responses=AdviceSerializer
    )
    def post(self, request: Any) -> Response:
        values = self.read(AdviceRequestSerializer)
        team = team_for(request.user, values["team"], field="team")
        advice = advise(
            demand=demand_of(values),
            team=team,
            isolation=Isolation(values.get("isolation") or Isolation.NONE),
            cards=values.get("cards"),
            now=clock.now(),
        )
        return Response(AdviceSerializer(advice).data)
