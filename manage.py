#!/usr/bin/env python3
"""Django's command line; outside a virtualenv it makes `.venv/` first, so that Python alone is enough to start."""

# No annotations and nothing newer than Python 2 here: an old Python must reach the line that says so.
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def load_bootstrap():
    """The bootstrap module by its path, because importing the package would need what it installs."""
    import importlib.util

    path = os.path.join(HERE, "controlplane", "embedded", "bootstrap.py")
    spec = importlib.util.spec_from_file_location("caduceus_bootstrap", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main():
    """Make sure of the packages, then run the command."""
    if sys.version_info < (3, 11):  # noqa: UP036 - the line is for those who start it with an older one
        sys.exit(
            "caduceus: Python 3.11 or newer is needed and this is %d.%d (%s): start me with a newer one, "  # noqa: UP031
            "as in `python3.12 manage.py up`." % (sys.version_info[0], sys.version_info[1], sys.executable)
        )
    load_bootstrap().enter(HERE, sys.argv)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    from controlplane.embedded import commandline

    commandline.run(sys.argv)


if __name__ == "__main__":
    main()
