from __future__ import annotations

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.operations import AddIndexConcurrently
from django.contrib.postgres.search import SearchVectorField
from django.db import migrations, models
from django.db.models import F, Func, Q

FINAL = ["Cancelled", "Failed", "Succeeded"]
NEWEST = ["-created_at", "-id"]
# Beginnings one by one, and not words that are looked up by their beginnings: how rare a beginning is, PostgreSQL keeps in
# its statistics, and of a range of words it guesses. In a column, so that a plan that reads rows does not make them anew.
BEGINNINGS_OF_WORDS = """
CREATE FUNCTION workloads_beginnings_of(name varchar) RETURNS tsvector
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    RETURN array_to_tsvector(ARRAY(
        SELECT left(word, size)
        FROM unnest(string_to_array(name, '-')) AS word, generate_series(1, length(word)) AS size
    ));
END
$$
"""
INDEXES = [
    models.Index(fields=["owner", "kind", *NEWEST], name="workload_owner_newest"),
    models.Index(fields=["flavor", "kind", *NEWEST], name="workload_flavor_newest"),
    models.Index(fields=["kind", "phase", *NEWEST], name="workload_phase_newest"),
    models.Index(fields=["kind", "reason", *NEWEST], name="workload_reason_newest"),
    models.Index(fields=["kind", "name", *NEWEST], name="workload_name_newest"),
    models.Index(
        fields=["kind", "priority", *NEWEST],
        condition=~Q(priority="normal"),
        name="workload_priority_newest",
    ),
    models.Index(
        fields=["kind", "capacity_type", *NEWEST],
        condition=~Q(capacity_type="on-demand"),
        name="workload_capacity_newest",
    ),
    models.Index(
        F("kind"), F("finished_at").desc(nulls_last=True), F("id").desc(), name="workload_kind_last_ended"
    ),
    models.Index(fields=["kind", *NEWEST], condition=~Q(phase__in=FINAL), name="workload_live_newest"),
    models.Index(
        fields=["team", "-finished_at"], condition=Q(phase="Failed"), name="workload_failed_lately"
    ),
    GinIndex(fields=["words"], fastupdate=False, name="workload_words"),
    GinIndex(fields=["labels"], fastupdate=False, name="workload_labels"),
]


class Migration(migrations.Migration):
    # Workloads are many after some years, and written while this runs.
    atomic = False

    dependencies = [("workloads", "0018_start_error")]

    operations = [
        migrations.RunSQL(BEGINNINGS_OF_WORDS, "DROP FUNCTION workloads_beginnings_of"),
        migrations.AddField(
            model_name="workload",
            name="words",
            field=models.GeneratedField(
                db_persist=True,
                expression=Func(F("name"), function="workloads_beginnings_of"),
                output_field=SearchVectorField(),
            ),
        ),
        *(AddIndexConcurrently(model_name="workload", index=index) for index in INDEXES),
    ]
