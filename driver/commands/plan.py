"""`driver plan`: will it fit, how fast, at what cost, by the TPU compiler and without a TPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from driver import output
from driver.values import Values, find_file, release_name
from driver.values_options import given, values_options

if TYPE_CHECKING:
    from driver.plan.planning import Plan, Wishes

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("plan")
@values_options
@click.option("--search", "searching", is_flag=True, help="Looks for the fastest configuration that fits.")
@click.option(
    "--compare", nargs=2, metavar="A.yaml B.yaml", help="Two values files or profiles side by side, each after -f."
)
@click.option("--price", type=click.FloatRange(min=0, min_open=True), metavar="USD", help="Price of a chip per hour.")
@click.option(
    "--quick",
    is_flag=True,
    help="Compiles as far as the schedule: seconds, not minutes. Memory is as exact; step times are too short.",
)
@click.option(
    "--finalists",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Of changes or of a search: how many are compiled to the end for their step time.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=60,
    show_default=True,
    help="Of a search: how many configurations are compiled for memory at most.",
)
@click.option("--write", type=_FILE, metavar="FILE", help="Of a search: writes the winner as a values file.")
@click.option("--html", "page_file", type=_FILE, metavar="FILE", help="Writes one self-contained page with pictures.")
@click.option(
    "--save-executable",
    "executables",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Writes the compiled training step, one file for each number of slices.",
)
@click.option("--workers", type=click.IntRange(min=1), help="Compilations at once [as cores and memory allow].")
@click.option("--install", "installing", is_flag=True, help="Installs the compiler's environment, and nothing else.")
@click.option(
    "--compiler-python",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Python of an environment with MaxText and libtpu [one that is made on first use].",
)
@output.output_option
@click.pass_context
def command(context: click.Context, /, **options: Any) -> int:
    """Compiles MaxText's training step for exactly the chips of the values, with libtpu's own compiler and without a
    TPU, and says whether it fits, how fast it is predicted to be, what it moves and what it costs. Where it does not
    fit, it says which single changes would make it. The exit code is 0 when it fits.

    \b
    driver plan -f llama3-70b
    driver plan -f llama3-8b --search --write team.yaml
    driver plan --compare tutorial-8b llama3-8b --price 2.70 --html plan.html \\
        --set job.libtpuFlags.xla_tpu_enable_async_collective_fusion_fuse_all_gather=null
    """
    _refuse_unused(context)
    from driver.plan import environment

    environment.require_platform()
    if options["installing"]:
        new = environment.install()
        output.stderr().print(
            "The compiler's environment is installed." if new else "It is installed, and all of it is there."
        )
        return 0
    asked = _Asked(**{key: value for key, value in options.items() if key != "installing"})
    questions = _questions(asked)
    results = [_planned(asked, question) for question in questions]
    _tell(results, _names(asked, results), asked)
    return 0 if all(result.fits for result in results) else 1


@dataclass(frozen=True)
class _Asked:
    files: tuple[str, ...]
    sets: tuple[str, ...]
    texts: tuple[str, ...]
    searching: bool
    compare: tuple[str, str] | None
    price: float | None
    quick: bool
    finalists: int
    limit: int
    write: Path | None
    page_file: Path | None
    executables: Path | None
    workers: int | None
    compiler_python: Path | None

    def wishes(self) -> Wishes:
        from driver.plan.planning import Wishes

        return Wishes(self.price, self.quick, self.limit, self.finalists, self.executables)

    def destinations(self) -> dict[str, Path]:
        files = {"--write": self.write, "--html": self.page_file}
        return {option: file for option, file in files.items() if file}


@dataclass(frozen=True)
class _Question:
    """Values, rendered."""

    values: Values
    release: str
    run: Mapping[str, Any]


def _refuse_unused(context: click.Context) -> None:
    """An option that would change nothing is refused: whoever gives it expects something."""
    params = context.params
    alone = {"searching": "--search", "compare": "--compare", "executables": "--save-executable"}
    several = [name for key, name in alone.items() if params[key]]
    if len(several) > 1:
        raise click.UsageError(f"{' and '.join(several)} are different questions: give one of them.")
    given_by_user = {
        name for name in params if context.get_parameter_source(name) not in (None, ParameterSource.DEFAULT)
    }
    if params["installing"]:
        # The last are for the whole program (`driver --output json plan --install`).
        rest = given_by_user - {"installing"}
        if rest:
            raise click.UsageError("--install does nothing else: leave the other options out.")
        return
    if params["quick"] and "finalists" in given_by_user:
        raise click.UsageError("--finalists are compiled to the end: leave --quick out.")
    if params["compare"] and "finalists" in given_by_user:
        raise click.UsageError("--compare proposes no changes, and has no --finalists.")
    if params["executables"] and params["quick"]:
        raise click.UsageError("--save-executable compiles to the end: leave --quick out.")
    if not params["searching"]:
        for key, name in (("limit", "--limit"), ("write", "--write")):
            if key in given_by_user:
                raise click.UsageError(f"{name} belongs to --search.")


def _questions(asked: _Asked) -> list[_Question]:
    """What is to be planned. All that can be wrong with files and options is told here, before the work."""
    from driver.chart import render
    from driver.plan import destination, team_file

    given_values = given(asked.files, asked.sets, asked.texts)
    several = [(given_values, release_name(given_values.files))]
    if asked.compare:
        several = [
            (replace(given_values, files=(*given_values.files, find_file(file))), release_name((Path(file),)))
            for file in asked.compare
        ]
    if asked.searching:
        team_file.refuse_fixed(given_values)
    destination.require(asked.destinations(), [file for values, _ in several for file in values.files])
    return [_Question(values, release, render(values, release).run) for values, release in several]


def _planned(asked: _Asked, question: _Question) -> Plan:
    from rich.live import Live

    from driver.plan import environment, opening, planning, tables, team_file
    from driver.plan.activity import Activity

    run = question.run
    console = output.stderr()
    console.print(tables.title(run), markup=False, soft_wrap=True)
    with opening.compiler(run, asked.compiler_python, asked.workers) as (site, compiler, predictor):
        if asked.searching or asked.executables:
            environment.check_versions(run, site.compiled_by)
        activity = Activity(console, compiler.doing)
        if not asked.searching:
            with console.status(activity):
                propose = not asked.compare
                return planning.plan(site, compiler, predictor, asked.wishes(), activity.phase, propose=propose)
        with Live(activity, console=console, refresh_per_second=4, transient=True):
            activity.phase("Searching")
            return planning.search(
                site,
                compiler,
                predictor,
                asked.wishes(),
                lambda tally: activity.show(tables.progress(run, tally)),
                lambda case, text: team_file.check(question.values, question.release, run, case, text),
            )


def _tell(results: Sequence[Plan], names: Sequence[str], asked: _Asked) -> None:
    from driver.plan import elastic

    if output.as_json():
        data = [result.as_data() for result in results]
        output.print_json({"compared": data} if asked.compare else data[0])
    else:
        _print(results, names, asked)
    _write(results, names, asked)
    if asked.executables:
        _tell_unsaved(results[0], asked.executables)
    if not asked.compare and not output.as_json():
        elastic.refuse_the_smallest(results[0].run, results[0].verdicts)


def _write(results: Sequence[Plan], names: Sequence[str], asked: _Asked) -> None:
    from driver.plan import destination, page

    if asked.write:
        destination.write("--write", asked.write, results[0].team_file)
    if asked.page_file:
        runs = [result.run for result in results]
        verdicts = [verdict for result in results for verdict in result.verdicts]
        changes = [fix for result in results for fix in result.fixes]
        found = [one for result in results for one in result.found]
        notes = _notes(results, asked)
        text = page.page(runs, verdicts, names, changes, results[0].compiled_by, notes, found)
        destination.write("--html", asked.page_file, text)


def _tell_unsaved(result: Plan, folder: Path) -> None:
    missing = [_name(verdict.case.slices) for verdict in result.verdicts if not verdict.accepted]
    if len(missing) == len(result.verdicts):
        output.stderr().print(f"Nothing was written into {folder}: the run does not fit.", markup=False, soft_wrap=True)
    elif missing:
        said = f"For {' and '.join(missing)} nothing was written into {folder}: the run does not fit there."
        output.stderr().print(said, markup=False, soft_wrap=True)


def _print(results: Sequence[Plan], names: Sequence[str], asked: _Asked) -> None:
    from driver.plan import tables

    verdicts = [verdict for result in results for verdict in result.verdicts]
    out = output.stdout()
    out.print(tables.facts(verdicts, names))
    for verdict in verdicts:
        if verdict.memory is not None and verdict.memory.largest and not asked.compare:
            out.print(tables.largest(verdict))
            break  # those of other numbers of slices are the same tensors in other shapes
    for note in _notes(results, asked):
        out.print(note, style="yellow", markup=False, soft_wrap=True)
    for result in results:
        _tell_changes(result)
        if result.found:
            out.print(tables.found(result.found))
            if not asked.write:
                out.print(result.team_file, markup=False, soft_wrap=True)


def _notes(results: Sequence[Plan], asked: _Asked) -> list[str]:
    """What the figures are to be read with; of two configurations with the name of the one that it is true of."""
    if not asked.compare:
        return list(results[0].notes)
    first, second = (result.notes for result in results)
    both = [note for note in first if note in second]
    return both + [
        f"{Path(file).stem}: {note}"
        for file, result in zip(asked.compare, results, strict=True)
        for note in result.notes
        if note not in both
    ]


def _tell_changes(result: Plan) -> None:
    from driver.plan import tables

    if result.fixes:
        output.stdout().print(tables.fixes(result.fixes))
    elif result.proposed is not None:
        said = f"None of {result.proposed} single changes makes it fit. driver plan --search tries several together."
        output.stdout().print(said, soft_wrap=True)


def _names(asked: _Asked, results: Sequence[Plan]) -> list[str]:
    """One for each verdict."""
    if not asked.compare:
        return [_name(count) for count in _counts(results[0])]
    return [
        f"{Path(file).stem}, {_name(count)}" if len(_counts(result)) > 1 else Path(file).stem
        for file, result in zip(asked.compare, results, strict=True)
        for count in _counts(result)
    ]


def _counts(result: Plan) -> list[int]:
    return [verdict.case.slices for verdict in result.verdicts]


def _name(count: int) -> str:
    return "1 slice" if count == 1 else f"{count} slices"
