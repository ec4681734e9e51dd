"""The pages about the fleet: agents, enrolment, bundles, rollouts."""

from gateway_app.admin import agent, bundle, cards, enrolment, profile, receipt, rollout  # noqa: F401  (each registers)
