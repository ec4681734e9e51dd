"""Masking of secrets in what is stored, logged and shown: by shape, by the name beside them, by known value.

Everything runs in RE2, in time linear to the text, over UTF-8 bytes (RE2's str interface recounts offsets). One Set
of all shapes decides in a single pass which of them need work at all; a clean text costs only that pass.

A mask must never hide a command from the person who approves it: outside its vendor-given alphabet a masked value
ends at white space, quotes, `$(`, backticks and the shell's separators.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, quote_plus

import re2

MASK: Final = "[redacted]"
MAX_DEPTH: Final = 64
MIN_VALUE: Final = 4  # shorter known values would mask half of every text

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 64 << 20
_QUOTE = re2.compile(rb"(?:\\*[\"'])?", _OPTIONS)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

# Where a token may begin: at a word, after "_", after an escape written out (\n, %3D), after a terminal colour.
_START: Final = r"(\b|_|\\[nrt]|%[0-9A-Fa-f]{2}|\x1b\[[0-9;]*m)"
# Tokens that name their maker; each takes the rest of its word along, so that nothing begins where it ends.
_TOKENS: Final = (
    r"cad_[\w-]{16,}",
    r"whsec_[A-Za-z0-9+/_=-]{16,}",
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",
    r"(?:gh[opusr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})",
    r"gl(?:pat|dt|rt|ft|soat|cbt|ptt|oas|agent|imt)-[\w-]{16,}",
    r"(?:xox[abcdeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,})",
    r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}",
    r"(?:AIza[\w-]{30,}|ya29\.[\w.-]{16,}|GOCSPX-[\w-]{16,}|1//0[\w-]{30,})",
    r"sk-[A-Za-z0-9][\w-]{18,}",  # OpenAI, Anthropic, OpenRouter, DeepSeek
    r"(?:hf|gsk|r8|npm|nvapi|ntn|lin_api|fw|csk|tgp_v1|tvly|e2b|pat)[_-][A-Za-z0-9]{24,}[\w-]*",
    r"(?:xai|pplx|pypi|tskey|dckr_pat|sntrys|sntryu|PMAK|sbp|ATATT3|ATCTT3)[_-]?[A-Za-z0-9][\w=-]{18,}",
    r"SG\.[\w-]{16,}\.[\w-]{16,}",
    r"do[opr]_v1_[a-f0-9]{32,}",
    r"(?:shpat|shpca|shppa|shpss|dapi|key-|SK)_?[0-9a-f]{32}\b",
    r"hv[sbr]\.[\w-]{20,}",
    r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{20,}",
    r"AGE-SECRET-KEY-1[A-Z0-9]{50,}",
    r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",  # JWT
    r"[0-9]{8,10}:AA[\w-]{30,}",  # Telegram
    r"[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{27,}",  # Discord
)
_PEM: Final = (
    r"(?s)()-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\z)"
)

_NAME: Final = (
    r"[\w.-]*(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|(?:access|secret|private|signing|encryption|account"
    r"|master|auth|service)[_-]?key|credentials?|MYSQL_PWD|client[_-]?assertion)[12]?"
)
# One value as it is written beside its name: quoted (also inside a JSON string, where quotes are escaped), or bare.
_PLAIN: Final = r"(?:[^\s\"'`\\$;&|<>(){}\[\],]|\$[^\s\"'`\\({A-Z_]|\\[^\s\"'`])"
_VALUE: Final = (
    r"(?:\"(?:[^\"\\`$]|\$[^(\"\\`]|\\[^`])*\"?|'(?:[^'\\]|\\.)*'?|\\+\"(?:[^\"\\`$]|\$[^(\"\\`])*|" + _PLAIN + r"+)"
)
# (before)(secret)(after): only the secret is masked.
_PAIRS: Final = (
    # Authorization: Bearer abc, also "authorization": "Basic abc"
    (
        r"((?i:\b(?:proxy-)?authorization\b\\*[\"']?\s*[:=]\s*\\*[\"']?(?:[A-Za-z][\w-]*\s+)?))"
        r"(\[redacted\]|[\w.~+/=:-]{8,})()"
    ),
    r"((?i:\b(?:bearer|basic)\s+))([\w.~+/=-]{12,})()",
    r"((?i:\b(?:set-)?cookie\s*:\s*))([^\r\n\"'`$]+)()",
    r"(\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@\"'`<>]*:)([^\s/\"'`<>]+)(@)",
    r"(\b[A-Za-z][A-Za-z0-9+.-]*://)([\w-]{20,})(@)",
    r"((?i:\bhooks\.slack\.com/(?:services|workflows|triggers)/))([\w/-]+)()",
    r"((?i:\bdiscord(?:app)?\.com/api/(?:v[0-9]+/)?webhooks/[0-9]+/))([\w-]+)()",
    r"((?i:(?:^|\s)--?" + _NAME + r"(?:\s+|=)))(" + _VALUE + r")()",
    r"((?i:\bcurl\b[^\n;|&]*?\s(?:-u|--user)[ =]?\s*[\"']?[^\s:\"'`$]*:))([^\s\"'`$;&|]+)()",
    r"((?i:\b" + _NAME + r"\\*[\"']?\s*(?:=>|:=|[:=])\s*))(" + _VALUE + r")()",
)


def _compile(pattern: str) -> Any:
    return re2.compile(pattern.encode(), _OPTIONS)


def _mask_token(match: Any) -> bytes:
    return bytes(match.group(1) + MASK.encode())


def _mask_pair(match: Any) -> bytes:
    """Keep what surrounds the secret, its quotes included, so that the text still reads (and parses) as before."""
    before, value, after = match.groups()
    opening = _QUOTE.match(value).group(0)
    inner = value[len(opening) :]
    if not inner.strip(b"\"'\\"):
        return bytes(match.group(0))
    if opening[:1] == b"\\":
        closing = inner[len(inner.rstrip(b"\\")) :]
    else:
        closing = opening if opening and inner.endswith(opening) else b""
    return bytes(before + opening + MASK.encode() + closing + after)


_SHAPES: Final = [
    (_PEM, _mask_token),
    *((rf"{_START}(?:{pattern})[\w-]*", _mask_token) for pattern in _TOKENS),
    *((pattern, _mask_pair) for pattern in _PAIRS),
]
_RULES: Final[list[tuple[Any, Callable[[Any], bytes]]]] = [(_compile(shape), mask) for shape, mask in _SHAPES]
_ANY = re2.Set.SearchSet(_OPTIONS)
for _shape, _ in _SHAPES:
    _ANY.Add(_shape.encode())
_ANY.Compile()

_SECRET_NAME: Final = re.compile(
    r"passw(or)?d|passphrase|mysqlpwd|(secret|token|apikey|accesskey|privatekey|signingkey|secretkey|encryptionkey"
    r"|accountkey|masterkey|authkey|servicekey|credentials?|authorization|cookies?|clientassertion|jwt|bearer)[12]?$"
)
_NOT_SECRET: Final = re.compile(
    r"(at|on|count|length|policy|required|age|expires|expiry|id|name|type|field|url|changed|set)$"
)


@lru_cache(maxsize=4096)
def _names_secret(name: str) -> bool:
    plain = re.sub("[^a-z0-9]", "", name.lower())
    return bool(_SECRET_NAME.search(plain)) and not _NOT_SECRET.search(plain)


def names_secret(name: str) -> bool:
    """Say whether a field of this name holds a secret: password, apiKey, X-Auth-Token, but not max_tokens."""
    return len(name) <= 200 and _names_secret(name)


def clean_text(text: str) -> str:
    """Return text that Postgres can store: NUL and lone surrogates become U+FFFD."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = _SURROGATE.sub("\ufffd", text)
    return text


