"""Decisions, events and approvals under /api/v1/."""

from django.urls import path

from hooks_app.api import (
    approvals,
    decisions,
    events,
    explain,
    grants,
    legal_holds,
    notification_routes,
    switches,
    trials,
)

urlpatterns = [
    path("decisions/<uuid:id>", decisions.OneDecision.as_view()),
    path("decisions/<uuid:id>/explain", explain.ExplainDecision.as_view()),
    path("explain", explain.Explain.as_view()),
    path("profiles/<str:name>/effective", explain.EffectiveSet.as_view()),
    path("team-hooks", explain.TeamHooks.as_view()),
    path("events/<uuid:id>", events.OneEvent.as_view()),
    path("events/<uuid:id>/explain", explain.ExplainEvent.as_view()),
    path("runs", events.Runs.as_view()),
    path("runs/replay", events.ReplayWindow.as_view()),
    path("runs/<uuid:id>/replay", events.ReplayRun.as_view()),
    path("approvals", approvals.Approvals.as_view()),
    path("approvals/<uuid:id>", approvals.OneApproval.as_view()),
    path("approvals/<uuid:id>/decide", approvals.DecideApproval.as_view()),
    path("approvals/<uuid:id>/cancel", approvals.CancelApproval.as_view()),
    path("approvals/<uuid:id>/preview", approvals.PreviewGrant.as_view()),
    path("approval-policies", approvals.Policies.as_view()),
    path("grants", grants.Grants.as_view()),
    path("grants/<uuid:id>", grants.OneGrant.as_view()),
    path("switches", switches.Switches.as_view()),
    path("switches/<uuid:id>", switches.OneSwitch.as_view()),
    path("notification-routes", notification_routes.NotificationRoutes.as_view()),
    path("notification-routes/<uuid:id>", notification_routes.OneNotificationRoute.as_view()),
    path("legal-holds", legal_holds.LegalHolds.as_view()),
    path("legal-holds/<uuid:id>", legal_holds.OneLegalHold.as_view()),
    path("trials", trials.Trials.as_view()),
    path("profiles/<str:name>/trial", trials.ProfileTrial.as_view()),
]
