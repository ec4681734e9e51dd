"""Postgres keeps reviewed versions unchanged and unreviewed ones inactive."""

from django.db import migrations

from controlplane.db.tenancy import DefineFunctions, IsolateTeams, Restrict
from hooks_app.db import triggers


class Migration(migrations.Migration):
    dependencies = [("hooks_app", "0001_initial"), ("controlplane", "0002_isolation")]

    operations = [
        IsolateTeams(
            "hook",
            "hookversion",
            "blob",
            "profilehook",
            "profilesecret",
            "revokedcommand",
            "change",
            "changedecision",
            "outsidereviewer",
            "breakglass",
            "allowlistentry",
            "testrun",
        ),
        Restrict("blob", "SELECT, INSERT"),
        Restrict("hookversion", "SELECT, INSERT"),
        Restrict("changedecision", "SELECT, INSERT"),
        Restrict("outsidereviewer", "SELECT, INSERT"),
        Restrict("hook", "SELECT, INSERT, UPDATE"),
        Restrict("change", "SELECT, INSERT, UPDATE"),
        Restrict("breakglass", "SELECT, INSERT, UPDATE"),
        Restrict("allowlistentry", "SELECT, INSERT, UPDATE"),
        Restrict("revokedcommand", "SELECT, INSERT, UPDATE"),
        DefineFunctions(triggers.IMMUTABLE, []),
        DefineFunctions(triggers.CHANGES, []),
        DefineFunctions(triggers.ACTIVATION, ["caduceus_approved(uuid, text, uuid)"]),
        DefineFunctions(triggers.ALLOWLISTS, []),
        DefineFunctions(triggers.OUTSIDE, triggers.OUTSIDE_SIGNATURES),
    ]
