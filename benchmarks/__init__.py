"""Generated data, the papers' experiments and the peers."""

import os

os.environ.setdefault("TOPWATCH_COMPILE", "first")  # what is measured is compiled
