"""The forms in which people write hooks, one per kind; each becomes the body that `hooks.put` takes."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from django import forms
from django.core.files.uploadedfile import UploadedFile

from controlplane.errors import Invalid
from controlplane.models import Profile
from hooks_app.admin.asking import PlainForm
from hooks_app.engine import events as catalogue
from hooks_app.engine.event import System
from hooks_app.engine.shell import DEFAULT_TIMEOUT, script_path
from hooks_app.models import HookVersion, Kind
from hooks_app.services import archives
from hooks_app.services.manifests import SourceFile

RULE_EXAMPLE = """events: [pre_tool_call]
when:
  tool: terminal
  tool_input.command: {contains: "rm -rf"}
then:
  block: "Deleting whole trees is not allowed here."
"""
FAIL_MODES = [("closed", "closed: without a verdict, refuse"), ("open", "open: without a verdict, let it pass")]
Registration = tuple[dict[str, Any], tuple[SourceFile, ...]]


class HookForm(PlainForm):
    """What all kinds have."""

    kind: ClassVar[str]
    order: ClassVar[tuple[str, ...]] = ()
    name = forms.CharField(max_length=64, label="Name", help_text="Lower-case letters, digits, - and _. It stays.")
    description = forms.CharField(max_length=500, required=False, label="What it is for")
    reason = forms.CharField(
        max_length=1000, required=False, label="Why now", widget=forms.Textarea(attrs={"rows": 2}),
        help_text="The reviewer reads this first.",
    )  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.order_fields(["name", "description", *self.order, "reason"])

    def registration(self) -> Registration:
        """The body and the files for the service."""
        raise NotImplementedError

    @classmethod
    def from_version(cls, version: HookVersion) -> dict[str, Any]:
        """What the form shows for a version that is to be edited."""
        return {}


class RuleForm(HookForm):
    """A declarative rule."""

    kind = Kind.RULE
    order = ("rule",)
    rule = forms.CharField(
        label="Rule", strip=False, initial=RULE_EXAMPLE, widget=forms.Textarea(attrs={"rows": 16, "class": "code-input", "spellcheck": "false"}),
        help_text="YAML: events, when, then; see the documentation of rules. No code runs.",
    )  # fmt: skip

    def registration(self) -> Registration:
        values = self.cleaned_data
        return {"kind": "rule", "description": values["description"], "rule": values["rule"]}, ()

    @classmethod
    def from_version(cls, version: HookVersion) -> dict[str, Any]:
        return {"rule": json.dumps(version.manifest["rule"], indent=2, ensure_ascii=False)}


class ListeningForm(HookForm):
    """A hook that says itself what it listens to."""

    systems: ClassVar[tuple[System, ...]] = (System.PLUGIN,)
    events = forms.MultipleChoiceField(label="Events", widget=forms.SelectMultiple(attrs={"size": 8}))
    matcher = forms.CharField(
        max_length=1000, required=False, label="Tool matcher",
        help_text="A regular expression for the tool's whole name, such as terminal|execute_code. Empty: every tool.",
    )  # fmt: skip
    timeout = forms.IntegerField(initial=DEFAULT_TIMEOUT, label="Time limit", help_text="Seconds.")
    fail_mode = forms.ChoiceField(choices=FAIL_MODES, label="Fail mode")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        known = [event for event in catalogue.CATALOGUE.values() if event.system in self.systems]
        self.fields["events"].choices = [  # type: ignore[attr-defined]
            (event.name, f"{event.name} (gate)" if event.gate else event.name) for event in known
        ]

    def body(self, *names: str) -> dict[str, Any]:
        """These fields, empty ones left out."""
        wanted = ("description", "events", "timeout", "fail_mode", *names)
        chosen = {name: self.cleaned_data[name] for name in wanted}
        if matcher := self.cleaned_data["matcher"]:
            chosen["matcher"] = matcher
        return {"kind": str(self.kind), **chosen}

    @classmethod
    def from_version(cls, version: HookVersion) -> dict[str, Any]:
        return {name: version.manifest.get(name) for name in ("events", "matcher", "timeout", "fail_mode")}


class ShellForm(ListeningForm):
    """A command, and the script that it runs."""

    kind = Kind.SHELL
    order = ("command", "script", "events", "matcher", "timeout", "fail_mode", "environment", "network")
    shown_as = {"files": "script"}
    command = forms.CharField(max_length=4000, label="Command", widget=forms.TextInput(attrs={"class": "code-input"}))
    script = forms.FileField(
        required=False, label="Script", help_text="The file that the command runs. Its bytes are reviewed and stored."
    )
    environment = forms.CharField(
        required=False, label="Variables", help_text="Names that it gets, separated by spaces."
    )
    network = forms.BooleanField(required=False, label="May use the network")
    executable = forms.BooleanField(required=False, initial=True, widget=forms.HiddenInput)

    def registration(self) -> Registration:
        values = self.cleaned_data
        body = self.body("command", "network") | {"environment": values["environment"].split()}
        return body, self.files_for(values["command"], values["script"])

    def files_for(self, command: str, upload: UploadedFile | None) -> tuple[SourceFile, ...]:
        """The uploaded script under the name that the command calls it by, or what the version had."""
        if upload is None:
            return getattr(self, "former", ())
        name = (script_path(command) or str(upload.name)).rsplit("/", 1)[-1]
        return (SourceFile(name, upload.read(), executable=True),)

    @classmethod
    def from_version(cls, version: HookVersion) -> dict[str, Any]:
        names = [variable["name"] for variable in version.manifest.get("environment", ())]
        return super().from_version(version) | {
            "command": version.manifest["command"],
            "environment": " ".join(names),
            "network": version.manifest.get("network", False),
        }


class WebhookForm(ListeningForm):
    """A signed POST."""

    kind = Kind.WEBHOOK
    order = ("url", "events", "matcher", "timeout", "fail_mode")
    systems = (System.PLUGIN, System.GATEWAY)
    url = forms.CharField(
        max_length=2000, label="Address", help_text="It receives a signed POST (Standard Webhooks) for each event."
    )

    def registration(self) -> Registration:
        return self.body("url"), ()

    @classmethod
    def from_version(cls, version: HookVersion) -> dict[str, Any]:
        return super().from_version(version) | {"url": version.manifest["url"]}


class ArchiveForm(HookForm):
    """A plugin or a gateway hook, as an archive."""

    order = ("archive",)
    shown_as = {"files": "archive", "kind": "archive", "events": "archive", "environment": "archive"}
    archive = forms.FileField(
        label="Archive",
        help_text="A tar or zip of the hook's directory, or a wheel with a hermes_agent.plugins entry point.",
    )

    def registration(self) -> Registration:
        body, files = archives.body_of(archives.read_archive(self.cleaned_data["archive"].read()))
        if body["kind"] != self.kind:
            raise Invalid(f"This is a {body['kind']} hook: choose that kind.", field="archive")
        return {**body, "description": self.cleaned_data["description"]}, files


class PluginForm(ArchiveForm):
    """`plugin.yaml` and `register(ctx)`."""

    kind = Kind.PLUGIN


class GatewayForm(ArchiveForm):
    """`HOOK.yaml` and `handler.py`."""

    kind = Kind.GATEWAY


FORMS: dict[str, type[HookForm]] = {
    form.kind: form for form in (RuleForm, ShellForm, WebhookForm, PluginForm, GatewayForm)
}


class TryForm(PlainForm):
    """What a version is fired with."""

    kind = forms.ChoiceField(choices=[("test", "test"), ("doctor", "doctor")], widget=forms.HiddenInput)
    event = forms.ChoiceField(required=False, label="Event")
    tool = forms.CharField(
        max_length=200, required=False, label="Tool", help_text="Such as terminal; the sample's without one."
    )
    payload = forms.JSONField(
        required=False, initial=dict, label="Payload", widget=forms.Textarea(attrs={"rows": 6, "class": "code-input", "spellcheck": "false"}),
        help_text='JSON laid over the sample event, such as {"args": {"command": "rm -rf /"}}.',
    )  # fmt: skip
    profile = forms.ModelChoiceField(
        Profile.objects.none(), required=False, empty_label="none: without secrets", label="As in the profile"
    )
    confirmed = forms.BooleanField(
        required=False,
        label="Run these bytes although nobody approved them: in the sandbox, without secrets and network",
    )

    def __init__(self, *args: Any, version: HookVersion, approved: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = version.manifest["events"]
        self.fields["event"].choices = [(name, name) for name in names]  # type: ignore[attr-defined]
        if self["kind"].value() == "doctor":
            for name in ("event", "tool", "payload"):
                del self.fields[name]
        if approved:
            places = version.hook.places.values("profile")
            self.fields["profile"].queryset = Profile.objects.filter(pk__in=places)  # type: ignore[attr-defined]
            del self.fields["confirmed"]
        else:
            del self.fields["profile"]
