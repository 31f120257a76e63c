"""`ottla pipeline init`, `lint` and `graph`: what is done with pipeline files without Spark."""

from pathlib import Path

import click
import msgspec

from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.output import print_json
from ottla.pipelines.graph import graph_of
from ottla.pipelines.graph_mermaid import mermaid
from ottla.pipelines.graph_svg import svg
from ottla.pipelines.spec import Mistake, PipelineSpec, SpecErrors, check, load
from ottla.pipelines.template import NAME, new_file

_FORMATS = ("mermaid", "svg", "json")


@click.command("init")
@click.argument("name")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="The file to write.  [NAME.toml]")
@click.option("--json", "as_json", is_flag=True, help="A JSON object.")
def init(name: str, output: Path | None, as_json: bool) -> None:
    """Write a small working pipeline file with tests. An existing file is not changed.

    \b
    Example:
      ottla pipeline init orders && ottla pipeline test orders.toml
    """
    if not NAME.fullmatch(name):
        raise click.BadParameter(f"{name!r} is not a valid pipeline name: use a to z, 0 to 9, dot, dash and underscore")
    path = output or Path(f"{name}.toml")
    if path.suffix != ".toml":
        raise click.BadParameter(f"{path} must end in .toml")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(new_file(name, str(path)))
    except FileExistsError:
        raise CommandError(f"{path} already exists: choose another name, or -o FILE") from None
    if as_json:
        print_json({"pipeline": name, "file": str(path)})
    else:
        click.echo(f"wrote {path}: try `ottla pipeline test {path}`")


@click.command("lint")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="A JSON array of mistakes.")
def lint(files: tuple[Path, ...], as_json: bool) -> int:
    """Report all mistakes in pipeline files, one line each: FILE:LINE:COLUMN: MESSAGE (HINT).

    The exit code is 0 when there are no mistakes, or only warnings. Spark is not started: `ottla pipeline test`
    checks queries and expressions.

    \b
    Example:
      ottla pipeline lint orders.toml
    """
    mistakes = [each for file in files for each in _mistakes_of(file)]
    if as_json:
        print_json([msgspec.to_builtins(each) for each in mistakes])
    else:
        for each in mistakes:
            click.echo(str(each))
    return ExitCode.FAILED if any(each.severity == "error" for each in mistakes) else ExitCode.OK


@click.command("graph")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "kind",
    type=click.Choice(_FORMATS),
    help="The output format.  [by the name of the output file, else mermaid]",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to a file (.svg, .mmd).")
def graph(file: Path, kind: str | None, as_json: bool, output: Path | None) -> None:
    """Draw a pipeline: its sources, steps and sinks.

    \b
    Examples:
      ottla pipeline graph orders.toml
      ottla pipeline graph orders.toml -o orders.svg
    """
    found = graph_of(read_spec(file))
    ending = output.suffix.lstrip(".") if output is not None else ""
    kind = "json" if as_json else kind or (ending if ending in _FORMATS else "mermaid")
    if kind == "json":
        text = msgspec.json.format(msgspec.json.encode(found)).decode() + "\n"
    else:
        text = svg(found) if kind == "svg" else mermaid(found)
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")


def _mistakes_of(file: Path) -> "list[Mistake]":
    if file.suffix in (".toml", ".yaml", ".yml"):
        return check(file)[1]
    try:
        load(file)
    except SpecErrors as error:
        return error.mistakes
    return []


def read_spec(file: Path) -> "PipelineSpec":
    """The pipeline of a file, or of a module (`file.py:name`). Mistakes are said on stderr, and raised in one line."""
    try:
        return load(file)
    except SpecErrors as error:
        for each in error.mistakes:
            click.echo(str(each), err=True)
        count = sum(each.severity == "error" for each in error.mistakes)
        raise CommandError(f"{file} has {count} mistake{'s' if count != 1 else ''}; nothing was done") from None
