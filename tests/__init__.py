"""The tests. ``CONTRIBUTING.md`` has which one goes where; what several share is in :mod:`tests.support`."""

import os

os.environ.setdefault("TOPWATCH_COMPILE", "first")  # what a test sees does not depend on how far compiling is
