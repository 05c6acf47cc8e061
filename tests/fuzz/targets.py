"""All targets. A new one is a file with a ``TARGET``, and a line here."""

from __future__ import annotations

from fuzz import pipelines_fuzzed

TARGETS = {module.TARGET.name: module.TARGET for module in (pipelines_fuzzed,)}
