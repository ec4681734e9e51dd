"""Which environment names a hook may declare, and the small fixed base every sandbox gets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from hooks_app.sandbox.spec import HERMES_HOME, HOME, EnvironmentNameRefused

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")

_TMP = "/tmp"  # noqa: S108 - a private one, inside the sandbox
_FIXED = frozenset({"PATH", "HOME", "HERMES_HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "TMPDIR", "LANG"})

# Each of these makes some loader, shell, interpreter or library run or trust something the reviewer did not read.
_PREFIXES = (
    "LD_", "DYLD_", "GLIBC_", "GCONV_", "MALLOC_", "BASH_", "PYTHON", "PERL", "RUBY", "GIT_", "LUA_", "DOTNET_", "COR_",
    "CORECLR_", "NPM_CONFIG_", "_RJEM_", "OPENSSL_", "TCL", "R_",
)  # fmt: skip
_STEERING = frozenset({
    "ENV", "IFS", "SHELLOPTS", "BASHOPTS", "BASH", "PS0", "PS1", "PS2", "PS4", "PROMPT_COMMAND", "CDPATH",
    "GLOBIGNORE", "FPATH", "ZDOTDIR", "FIGNORE", "POSIXLY_CORRECT", "LOCPATH", "NLSPATH", "CHARSET", "TERMINFO",
    "TERMINFO_DIRS", "TERMCAP", "HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS", "RESOLV_HOST_CONF",
    "RESOLV_ADD_TRIM_DOMAINS", "NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE",
    "NODE_REDIRECT_WARNINGS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH", "PHPRC",
    "PHP_INI_SCAN_DIR", "AWKPATH", "AWKLIBPATH", "EDITOR", "VISUAL", "PAGER", "LESSOPEN", "LESSCLOSE",
    "MANPAGER", "BROWSER", "SSLKEYLOGFILE", "GCC_EXEC_PREFIX", "COMPILER_PATH", "LIBRARY_PATH", "CPATH",
    "RUSTC_WRAPPER", "CARGO_HOME", "GOFLAGS", "GEM_PATH", "GEM_HOME", "BUNDLE_GEMFILE", "VIRTUAL_ENV",
    "SSH_ASKPASS", "SUDO_ASKPASS", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS",
    "HERMES_SAFE_MODE", "HERMES_MANAGED_DIR", "HERMES_BUNDLED_PLUGINS", "HERMES_ACCEPT_HOOKS",
    "HERMES_YOLO_MODE", "DEBUGINFOD_URLS",
})  # fmt: skip


def refused_name(name: str) -> str | None:
    """Say why a hook may not declare this environment name, or None when it may."""
    if not _NAME.fullmatch(name):
        return f"environment name {name!r} is not a plain name (letters, digits and underscores)"
    upper = name.upper()
    if upper in _FIXED:
        return f"environment name {name} is set by the sandbox and cannot be declared"
    if upper in _STEERING or upper.startswith(_PREFIXES):
        return f"environment name {name} steers a loader or interpreter and cannot be declared"
    return None


def check_environment_names(names: Iterable[str]) -> list[str]:
    """Return one sentence per name that may not be declared; empty when all may."""
    return [problem for name in names if (problem := refused_name(name))]


def build_environment(declared: Mapping[str, str], *, path: str, home: str = HOME) -> dict[str, str]:
    """Return the whole environment of a sandboxed process: the base and what was declared, nothing else."""
    if problems := check_environment_names(declared):
        raise EnvironmentNameRefused("; ".join(problems))
    if bad := [name for name, value in declared.items() if "\0" in value]:
        raise EnvironmentNameRefused(f"the value of {bad[0]} contains a NUL character")
    hermes_home = HERMES_HOME if home == HOME else f"{home}/.hermes"
    base = {
        "PATH": path,
        "HOME": home,
        "HERMES_HOME": hermes_home,
        "USER": "agent",
        "LOGNAME": "agent",
        "SHELL": "/bin/sh",
        "LANG": "C.UTF-8",
        "TMPDIR": _TMP,
    }
    return base | dict(declared)
