"""The foundation's part of /api/v1/."""

from django.urls import path

from controlplane.api import audit, me, members, profiles, teams, tokens

urlpatterns = [
    path("me", me.Me.as_view()),
    path("teams", teams.Teams.as_view()),
    path("teams/<str:slug>", teams.OneTeam.as_view()),
    path("teams/<str:slug>/archive", teams.ArchiveTeam.as_view()),
    path("teams/<str:slug>/restore", teams.RestoreTeam.as_view()),
    path("members", members.Members.as_view()),
    path("members/<str:user>", members.Member.as_view()),
    path("profiles", profiles.Profiles.as_view()),
    path("profiles/<str:name>", profiles.OneProfile.as_view()),
    path("tokens", tokens.Tokens.as_view()),
    path("tokens/<uuid:id>", tokens.OneToken.as_view()),
    path("tokens/<uuid:id>/rotate", tokens.RotateToken.as_view()),
    path("audit", audit.Entries.as_view()),
    path("audit/checkpoints", audit.Checkpoints.as_view()),
    path("audit/export", audit.Export.as_view()),
]
