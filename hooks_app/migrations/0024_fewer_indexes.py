"""(team, id) is a key of every tenant's table, so an index of the team alone only costs each insert."""

from django.db import migrations

from controlplane.db.tenancy import DropTeamIndex

MODELS = [
    "allowlistentry",
    "approval",
    "approvalanswer",
    "approvalpolicy",
    "blob",
    "breakglass",
    "change",
    "changedecision",
    "delivery",
    "endpoint",
    "eventbatch",
    "grant",
    "hook",
    "hookversion",
    "hostlease",
    "legalhold",
    "notification",
    "notificationroute",
    "outsidereviewer",
    "profilehook",
    "profilemode",
    "profilesecret",
    "revokedcommand",
    "run",
    "seenevent",
    "switch",
    "teamhook",
    "testrun",
]


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0004_fewer_indexes"), ("hooks_app", "0023_record_together")]

    operations = [DropTeamIndex(*MODELS)]
