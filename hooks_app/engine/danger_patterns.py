r"""The signs by which a command is known as dangerous, in the order in which Hermes 0.19.0 reports them.

The keys are Hermes's; a rule, a grant or an approval names a danger by them. The signs are ours: written for text
in lower case, in the pattern language of `patterns`, in a notation that keeps them readable. A space stands for
white space, `…` for anything, `<name>` for a piece of PIECES.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from hooks_app.engine import patterns
from hooks_app.engine.patterns import Pattern, TextSet

PIECES = {
    "options": r"(?:-\S* )*",
    "shell": r"(?:bash|sh|zsh|ksh|dash)\b",
    "home": r"(?:~|\$home|\$\{home\})",
    "end": r"\n?$",
    "etc": r"/(?:etc|private/(?:etc|var|tmp|home))/",
    "ssh": r"<home>/\.ssh(?:/|<end>)",
    "dotfile": r"<home>/\.(?:bashrc|zshrc|profile|bash_profile|zprofile|netrc|pgpass|npmrc|pypirc)\b",
    "personal": r"(?:<ssh>|<dotfile>)",
    "hermes-file": r"(?:<home>/\.hermes|\$hermes_home|\$\{hermes_home\})/(?:\.env|config\.yaml)\b",
    "guarded": r"(?:<etc>|/dev/sd|<personal>|<hermes-file>)",
    "settings": r"""(?:\.env(?:\.[^/\s"'`]+)?|config\.yaml)""",
    "project": r"""/?(?:[^\s/"'`]+/)*<settings>""",
    "word-end": r"""(?:[\s;&|<>"']|$)""",
    "command-end": r"(?:\s*(?:&&|\|\||;)|<end>)",
    "same-command": r"[^;|&\n]*",
    "writable": r"(?:777|666|[oa]\+[rwx]*w)",
    "copy": r"\b(?:cp|mv|install)\b…\s",
    "remote": r"(?:curl|wget)\b",
    "lifecycle": r"(?:stop|kickstart|bootout|unload|kill|disable|remove)",
    "pid": r"(?:pgrep|pidof)\b",
    "disk": r"/dev/(?:sd|nvme|hd|mmcblk|vd|xvd)",
    "start": (
        r"(?:^|[\n`]|\$\()\s*(?:sudo (?:-\S+ )*)?(?:env (?:\w+=\S* )*)?"
        r"(?:(?:exec|nohup|setsid|time) )*\s*"
    ),
    "rm": r"<start>rm <options>",
    "path-end": r"(?:[\s)`;|&]|$)",
}

UNBOUNDED_DELETE = "SQL DELETE without WHERE"

DANGEROUS_SIGNS: tuple[tuple[str, str], ...] = (
    ("delete in root path", r"\brm <options>/"),
    ("recursive delete", r"\brm -\S*r"),
    ("recursive delete (long flag)", r"\brm --recursive\b"),
    ("Windows cmd destructive delete", r"\bcmd(?:\.exe)? /[ck] …\b(?:del|erase|rd|rmdir)\b"),
    (
        "Windows PowerShell destructive delete",
        r"""\b(?:powershell|pwsh)(?:\.exe)?\b(?: -\S+)* (?:-c(?:ommand)? )?["']?"""
        r"(?:remove-item|rmdir|erase|del|rd|ri|rm)\b",
    ),
    (
        "PowerShell encoded command execution",
        r"\b(?:powershell|pwsh)(?:\.exe)?\b…\s-(?:encodedcommand|enc|e)\b",
    ),
    ("world/other-writable permissions", r"\bchmod <options><writable>\b"),
    ("recursive world/other-writable (long flag)", r"\bchmod --recursive\b…<writable>"),
    ("recursive chown to root", r"\bchown (?:-\S*)?r root"),
    ("recursive chown to root (long flag)", r"\bchown --recur[a-z]*\b…root"),
    ("format filesystem", r"\bmkfs\b"),
    ("disk copy", r"\bdd …if="),
    ("write to block device", r">\s*/dev/sd"),
    ("SQL DROP", r"\bdrop (?:table|database)\b"),
    (UNBOUNDED_DELETE, r"\bdelete from\b"),  # and no WHERE on its line
    ("SQL TRUNCATE", r"\btruncate (?:table)?\s*\w"),
    ("overwrite system config", r">\s*<etc>"),
    ("stop/restart system service", r"\bsystemctl (?:-\S+ )*(?:stop|restart|disable|mask)\b"),
    ("kill all processes", r"\bkill -9 -1\b"),
    ("force kill processes", r"\bpkill -9\b"),
    ("force kill processes (killall -KILL)", r"\bkillall <options>-(?:9|(?:sig)?kill)\b"),
    ("force kill processes (killall -s KILL)", r"\bkillall <options>-s (?:9|(?:sig)?kill)\b"),
    ("kill processes by regex (killall -r)", r"\bkillall <options>-r\b"),
    ("fork bomb", r":\(\)\s*\{\s*:\s*\|\s*:\s*&\s*\}\s*;\s*:"),
    ("pipe remote content to shell", r"\b<remote>…\|\s*(?:[/\w]*/)?(?:ba)?sh(?:\s|-c|$)"),
    (
        "execute remote script via process substitution",
        r"\b(?:bash|sh|zsh|ksh) <\s*<?\s*\(\s*<remote>",
    ),
    (
        "execute remote content via command substitution",
        r"(?:\b(?:eval|source)\b|\.)\s*(?:\$\(|`)\s*<remote>",
    ),
    (
        "pipe decoded content to shell (possible command obfuscation)",
        r"\bbase(?:64|32|16) -(?:d|-decode)\b…\|\s*<shell>",
    ),
    (
        "pipe xxd-decoded content to shell (possible command obfuscation)",
        r"\bxxd -r\b…\|\s*<shell>",
    ),
    (
        "pipe tr-transformed output to shell (possible command obfuscation)",
        r"\becho\b[^|]*\|\s*tr\b[^|]*\|\s*<shell>",
    ),
    (
        "pipe openssl-decoded content to shell (possible command obfuscation)",
        r"\bopenssl\b…\b(?:base64|enc)\b[^|]* -d\b[^|]*\|\s*<shell>",
    ),
    ("overwrite system file via tee", r"\btee\b…<guarded>"),
    ("overwrite system file via redirection", r""">\s*["']?<guarded>"""),
    ("overwrite project env/config via tee", r"\btee\b…<settings><word-end>"),
    ("overwrite project env/config via redirection", r""">\s*["']?<project><word-end>"""),
    ("xargs with rm", r"\bxargs …\brm\b"),
    ("find -exec/-execdir rm", r"\bfind\b…-exec(?:dir)? (?:/\S*/)?rm\b"),
    ("find -delete", r"\bfind\b…-delete\b"),
    (
        "stop/restart hermes gateway (kills running agents)",
        r"\bhermes (?:--?\S+(?: \S+)? )*gateway (?:stop|restart)\b",
    ),
    ("hermes update (restarts gateway, kills running agents)", r"\bhermes update\b"),
    (
        "docker compose restart/stop/kill/down (container lifecycle)",
        r"\bdocker compose (?:restart|stop|kill|down)\b",
    ),
    ("docker restart/stop/kill (container lifecycle)", r"\bdocker (?:restart|stop|kill)\b"),
    (
        "start gateway outside systemd (use 'systemctl --user restart hermes-gateway')",
        r"gateway run\b…(?:&\s*(?:;|$)|\b(?:disown|setsid)\b)",
    ),
    (
        "start gateway outside systemd (use 'systemctl --user restart hermes-gateway')",
        r"\bnohup\b…gateway run\b",
    ),
    (
        "kill hermes/gateway process (self-termination)",
        r"\b(?:pkill|killall)\b…\b(?:hermes|gateway|cli\.py)\b",
    ),
    ("kill process via pgrep/pidof expansion (self-termination)", r"\bkill\b…\$\(\s*<pid>"),
    ("kill process via backtick pgrep/pidof expansion (self-termination)", r"\bkill\b…`\s*<pid>"),
    (
        "stop/restart hermes launchd service (kills running agents)",
        r"\blaunchctl <lifecycle>\b…\bhermes\b",
    ),
    ("copy/move file into system config path", r"<copy><etc>"),
    ("overwrite project env/config file", r"""<copy>["']?<project>["']?<command-end>"""),
    (
        "copy/move file into sensitive credential/SSH/shell-rc path",
        r"""<copy>["']?<guarded>[^\s"']*["']?<command-end>""",
    ),
    ("in-place edit of sensitive credential/SSH/shell-rc path", r"\bsed -\S*i…<personal>"),
    ("in-place edit of sensitive credential/SSH/shell-rc path (long flag)", r"\bsed --in-place\b…<personal>"),
    (
        "in-place edit of sensitive credential/SSH/shell-rc path (perl/ruby)",
        r"\b(?:perl|ruby)\b…\s-\S*i\b…<personal>",
    ),
    ("in-place edit of system config", r"\bsed -\S*i…\s<etc>"),
    ("in-place edit of system config (long flag)", r"\bsed --in-place\b…\s<etc>"),
    ("in-place edit of Hermes config/env", r"\bsed -\S*i…<hermes-file>"),
    ("in-place edit of Hermes config/env (long flag)", r"\bsed --in-place\b…<hermes-file>"),
    ("in-place edit of Hermes config/env (perl/ruby)", r"\b(?:perl|ruby)\b…\s-\S*i\b…<hermes-file>"),
    ("shell execution via heredoc", r"\b(?:bash|sh|zsh|ksh) <<"),
    ("git reset --hard (destroys uncommitted changes)", r"\bgit reset --h(?:a(?:rd?)?)?\b"),
    ("git force push (rewrites remote history)", r"\bgit push\b…--forc[a-z]*\b"),
    ("git force push short flag (rewrites remote history)", r"\bgit push\b…-f\b"),
    ("git clean with force (deletes untracked files)", r"\bgit clean -\S*f"),
    ("git branch force delete", r"\bgit branch -d\b"),
    (
        "git branch force delete (long flags)",
        r"\bgit branch\b<same-command>-(?:d|-delete)\b<same-command>-(?:f|-force)\b",
    ),
    (
        "git branch force delete (long flags, force-first)",
        r"\bgit branch\b<same-command>-(?:f|-force)\b<same-command>-(?:d|-delete)\b",
    ),
    ("chmod +x followed by immediate execution", r"\bchmod \+x\b…[;&|]\s*\./"),
    (
        "sudo with privilege flag (stdin/askpass/shell/list)",
        r"\bsudo\b<same-command> -(?:[sa]|-st[a-z]*|-a[a-z]*)\b",
    ),
    ("sudo with combined-flag privilege escalation", r"\bsudo\b<same-command> -[a-z]*[sa][a-z]*\b"),
)

HARDLINE_SIGNS: tuple[tuple[str, str], ...] = (
    (
        "recursive delete of root filesystem",
        r"""<rm>(?:["']<root>["']|<root><path-end>)""".replace("<root>", r"/(?:(?:(?:\.\.?)?/)*(?:\.\.?)?\**|[ ]\*)"),
    ),
    (
        "recursive delete of system directory",
        r"""<rm>(?:["']<dir>["']|<dir><path-end>)""".replace(
            "<dir>", r"/(?:home|root|etc|usr|var|s?bin|boot|lib)(?:/\*)?"
        ),
    ),
    (
        "recursive delete of home directory",
        r"""<rm>(?:["']<own>["']|<own><path-end>)""".replace("<own>", r"(?:~|\$\{?home\}?)(?:/\*?)?"),
    ),
    ("format filesystem (mkfs)", r"\bmkfs\b"),
    ("dd to raw block device", r"\bdd\b[^\n]*\bof=<disk>"),
    ("redirect to raw block device", r">\s*<disk>[a-z0-9]*\b"),
    ("fork bomb", r":\(\)\s*\{\s*:\s*\|\s*:\s*&\s*\}\s*;\s*:"),
    ("kill all processes", r"\bkill (?:-\S+ )*-1\b"),
    ("system shutdown/reboot", r"<start>(?:shutdown|reboot|halt|poweroff)\b"),
    ("init 0/6 (shutdown/reboot)", r"<start>init [06]\b"),
    ("systemctl poweroff/reboot", r"<start>systemctl (?:poweroff|reboot|halt|kexec)\b"),
    ("telinit 0/6 (shutdown/reboot)", r"<start>telinit [06]\b"),
)

_PIECE = re.compile(r"<([a-z-]+)>")
_SPACE = re.compile(r"\[ \]|( )")


class Signs:
    """Many dangers, of which only those are matched that some text in the command leaves a chance."""

    __slots__ = ("_chances", "_signs", "_texts")

    def __init__(self, table: tuple[tuple[str, str], ...]) -> None:
        self._signs = tuple((key, compiled(sign)) for key, sign in table)
        places: dict[str, list[int]] = {}
        for place, (_, pattern) in enumerate(self._signs):
            for text in pattern.required.texts or ("",):
                places.setdefault(text, []).append(place)
        self._texts = TextSet(tuple(places))
        self._chances = tuple(places.values())

    def shown(self, text: str) -> Iterator[str]:
        """The keys whose sign the searchable text shows, in match order."""
        chances = {place for number in self._texts.present(text) for place in self._chances[number]}
        for place in sorted(chances):
            key, pattern = self._signs[place]
            if key == UNBOUNDED_DELETE:
                if _unbounded_delete(pattern, text):
                    yield key
            elif pattern.search(text) is not None:
                yield key


@cache
def dangerous_signs() -> Signs:
    """What makes a command ask for approval."""
    return Signs(DANGEROUS_SIGNS)


@cache
def hardline_signs() -> Signs:
    """What no approval can allow."""
    return Signs(HARDLINE_SIGNS)


def compiled(sign: str) -> Pattern:
    """The pattern that a sign in this module's notation stands for."""
    while _PIECE.search(sign):
        sign = _PIECE.sub(lambda found: PIECES[found[1]], sign)
    spaced = _SPACE.sub(lambda found: r"\s+" if found[1] else found[0], sign)
    return patterns.compile(spaced.replace("…", "(?s:.*)"))


_WHERE = re.compile(r"\bwhere\b")


def _unbounded_delete(pattern: Pattern, text: str) -> bool:
    """Whether some DELETE has no WHERE between it and the end of its line."""
    wheres = [found.start() for found in _WHERE.finditer(text)]
    at = 0
    for _, end in pattern.finditer(text):
        while at < len(wheres) and wheres[at] < end:
            at += 1
        line_end = text.find("\n", end)
        if at == len(wheres) or (0 <= line_end < wheres[at]):
            return True
    return False
