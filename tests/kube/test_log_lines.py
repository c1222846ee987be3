"""What a line says, and how often."""

from driver.kube.log_hosts import Host
from driver.kube.log_lines import Folding, Said, Speakers
from driver.kube.pod_log import NANO, Line, nanoseconds
from tests.kube import manifests

HOST = Host(1, 3, "demo-worker-1-3", "10.0.1.3")


def said(text: str, at: float = 0.0, place: tuple[int, int] = (0, 0)) -> Said:
    return Said(int(at * NANO), *place, f"10.0.{place[0]}.{place[1]}", "pod", text)


def folded(*lines: Said) -> list[tuple[str, int, int]]:
    folding = Folding()
    shown = [each for line in lines for each in folding.add(line)]
    return [(each.text, each.times, each.speakers) for each in [*shown, *folding.due()]]


def test_a_workers_line_has_its_slice_and_host():
    speakers = Speakers(lambda: [HOST])
    found = speakers.said(
        Line(5, manifests.printed("RayTrainWorker", 158, "10.0.1.3", "\x1b[1mcompleted\x1b[0m step: 9"))
    )
    assert (found.slice, found.host, found.pod, found.text) == (1, 3, "demo-worker-1-3", "completed step: 9")
    assert found.place == "1/3"


def test_a_line_of_the_entry_point_is_the_runs():
    found = Speakers(list).said(Line(5, "run demo succeeded: last checkpoint at step 9"))
    assert (found.place, found.text) == ("run", "run demo succeeded: last checkpoint at step 9")


def test_an_actor_on_the_head_keeps_its_name():
    line = Line(5, "\x1b[36m(TrainController pid=1096)\x1b[0m Requesting resources: {'TPU': 4}")
    found = Speakers(list).said(line)
    assert (found.place, found.text) == ("run", "TrainController: Requesting resources: {'TPU': 4}")


def test_a_raylets_line_has_its_host_and_its_name():
    found = Speakers(lambda: [HOST]).said(Line(5, "\x1b[33m(raylet, ip=10.0.1.3)\x1b[0m memory is short"))
    assert (found.place, found.text) == ("1/3", "raylet: memory is short")


def test_a_text_in_brackets_is_no_prefix():
    assert Speakers(list).said(Line(5, "(a remark) of MaxText")).text == "(a remark) of MaxText"


def test_a_host_that_is_gone_keeps_its_place_and_an_unknown_one_its_address():
    there = [HOST]
    now = [0.0]
    speakers = Speakers(lambda: there, lambda: now[0])
    speakers.said(Line(1, manifests.printed("RayTrainWorker", 1, HOST.ip, "a")))
    there.clear()
    now[0] = 60.0
    assert speakers.said(Line(2, manifests.printed("RayTrainWorker", 1, "10.9.9.9", "b"))).place == "10.9.9.9"
    assert speakers.said(Line(3, manifests.printed("RayTrainWorker", 1, HOST.ip, "c"))).place == "1/3"


def test_unknown_addresses_are_looked_up_every_five_seconds_at_most():
    looks: list[float] = []
    now = [0.0]

    def look() -> list[Host]:
        looks.append(now[0])
        return []

    speakers = Speakers(look, lambda: now[0])
    for number in range(100):
        now[0] = number * 0.1
        speakers.said(Line(number, manifests.printed("RayTrainWorker", 1, f"10.1.0.{number}", "a")))
    assert looks == [0.0, 5.0]


def test_what_all_hosts_say_is_one_line_and_a_count():
    lines = [said("compiling", 0.001 * host, (host // 4, host % 4)) for host in range(16)]
    assert folded(*lines) == [("compiling", 1, 1), ("compiling", 16, 16)]


def test_what_one_host_repeats_counts_one_host():
    assert folded(*[said("again")] * 3) == [("again", 1, 1), ("again", 3, 1)]


def test_what_is_said_after_three_seconds_is_said_anew():
    assert folded(said("again", 0), said("again", 3.5)) == [("again", 1, 1), ("again", 1, 1)]


def test_empty_lines_are_not_folded():
    assert folded(said(""), said("")) == [("", 1, 1), ("", 1, 1)]


def test_the_texts_that_are_remembered_are_bounded():
    folding = Folding()
    for number in range(50_000):
        list(folding.add(said(f"text {number}", number * 1e-6)))
    assert len(folding._open) == 1000


def test_a_time_is_read_to_the_nanosecond_in_any_zone():
    assert nanoseconds("2026-11-30T15:00:00.123456789Z") == 1796050800_123456789
    assert nanoseconds("2026-11-30T16:00:00.1+01:00") == 1796050800_100000000
    assert nanoseconds("2026-11-30T15:00:00Z") == 1796050800_000000000
    assert nanoseconds("failed") is None
