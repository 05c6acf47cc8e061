"""All targets. A new one is a file with a ``TARGET``, and a line here."""

from __future__ import annotations

from fuzz import batches_fuzzed, expressions_fuzzed, monitors, pipelines_fuzzed

TARGETS = {
    module.TARGET.name: module.TARGET for module in (monitors, batches_fuzzed, expressions_fuzzed, pipelines_fuzzed)
}
