"""Draws demo.svg, a moment of ``topwatch demo``. Run it again when the view has changed."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from topwatch.datagen import generators
from topwatch.live.demo import start
from topwatch.live.terminal import Screen


def main() -> None:
    """Write the picture beside this file."""
    console = Console(
        file=io.StringIO(), record=True, force_terminal=True, width=104, height=26, color_system="truecolor"
    )
    screen = Screen("demo: the last 1,000,000 rows of ind, seed 0", console)
    batches = (
        {f"x{i}": column for i, column in enumerate(part, 1)} for part in generators.stream("ind", 4, batch=32_768)
    )
    for frame in start(batches, window=1_000_000).frames(screen.period, seconds=8):
        screen.show(frame)
    console.print(screen.draw())
    # Fonts from elsewhere are not loaded in a README: the reader's own will do.
    plain = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    picture = console.export_svg(title="topwatch demo", code_format=plain)
    Path(__file__).with_name("demo.svg").write_text(
        picture.replace("Fira Code, monospace", "monospace"), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
