"""The pages about hooks: review desk, inbox, registry, what happened and why."""

from hooks_app.admin import (  # noqa: F401  (each registers its pages)
    allowlist,
    approval,
    cards,
    change,
    decision,
    delivery,
    endpoint,
    event,
    grant,
    hook,
    legal_hold,
    notification_route,
    profile,
    run,
    switch,
    test_run,
    trial,
)
