"""Which Hermes function has which counterpart here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.conformance import approvals_flow
from tests.conformance.drivers import approvals, discovery, gateway, plugin, shell
from tests.conformance.stage import Stage

Driver = Callable[[Any, Stage], Any]

DRIVERS: dict[str, Driver] = {
    "agent.shell_hooks.iter_configured_hooks": shell.iter_configured_hooks,
    "agent.shell_hooks.ShellHookSpec.matches_tool": shell.matches_tool,
    "agent.shell_hooks._parse_response": shell.parse_response,
    "agent.shell_hooks._serialize_payload": shell.serialize_payload,
    "agent.shell_hooks._make_callback(spec)(**kwargs)": shell.callback,
    "agent.shell_hooks._make_callback": shell.orphan,
    "agent.shell_hooks._command_script_path": shell.command_script_path,
    "agent.shell_hooks.register_from_config (stdin not a TTY)": shell.register_from_config,
    "agent.shell_hooks._record_approval": shell.record_approval,
    "agent.shell_hooks.revoke": shell.revoke,
    "hermes_cli.hooks._doctor_one (script mtime set with os.utime, epoch seconds)": shell.drift,
    "resolve_pre_tool_block": shell.plugin_and_shell_block,
    "PluginManager.discover_and_load(force=True) then register_from_config": shell.register_again,
    "gateway.hooks.HookRegistry.discover_and_load + emit/emit_collect": gateway.registry,
    "GatewayRunner._handle_message -> hooks.emit_collect('command:<name>')": gateway.message,
    "GatewayRunner._handle_message through a live in-memory platform adapter": gateway.message,
    "same": gateway.message,
    "hermes_cli.plugins._get_pre_tool_call_directive_details": plugin.directive,
    "hermes_cli.plugins.resolve_pre_tool_block": plugin.callback_shapes,
    "hermes_cli.plugins.get_pre_verify_continue_message": plugin.pre_verify,
    "PluginManager.invoke_hook": plugin.invoke_hook,
    "PluginContext.register_hook + invoke_hook": plugin.register_and_invoke,
    "model_tools.handle_function_call": plugin.tool_call,
    "model_tools.handle_function_call('terminal', printf hello)": plugin.terminal_output,
    "run_agent.AIAgent.run_conversation against a scripted loopback model": plugin.conversation,
    "hermes_cli.plugins.PluginManager.discover_and_load": discovery.discover_and_load,
    "tools.approval": approvals.inventory,
    "tools.approval.detect_dangerous_command": approvals.dangerous,
    "tools.approval.detect_hardline_command": approvals.hardline,
    "tools.approval._normalize_approval_mode": approvals_flow.mode,
    "tools.approval.resolve_gateway_approval": approvals_flow.resolve,
    "tools.approval.check_all_command_guards": approvals_flow.guards,
    "tools.approval.request_tool_approval": approvals_flow.escalate,
}

NOT_OURS: dict[str, str] = {
    "hermes hooks": "Hermes's own command line; ours is `manage.py hooks`",
    "hermes_cli.config.load_config": "Hermes's configuration files",
    "ctx.register_middleware": "middleware",
    "run_agent.AIAgent.": "the agent loop",
    "set_thread_tool_whitelist": "a limit of Hermes's background review",
    "tools.approval.": "the approval flow",
    "live adapter": "a running gateway",
    "area ": "a running gateway",
}
"""Drivers, by how their name begins, without a counterpart in the engine, and what they belong to."""
