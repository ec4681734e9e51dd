"""Canonical JSON and signatures: in the archive their files lie here, in the repository they are the plane's own."""

from __future__ import annotations

import sys

import controlplane.lib

sys.modules[__name__] = controlplane.lib
