"""Makes the generated parts of the documentation while mkdocs builds it: the pipeline file and the command line.

A page says where with a line such as ``<!-- generated: pipeline -->``. Links that leave ``docs/``, to sources and
tests, work where the repository is browsed; the site has their text only.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Iterator
from typing import Any

import click
from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor
from pydantic_core import PydanticUndefined

from topwatch.cli.main import cli
from topwatch.spark.pipeline.config import query_models, sink_models, source_models
from topwatch.spark.pipeline.config.fields import OneOf, Part
from topwatch.spark.pipeline.config.model import Chunks, Pipeline, Window

_MARK = re.compile(r"^<!-- generated: ([a-z-]+) -->$", re.MULTILINE)
_OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\((?:\.\./)+(?:src|tests|benchmarks|examples|[A-Z]+\.md)[^)]*\)")
_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data):`~?")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in what is generated, and take links out that lead nowhere in the site."""
    return _OUTSIDE.sub(r"\1", _MARK.sub(lambda mark: GENERATED[mark[1]](), markdown))


def on_config(config: Any) -> Any:
    """Read docstrings as they are written."""
    config.markdown_extensions.append(Docstrings())
    return config


class Docstrings(Extension):
    """Docstrings have examples without a heading, and references as Sphinx writes them; Markdown knows neither."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - as Markdown calls it
        """Go before all that reads code."""
        md.preprocessors.register(_Plain(md), "docstrings", 100)


class _Plain(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        out: list[str] = []
        fenced = example = False
        for line in lines:
            fenced ^= line.lstrip().startswith("```")
            starts = line.startswith(">>> ") and not fenced
            if starts and not example:
                out += ["", "```python"]
            elif example and not line.strip():
                out.append("```")
            example = (example or starts) and bool(line.strip())
            out.append(line if example or fenced else _ROLE.sub("`", line))
        return [*out, "```"] if example else out


def pipeline() -> str:
    """Describe every field of a pipeline's file."""
    return "\n".join(
        [
            *_part("Pipeline", Pipeline, level=2),
            *_part("window", Window),
            *_part("chunks", Chunks),
            *_choices("Sources", source_models.Source),
            "## Queries",
            "",
            "Every query has a field that says what kind it is.",
            "",
            *(line for name, kind in query_models.KINDS.items() for line in _part(name, kind)),
            *_part("score", query_models.ScoreModel),
            *_choices("Sinks", sink_models.Sink),
        ]
    )


def command_line() -> str:
    """Describe every command."""
    return "\n".join(_command(cli, click.Context(cli, info_name="topwatch")))


GENERATED: dict[str, Callable[[], str]] = {"pipeline": pipeline, "command-line": command_line}


def _choices(title: str, parts: type[OneOf]) -> Iterator[str]:
    yield from (f"## {title}", "", "Exactly one of these.", "")
    for name in parts.choices():
        yield from _part(name, _model(parts.model_fields[name].annotation))


def _model(annotation: Any) -> type[Part]:
    """Return the model in an annotation such as ``Files | None``."""
    inner = [annotation, *typing.get_args(annotation)]
    return next(kind for kind in inner if isinstance(kind, type) and issubclass(kind, Part))


def _part(name: str, part: type[Part], level: int = 3) -> Iterator[str]:
    summary = re.sub(r"``([^`]*)``", r"`\1`", (part.__doc__ or "").partition("\n\n")[0])
    yield from ("#" * level + (f" {name}" if level == 2 else f" `{name}`"), "", summary, "")
    if part.shape:
        yield from (f"Accepted: {part.shape}.", "")
    yield from ("| field | accepted | when left out |", "|---|---|---|")
    for key, field in part.model_fields.items():
        yield f"| `{field.alias or key}` | {_cell(field.description or _described(field))} | {_default(field)} |"
    yield ""


def _described(field: Any) -> str:
    return _model(field.annotation).shape or "a mapping, see below"


def _default(field: Any) -> str:
    if field.default is PydanticUndefined:
        return "–" if "needed where" in (field.description or "") else "needed"
    return "–" if field.default in (None, (), {}) else f"`{field.default}`"


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    path = context.command_path
    if isinstance(command, click.Group):
        if path != "topwatch":
            yield from (f"## `{path}`", "", command.help or "", "")
        for name in command.list_commands(context):
            inner = command.commands[name]
            yield from _command(inner, click.Context(inner, info_name=name, parent=context))
        return
    usage = " ".join(command.collect_usage_pieces(context))
    yield from (f"## `{path}`", "", "```", f"{path} {usage}", "```", "", *_paragraphs(command.help or ""), "")
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    if options:
        yield from ("| option | | default |", "|---|---|---|")
    for option in options:
        default = option.default if option.show_default else None
        named = ", ".join(f"`{name}`" for name in option.opts)
        kind = "" if option.is_flag else f" {_cell(option.make_metavar(context))}"
        shown = "" if default is None else f"`{default}`"
        yield f"| {named}{kind} | {_cell(option.help or '')}{' (needed)' if option.required else ''} | {shown} |"
    yield ""


def _paragraphs(text: str) -> list[str]:
    return [" ".join(paragraph.split()) + "\n" for paragraph in text.split("\n\n")]


def _cell(text: str) -> str:
    """Return text that may stand in a cell of a table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
