"""A profile says where its hooks run."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0002_isolation")]

    operations = [
        migrations.AddField(
            model_name="profile",
            name="hosted",
            field=models.BooleanField(
                default=False, help_text="Its hooks run here, in the plane's sandbox, instead of on an agent's machine."
            ),
        ),
    ]
