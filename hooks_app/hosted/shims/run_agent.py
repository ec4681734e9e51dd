"""Stand-in for Hermes's `run_agent`: an agent whose turns are run by the owner."""

from __future__ import annotations

from typing import Any

from hooks_app.hosted.line import current


class AIAgent:
    """Takes whatever Hermes's agent takes; what it is asked goes to the owner's `agent.run`."""

    def __init__(self, model: str = "", **options: Any) -> None:
        self.model = model
        self.options = options

    def run_conversation(
        self,
        user_message: str,
        system_message: str | None = None,
        conversation_history: Any = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Run one turn and return Hermes's result, of which `final_response` is always there."""
        result = current().ask(
            "agent.run",
            model=self.model,
            message=user_message,
            system_message=system_message,
            conversation_history=conversation_history,
            options={**self.options, **options},
        )
        answer = dict(result) if isinstance(result, dict) else {"final_response": result}
        answer.setdefault("final_response", "")
        return answer

    def chat(self, message: str, stream_callback: Any = None) -> str:
        """Run one turn and return the answer's text."""
        return str(self.run_conversation(message)["final_response"] or "")
