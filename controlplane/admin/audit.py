"""The audit: read, searched, verified and exported here; never written."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
    StreamingHttpResponse,
)
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from controlplane.admin import chain, current_team, display
from controlplane.admin.base import ReadOnlyAdmin
from controlplane.admin.buttons import button
from controlplane.admin.sections import Section
from controlplane.models import AuditCheckpoint, AuditEntry, Role, Team
from controlplane.services import audit, exports

READERS = (Role.AUDITOR, Role.OWNER)


class ActionFilter(admin.SimpleListFilter):
    """`?action=token.revoked`, or `?action=token` for all that happened to tokens."""

    title = "action"
    parameter_name = "action"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        nouns = sorted({action.split(".")[0] for action in audit.ACTIONS})
        return [(noun, f"{noun}.*") for noun in nouns]

    def queryset(self, request: HttpRequest, rows: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        wanted = self.value() or ""
        return rows.filter(action=wanted) if "." in wanted else rows.filter(action__startswith=wanted and f"{wanted}.")


class TimeFilter(admin.DateFieldListFilter):
    """`?at__gte=…&at__lt=…`, with menu entries for the usual spans."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = "time"


class ActorKindFilter(admin.SimpleListFilter):
    """`?actor_kind=token`."""

    title = "who"
    parameter_name = "actor_kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("user", "people"), ("token", "tokens"), ("system", "the plane itself")]

    def queryset(self, request: HttpRequest, rows: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        return rows.filter(actor_kind=self.value()) if self.value() else rows


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    """Everything that people did, newest first."""

    section, nav_order, nav_name = Section.AUDIT, 10, "Entries"
    view_roles = READERS
    list_display = ["sentence", "when", "who", "what", "target", "number"]
    list_filter = [ActionFilter, ActorKindFilter, ("at", TimeFilter)]
    url_filters = ("actor_id", "actor_label", "target_kind", "target_id", "target_label", "request_id", "seq")
    list_select_related = ["team"]
    search_fields = ["actor_label", "target_label", "action", "request_id"]
    search_help_text = "Search people, things, actions, request ids"
    change_form_template = "admin/audit_entry.html"
    change_list_template = "admin/audit_entries.html"
    empty = "The audit records what people and programs do here, each entry chained to the one before."
    empty_next = "It fills by itself."

    def get_queryset(self, request: HttpRequest) -> QuerySet[AuditEntry]:
        return super().get_queryset(request).select_related("team")

    # The list

    @admin.display(description="What happened")
    def sentence(self, entry: AuditEntry) -> SafeString:
        """The entry as a sentence."""
        return display.visible(audit.sentence(entry))

    @admin.display(description="When", ordering="at")
    def when(self, entry: AuditEntry) -> SafeString:
        """When it happened."""
        return display.moment(entry.at)

    @admin.display(description="Who", ordering="actor_label")
    def who(self, entry: AuditEntry) -> SafeString | str:
        """Who did it, as a link to all that they did."""
        if not entry.actor_id:
            return display.visible(entry.actor_label)
        return self.filtered(display.visible(entry.actor_label), actor_kind=entry.actor_kind, actor_id=entry.actor_id)

    @admin.display(description="Action", ordering="action")
    def what(self, entry: AuditEntry) -> SafeString:
        """The action's name, as a link to all of its kind."""
        return self.filtered(display.code(entry.action), action=entry.action)

    @admin.display(description="Target", ordering="target_label")
    def target(self, entry: AuditEntry) -> SafeString:
        """What it was done to, as a link to all that happened to it."""
        if not entry.target_kind:
            return display.NONE
        label = display.visible(entry.target_label)
        return self.filtered(label, target_kind=entry.target_kind, target_id=entry.target_id)

    @admin.display(description="No.", ordering="seq")
    def number(self, entry: AuditEntry) -> int:
        """The entry's place in its team's chain."""
        return entry.seq

    def filtered(self, label: Any, **query: str) -> SafeString:
        """A link to the list with these filters."""
        return display.link(f"{reverse('admin:controlplane_auditentry_changelist')}?{urlencode(query)}", label)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        team = self.exported_team(request)
        extra = {"export_team": team, "export_query": request.GET.urlencode(), "formats": list(exports.FORMATS)}
        return super().changelist_view(request, {**extra, **(extra_context or {})})

    # One entry

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        entry: AuditEntry = context["original"]
        near = self.get_queryset(request).filter(team=entry.team, seq__in=[entry.seq - 1, entry.seq + 1])
        by_seq = {each.seq: each for each in near}
        context.update(
            entry=entry,
            sentence=self.sentence(entry),
            before=by_seq.get(entry.seq - 1),
            after=by_seq.get(entry.seq + 1),
        )
        return super().render_change_form(request, context, *args, **kwargs)

    def title(self, row: AuditEntry) -> str:
        return f"Entry {row.seq} of {row.team.slug}"

    def links(self, request: HttpRequest, row: AuditEntry) -> list[tuple[str, str]]:
        return []

    @button("Verify this chain", "Recomputes every link of the team's chain.", roles=READERS, asks=False)
    def verify(self, request: HttpRequest, entry: AuditEntry) -> HttpResponse:
        """Walk the chain and show what was found."""
        context = {
            **self.admin_site.each_context(request),
            "title": f"The chain of {entry.team.slug}",
            "report": chain.verify(entry.team),
            "team": entry.team,
            "opts": self.opts,
            "back": self.address(entry),
        }
        return TemplateResponse(request, "admin/audit_verified.html", context)

    # Export

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.export_view)
        return [path("export/<str:form>/", view, name="controlplane_auditentry_export"), *super().get_urls()]

    def exported_team(self, request: HttpRequest) -> Team | None:
        """The one team whose entries are shown: an export is recorded in its own audit."""
        slug = request.GET.get("team")
        teams = current_team.choices(request)
        return next((team for team in teams if team.slug == slug), None) if slug else current_team.chosen(request)

    def export_view(self, request: HttpRequest, form: str) -> HttpResponseBase:
        """What the list shows, as a file."""
        if form not in exports.FORMATS:
            raise Http404("There is no such format.")
        team = self.exported_team(request)
        if request.method != "POST" or team is None:
            messages.error(request, "Choose one team, then press Export: an export is recorded in its team's audit.")
            listed = reverse("admin:controlplane_auditentry_changelist")
            return HttpResponseRedirect(f"{listed}?{request.GET.urlencode()}")
        if not self.allowed(request, READERS) or not self.actor(request).may(team.pk, *READERS):
            raise PermissionDenied("Only auditors and owners export the audit.")
        rows = self.get_changelist_instance(request).queryset.filter(team=team).order_by("seq")
        lines = exports.begin(team=team, actor=self.actor(request), rows=rows, form=form)
        kind = "text/csv; charset=utf-8" if form == "csv" else "application/jsonl"
        name = f'attachment; filename="audit-{team.slug}.{form}"'
        return StreamingHttpResponse(lines, content_type=kind, headers={"Content-Disposition": name})


