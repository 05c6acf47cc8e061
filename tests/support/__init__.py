"""What tests share: servers, processes, random sizes, real data, and the long runs of the Makefile."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
