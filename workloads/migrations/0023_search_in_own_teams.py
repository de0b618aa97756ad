from __future__ import annotations

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations
from django.db.models import F, Func

# Each word behind the key of its team, of `ab` in team 7 `7:a` and `7:ab`. PostgreSQL takes words and teams for independent
# of each other, and for a word that others use reads the past of all in search of a page of one's own.
# Names are of small letters, digits and dashes: no quote and no space is in their words. The body is of immutable
# functions alone and takes whatever there is: so PostgreSQL puts it in the place of the call, which is five times as fast.
WORDS_OF_TEAM = """
CREATE OR REPLACE FUNCTION workloads_words_of_team(team bigint, words tsvector) RETURNS tsvector
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT array_to_tsvector(string_to_array(
        team::text || ':' || replace(replace(words::text, '''', ''), ' ', ' ' || team::text || ':'), ' '
    ))
$$
"""


class Migration(migrations.Migration):
    # Workloads are many after some years, and written while this runs: no column, which would write all of them anew.
    atomic = False

    dependencies = [("workloads", "0022_what_a_pod_asks_for_besides_gpus")]

    operations = [
        migrations.RunSQL(WORDS_OF_TEAM, "DROP FUNCTION workloads_words_of_team"),
        AddIndexConcurrently(
            model_name="workload",
            index=GinIndex(
                Func(F("team"), F("words"), function="workloads_words_of_team"),
                fastupdate=False,
                name="workload_words_of_team",
            ),
        ),
        # How rare a word is in a team is not known before.
        migrations.RunSQL("ANALYZE workloads_workload", migrations.RunSQL.noop),
    ]
