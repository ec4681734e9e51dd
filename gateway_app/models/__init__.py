"""The nouns of the gateway app."""

from gateway_app.models.agent import Agent, Enrolment
from gateway_app.models.bundle import Bundle
from gateway_app.models.profile_settings import ProfileSettings
from gateway_app.models.profile_version import ProfileVersion
from gateway_app.models.receipt import Receipt, ReceiptOutcome
from gateway_app.models.rollout import Rollout, RolloutState

__all__ = [
    "Agent",
    "Bundle",
    "Enrolment",
    "ProfileSettings",
    "ProfileVersion",
    "Receipt",
    "ReceiptOutcome",
    "Rollout",
    "RolloutState",
]
