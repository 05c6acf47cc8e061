"""All targets. A new one is a file with a ``TARGET``, and a line here."""

from __future__ import annotations

from tests.fuzz import (
    approximate,
    batches_fuzzed,
    by_fuzzed,
    commands_fuzzed,
    configurations,
    expressions_fuzzed,
    groups_fuzzed,
    messages_fuzzed,
    monitors,
    mqtt_fuzzed,
    pipelines_fuzzed,
    snapshots_fuzzed,
)

MODULES = (
    monitors,
    approximate,
    by_fuzzed,
    groups_fuzzed,
    snapshots_fuzzed,
    configurations,
    batches_fuzzed,
    expressions_fuzzed,
    pipelines_fuzzed,
    commands_fuzzed,
    messages_fuzzed,
    mqtt_fuzzed,
)
TARGETS = {module.TARGET.name: module.TARGET for module in MODULES}
