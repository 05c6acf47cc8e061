"""Pipelines in YAML: what is refused, and with which words."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

import topwatch as tw
from tests.support.pipelines import EXAMPLE, pipeline, written
from topwatch.query.errors import PipelineError
from topwatch.spark.pipeline.config.reading import parse, read

BROKEN = Path(__file__).with_name("broken")

FRONTS = """\
  - {name: front, skyline: {bytes: max, seconds: min}}
  - {name: often, skyline: {bytes: max}, share: 0.8, snapshots: 100}
"""

SCHEMA = "expected a schema such as 'flow STRING, ts TIMESTAMP, bytes DOUBLE'"


@pytest.mark.parametrize("path", sorted(BROKEN.glob("*.yml")), ids=lambda path: path.stem)
def test_broken_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside each broken file stand the messages that it must give."""
    monkeypatch.chdir(BROKEN)
    with pytest.raises(PipelineError) as caught:
        read(path.name)
    assert list(caught.value.args) == path.with_suffix(".txt").read_text().splitlines()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"source: {files: data/*.csv}\nid: caf\xe9\n", ":2: not UTF-8: byte 0xe9; save the file as UTF-8"),
        (b"id: \x07\n", ":1: the character '\\x07' is not accepted in YAML"),
        (b"", ":1: empty; expected fields such as source, window, queries and sink"),
        (b"flow\n", ":1: expected fields such as source, window and queries, got 'flow'"),
        (b"id: a\n---\nid: b\n", ":2: not YAML: expected a single document in the stream, but found another document"),
        (b"[" * 5000, ":1: nested too deeply; a pipeline has a few levels only"),
        (b"a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n", None),
    ],
)
def test_file_that_is_no_pipeline(tmp_path: Path, raw: bytes, message: str | None) -> None:
    path = tmp_path / "p.yml"
    if message is None:  # ten to the twelfth values in a few lines
        layers = (
            f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefghijk", "bcdefghijkl", strict=True)
        )
        raw += "".join(layers).encode()
        message = ":6: f[7]: more than 1,000,000 values, with all aliases followed"
    path.write_bytes(raw)
    with pytest.raises(PipelineError) as caught:
        read(path)
    assert caught.value.args == (f"{path}{message}",)