@admin.register(AuditCheckpoint)
class AuditCheckpointAdmin(ReadOnlyAdmin):
    """Signed statements of where chains stood."""

    section, nav_order, nav_name = Section.AUDIT, 20, "Checkpoints"
    view_roles = READERS
    list_display = ["up_to", "when", "digest", "key", "kept"]
    list_select_related = ["team"]
    list_filter = [("at", TimeFilter)]
    fields = ["team_name", "up_to", "when", "full_digest", "key", "signed", "kept"]
    readonly_fields = ["team_name", "up_to", "when", "full_digest", "key", "signed", "kept"]
    empty = "A checkpoint signs a chain's last entry; its copies outside the database expose a replaced chain."
    empty_next = "The plane signs every chain that moved, once a minute, while a worker runs."

    def get_queryset(self, request: HttpRequest) -> QuerySet[AuditCheckpoint]:
        return super().get_queryset(request).select_related("team")

    def title(self, row: AuditCheckpoint) -> str:
        return f"Checkpoint at {row.seq} of {row.team.slug}"

    def links(self, request: HttpRequest, row: AuditCheckpoint) -> list[tuple[str, str]]:
        query = urlencode({"team": row.team.slug, "seq": row.seq})
        return [("The entry", f"{reverse('admin:controlplane_auditentry_changelist')}?{query}")]

    @admin.display(description="Up to entry", ordering="seq")
    def up_to(self, checkpoint: AuditCheckpoint) -> int:
        """The last entry that it covers."""
        return checkpoint.seq

    @admin.display(description="Signed", ordering="at")
    def when(self, checkpoint: AuditCheckpoint) -> SafeString:
        """When it was signed."""
        return display.moment(checkpoint.at)

    @admin.display(description="Hash")
    def digest(self, checkpoint: AuditCheckpoint) -> SafeString:
        """The beginning of the hash."""
        return display.digest(checkpoint.hash)

    @admin.display(description="Hash")
    def full_digest(self, checkpoint: AuditCheckpoint) -> SafeString:
        """The whole hash."""
        return display.digest(checkpoint.hash, full=True)

    @admin.display(description="Key")
    def key(self, checkpoint: AuditCheckpoint) -> SafeString:
        """The signing key's id."""
        return display.copyable(checkpoint.key_id)

    @admin.display(description="Signature")
    def signed(self, checkpoint: AuditCheckpoint) -> SafeString:
        """The signature."""
        return display.copyable(checkpoint.signature)

    @admin.display(description="Entries up to here", ordering="pruned")
    def kept(self, checkpoint: AuditCheckpoint) -> str:
        """Whether retention removed what it covers."""
        return "removed by retention" if checkpoint.pruned else "kept"
