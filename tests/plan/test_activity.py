"""What a plan shows while it works."""

import io

from rich.console import Console

from driver.plan.activity import Activity


def drawn(activity: Activity) -> str:
    out = io.StringIO()
    Console(file=out, width=100).print(activity)
    return out.getvalue()


def terminal(terminal: bool) -> Console:
    return Console(file=io.StringIO(), width=100, force_terminal=terminal)


def said(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_line_has_what_is_done_for_how_long_and_how_far_the_compiler_is():
    activity = Activity(terminal(True), lambda: "tracing the model, 3 s")
    activity.phase("Compiling for memory")
    assert drawn(activity) == "Compiling for memory, 0 s  tracing the model, 3 s\n"


def test_on_a_terminal_nothing_is_left_behind():
    console = terminal(True)
    Activity(console, str).phase("Compiling for memory")
    assert said(console) == ""


def test_elsewhere_each_thing_that_is_begun_is_a_line():
    console = terminal(False)
    activity = Activity(console, str)
    for phase in ("Compiling for memory", "Trying single changes: 1 of 2", "Trying single changes: 2 of 2"):
        activity.phase(phase)
    assert said(console) == "Compiling for memory\nTrying single changes: 1 of 2\n"


def test_a_search_s_tally_stands_above_the_line():
    activity = Activity(terminal(True), lambda: "loading MaxText, 1 s")
    activity.show("12 compiled")
    assert drawn(activity).splitlines()[0] == "12 compiled"
