"""The page: one file, pictures in it, nothing from outside."""

import html
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

from driver.plan import page
from driver.plan.candidates import candidates
from driver.plan.search import Found
from driver.plan.verdict import Answer, Case, Memory, Refusal, StepTime, Tensor, Work, judge
from tests import run_files
from tests.plan.scripted import site

RUN = run_files.content()
VERSIONS = {"maxtext": "0.2.5", "libtpu": "0.0.46"}
MEMORY = Memory(25.0, {"weights": 5, "optimizer state": 10, "the rest": 10}, (Tensor("<fusion> & co f32[8]", 3.5),))
STEP = StepTime(2.0, {"compute": 1.5, "waiting for ICI": 0.5})
VERDICT = judge(RUN, Answer(Case(2), MEMORY), Work(16384, 900), step=STEP, price=2.0)


def pictures(text: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


def test_it_needs_nothing_from_outside():
    text = page.page([RUN], [VERDICT], ["2 slices"], [], VERSIONS)
    assert not re.search(r"(src|href)=|@import|url\(|<script", text)


def test_memory_is_a_bar_with_a_part_for_each_kind_in_its_proportion():
    (drawing, _) = pictures(page.page([RUN], [VERDICT], ["2 slices"], [], VERSIONS))
    widths = [float(part.get("width", 0)) for part in drawing.findall("rect") if part.find("title") is not None]
    assert [round(width / widths[0], 2) for width in widths] == [1, 2, 2]


def test_a_line_shows_where_the_usable_memory_ends():
    drawing = ElementTree.fromstring(page.memory_picture([VERDICT], ["2 slices"]))
    (title,) = drawing.findall("line/title")
    assert title.text == "usable: 31.25 GiB"


def test_time_is_a_bar_with_a_part_for_what_it_is_spent_on():
    drawing = ElementTree.fromstring(page.time_picture([VERDICT], ["2 slices"]))
    said = [title.text for title in drawing.iter("title")]
    assert said == ["compute: 1.500 s", "waiting for ICI: 0.500 s"]


def test_without_a_step_time_there_is_no_picture_of_time():
    text = page.page([RUN], [judge(RUN, Answer(Case(2), MEMORY), Work(1))], ["2 slices"], [], VERSIONS)
    assert len(pictures(text)) == 1


def test_times_are_called_predictions():
    text = page.page([RUN], [VERDICT], ["2 slices"], [], VERSIONS)
    assert "Predicted step" in text
    assert "not measurements" in text


def test_names_and_tensors_cannot_be_taken_for_markup():
    text = page.page([RUN], [VERDICT], ["<b>"], [], VERSIONS)
    assert "&lt;fusion&gt; &amp; co f32[8]" in text
    assert "&lt;b&gt;" in text


def test_what_was_refused_is_on_the_page_without_a_bar():
    refused = judge(RUN, Answer(Case(2), refusal=Refusal("memory", "Ran out of memory")), Work(1))
    text = page.page([RUN], [refused], ["2 slices"], [], VERSIONS)
    assert "Ran out of memory" in text
    assert pictures(text) == []


def test_changes_that_fit_are_there_with_the_values_that_set_them():
    answer = Answer(Case.of(2, {"remat_policy": "full"}), MEMORY)
    fix = judge(RUN, answer, Work(1), says="keep the layers' inputs alone")
    text = page.page([RUN], [VERDICT], ["2 slices"], [fix], VERSIONS)
    assert "job.maxtext.remat_policy=full" in text


def test_two_runs_that_are_compared_are_both_named_with_what_is_to_be_known_of_them():
    other = run_files.content(name="other")
    text = page.page([RUN, other], [VERDICT, VERDICT], ["a", "b"], [], VERSIONS, ["The values say MaxText 0.2.1."])
    assert "demo on 2 x v6e 4x4, 32 chips and other on 2 x v6e 4x4, 32 chips" in text
    assert "maxtext 0.2.5, libtpu 0.0.46" in text
    assert "The values say MaxText 0.2.1." in text


def test_why_the_compiler_refuses_what_has_a_report_is_on_the_page_beside_the_report():
    refused = judge(RUN, Answer(Case(2), MEMORY, Refusal("memory", "Ran out of memory")), Work(1))
    text = page.page([RUN], [refused], ["2 slices"], [], VERSIONS)
    assert "25.00 of 31.25 GiB of HBM per device. Ran out of memory" in text


def test_a_time_by_the_schedule_is_a_bound_beside_its_bar_too():
    scheduled = judge(RUN, Answer(Case(2), MEMORY), Work(1), step=replace(STEP, generated=False))
    assert ">at least 2.000 s</text>" in page.time_picture([scheduled], ["2 slices"])


def test_what_a_search_has_found_is_a_table_as_in_the_terminal(tmp_path):
    first, second, *_ = candidates(site(tmp_path), 2)
    ranked = [Found(one, (Answer(one.case, MEMORY),), STEP) for one in (first, second)]
    text = page.page([RUN], [VERDICT], ["2 slices"], [], VERSIONS, found=ranked)
    for place, one in enumerate((first, second), 1):
        assert f"<td>{place}</td><td>25.00</td><td>2.000</td><td>{html.escape(one.says)}</td>" in text


def test_it_has_all_the_figures_that_the_terminal_has():
    text = page.page([RUN], [VERDICT], ["2 slices"], [], VERSIONS)
    assert "<td>cost of the run</td>" in text
    assert "<td>predicted step, s</td><td>2.000</td>" in text