ACCEPTED = "accepted are text, numbers, true, false, null, lists and mappings"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("!!int x", "!!int: expected a whole number, got 'x'"),
        ("!!int 1.5", "!!int: expected a whole number, got '1.5'"),
        ("!!float x", "!!float: expected a number, got 'x'"),
        ("!!bool maybe", "!!bool: expected true or false, got 'maybe'"),
        ("!!null x", "!!null: expected null, got 'x'"),
        ("!!timestamp x", f"the tag '!!timestamp' is not accepted; {ACCEPTED}"),
        ("!!binary x", f"the tag '!!binary' is not accepted; {ACCEPTED}"),
        ("!!set {a}", f"the tag '!!set' is not accepted; {ACCEPTED}"),
        ("!!omap [a: 1]", f"the tag '!!omap' is not accepted; {ACCEPTED}"),
        ("!x y", f"the tag '!x' is not accepted; {ACCEPTED}"),
        ("{[a]: b}", "a list as a key; expected text or a whole number"),
        ("{{a: b}: c}", "a mapping as a key; expected text or a whole number"),
        ("{true: b}", "true as a key; expected text or a whole number; in quotes it is text"),
        ("*b", "the alias 'b' names no anchor that has ended before it"),
        ("{<<: 1}", "expected a mapping, or a list of them, such as *name"),
        ('"\\0"', "the character '\\x00' is not accepted"),
        ('"\\ud800"', "the character '\\ud800' is not accepted"),
    ],
)
def test_value_that_a_pipeline_cannot_have(written: str, message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        parse(f"id: flow\nwindow:\n  last: {written}\n", "p.yml")
    (line,) = caught.value.args
    assert re.fullmatch(r"p\.yml:3: window\.last(\['<<'\]|)?: " + re.escape(message), line), line


def test_escape_that_names_no_character() -> None:
    with pytest.raises(PipelineError, match=r"^p\.yml:2: not YAML: .*"):
        parse('id: flow\ntime: "\\UFFFFFFFF"\n', "p.yml")


def test_algorithm_that_is_no_name() -> None:
    with pytest.raises(
        PipelineError, match=r"^pipeline\.yml:5: algorithm: unknown name \{'a': 1\}; accepted are auto, "
    ):
        pipeline(algorithm="{a: 1}")


def test_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topwatch.spark.pipeline.config.reading.MOST_BYTES", 100)
    path = tmp_path / "p.yml"
    path.write_bytes(b"#" * 101)
    with pytest.raises(PipelineError, match=r"p\.yml: too large; a pipeline has at most 100 bytes$"):
        read(path)


def test_the_parser_without_libyaml_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = parse(EXAMPLE)
    monkeypatch.setattr("topwatch.spark.pipeline.config.yaml_nodes.yaml.__with_libyaml__", False)
    assert parse(EXAMPLE) == quick


def test_of_many_queries_those_are_named_that_are_refused() -> None:
    queries = [f"{{name: q{i}, top: 1, score: {{linear: {{x: 1}}}}}}" for i in range(50)]
    queries[7] = queries[33] = "{name: odd, skyline: {x: min}}"
    with pytest.raises(PipelineError) as caught:
        pipeline(queries=f"[{', '.join(queries)}]", algorithm="sma")
    assert [re.search(r"queries\[\d+\]\S*", line)[0] for line in caught.value.args] == [  # type: ignore[index]
        "queries[7]:",
        "queries[33]:",
        "queries[33].name:",
    ]


def test_many_keys_given_twice_and_many_that_are_merged() -> None:
    """Both took a step for each pair of keys: half an hour for a file of a megabyte."""
    keys = "".join(f"k{i}: 1\n" for i in range(50_000))
    with pytest.raises(PipelineError) as caught:
        parse(keys + keys)
    twice = [line for line in caught.value.args if "given twice" in line]
    assert len(twice) == 50_000
    assert twice[-1] == "pipeline.yml:100000: k49999: given twice, first in line 50000; a field stands once"
    parts = ", ".join(f"{{spark.a{i}: {i}}}" for i in range(50_000))
    merged = pipeline(spark=f"{{<<: [{{spark.a7: first}}, {parts}], spark.a8: own}}").spark
    assert (len(merged), merged["spark.a7"], merged["spark.a8"], merged["spark.a9"]) == (50_000, "first", "own", "9")


def test_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"none\.yml: cannot be read: No such file or directory$"):
        read(tmp_path / "none.yml")
    with pytest.raises(PipelineError, match=r": cannot be read: Is a directory$"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"window": "10 minutes"}, "window: expected {last: 100000}, {last: 10 minutes} or latest, got '10 minutes'"),
        ({"window": "{latest: true}"}, "window: expected {last: 100000}, {last: 10 minutes} or latest, got a mapping"),
        ({"window": "{last: }"}, "window: expected {last: 100000}, {last: 10 minutes} or latest, got a mapping"),
        ({"window": "{lasst: 5}"}, "window.lasst: unknown field; accepted are last; did you mean 'last'?"),
        ({"window": "{last: 5000000000000000000}"},
         "window.last: expected at most 4,611,686,018,427,387,903 rows, got 5000000000000000000"),
        ({"queries": "[]"}, "queries: expected a list of queries such as {name: hot, top: 10, score: {linear: {bytes:"
                            " 0.7, packets: 0.3}}}, got an empty list"),
        ({"queries": "[{top: 2000000, score: {linear: {x: 1}}}]", "window": "latest", "id": "i"},
         "queries[0]: TopK: k: expected at most 1,000,000, got 2,000,000"),
        ({"queries": "[{incomplete: 2, sources: [EWR, EWR]}]", "id": "i"},
         "queries[0].sources: expected each source once, got ['EWR', 'EWR']"),
        ({"queries": "[{incomplete: 2, sources: [EWR], bounds: [1, 0]}]", "id": "i"},
         "queries[0].bounds: expected (low, high) with low < high, got (1, 0)"),
        ({"options": "{route: far}"}, "options.route: expected 'auto', 'lists' or 'scan', got 'far'"),
        ({"options": "{route: [far]}"}, "options.route: expected 'auto', 'lists' or 'scan', got ['far']"),
        ({"id": "null", "time": "", "options": "{route: far}"},
         "options.route: expected 'auto', 'lists' or 'scan', got 'far'"),
        ({"source": "{generate: {kind: flows, dims: 3}}"},
         "source.generate.dims: not known for flows, which have columns of their own"),
        ({"source": "{generate: {dims: 1000000000}}"},
         "source.generate.dims: expected 1 to 10,000 columns for ind, got 1000000000"),
        ({"queries": "[{skyline: {x: min}, share: 1, snapshots: 99999999999999}]", "window": "latest", "id": "i"},
         "queries[0].snapshots: expected a whole number from 1 to 2,147,483,647, got 99999999999999"),
        ({"algorithm": "smaa"}, "algorithm: unknown name 'smaa'; accepted are auto, brute, scan, tsl, tma, sma,"
                                " reserve, sa, ra, pa, sasf,"
         " sarf, sapf, rasf, rarf, rapf, cpm, snn, bfa, eva, ada, ahba, amsa, floor, sla, eaa, approx, tally, witness,"
         " sampling;"
         " did you mean 'sma'?"),
        ({"algorithm": "sma", "window": "latest", "id": "i"},
         "queries[0]: 'sma' cannot serve query 'queries[0]': it needs rows to expire in the order they came, and a"
         " latest() window has none; brute, tsl, tma, reserve, cpm can"),
        ({"time": "t", "lateness": "10 us"}, "lateness: expected at least a millisecond, got '10 us'"),
        ({"trigger": "999 us"}, "trigger: expected at least a millisecond, got '999 us'"),
        ({"time": "t", "lateness": "1 s", "chunks": "{every: 10 ns}"},
         "chunks.every: expected at least a microsecond, got '10 ns'"),
        ({"by": "[]"}, "by: expected at least one name, got an empty list"),
        ({"by": "[a, b, a]"}, "by[2]: names 'a' twice"),
        ({"by": "[a, 5]"}, "by[1]: expected the name of a column, or a list of them, got 5"),
        ({"id": "''"}, "id: expected the name of a column, got ''"),
        ({"sink": "parquet"}, "sink: expected console, memory or a mapping with one of parquet, console, memory, kafka,"
                              " jdbc, got 'parquet'"),
        ({"quarantine": "{csv: bad/}"}, "quarantine: expected a folder such as bad/, got a mapping"),
        ({"source": "{kafka: {servers: a:1, schema: x INT}}"},
         "source.kafka: expected either topic or topics, got none of them"),
        ({"source": "{files: {path: a.csv, schema: 'a INT, a INT'}}"},
         "source.files.schema: names the column 'a' twice"),
        ({"source": "{files: {path: a.csv, schema: 'a STRUCT<b: INT'}}"},
         f"source.files.schema: {SCHEMA}, got a bracket without its pair in 'a STRUCT<b: INT'"),
        ({"source": "{rate: }", "id": "value"},
         "queries[0].score.linear.x: no column 'x' in the source; it has timestamp, value"),
        ({"source": "{generate: {dims: 20}}"},
         "queries[0].score.linear.x: no column 'x' in the source;"
         " it has id, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11 ...; did you mean 'x9'?"),
    ],
)  # fmt: skip
def test_one_field_wrong(fields: dict[str, str], message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        pipeline(**fields)
    (line,) = caught.value.args
    assert re.sub(r"^pipeline\.yml:\d+: ", "", line) == message


def test_frequent_skylines_need_a_window_of_ids() -> None:
    with pytest.raises(PipelineError) as caught:
        parse(EXAMPLE.replace("sink:", FRONTS + "sink:"), "p.yml")
    (line,) = caught.value.args
    assert line.startswith(
        "p.yml:12: queries[4]: FrequentSkyline: window: how often an id is in the skyline is counted"
    )


def test_error_carries_its_lines() -> None:
    error = PipelineError("p.yml:1: a", "p.yml:2: b")
    assert isinstance(error, tw.TopwatchError)
    assert str(error) == "p.yml:1: a\np.yml:2: b"
    assert pickle.loads(pickle.dumps(error)).args == error.args


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"emit": "answers", "queries": "[{dominating: 3, prefer: {x: max}}]"},
            "emit: 'answers' does not serve Dominating queries, whose scores move; accepted is 'changes'",
        ),
        (
            {"emit": "first", "window": "latest", "id": "flow"},
            "emit: 'first' needs a window of rows that are never replaced; latest() has only 'changes'",
        ),
        (
            {"emit": "first", "queries": "[{incomplete: 3, sources: [a, b], combine: sum}]"},
            "emit: 'first' is of rows, and IncompleteTopK of objects; accepted is 'changes'",
        ),
    ],
    ids=str,
)
def test_what_a_run_cannot_emit_is_refused(fields: dict[str, str], message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        parse(written(**fields))
    assert [text.partition(": ")[2] for text in caught.value.args] == [message]