class Redactor:
    """Masks secrets by shape and name, and the given values in the spellings they travel in."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        spellings = {spelling for value in values for spelling in _spellings(value)}
        self._values = tuple(sorted(spellings, key=len, reverse=True))

    def text(self, text: str) -> str:
        """Return the text with every secret masked, and storable."""
        text = clean_text(text)
        for value in self._values:
            if value in text:
                text = text.replace(value, MASK)
        return _redact_shapes(text)

    def value(self, value: Any) -> Any:
        """Return the JSON value with every secret masked: the value itself where nothing had to change."""
        return value if self._is_clean([value]) else self._rebuild(value, MAX_DEPTH, ())

    def values(self, values: list[Any]) -> list[Any]:
        """Return each JSON value with every secret masked; when all are clean, one look at all of them is enough."""
        return values if self._is_clean(values) else [self.value(value) for value in values]

    def _is_clean(self, values: list[Any]) -> bool:
        texts: list[str] = []
        for value in values:
            if not _collect(value, texts, MAX_DEPTH):
                return False
        joined = "\n".join(texts)
        return not joined or self.text(joined) == joined

    def _rebuild(self, value: Any, depth: int, inside: tuple[int, ...]) -> Any:
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if isinstance(value, str):
            return self.text(str.__str__(value))
        if isinstance(value, (bytes, bytearray, memoryview)):
            return f"[{len(value)} bytes]"
        if depth == 0 or id(value) in inside:
            return "[nested too deeply]"
        inside = (*inside, id(value))
        if isinstance(value, Mapping):
            return dict(self._item(key, item, depth - 1, inside) for key, item in value.items())
        if isinstance(value, (list, tuple, set, frozenset)):
            return [self._rebuild(item, depth - 1, inside) for item in value]
        return self.text(_describe(value))

    def _item(self, key: Any, item: Any, depth: int, inside: tuple[int, ...]) -> tuple[str, Any]:
        name = str.__str__(key) if isinstance(key, str) else _describe(key)
        return self.text(name), _masked(item) if names_secret(name) else self._rebuild(item, depth, inside)


_by_shape = Redactor()


def redact_text(text: str, *, values: Iterable[str] = ()) -> str:
    """Return the text with every secret masked: known shapes, named values, and the given values."""
    return (Redactor(values) if values else _by_shape).text(text)


def redact(value: Any, *, values: Iterable[str] = ()) -> Any:
    """Return the JSON value with every secret masked; what is not JSON is described in words, nothing raises."""
    return (Redactor(values) if values else _by_shape).value(value)


def _redact_shapes(text: str) -> str:
    data = text.encode()
    hits = _ANY.Match(data)
    if not hits:
        return text
    for index in sorted(hits):
        pattern, mask = _RULES[index]
        data = pattern.sub(mask, data)
    return str(data.decode())


def _collect(value: Any, texts: list[str], depth: int) -> bool:
    """Gather every text of a plain JSON value; False when a name alone, or an odd type, already asks for work."""
    kind = type(value)
    if kind is str:
        texts.append(value)
        return True
    if kind is dict and depth:
        for key, item in value.items():
            if type(key) is not str or (names_secret(key) and _masked(item) is not item):
                return False
            texts.append(key)
            if not _collect(item, texts, depth - 1):
                return False
        return True
    if kind is list and depth:
        return all(_collect(item, texts, depth - 1) for item in value)
    return value is None or kind is int or kind is bool or (kind is float and math.isfinite(value))


def _masked(value: Any) -> Any:
    """Mask what stands under a secret's name; yes, no and nothing reveal only that it is there."""
    return value if value is None or isinstance(value, bool) else MASK


def _spellings(value: str) -> set[str]:
    """The forms in which a known secret shows up: plain, in a URL, in JSON, in base64."""
    value = clean_text(str(value))
    if len(value) < MIN_VALUE:
        return set()
    encoded = base64.b64encode(value.encode()).decode()
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return {value, quote(value, safe=""), quote_plus(value), escaped, encoded.rstrip("=")}


def _describe(value: Any) -> str:
    try:
        return str(value)
    except Exception:
        return f"[{type(value).__name__}]"
