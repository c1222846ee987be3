"""One HTML page of a plan: self-contained, without scripts, its pictures inline SVG, so that it can be sent by mail."""

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from driver.plan.search import Found
from driver.plan.tables import found_rows, rows, seconds, set_argument, title
from driver.plan.verdict import Verdict

_WIDTH, _BAR, _ROW, _LEFT, _RIGHT, _LEGEND = 720, 26, 44, 150, 130, 3
_COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#a463f2", "#9c6b4e", "#97bbf5", "#9498a0")
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1e23}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .8rem;border-bottom:1px solid #d8dde3;text-align:right}
th:first-child,td:first-child{text-align:left}.part{padding-left:2rem!important;color:#5b6470}
.note{border-left:3px solid #efb118;padding-left:.6rem}
code{font-size:13px}.no{color:#b3261e}.yes{color:#1a7f37}
svg text{font:13px system-ui,sans-serif;fill:#1b1e23}.small{color:#5b6470;font-size:13px}
@media(prefers-color-scheme:dark){body{background:#15181c;color:#e6e8eb}svg text{fill:#e6e8eb}
td,th{border-color:#3a4048}.no{color:#ff8a80}.yes{color:#6fdd8b}.small{color:#9aa3ad}}
"""


def page(
    runs: Sequence[Mapping[str, Any]],
    verdicts: Sequence[Verdict],
    names: Sequence[str],
    fixes: Sequence[Verdict],
    compiled_by: Mapping[str, str],
    notes: Sequence[str] = (),
    found: Sequence[Found] = (),
) -> str:
    """The whole document. runs: one, or those that are compared. names: one for each verdict. found: by a search."""
    heading = html.escape(" and ".join(title(run) for run in runs))
    versions = ", ".join(f"{name} {compiled_by[name]}" for name in ("maxtext", "libtpu", "jax") if name in compiled_by)
    body = [
        f"<h1>{heading}</h1>",
        f'<p class="small">Compiled ahead of time by {html.escape(versions) or "libtpu"}, without a TPU. Memory is'
        " the compiler's own report; times are predictions from its dumps, not measurements.</p>",
        *(f'<p class="note">{html.escape(note)}</p>' for note in notes),
        *(_verdict_line(verdict, name) for verdict, name in zip(verdicts, names, strict=True)),
        "<h2>HBM per device</h2>",
        memory_picture(verdicts, names),
    ]
    if any(verdict.step for verdict in verdicts):
        body += ["<h2>Predicted step</h2>", time_picture(verdicts, names)]
    body += ["<h2>Figures</h2>", _table([["", *names], *([label, *cells] for label, cells in rows(verdicts))])]
    for verdict, name in zip(verdicts, names, strict=True):
        body += _largest(verdict, name)
    if fixes:
        body += ["<h2>Single changes that fit</h2>", _fixes(fixes)]
    if found:
        body += ["<h2>What the search has found, the fastest first</h2>", _table(found_rows(found))]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{heading}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n<body>\n'
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def memory_picture(verdicts: Sequence[Verdict], names: Sequence[str]) -> str:
    """A bar for each verdict, stacked by kind, with a line where the usable HBM ends."""
    known = [(verdict, name) for verdict, name in zip(verdicts, names, strict=True) if verdict.memory is not None]
    if not known:
        return "<p>No memory report.</p>"
    stacks = [(name, verdict.memory.kinds if verdict.memory else {}) for verdict, name in known]
    totals = [f"{verdict.memory.total:.2f} GiB" for verdict, _ in known if verdict.memory]
    return _bars(stacks, totals, "GiB", [verdict.usable_gib for verdict, _ in known])


def time_picture(verdicts: Sequence[Verdict], names: Sequence[str]) -> str:
    """A bar for each verdict that has a step time, stacked by what the time is spent on."""
    stacks = [(name, v.step.parts) for v, name in zip(verdicts, names, strict=True) if v.step is not None]
    return _bars(stacks, [f"{seconds(v.step)} s" for v in verdicts if v.step is not None], "s")


def _bars(
    stacks: Sequence[tuple[str, Mapping[str, float]]], totals: Sequence[str], unit: str, limits: Sequence[float] = ()
) -> str:
    """totals: what stands behind each bar. limits: of each bar, where there are any."""
    kinds = list(dict.fromkeys(kind for _, parts in stacks for kind in parts))
    colours = {kind: _COLOURS[place % len(_COLOURS)] for place, kind in enumerate(kinds)}
    longest = max([*(sum(parts.values()) for _, parts in stacks), *limits]) or 1.0
    scale = (_WIDTH - _LEFT - _RIGHT) / longest
    entries = len(kinds) + bool(limits)
    height = _ROW * len(stacks) + 20 * -(-entries // _LEGEND) + 16
    drawn = [f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" role="img" style="max-width:100%">']
    for place, ((name, parts), total) in enumerate(zip(stacks, totals, strict=True)):
        drawn += _bar(name, parts, total, colours, place * _ROW + 8, scale, unit)
    for place, limit in enumerate(limits):
        x, top = _LEFT + limit * scale, place * _ROW
        drawn.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{top + _ROW}" stroke="#b3261e" stroke-dasharray="4 3">'
            f"<title>usable: {limit:g} {unit}</title></line>"
        )
    usable = f"usable: {', '.join(f'{limit:g}' for limit in dict.fromkeys(limits))} {unit}" if limits else ""
    drawn += _legend(colours, usable, _ROW * len(stacks) + 16)
    return "".join([*drawn, "</svg>"])


def _bar(
    name: str, parts: Mapping[str, float], total: str, colours: Mapping[str, str], top: float, scale: float, unit: str
) -> Iterable[str]:
    yield f'<text x="0" y="{top + _BAR * 0.7:.1f}">{html.escape(name)}</text>'
    left = float(_LEFT)
    for kind, size in parts.items():
        width = size * scale
        yield (
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{_BAR}" fill="{colours[kind]}">'
            f"<title>{html.escape(kind)}: {size:.3f} {unit}</title></rect>"
        )
        left += width
    yield f'<text x="{left + 6:.1f}" y="{top + _BAR * 0.7:.1f}">{total}</text>'


def _legend(colours: Mapping[str, str], limit: str, top: float) -> Iterable[str]:
    """limit: what the dashed lines are; empty for none."""
    for place, entry in enumerate([*colours, *([limit] if limit else [])]):
        x, y = (place % _LEGEND) * (_WIDTH / _LEGEND), top + 20 * (place // _LEGEND)
        if entry in colours:
            yield f'<rect x="{x:.1f}" y="{y - 10:.1f}" width="12" height="12" fill="{colours[entry]}"/>'
        else:
            line = f'x1="{x + 6:.1f}" x2="{x + 6:.1f}" y1="{y - 12:.1f}" y2="{y + 2:.1f}"'
            yield f'<line {line} stroke="#b3261e" stroke-dasharray="4 3"/>'
        yield f'<text x="{x + 18:.1f}" y="{y:.1f}">{html.escape(entry)}</text>'


def _verdict_line(verdict: Verdict, name: str) -> str:
    word, kind = ("fits", "yes") if verdict.fits else ("does not fit", "no")
    if verdict.close:
        word = "is too close to the limit to tell"
    said = (
        ""
        if verdict.memory is None
        else f" {verdict.memory.total:.2f} of {verdict.usable_gib:g} GiB of HBM per device."
    )
    if verdict.refusal is not None:
        said += f" {verdict.refusal.said}"
    return f'<p><b>{html.escape(name)}</b> <span class="{kind}">{html.escape(word)}.</span>{html.escape(said)}</p>'


def _largest(verdict: Verdict, name: str) -> list[str]:
    if verdict.memory is None or not verdict.memory.largest:
        return []
    cells = [["what", "GiB"], *([tensor.name, f"{tensor.gib:.2f}"] for tensor in verdict.memory.largest)]
    return [f"<h2>Largest in HBM: {html.escape(name)}</h2>", _table(cells)]


def _fixes(fixes: Sequence[Verdict]) -> str:
    cells = [["change", "HBM, GiB", "predicted, s", "--set"]]
    for fix in fixes:
        says = f"{fix.says} ({fix.warns})" if fix.warns else fix.says
        total = f"{fix.memory.total:.2f}" if fix.memory else "-"
        cells.append([says, total, seconds(fix.step) if fix.step else "-", set_argument(dict(fix.case.changes))])
    return _table(cells)


def _table(lines_of_cells: Sequence[Sequence[str]]) -> str:
    head, *rest = lines_of_cells
    cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    lines = [f"<tr>{cells}</tr>"]
    lines += ["<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in rest]
    return f"<table>{''.join(lines)}</table>"


def _cell(text: str) -> str:
    """Parts of the line above are set in."""
    return f"<td{' class=part' if text.startswith(' ') else ''}>{html.escape(text.strip())}</td>"
