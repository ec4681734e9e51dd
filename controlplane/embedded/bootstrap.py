"""The virtualenv `.venv/`: made, filled and entered by manage.py itself, so that Python alone is enough.

Runs before any package is installed and is loaded by path: standard library only, nothing of ours imported.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

RUNTIME, TESTS = "requirements.txt", "tests/requirements.txt"
OLDEST_PIP_WITH_PYTHON_OPTION = (22, 3)


def enter(top: str, argv: Sequence[str]) -> None:
    """Return inside a virtualenv that has what the command needs; from outside, start again inside `.venv`.

    A virtualenv that somebody else made is taken as it is: its owner decides what is in it.
    """
    checkout = Path(top)
    venv = Path(os.environ.get("CADUCEUS_VENV") or checkout / ".venv").absolute()
    inside = sys.prefix != sys.base_prefix
    if inside and Path(sys.prefix).resolve() != venv.resolve():
        if importlib.util.find_spec("django") is None:
            refuse(f"the virtualenv {sys.prefix} lacks our packages: `pip install -r {RUNTIME}` in it, or leave it.")
        return
    names = [RUNTIME, TESTS] if argv[1:2] == ["test"] else [RUNTIME]
    install(checkout, venv, [checkout / name for name in names if (checkout / name).is_file()])
    if not inside:
        python = str(interpreter(venv))
        sys.stdout.flush()
        os.execv(python, [python, str(checkout / "manage.py"), *argv[1:]])  # noqa: S606 - there is no shell to want


def install(checkout: Path, venv: Path, requirements: Sequence[Path]) -> None:
    """Bring the virtualenv up to the requirements; quick when it already is."""
    if up_to_date(venv, requirements):
        return
    with locked(venv.parent):
        if up_to_date(venv, requirements):
            return
        if not works(venv):
            create(venv, shown(venv, checkout))
        for path in requirements:
            if not stamped(venv, path):
                say(f"installing the packages of {shown(path, checkout)} (a minute or two the first time)")
                pip_install(venv, path)
                stamp_of(venv, path).write_text(fingerprint(path), encoding="ascii")


def up_to_date(venv: Path, requirements: Sequence[Path]) -> bool:
    """Whether a former start has installed exactly these files here."""
    return all(stamped(venv, path) for path in requirements) and works(venv)


def works(venv: Path) -> bool:
    """Whether the virtualenv has an interpreter that this machine can run and that is ours by version."""
    python = interpreter(venv)
    if python.resolve() == Path(sys.executable).resolve():
        return (venv / "pyvenv.cfg").is_file()
    code = "import sys; print(*sys.version_info[:2])"
    try:
        answer = subprocess.run([str(python), "-c", code], check=False, capture_output=True, text=True, timeout=60)
    except OSError:
        return False
    return answer.stdout.split() == [str(part) for part in sys.version_info[:2]]


def interpreter(venv: Path) -> Path:
    """Where the virtualenv's Python is."""
    return venv / "bin" / "python"


def fingerprint(path: Path) -> str:
    """What a stamp holds: it changes with the file and with the Python that it was installed for."""
    return hashlib.sha256(f"{sys.version_info[:2]}\n".encode() + path.read_bytes()).hexdigest()


def stamp_of(venv: Path, path: Path) -> Path:
    """The file that says which content of this requirements file is installed."""
    return venv / f".installed-{path.parent.name}-{path.stem}" if path.parent.name == "tests" else venv / ".installed"


def stamped(venv: Path, path: Path) -> bool:
    """Whether exactly this content was installed to the end."""
    try:
        return stamp_of(venv, path).read_text(encoding="ascii") == fingerprint(path)
    except OSError:
        return False


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Two starts at once take turns; the lock is on the directory itself, so nothing stays behind."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle = os.open(directory, os.O_RDONLY)
    except OSError as error:
        refuse(f"{directory} cannot be used ({error.strerror}): mend that or set CADUCEUS_VENV to another place.")
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("another start is installing the packages; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def create(venv: Path, name: str) -> None:
    """Make the virtualenv, with pip from ensurepip where there is one."""
    missing = missing_package()
    if missing:
        refuse(missing)
    say(f"making the virtualenv {name}")
    without_pip = [] if has_module("ensurepip") else ["--without-pip"]
    command = [sys.executable, "-m", "venv", "--clear", *without_pip, str(venv)]
    result = subprocess.run(command, check=False, capture_output=True, text=True, env=pip_environment())
    if result.returncode != 0:
        shutil.rmtree(venv, ignore_errors=True)
        why = last_line(result.stderr) or last_line(result.stdout) or f"exit code {result.returncode}"
        refuse(f"{venv} could not be made ({why}): make its place writable or set CADUCEUS_VENV to another one.")


def missing_package() -> str | None:
    """The line that names the package to install where this Python can make no virtualenv."""
    if has_module("venv") and (has_module("ensurepip") or foreign_pip()):
        return None
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return (
        f"this Python ({sys.executable}) comes without venv: on Debian and Ubuntu run "
        f"`sudo apt install python{version}-venv` (or python3-venv), then start again."
    )


def foreign_pip() -> bool:
    """Whether the pip outside can fill a virtualenv that has none (`pip --python`, since 22.3)."""
    if not has_module("pip"):
        return False
    answer = subprocess.run([sys.executable, "-m", "pip", "--version"], check=False, capture_output=True, text=True)
    words = answer.stdout.split()
    try:
        return tuple(int(part) for part in words[1].split(".")[:2]) >= OLDEST_PIP_WITH_PYTHON_OPTION
    except (IndexError, ValueError):
        return False


def has_module(name: str) -> bool:
    """Whether a module can be found, without importing it; a directory that was left empty is none."""
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None


def pip_install(venv: Path, path: Path) -> None:
    """Install one requirements file; a failure shows pip's own words and then one line of ours."""
    python = str(interpreter(venv))
    has_pip = subprocess.run([python, "-c", "import pip"], check=False, capture_output=True).returncode == 0
    pip = [python, "-m", "pip"] if has_pip else [sys.executable, "-m", "pip", "--python", python]
    command = [*pip, "install", "--quiet", "--no-input", "--disable-pip-version-check", "-r", str(path)]
    result = subprocess.run(command, check=False, env=pip_environment(), capture_output=True, text=True)
    if result.returncode != 0:
        words = (result.stdout + result.stderr).strip().splitlines()
        sys.stderr.write("".join(f"  pip: {line}\n" for line in words[-15:]))
        refuse(f"the packages of {path.name} could not be installed: see pip above; start again when that is mended.")


def pip_environment() -> dict[str, str]:
    """The environment without what would send packages elsewhere or fill the log with warnings."""
    environment = {name: value for name, value in os.environ.items() if name not in {"PIP_TARGET", "PIP_PREFIX"}}
    environment |= {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0", "PIP_ROOT_USER_ACTION": "ignore"}
    home = Path(environment.get("HOME") or "/nonexistent")
    if not (home.is_dir() and os.access(home, os.W_OK)):
        environment["PIP_NO_CACHE_DIR"] = "1"
    return environment


def shown(path: Path, checkout: Path) -> str:
    """A path as short as it can be said."""
    return str(path.relative_to(checkout)) if path.is_relative_to(checkout) else str(path)


def last_line(text: str) -> str:
    """The last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def say(text: str) -> None:
    """Tell what is being done."""
    print(f"caduceus: {text}", flush=True)


def refuse(text: str) -> NoReturn:
    """Stop with one clear line."""
    sys.exit(f"caduceus: {text}")
