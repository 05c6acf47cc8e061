"""Changes to text and bytes that hurt parsers."""

# ruff: noqa: E501 - a table of odd words is read at a glance, a column of them is not

from __future__ import annotations

import numpy as np

# Latin-1 stands for bytes.
ODD = [
    "", "~", "null", "true", "no", "-1", "0", "1.5", "1e999", "-1e-999", ".nan", ".inf", "-.inf", "0x1F", "0o7", "1_000", "1_", "_1", "+", "-",
    "9" * 19, "9" * 25, "9" * 31, "9" * 40, "1e30", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "18446744073709551616",
    "[]", "{}", "[[]]", "[{}]", "{a: b}", "[a, a]", "{a: 1, a: 2}", "{1: 2}", "{1.5: 2}", "{null: 2}", "{true: 1}", "{[a]: b}", "{{a: 1}: b}",
    "? [a]\n: b", "!!int x", "!!float x", "!!bool maybe", "!!timestamp x", "!!binary x", "!!set {a, b}", "!!omap [a: 1]", "!!pairs [a: 1]",
    "!!null x", "!!str 5", "!!int 5", "!!float 5", "!!int '5'", "!!python/none", "!foo threshold", "! 5", "!!seq {}", "!!map []", "!!merge <<",
    "!<tag:yaml.org,2002:int> 7", "!!", "%YAML 9.9", "%TAG ! x", "---", "...", "--- a\n--- b", "&a [*a]", "&a 1", "*a", "*b", "&a", "&a &b 1",
    "<<: *a", "{<<: 1}", "{<<: [1]}", "{<<: {a: 1}}", "{<<: [{a: 1}, {a: 2}], a: 3}", "{<<: {a: 1}, <<: {b: 1}}", "'<<': 1", "<<",
    "\"\\0\"", "\"\\ud800\"", "\"\\x07\"", "\"\\u2028\"", "\"\\UFFFFFFFF\"", "\"\\q\"", "'", '"', "`", "@x", "%x", "|", ">", "|9\n a", "|-\n  a",
    "\t", "\x00", "\x07", "\x85", "\xa0", "\xff", "\xc3\xa9", "\xf0\x9f\x98\x80", "\xed\xa0\x80", "\xef\xbb\xbf", "\r", "\r\n", "#", "# x", ": ", "- ", "? ",
    "2024-02-29", "12:30", "10 minutes", "1 fortnight", "-5 seconds", "1e400 seconds", "999999999999 weeks", "0.0000000001 ns", "5 s 5 s",
    "latest", "{last: 0}", "{last: -1}", "{last: 1.5}", "{last: [1]}", "{last: 10000000000000}", "{last: 10 minutes}", "{latest: 1}",
    "[{top: 1, score: {linear: {x: 1}}}]", "{top: 1}", "{expr: a + b}", "{expr: '('}", "{linear: {}}", "{linear: {x: .nan}}", "{linear: {x: 1e999}}",
    "bytes ** 1e999", "a if b else c", "__import__('os')", "x" * 3000, "(" * 200 + "x" + ")" * 200, "-" * 1500 + "x", "jdbc:", "s3a://x/y",
    "a INT, a INT", "a STRUCT<", "`a", "a", ",,", "`` INT", "~/x", "../..", "/dev/null", "console", "memory", "parquet",
]  # fmt: skip
SIGNS = [*"{}[]:,-?&*!|>'\"%@`#\n \t~<=.0123456789eE_+/()\\", "\x00", "\x85", "\xff", "\xc3"]


def changed(rng: np.random.Generator, lines: list[str], others: list[list[str]]) -> list[str]:
    """The lines with one change; ``others`` have lines to take from."""
    lines = list(lines)
    index = int(rng.integers(0, len(lines))) if lines else 0
    line = lines[index] if lines else ""
    kind = int(rng.integers(0, 14))
    if kind == 0 and lines:
        del lines[index]
    elif kind == 1:
        lines.insert(index, line)
    elif kind == 2 and lines:
        lines[index] = " " * int(rng.integers(0, 9)) + line.lstrip()
    elif kind == 3 and lines:
        cut = int(rng.integers(0, len(line) + 1))
        lines[index] = line[:cut]
    elif kind == 4:
        other = others[rng.integers(0, len(others))]
        lines.insert(index, other[rng.integers(0, len(other))])
    elif kind == 5 and lines:
        other = int(rng.integers(0, len(lines)))
        lines[index], lines[other] = lines[other], lines[index]
    elif kind in (6, 7) and line:
        cut = int(rng.integers(0, len(line)))
        sign = SIGNS[rng.integers(0, len(SIGNS))]
        lines[index] = line[:cut] + sign + line[cut + int(rng.integers(0, 2)) :]
    elif kind == 8:
        lines.insert(index, ODD[rng.integers(0, len(ODD))])
    elif line:
        lines[index] = _value_replaced(rng, line)
    return lines


def _value_replaced(rng: np.random.Generator, line: str) -> str:
    """A word of the line, or all that stands after a colon or comma, by something odd."""
    starts = [i for i, sign in enumerate(line) if sign in ":,[{- "]
    if not starts:
        return ODD[rng.integers(0, len(ODD))]
    start = int(rng.choice(starts)) + 1
    ends = [i for i in range(start, len(line)) if line[i] in ",]}:"] + [len(line)]
    end = int(ends[min(int(rng.integers(0, 3)), len(ends) - 1)])
    return f"{line[:start]} {ODD[rng.integers(0, len(ODD))]}{line[end:]}"


def bytes_changed(rng: np.random.Generator, data: bytes) -> bytes:
    """Bytes flipped, left out, doubled or cut off."""
    result = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        kind = int(rng.integers(0, 6))
        index = int(rng.integers(0, len(result) + 1))
        length = int(rng.integers(1, 9))
        if kind == 0 and result:
            result[min(index, len(result) - 1)] ^= 1 << int(rng.integers(0, 8))
        elif kind == 1 and result:
            result[min(index, len(result) - 1)] = int(rng.choice([0, 1, 127, 128, 255, int(rng.integers(0, 256))]))
        elif kind == 2:
            del result[index : index + length]
        elif kind == 3:
            result[index:index] = result[index : index + length]
        elif kind == 4:
            result[index:index] = rng.bytes(length)
        else:
            del result[index:]
    return bytes(result)
