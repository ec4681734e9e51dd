"""(team, id) is a key of every tenant's table, so an index of the team alone only costs each insert."""

from django.db import migrations

from controlplane.db.tenancy import DropTeamIndex

MODELS = ["agent", "bundle", "enrolment", "profilesettings", "profileversion", "receipt", "rollout"]


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0004_fewer_indexes"), ("gateway_app", "0003_touched")]

    operations = [DropTeamIndex(*MODELS)]
