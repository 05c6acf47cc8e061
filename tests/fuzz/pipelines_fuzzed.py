"""Pipeline files, changed at random: ``check``, ``explain`` and ``run`` say what is wrong, with line and field."""

from __future__ import annotations

import functools
import re
import tempfile
from pathlib import Path

import numpy as np

from tests.fuzz.calling import call
from tests.fuzz.cases import Case, Target
from tests.fuzz.words import changed
from tests.support import ROOT
from tests.support.pipelines import EXAMPLE
from topwatch.query.errors import PipelineError
from topwatch.spark.pipeline.config import summary
from topwatch.spark.pipeline.config.reading import read

MORE = """\
source: {kafka: {servers: [a:1, b:2], topics: [s, t], schema: 'flow INT, ts TIMESTAMP, x DOUBLE, `y z` INT', options: {minPartitions: 9}}}
id: flow
time: ts
lateness: 10 seconds
window: &w {last: 10 minutes}
every: 1 minute
algorithm: auto
options: {cells: 12, slack: 2}
emit: answers
queries:
  - &q {name: a, top: 10, score: {product: {x: 0.1}}, where: {x: [0, .inf]}}
  - {<<: *q, name: b}
  - {name: c, dominating: 3, prefer: {x: max, 'y z': min}}
  - {name: d, skyline: {x: max}}
  - {name: e, threshold: 1e3, score: {quadratic: {x: 2}}}
sink: {jdbc: {url: 'jdbc:postgresql://localhost/t', table: t, user: me, password_env: PW, options: {batchsize: 9}}}
checkpoint: ckpt/
quarantine: {parquet: bad/}
trigger: 5 seconds
spark: {spark.ui.enabled: false}
---
source: {generate: {kind: ant, dims: 4, rows: 1000, seed: 7}}
window: latest
queries:
- name: often
  skyline: {x1: min, x2: max}
  share: 0.8
  snapshots: 100
- {name: near, nearest: 2, point: {x1: 0.5, x2: 0.5}}
sink: {memory: hot}
---
source: {socket: {host: h, port: 9, format: csv, schema: 'id INT, source STRING, value DOUBLE, time DOUBLE'}}
id: id
time: time
lateness: 5 seconds
chunks: {every: 5 seconds, combine: sum}
window: {last: 1000}
queries:
  - {incomplete: 10, sources: [EWR, JFK], combine: mean, bounds: [0, 60], weights: {JFK: 2}}
  - {name: f, incomplete: 1, sources: [EWR, JFK], combine: {expr: EWR * (1 + JFK), increasing: [EWR, JFK]}, bounds: learn}
  - {name: g, incomplete: 1, sources: [1, 2], bounds: {1: [0, 1], 2: [0, 5]}, occurrences: sum, most: 3}
sink: console
---
source: {rate: {rows_per_second: 5}}
id: value
window: {last: 5}
algorithm: sma
queries: [{top: 1, score: {distance: {value: 1}}}]
sink: {kafka: {servers: a:1, topic: t}}
checkpoint: c
"""  # noqa: E501


# What a message begins with: a path such as queries[1].where['net.bytes'], or what is wrong with the text.
FIELD = re.compile(r"""([^\W\d]\w*|\[.*?(\]|\.\.\.))(\.[^\W\d]\w*(\.\.\.)?|\[.*?(\]|\.\.\.))*: \S""")
OF_THE_TEXT = re.compile(
    "not YAML: |not UTF-8: |empty; |nested too deeply; |a tab where YAML wants spaces; |the (character|tag|alias) |!!"
    "|expected fields such as source, window and queries, got |[^:]* as a key; expected text or a whole number"
)


@functools.cache
def files() -> list[list[str]]:
    """The lines of all files that are changed."""
    texts = [EXAMPLE, *MORE.split("---\n")]
    texts += [path.read_text(encoding="latin-1") for path in sorted(ROOT.glob("examples/*.yml"))]
    texts += [path.read_text(encoding="latin-1") for path in sorted(ROOT.glob("tests/spark/pipeline/broken/*.yml"))]
    page = (ROOT / "docs" / "how-to" / "write-a-pipeline.md").read_text(encoding="utf-8").encode().decode("latin-1")
    texts += re.findall(r"^```yaml\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    return [text.splitlines() for text in texts if text.strip()]


def make(rng: np.random.Generator) -> Case:
    lines = files()[rng.integers(0, len(files()))]
    for _ in range(int(rng.geometric(0.4))):
        lines = changed(rng, lines, files())
    command = str(rng.choice(["", "", "", "check", "explain", "run"]))
    return {"steps": lines, "command": command}


def run(case: Case) -> None:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        path = Path(folder) / "p.yml"
        path.write_bytes("\n".join(case["steps"]).encode("latin-1"))
        problems: tuple[str, ...] = ()
        try:
            pipeline = read(path)
        except PipelineError as error:
            problems = error.args or ("no message",)
        else:
            assert summary.in_a_line(pipeline)
            assert "state:" in summary.in_full(pipeline)
        for line in problems:
            message = re.match(re.escape(str(path)) + r":\d+: (.*)", line)
            assert message, f"no line number: {line!r}"
            assert FIELD.match(message[1]) or OF_THE_TEXT.match(message[1]), f"no field: {line!r}"
            assert len(line) < 1000, f"{len(line)} characters: {line[:100]}"
        expected = 2 if problems else 0
        if case["command"] and (expected or case["command"] != "run"):
            code, printed = call([case["command"], str(path)])
            assert code == expected, f"exit code {code}: {printed}"


TARGET = Target("pipelines", make, run, short=150)
