"""`driver data`: training data out of texts."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from driver import dataset
from driver.output import as_json, output_option, print_json, stderr


@click.group()
def command() -> None:
    """Make training data."""


@command.command()
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@click.option("--out", required=True, help="Folder to make. Its name becomes part of the paths in data.values.yaml.")
@click.option("--python-stdlib", is_flag=True, help="Take this Python's own library as the text: 10 MB, no download.")
@click.option(
    "--tokenizer",
    default="byte",
    show_default=True,
    help="`byte` (259 ids, made in place) or the folder of a Hugging Face tokenizer on this machine.",
)
@click.option(
    "--sequence-length",
    type=click.IntRange(min=2),
    default=256,
    show_default=True,
    help="Tokens in a sequence: the run's job.maxtext.max_target_length.",
)
@click.option(
    "--eval-fraction",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.05,
    show_default=True,
    help="Part of the documents that is held out for evaluation; 0 for none.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Chooses what is held out.")
@click.option("--replace", is_flag=True, help="Replace a data set in --out that was made from other texts or settings.")
@click.option("--trainer-python", type=click.Path(path_type=Path), help="Python with MaxText, if not the driver's own.")
@output_option
def prepare(
    sources: Sequence[str], python_stdlib: bool, trainer_python: Path | None, out: str, **settings: Any
) -> None:
    """Turn texts into what MaxText's Grain pipeline reads, with a tokenizer and the values for the chart.

    SOURCE is a file, or a folder of .txt, .md, .rst, .tex, .py and .jsonl files (one text per line, in "text"), all in
    UTF-8. The same texts and settings give the same files on every machine. Texts follow each other without gaps, cut
    into sequences of full length; only the last sequence is filled up.
    """
    if bool(sources) == python_stdlib:
        raise click.UsageError("Name sources, or give --python-stdlib.")
    request = _request({"sources": list(sources)} if sources else dataset.python_stdlib(), out, settings)
    from driver.local.environment import trainer_python as environment_python

    result = _with_progress(request, environment_python(trainer_python))
    if as_json():
        print_json({"values": str(Path(result["out"]) / "data.values.yaml"), **result})
    else:
        click.echo(_summary(result))


def _request(sources: Mapping[str, Any], out: str, settings: Mapping[str, Any]) -> dataset.Request:
    return dataset.Request(
        out=out,
        tokenizer=settings["tokenizer"],
        sequenceLength=settings["sequence_length"],
        evalFraction=settings["eval_fraction"],
        seed=settings["seed"],
        replace=settings["replace"],
        **sources,
    )


def _with_progress(request: dataset.Request, python: Path) -> dict[str, Any]:
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    console = stderr()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        stages = {stage: bars.add_task(stage.capitalize(), total=None, start=False) for stage in ("reading", "writing")}

        def show(event: Mapping[str, Any]) -> None:
            bars.start_task(stages[event["stage"]])
            bars.update(stages[event["stage"]], completed=event["done"], total=event["total"])

        return dataset.prepare(request, python, show)


def _summary(result: Mapping[str, Any]) -> str:
    manifest, out = result["manifest"], Path(result["out"])
    values, parent = shlex.quote(str(out / "data.values.yaml")), shlex.quote(str(out.parent))
    rows = {
        "Data set": f"{out}" + (" (nothing to do: it holds these texts already)" if result["unchanged"] else ""),
        "Training": _part(manifest, "train"),
        "Held out": _part(manifest, "eval") if manifest["eval"]["files"] else "nothing",
        "Tokenizer": f"{manifest['tokenizerKind']}, {manifest['vocabularySize']} ids",
        "Left out": "; ".join(_left_out(result["skipped"])) or "nothing",
        "Next": f"driver local -f tiny -f {values} --out {parent}",
    }
    return "\n".join(f"{name:<11}{text}" for name, text in rows.items())


def _part(manifest: Mapping[str, Any], name: str) -> str:
    part = manifest[name]
    what = "documents" if manifest["heldOut"] == "documents" else ("ends of texts" if name == "eval" else "texts")
    return (
        f"{part['documents']:,} {what}, {decimal(part['bytes'])}, {part['tokens']:,} tokens in {part['sequences']:,} "
        f"sequences of {manifest['sequenceLength']}"
    )


def _left_out(skipped: Mapping[str, Any]) -> list[str]:
    reasons = {"not_utf8": "not UTF-8", "no_text_field": 'without a "text" field', "empty": "empty"}
    found = []
    for key, reason in reasons.items():
        if places := skipped[key]:
            named = ", ".join(places[:3]) + (", ..." if len(places) > 3 else "")
            found.append(f"{len(places)} {reason} ({named})")
    if skipped["other_kinds"]:
        found.append(f"{skipped['other_kinds']} files of other kinds")
    return found
