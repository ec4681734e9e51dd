"""The live objects of `pre_gateway_dispatch`, as far as hooks use them; what they do comes back over the line."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any

from hooks_app.hosted.line import NotHosted, current


class PlatformName(str):
    """A platform: equal to its name, and with the `.value` and `.name` that Hermes's enumeration has."""

    __slots__ = ()

    @property
    def value(self) -> str:
        """The name as configuration spells it."""
        return str(self)

    @property
    def name(self) -> str:
        """The name in capitals."""
        return self.upper()


class Live:
    """An object made of a mapping: attributes for keys, None for what Hermes has and the payload lacks."""

    def __init__(self, values: Mapping[str, Any], known: tuple[str, ...] = ()) -> None:
        for name in known:
            setattr(self, name, None)
        for name, value in values.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__dict__!r})"

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as plain values."""
        return {k: v.to_dict() if isinstance(v, Live) else v for k, v in self.__dict__.items()}


class SessionSource(Live):
    """Where a message came from."""

    FIELDS = (
        "chat_id", "chat_name", "chat_type", "user_id", "user_name", "thread_id", "chat_topic", "user_id_alt",
        "chat_id_alt", "scope_id", "guild_id", "parent_chat_id", "message_id", "profile",
    )  # fmt: skip

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.is_bot = False
        super().__init__(values, self.FIELDS)
        self.platform = PlatformName(values.get("platform") or "")


class MessageEvent(Live):
    """An inbound message, normalised."""

    FIELDS = (
        "raw_message", "message_id", "platform_update_id", "reply_to_message_id", "reply_to_text", "reply_to_author_id",
        "reply_to_author_name", "auto_skill", "channel_prompt", "channel_context",
    )  # fmt: skip

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.internal = False
        self.message_type = "text"
        self.media_urls: list[str] = []
        self.media_types: list[str] = []
        self.metadata: dict[str, Any] = {}
        super().__init__(values, self.FIELDS)
        self.text = str(values.get("text") or "")
        self.source = SessionSource(values.get("source") or {})


class Sent:
    """The result of a send, which has already happened: usable as it is, and by `await`."""

    def __init__(self, result: Mapping[str, Any] | None) -> None:
        values = dict(result or {})
        self.success = bool(values.get("success", True))
        self.message_id = values.get("message_id")
        self.error = values.get("error")

    def __await__(self) -> Generator[Any, None, Sent]:
        return self
        yield


class Adapter:
    """One platform of the gateway, as far as it can be used from here: `send`."""

    def __init__(self, platform: str) -> None:
        self.platform = PlatformName(platform)

    def send(self, chat_id: str, content: str, reply_to: str | None = None, metadata: Any = None) -> Sent:
        """Send a message now, through the owner; works called plainly and awaited."""
        arguments = {"chat_id": chat_id, "content": content, "reply_to": reply_to, "metadata": metadata}
        return Sent(current().ask("adapter.send", platform=str(self.platform), **arguments))

    def __getattr__(self, name: str) -> Any:
        raise NotHosted(f"adapters offer only send() to a hosted hook, not {name}")


class Adapters(Mapping[str, Adapter]):
    """The gateway's adapters by platform."""

    def __init__(self, platforms: list[str]) -> None:
        self._adapters = {PlatformName(name): Adapter(name) for name in platforms}

    def __getitem__(self, platform: str) -> Adapter:
        return self._adapters[PlatformName(getattr(platform, "value", platform))]

    def __iter__(self) -> Iterator[str]:
        return iter(self._adapters)

    def __len__(self) -> int:
        return len(self._adapters)


class Gateway:
    """The running gateway, as far as a hosted hook may touch it: `adapters`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.adapters = Adapters(list(values.get("platforms") or ()))

    def __getattr__(self, name: str) -> Any:
        raise NotHosted(f"the gateway offers only adapters to a hosted hook, not {name}")


class SessionStore:
    """The profile's sessions, as far as a hosted hook may touch them."""

    def append_to_transcript(self, session_id: str, message: dict[str, Any], skip_db: bool = False) -> None:
        """Add a message to a session's transcript without starting a turn."""
        current().ask("session.append", session_id=session_id, message=message)

    def load_transcript(self, session_id: str) -> list[dict[str, Any]]:
        """Return a session's messages."""
        return list(current().ask("session.load", session_id=session_id) or ())

    def get_or_create_session(self, source: SessionSource, force_new: bool = False) -> Live:
        """Return the session of a chat."""
        return Live(current().ask("session.get", source=source.to_dict(), force_new=force_new) or {})

    def __getattr__(self, name: str) -> Any:
        raise NotHosted(f"the session store offers no {name} to a hosted hook")


def enliven(event: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Return the payload with live objects where Hermes passes such."""
    if event != "pre_gateway_dispatch":
        return payload
    gateway, message = payload.get("gateway"), payload.get("event")
    live: dict[str, Any] = {
        "event": MessageEvent(message if isinstance(message, dict) else {}),
        "gateway": Gateway(gateway if isinstance(gateway, dict) else {}),
        "session_store": SessionStore(),
    }
    return payload | live
