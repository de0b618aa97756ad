from __future__ import annotations

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q

THERE, GONE = Q(gone_at__isnull=True), Q(gone_at__isnull=False)
INDEXES = {
    "podrecord": [
        models.Index(fields=["workload"], condition=THERE, name="pod_there_of"),
        models.Index(fields=["workload", "-created_at", "-id"], name="pod_newest_of"),
        models.Index(fields=["workload", "id"], name="pod_in_order_of"),
        models.Index(fields=["gone_at"], condition=GONE, name="pod_gone"),
    ],
    "objectrecord": [
        models.Index(fields=["kind"], condition=THERE, name="object_still_there"),
        models.Index(fields=["gone_at"], condition=GONE, name="object_gone"),
    ],
    "noderecord": [
        models.Index(fields=["name"], condition=THERE, name="node_still_there"),
        models.Index(fields=["gone_at"], condition=GONE, name="node_gone"),
    ],
}


class Migration(migrations.Migration):
    # Pods and objects are many after some years, and written while this runs.
    atomic = False

    dependencies = [("workloads", "0019_lists_by_index")]

    operations = [
        AddIndexConcurrently(model_name=name, index=index)
        for name, indexes in INDEXES.items()
        for index in indexes
    ]
