"""Write the documentation page of events."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from controlplane.embedded.paths import CHECKOUT
from hooks_app.engine.events import render_markdown


class Command(BaseCommand):
    """Renders the engine's catalogue as docs/events.md."""

    help = "Write docs/events.md from the event catalogue."

    def handle(self, *args: Any, **options: Any) -> None:
        path = CHECKOUT / "docs" / "events.md"
        path.write_text(render_markdown(), encoding="utf-8")
        self.stdout.write(f"{path} written")
