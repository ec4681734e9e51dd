"""Agents: what is meant for each, what it says it runs, what drifted, and when it was last heard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.db.models import F, Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from controlplane.admin import display
from controlplane.admin.base import PlaneModelAdmin
from controlplane.admin.buttons import button
from controlplane.admin.display import Tone
from controlplane.admin.forms import PlaneForm
from controlplane.admin.sections import Section
from controlplane.models import Role
from gateway_app.models import Agent, Rollout
from gateway_app.models.agent import SILENT_AFTER
from gateway_app.services import agents, rollouts

READ = [
    "serials", "loaded_since", "outcome_said", "heard", "versions", "clock", "two_places", "enrolled", "ended",
]  # fmt: skip


class AttentionFilter(admin.SimpleListFilter):
    """Agents that somebody should look at."""

    title, parameter_name = "attention", "look"

    def lookups(self, request: HttpRequest, pages: Any) -> list[tuple[str, str]]:
        return [("drift", "drifted"), ("silent", "silent"), ("refused", "refused"), ("two", "used in two places")]

    def queryset(self, request: HttpRequest, rows: QuerySet[Agent]) -> QuerySet[Agent]:
        wanted = {
            "drift": ~Q(drift=[]),
            "silent": Q(revoked_at=None, last_heard_at__lt=timezone.now() - SILENT_AFTER),
            "refused": Q(outcome="refused"),
            "two": ~Q(conflict=""),
        }
        return rows.filter(wanted.get(self.value() or "", Q()))


class AgentForm(PlaneForm):
    """The one thing that people choose about an agent."""

    class Meta:
        model = Agent
        fields = ["ring"]


@admin.register(Agent)
class AgentAdmin(PlaneModelAdmin):
    """The fleet."""

    section, nav_order = Section.FLEET, 20
    form = AgentForm
    change_form_template = "gateway/agent.html"
    change_roles = (Role.OWNER, Role.AUTHOR)
    list_display = ["shown_name", "profile", "ring", "serials", "findings", "hermes_version", "heard"]
    list_filter = [AttentionFilter, "profile", "ring"]
    url_filters = ("profile__name", "profile__id__exact", "ring")
    list_select_related = ["team", "profile", "enrolled_by"]
    search_fields = ["name", "profile__name", "platform"]
    search_help_text = "Search names, profiles and platforms"
    empty = "Agents are installations of Hermes under the plane."
    empty_next = "Make an enrolment token, then run hermes caduceus enroll on the agent's machine."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Agent]:
        rows = super().get_queryset(request)
        rows = rows.prefetch_related("profile__rollouts__stable", "profile__rollouts__candidate")
        return rows.order_by(F("revoked_at").desc(nulls_first=True), "profile__name", "name")

    def get_fieldsets(self, request: HttpRequest, obj: Agent | None = None) -> list[Any]:
        return [(None, {"fields": ["ring"]}), ("What it said last", {"fields": READ})]

    def get_readonly_fields(self, request: HttpRequest, obj: Agent | None = None) -> list[str]:
        return READ

    def update(self, request: HttpRequest, row: Agent, values: Mapping[str, Any], revision: int | None) -> Agent:
        return agents.change(agent=row, actor=self.actor(request), values={"ring": values["ring"]}, revision=revision)

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        agent: Agent = kwargs["obj"] if "obj" in kwargs else context["original"]
        rollout = rollouts.states([agent.profile]).get(agent.profile_id)
        context["agent"], context["expected"] = agent, expected(rollout, agent)
        return super().render_change_form(request, context, *args, **kwargs)

    def facts(self, request: HttpRequest, row: Agent) -> list[SafeString]:
        return [display.badge("revoked", Tone.OFF)] if row.revoked_at else [self.serials(row)]

    def links(self, request: HttpRequest, row: Agent) -> list[tuple[str, str]]:
        query = f"?agent__id__exact={row.pk}"
        receipts = reverse("admin:gateway_app_receipt_changelist") + query
        profile = reverse("admin:controlplane_profile_change", args=[row.profile_id])
        return [("Profile", profile), ("Receipts", receipts), *super().links(request, row)]

    @button(
        "Revoke agent",
        "Its credential is refused within a second, for good. It keeps its last bundle, so its gates stay; "
        "enrol it again to let it back in.",
        roles=(Role.OWNER,),
        danger=True,
        when=lambda agent: agent.revoked_at is None,
    )
    def revoke(self, request: HttpRequest, agent: Agent) -> str:
        """End an agent."""
        agents.revoke(agent=agent, actor=self.actor(request))
        return f"{agent.name} is revoked."

    @button(
        "Accept moved agent",
        "The next installation that uses its credential becomes the right one. Do this only after you moved or "
        "restored the agent yourself: otherwise revoke it and enrol it anew.",
        roles=(Role.OWNER,),
        when=lambda agent: agent.revoked_at is None and bool(agent.conflict),
    )
    def accept(self, request: HttpRequest, agent: Agent) -> str:
        """Forget which installation it was."""
        agents.accept_instance(agent=agent, actor=self.actor(request))
        return f"{agent.name} may be claimed by the next installation."

    @admin.display(description="Agent", ordering="name")
    def shown_name(self, agent: Agent) -> SafeString:
        """Its name."""
        return display.code(agent.name)

    @admin.display(description="Bundle")
    def serials(self, agent: Agent) -> SafeString:
        """What it runs and what it should run; red until they are equal."""
        if agent.revoked_at:
            return display.badge("revoked", Tone.OFF)
        wanted = rollouts.desired(next(iter(agent.profile.rollouts.all()), None), agent)
        if agent.effective_serial is None:
            return display.badge("nothing applied yet", Tone.WRONG)
        if wanted != agent.effective_serial:
            return display.badge(f"#{agent.effective_serial}, meant is #{wanted}", Tone.WRONG)
        return display.badge(f"#{agent.effective_serial}", Tone.ON)

    @admin.display(description="Findings")
    def findings(self, agent: Agent) -> SafeString:
        """What is wrong with it, in a word each."""
        words = sorted({entry["kind"].replace("_", " ") for entry in agent.drift})
        words += ["two places"] if agent.conflict else []
        words += ["refused"] if agent.outcome == "refused" else []
        words += ["restart needed"] if agent.outcome == "restart_needed" else []
        words += [] if agent.knows_hermes else ["unknown Hermes"]
        words += ["missing variables"] if agent.missing_environment else []
        return display.badge(", ".join(words), Tone.WRONG) if words else display.NONE

    @admin.display(description="Last heard", ordering="last_heard_at")
    def heard(self, agent: Agent) -> SafeString:
        """When it was last heard."""
        when = display.moment(agent.last_heard_at)
        silent = agent.is_silent and agent.revoked_at is None
        return format_html("{} {}", display.badge("silent", Tone.WRONG), when) if silent else when

    @admin.display(description="Loaded since")
    def loaded_since(self, agent: Agent) -> SafeString:
        """Since when it runs what it runs."""
        return display.moment(agent.effective_since)

    @admin.display(description="Last receipt")
    def outcome_said(self, agent: Agent) -> SafeString:
        """What became of the last bundle there."""
        if not agent.outcome:
            return display.NONE
        tone = Tone.DONE if agent.outcome == "applied" else Tone.WRONG
        return format_html("{} {}", display.badge(agent.outcome.replace("_", " "), tone), display.visible(agent.reason))

    @admin.display(description="Software")
    def versions(self, agent: Agent) -> SafeString:
        """Hermes, plugin, platform."""
        odd = "" if agent.knows_hermes else display.badge("a version that the plane was not compared with", Tone.WRONG)
        said = f"Hermes {agent.hermes_version or '?'}, plugin {agent.plugin_version or '?'}, {agent.platform or '?'}"
        return format_html("{} {}", display.visible(said), odd)

    @admin.display(description="Its clock")
    def clock(self, agent: Agent) -> str:
        """How far its clock is from the plane's."""
        if abs(agent.clock_skew) < 5:
            return "right"
        return f"{abs(agent.clock_skew):.0f} s {'ahead' if agent.clock_skew > 0 else 'behind'}"

    @admin.display(description="Used in two places")
    def two_places(self, agent: Agent) -> SafeString:
        """Signs that its credential was copied."""
        if not agent.conflict:
            return format_html('<span class="quiet">{}</span>', "no sign of it")
        when = display.moment(agent.conflict_at)
        return format_html("{} {} {}", display.badge("yes", Tone.WRONG), agent.conflict, when)

    @admin.display(description="Enrolled")
    def enrolled(self, agent: Agent) -> SafeString:
        """By whom and when."""
        return format_html("by {} {}", agent.enrolled_by.label, display.moment(agent.enrolled_at))

    @admin.display(description="Revoked")
    def ended(self, agent: Agent) -> SafeString:
        """When its credential was ended."""
        return display.moment(agent.revoked_at, never="no")


def expected(rollout: Rollout | None, agent: Agent) -> list[dict[str, Any]]:
    """Each hook that is meant for the agent or loaded there, with what is wrong about it."""
    if rollout is None or rollout.stable is None:
        return []
    bundle = rollout.candidate if rollouts.given(rollout, agent) else rollout.stable
    wanted = {hook["name"]: hook for hook in bundle.version.content["hooks"]}
    loaded = {hook["name"]: hook for hook in agent.effective}
    rows = []
    for name in dict.fromkeys([*wanted, *loaded]):
        meant, there = wanted.get(name), loaded.get(name)
        rows.append({"name": name, "meant": meant, "there": there, "verdict": verdict(meant, there)})
    return rows


def verdict(meant: Mapping[str, Any] | None, there: Mapping[str, Any] | None) -> tuple[str, str]:
    """A word and its tone."""
    if meant is None:
        return "not meant to be there", Tone.WRONG
    if meant["state"] == "revoked":
        return ("revoked", Tone.DONE) if there is None else ("revoked, still loaded", Tone.WRONG)
    if there is None:
        return "not loaded", Tone.WRONG
    return ("loaded", Tone.ON) if there["digest"] == meant["digest"] else ("other bytes", Tone.WRONG)
