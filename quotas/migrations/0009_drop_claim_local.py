"""Admission claims by passes, so nothing calls the function of 0005 any more."""

from importlib import import_module

from django.db import migrations

_MADE_BY = import_module("quotas.migrations.0005_claim_local")


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0008_estimates_by_age"),
    ]

    operations = [migrations.RunSQL(_MADE_BY.DROP, _MADE_BY.CREATE)]
