"""Reading settings from the environment, with an error that names the variable and what would be right."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

TRUE, FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}
DATABASE_OPTIONS = {
    *("host", "port", "connect_timeout", "application_name"),
    *("sslmode", "sslrootcert", "sslcert", "sslkey"),
}


class Environment:
    """Typed access to environment variables; a wrong value is refused with one clear line."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self.variables = os.environ if variables is None else variables

    def text(self, name: str, *, default: str) -> str:
        """The variable's text, or the default where it is unset."""
        return self.variables.get(name, default)

    def secret(self, name: str, *, default: str) -> str:
        """The value of NAME, or the content of the file that NAME_FILE names."""
        path = self.variables.get(f"{name}_FILE")
        if path is None:
            return self.text(name, default=default)
        if name in self.variables:
            raise ImproperlyConfigured(f"Set {name} or {name}_FILE, not both.")
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ImproperlyConfigured(f"{name}_FILE={path} cannot be read: {error}") from None

    def words(self, name: str, *, default: Sequence[str]) -> list[str]:
        """A list, separated by commas."""
        text = self.variables.get(name)
        if text is None:
            return list(default)
        return [word.strip() for word in text.split(",") if word.strip()]

    def accepted(self, name: str, default: str, *, by: Callable[[str], Any]) -> str:
        """The variable's text, once whoever will read it later has accepted it."""
        text = self.text(name, default=default)
        try:
            by(text)
        except ValueError as error:
            raise ImproperlyConfigured(f"{name}: {error}") from None
        return text

    def accepted_words(self, name: str, *, by: Callable[[list[str]], Any]) -> list[str]:
        """A list, separated by commas, once whoever will read it later has accepted it."""
        words = self.words(name, default=[])
        try:
            by(words)
        except ValueError as error:
            raise ImproperlyConfigured(f"{name}: {error}") from None
        return words

    def web_address(self, name: str, *, default: str) -> str:
        """Where people reach something over HTTP, without a slash at the end."""
        text = self.text(name, default=default).rstrip("/")
        parts = urlsplit(text)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise ImproperlyConfigured(f"{name}={text} is not a web address: write it like https://plane.example.org.")
        return text

    def flag(self, name: str, *, default: bool) -> bool:
        """A yes or a no."""
        text = self.text(name, default=str(default)).strip().lower()
        if text in TRUE:
            return True
        if text in FALSE:
            return False
        raise ImproperlyConfigured(f"{name}={text} is not a yes or a no: use 1 or 0.")

    def choice(self, name: str, allowed: Sequence[str], *, default: str) -> str:
        """One of the allowed words."""
        text = self.text(name, default=default)
        if text not in allowed:
            raise ImproperlyConfigured(f"{name}={text} is not known: use one of {', '.join(allowed)}.")
        return text

    def number(self, name: str, *, default: int, low: int, high: int) -> int:
        """A whole number between low and high."""
        text = self.text(name, default=str(default))
        try:
            number = int(text)
        except ValueError:
            raise ImproperlyConfigured(f"{name}={text} is not a whole number.") from None
        if not low <= number <= high:
            raise ImproperlyConfigured(f"{name}={text} is out of range: use {low} to {high}.")
        return number

    def redis(self, name: str, *, default: str) -> str:
        """The address of a Redis or Valkey server."""
        url = self.secret(name, default=default)
        if urlsplit(url).scheme not in {"redis", "rediss", "unix"}:
            raise ImproperlyConfigured(f"{name} must start with redis://, rediss:// or unix://.")
        return url

    def database_user(self, name: str, default: str) -> str:
        """The role that a database address logs in as."""
        return unquote(urlsplit(self.secret(name, default="")).username or default)

    def database(self, name: str, *, default: str, engine: str, pool: dict[str, Any]) -> dict[str, Any]:
        """Django's database settings out of a postgresql:// address."""
        url = urlsplit(self.secret(name, default=default))
        if url.scheme not in {"postgres", "postgresql"}:
            raise ImproperlyConfigured(
                f"{name} must start with postgresql://, as in postgresql://user:password@host/name."
            )
        options = dict(parse_qsl(url.query))
        if unknown := sorted(set(options) - DATABASE_OPTIONS):
            raise ImproperlyConfigured(f"{name} has unknown options: {', '.join(unknown)}.")
        try:
            port = options.pop("port", None) or url.port or ""
        except ValueError:
            raise ImproperlyConfigured(f"{name} has a port that is not a number.") from None
        return {
            "ENGINE": engine,
            "NAME": unquote(url.path.lstrip("/")),
            "USER": unquote(url.username or ""),
            "PASSWORD": unquote(url.password or ""),
            "HOST": options.pop("host", None) or url.hostname or "",
            "PORT": str(port),
            "OPTIONS": {**options, "pool": pool},
        }
