"""The fleet's part of /api/v1/."""

from django.urls import path

from gateway_app.api import agents, bundles, enrolments, plugin, profile_settings, receipts, rollouts

urlpatterns = [
    path("enroll", enrolments.Enrol.as_view()),
    path("enrolments", enrolments.Enrolments.as_view()),
    path("enrolments/<uuid:id>", enrolments.OneEnrolment.as_view()),
    path("agents", agents.Agents.as_view()),
    path("agents/<uuid:id>", agents.OneAgent.as_view()),
    path("agents/<uuid:id>/accept-instance", agents.AcceptInstance.as_view()),
    path("agents/<uuid:id>/live", receipts.Live.as_view()),
    path("agent", agents.Self.as_view()),
    path("agent/credential", agents.Credential.as_view()),
    path("profiles/<str:name>/settings", profile_settings.Settings.as_view()),
    path("profiles/<str:name>/bundles", bundles.Bundles.as_view()),
    path("profiles/<str:name>/files/<str:digest>", bundles.BundleFile.as_view()),
    path("profiles/<str:name>/receipts", receipts.Receipts.as_view()),
    path("profiles/<str:name>/rollback", bundles.RollBack.as_view()),
    path("profiles/<str:name>/rollout", rollouts.OneRollout.as_view()),
    path("profiles/<str:name>/rollout/advance", rollouts.Move.as_view(), {"verb": "advance"}),
    path("profiles/<str:name>/rollout/back", rollouts.Move.as_view(), {"verb": "back"}),
    path("profiles/<str:name>/rollout/resume", rollouts.Resume.as_view()),
    path("plugin", plugin.Plugin.as_view()),
]
