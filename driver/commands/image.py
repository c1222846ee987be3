"""`driver image`: the trainer's image, built with Cloud Build."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from driver import gcp_options, output, resources
from driver.errors import DriverError

if TYPE_CHECKING:
    from google.cloud.devtools.cloudbuild_v1 import Build

    from driver.gcp.image import Builder, Image

MACHINE_TYPES = ("e2-medium", "e2-standard-2", "e2-highcpu-8", "e2-highcpu-32", "n1-highcpu-8", "n1-highcpu-32")
"""Cloud Build's (https://cloud.google.com/build/docs/api/reference/rest/v1/projects.builds#machinetype)."""


@click.command("image")
@gcp_options.site_options
@click.option(
    "--values-file",
    "values_file_option",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where image.uri is written [the site's values file, beside the site file].",
)
@click.option("--rebuild", is_flag=True, help="Builds it although it is there, on the newest base image.")
@click.option("--detach", is_flag=True, help="Returns as soon as the build runs; the same command finds it again.")
@click.option(
    "--build-location",
    metavar="REGION",
    help="Where Cloud Build runs it: a region, or global [the site's region].",
)
@click.option("--machine-type", type=click.Choice(MACHINE_TYPES), help="The build's machine [Cloud Build's default].")
@click.option(
    "--timeout-minutes",
    type=click.IntRange(1, 1440),
    default=60,
    show_default=True,
    help="After which Cloud Build ends the build.",
)
@click.option(
    "--service-account",
    metavar="EMAIL",
    help="Who runs the build [the project's default account].",
)
@output.output_option
def command(
    *,
    values_file_option: Path | None,
    rebuild: bool,
    detach: bool,
    build_location: str | None,
    machine_type: str | None,
    timeout_minutes: int,
    service_account: str | None,
) -> None:
    """Builds trainer/Dockerfile with Cloud Build, pushes it to Artifact Registry and writes the image's digest into the
    site's values file. What is in the repository already is not built again.

    \b
    driver image
    driver image --rebuild --machine-type e2-highcpu-8
    """
    # Google's clients take a second to import, which --help should not.
    from driver.gcp import build_source, cloud, image, values_file

    site = gcp_options.site()
    values = values_file_option or values_file.path_beside(gcp_options.site_path())
    settings = image.Settings(
        build_location or site.region, machine_type or "", timeout_minutes * 60, service_account or ""
    )
    values_file.check(values)
    source = build_source.pack(resources.trainer_dir())
    connection = cloud.connect(site.project, gcp_options.api_endpoint())
    console = output.stderr()
    builder = image.Builder(connection, site, source, settings, began=lambda build: _tell_build(build, console))
    again = _again(values_file_option, build_location)
    made = _make(builder, console, again, rebuild=rebuild, detach=detach)
    written = bool(made.uri) and values.exists()
    if written:
        values_file.set_image(values, made.uri)
    _tell(made, values, again, written=written)


def _again(values: Path | None, build_location: str | None) -> str:
    """The command that finds a running build again, or its image. Without --rebuild, which would begin another."""
    words = ["driver", "image", "-c", str(gcp_options.site_path())]
    words += ["--values-file", str(values)] if values else []
    return shlex.join([*words, *(["--build-location", build_location] if build_location else [])])


def _make(builder: Builder, console: Console, again: str, *, rebuild: bool, detach: bool) -> Image:
    from driver.gcp import errors, image
    from driver.gcp.waiting import Waiting

    console.print(f"Image: {builder.reference.tagged}", markup=False, soft_wrap=True)
    try:
        with _progress(console) as tell:
            return image.make(builder, Waiting(tell), rebuild=rebuild, detach=detach)
    except KeyboardInterrupt:
        raise DriverError(
            "Stopped waiting. A build that was begun goes on in Cloud Build.",
            fix=f"`{again}` finds it and waits for it; to end it: gcloud builds cancel, with the ID from "
            f"`{_list_command(builder)}`",
        ) from None
    except errors.GOOGLE_ERRORS as error:
        raise errors.explain(error, "building the image", builder.site) from error


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[str], None]]:
    """Yields what takes a line of progress: shown in place on a terminal, else printed whenever the state changes."""
    if console.is_terminal:
        with console.status("asking what is there") as status:
            yield lambda text: status.update(text)
        return
    last = ""

    def tell(text: str) -> None:
        nonlocal last
        state = text.partition(",")[0]
        if state != last:
            console.print(state, markup=False)
        last = state

    yield tell


def _tell_build(build: Build, console: Console) -> None:
    console.print(f"Build {build.id}, log: {build.log_url}", markup=False, soft_wrap=True)


def _list_command(builder: Builder) -> str:
    place = f"--project={builder.site.project} --region={builder.settings.location}"
    return f"gcloud builds list --ongoing {place}"


def _tell(made: Image, values: Path, again: str, *, written: bool) -> None:
    if output.as_json():
        build = made.build
        output.print_json(
            {
                "uri": made.uri,
                "tagged": made.tagged,
                "build": {"id": build.id, "logUrl": build.log_url} if build else None,
                "repositoryMade": made.repository_made,
                "valuesFile": str(values) if written else "",
            }
        )
        return
    out = output.stdout()
    if not made.uri:
        out.print(
            f"The build runs. When it is done, this writes its image into {values}:", markup=False, soft_wrap=True
        )
        out.print(f"  {again}", markup=False, soft_wrap=True)
        return
    how = "Built and pushed" if made.build else "Already in the repository, nothing was built"
    out.print(f"{how}: {made.uri}", markup=False, soft_wrap=True)
    if written:
        out.print(f"Written into {values} as image.uri.", markup=False, soft_wrap=True)
        return
    out.print(
        f"{values} is not there yet: driver bootstrap makes it. Then this writes the image into it:", markup=False
    )
    out.print(f"  {again}", markup=False, soft_wrap=True)
