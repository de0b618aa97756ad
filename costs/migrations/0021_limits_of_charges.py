import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('costs', '0020_budgets'),
        ('workloads', '0032_ends_that_nobody_watched'),
    ]

    operations = [
        migrations.AddField(
            model_name='lostwork',
            name='credit_seconds',
            field=models.PositiveIntegerField(help_text='How much of it is credited at the most, by the setting when it was noted.', null=True),
        ),
        migrations.AddField(
            model_name='budgetreservation',
            name='counts_from',
            field=models.DateTimeField(help_text='From when on what it uses is of this promise; none: all that its pods use.', null=True),
        ),
        migrations.AddField(
            model_name='budgetreservation',
            name='pods_from',
            field=models.DateTimeField(help_text='Pods that began before it are of an earlier admission; none: no pod is.', null=True),
        ),
        migrations.CreateModel(
            name='ChargeLimit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('counts_from', models.DateTimeField(help_text='As of its reservation.', null=True)),
                ('counts_until', models.DateTimeField(help_text='When the period of the promise ended.')),
                ('pods_from', models.DateTimeField(help_text='As of its reservation.', null=True)),
                ('pods_until', models.DateTimeField(help_text='When its last pod was gone: pods that began later are of another admission.', null=True)),
                ('ended_at', models.DateTimeField(help_text='When it was over; the excess is posted at that time.')),
                ('most_micro_usd', models.BigIntegerField()),
                ('excess_micro_usd', models.BigIntegerField(default=0)),
                ('transaction_id', models.UUIDField(help_text='The posting of the excess that stands.', null=True)),
                ('workload', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='charge_limits', to='workloads.workload')),
            ],
            options={
                'ordering': ['id'],
                'constraints': [models.CheckConstraint(condition=models.Q(('excess_micro_usd__gte', 0), ('most_micro_usd__gte', 0)), name='charge_limit_not_negative')],
            },
        ),
    ]
