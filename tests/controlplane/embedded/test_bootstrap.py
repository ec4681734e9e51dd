"""manage.py makes its own virtualenv: once, whole or not at all, and with one clear line when it cannot."""

from __future__ import annotations

import ast
import base64
import hashlib
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

import manage
from controlplane.embedded import bootstrap
from controlplane.embedded.paths import CHECKOUT


@pytest.fixture
def wheel_house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with one tiny package, the only one that pip can find."""
    house = tmp_path / "wheels"
    house.mkdir()
    files = {
        "tinything.py": b"VALUE = 7\n",
        "tinything-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tinything\nVersion: 1.0\n",
        "tinything-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for name, data in files.items()
    )
    with zipfile.ZipFile(house / "tinything-1.0-py3-none-any.whl", "w") as archive:
        for name, data in {**files, "tinything-1.0.dist-info/RECORD": record.encode()}.items():
            archive.writestr(name, data)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(house))
    return house


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose virtualenv is filled by the pip outside, which is quicker than putting pip inside."""
    monkeypatch.setattr(bootstrap, "has_module", lambda name: name != "ensurepip")
    (tmp_path / "requirements.txt").write_text("tinything\n")
    return tmp_path


def test_first_start_installs_and_second_does_not(
    checkout: Path, wheel_house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    venv, wanted = checkout / ".venv", [checkout / "requirements.txt"]
    bootstrap.install(checkout, venv, wanted)
    said = capsys.readouterr().out
    assert "making the virtualenv .venv" in said
    assert "installing the packages of requirements.txt" in said
    code = "import tinything; print(tinything.VALUE)"
    assert subprocess.run([venv / "bin/python", "-c", code], capture_output=True, text=True).stdout == "7\n"

    bootstrap.install(checkout, venv, wanted)
    assert capsys.readouterr().out == ""


def test_changed_requirements_are_installed_again(
    checkout: Path, wheel_house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    venv, wanted = checkout / ".venv", [checkout / "requirements.txt"]
    bootstrap.install(checkout, venv, wanted)
    wanted[0].write_text("tinything>=1\n")
    capsys.readouterr()
    bootstrap.install(checkout, venv, wanted)
    said = capsys.readouterr().out
    assert "installing" in said
    assert "making" not in said


def test_failed_install_says_why_and_is_tried_again(
    checkout: Path, wheel_house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    venv, wanted = checkout / ".venv", [checkout / "requirements.txt"]
    wanted[0].write_text("no-such-package-at-all\n")
    for _ in range(2):
        with pytest.raises(SystemExit) as ended:
            bootstrap.install(checkout, venv, wanted)
        assert str(ended.value).startswith("caduceus: the packages of requirements.txt could not be installed")
        assert "no-such-package-at-all" in capsys.readouterr().err


def test_broken_interpreter_makes_a_new_virtualenv(checkout: Path, wheel_house: Path) -> None:
    venv, wanted = checkout / ".venv", [checkout / "requirements.txt"]
    bootstrap.install(checkout, venv, wanted)
    (venv / "bin/python").unlink()
    (venv / "bin/python").symlink_to("/nonexistent/python")
    assert not bootstrap.up_to_date(venv, wanted)
    bootstrap.install(checkout, venv, wanted)
    assert bootstrap.up_to_date(venv, wanted)


def test_tests_have_a_stamp_of_their_own(tmp_path: Path) -> None:
    runtime, tests = tmp_path / "requirements.txt", tmp_path / "tests" / "requirements.txt"
    assert bootstrap.stamp_of(tmp_path, runtime) != bootstrap.stamp_of(tmp_path, tests)


def test_two_starts_take_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    order: list[str] = []
    inside = threading.Event()

    def second() -> None:
        inside.wait(10)
        with bootstrap.locked(tmp_path):
            order.append("second")

    other = threading.Thread(target=second)
    other.start()
    with bootstrap.locked(tmp_path):
        inside.set()
        other.join(0.3)
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]
    assert "another start is installing" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_python_without_venv_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "has_module", lambda name: name not in {"ensurepip", "pip"})
    with pytest.raises(SystemExit) as ended:
        bootstrap.create(tmp_path / ".venv", ".venv")
    assert f"python{sys.version_info[0]}.{sys.version_info[1]}-venv" in str(ended.value)
    assert "\n" not in str(ended.value)
    assert not (tmp_path / ".venv").exists()


def test_place_that_takes_no_virtualenv_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match="CADUCEUS_VENV"):
        bootstrap.create(tmp_path / "file" / ".venv", ".venv")


def test_home_that_cannot_be_written_gets_no_pip_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setenv("PIP_TARGET", "/elsewhere")
    environment = bootstrap.pip_environment()
    assert environment["PIP_NO_CACHE_DIR"] == "1"
    assert "PIP_TARGET" not in environment


def test_foreign_virtualenv_without_packages_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(bootstrap.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="lacks our packages"):
        bootstrap.enter(str(CHECKOUT), ["manage.py", "up"])


def test_old_python_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 2, "final", 0))
    with pytest.raises(SystemExit) as ended:
        manage.main()
    assert str(ended.value).startswith("caduceus: Python 3.11 or newer is needed and this is 3.9")


def test_manage_parses_on_old_pythons() -> None:
    tree = ast.parse((CHECKOUT / "manage.py").read_text(), feature_version=(3, 4))
    newer = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr)
    assert not [node for node in ast.walk(tree) if isinstance(node, newer)]
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert functions
    assert not [node for node in functions if node.returns or any(one.annotation for one in node.args.args)]
