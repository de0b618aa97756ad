"""Numbers of lines in a container's log, and when a chunk was stored instead of when it will expire: the retention that is set
now holds for what is stored already.
"""

from django.db import migrations, models

FILL = """
UPDATE workloads_logchunk AS c
SET first_line = n.first_line,
    stored_at = CASE WHEN c.container = '' THEN c.first_at ELSE c.expires_at - make_interval(days => coalesce(
        (SELECT log_retention_days FROM foundation_platformsettings WHERE id = 1), 30)) END
FROM (SELECT id, 1 + coalesce(sum(lines) OVER (PARTITION BY pod_uid, container ORDER BY sequence
                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS first_line
      FROM workloads_logchunk) AS n
WHERE n.id = c.id
"""


class Migration(migrations.Migration):
    dependencies = [
        ("foundation", "0011_pod_security_of_the_platform"),
        ("workloads", "0028_what_all_pods_ask_for"),
    ]

    operations = [
        migrations.AddField("logchunk", "first_line", models.PositiveBigIntegerField(default=1)),
        migrations.AddField("logchunk", "stored_at", models.DateTimeField(null=True)),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        migrations.AlterField("logchunk", "stored_at", models.DateTimeField()),
        migrations.RemoveIndex("logchunk", "log_expiry"),
        migrations.AddIndex("logchunk", models.Index(fields=["stored_at"], name="log_stored")),
        migrations.RemoveField("logchunk", "expires_at"),
    ]
