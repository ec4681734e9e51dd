"""The nouns of the hooks app."""

from hooks_app.models.allowlist import AllowlistEntry, ListKind
from hooks_app.models.approval import Approval, ApprovalAnswer, ApprovalPolicy
from hooks_app.models.change import BreakGlass, Change, ChangeDecision, OutsideReviewer, State
from hooks_app.models.configuration import Configuration, ProfileMode, TeamHook
from hooks_app.models.decision import Decision
from hooks_app.models.delivery import Delivery, DeliveryState
from hooks_app.models.endpoint import Breaker, Endpoint
from hooks_app.models.event import Event, EventBatch, LegalHold, SeenEvent
from hooks_app.models.grant import Grant
from hooks_app.models.hook import (
    Blob,
    Hook,
    HookVersion,
    Kind,
    Mode,
    ProfileHook,
    ProfileSecret,
    RevokedCommand,
)
from hooks_app.models.host_lease import HostLease
from hooks_app.models.notification import Notification, NotificationRoute
from hooks_app.models.run import Run
from hooks_app.models.switch import Switch
from hooks_app.models.test_run import RunState, TestRun

__all__ = [
    "AllowlistEntry",
    "Approval",
    "ApprovalAnswer",
    "ApprovalPolicy",
    "Blob",
    "BreakGlass",
    "Breaker",
    "Change",
    "ChangeDecision",
    "Configuration",
    "Decision",
    "Delivery",
    "DeliveryState",
    "Endpoint",
    "Event",
    "EventBatch",
    "Grant",
    "Hook",
    "HookVersion",
    "HostLease",
    "Kind",
    "LegalHold",
    "ListKind",
    "Mode",
    "Notification",
    "NotificationRoute",
    "OutsideReviewer",
    "ProfileHook",
    "ProfileMode",
    "ProfileSecret",
    "RevokedCommand",
    "Run",
    "RunState",
    "SeenEvent",
    "State",
    "Switch",
    "TeamHook",
    "TestRun",
]
