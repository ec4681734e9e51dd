"""The hook engine. In the archive this directory holds its files; in the repository it is the plane's own engine.

Write `from .engine import rules`, never `from .engine.rules import …`: only the first works in both places.
"""

from __future__ import annotations

import sys

import hooks_app.engine

sys.modules[__name__] = hooks_app.engine
