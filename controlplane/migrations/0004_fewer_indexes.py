"""(team, id) is a key of every tenant's table, so an index of the team alone only costs each insert."""

from django.db import migrations

from controlplane.db.tenancy import DropTeamIndex

MODELS = ["auditcheckpoint", "auditentry", "idempotencykey", "membership", "profile", "token"]


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0003_profile_hosted")]

    operations = [DropTeamIndex(*MODELS)]
