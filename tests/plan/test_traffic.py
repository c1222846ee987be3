"""What an instruction moves, and for how long it takes its link."""

import pytest

from driver import tpu
from driver.plan import codegen, traffic

V6E = tpu.hardware("v6e")
EMPTY = codegen.Program("main", {"main": []})


def transfer(text: str, program: codegen.Program = EMPTY) -> traffic.Transfer:
    (found,) = traffic.transfers(codegen.instruction("  " + text), program).values()
    return found


def seconds(kind: str, gigabytes: float, group: int, tpu_type: str = "v6e", topology: str = "4x4") -> float:
    moved = traffic.Transfer("ici", kind, gigabytes * 1e9, group)
    return traffic.seconds(moved, tpu.hardware(tpu_type), topology)


def test_of_a_gather_each_device_sends_all_but_its_own_part_of_the_result():
    found = transfer("%g = bf16[16,100]{1,0} all-gather(%p), channel_id=3, replica_groups=[4,4]<=[16], dimensions={0}")
    assert (found.bytes, found.group) == (16 * 100 * 2 * 3 / 4, 4)


def test_a_started_gather_holds_its_operand_beside_the_result():
    found = transfer(
        "%g = (bf16[4,100]{1,0}, bf16[16,100]{1,0}) all-gather-start(%p), channel_id=3, replica_groups={{0,1,2,3}}"
    )
    assert found.bytes == 16 * 100 * 2 * 3 / 4


def test_a_scatters_result_is_one_of_the_parts():
    found = transfer("%r = f32[4,100]{1,0} reduce-scatter(%p), channel_id=3, replica_groups=[1,4]<=[4], to_apply=%add")
    assert found.bytes == 16 * 100 * 4 * 3 / 4


def test_a_sum_is_a_scatter_and_a_gather():
    found = transfer("%r = f32[400]{0} all-reduce(%p), channel_id=3, replica_groups=[1,4]<=[4], to_apply=%add")
    assert found.bytes == 2 * 400 * 4 * 3 / 4


def test_several_arrays_in_one_collective_add_up():
    found = transfer(
        "%r = (f32[400]{0}, f32[600]{0}) all-reduce(%p, %q), channel_id=3, replica_groups=[1,2]<=[2], to_apply=%add"
    )
    assert found.bytes == 1000 * 4


def test_megascales_sum_over_two_slices_sends_the_array_once():
    found = transfer(
        "%s = (bf16[1000]{0}, u32[]{:S(2)}, token[]) send(%p, %t), channel_id=9, is_host_transfer=true, "
        'frontend_attributes={_xla_host_transfer_handler_name="xla_megascale_runtime",'
        '_xla_megascale_transfer_type="ALL_REDUCE",_xla_megascale_reduce_operation="SUM",'
        '_xla_megascale_target="{1,2}x{0:3}"}'
    )
    assert (found.link, found.bytes, found.group) == ("dcn", 2000, 2)


def test_a_copy_to_the_hosts_memory_and_one_from_it_take_the_two_ways_of_pcie():
    away = transfer("%c = (bf16[8]{0:S(5)}, bf16[8]{0}, u32[]{:S(2)}) copy-start(%p)")
    back = transfer("%c = (bf16[8]{0}, bf16[8]{0:S(5)}, u32[]{:S(2)}) copy-start(%p)")
    assert (away.link, back.link) == ("toHost", "toDevice")


def test_of_a_stacked_buffer_in_the_hosts_memory_only_the_slice_moves():
    found = transfer(
        "%u = ((bf16[32,8]{1,0:S(5)}, bf16[1,8]{1,0}), bf16[32,8]{1,0:S(5)}, u32[]{:S(2)}) async-start(%b, %p), "
        "calls=%a"
    )
    assert (found.link, found.bytes) == ("toHost", 16)


def test_a_copy_within_the_chip_moves_nothing_off_it():
    copy = codegen.instruction("  %c = (bf16[8]{0:S(1)}, bf16[8]{0}, u32[]{:S(2)}) copy-start(%p)")
    assert traffic.transfers(copy, EMPTY) == {}


def test_a_group_of_the_whole_slice_has_the_links_of_all_its_axes():
    assert seconds("all-gather", 1.8, 16) == pytest.approx(1.8e9 / (2 * 90e9))


def test_a_group_along_one_axis_has_one_link_each_way():
    assert seconds("all-gather", 1.8, 4) == pytest.approx(1.8e9 / 90e9)


def test_an_axis_of_a_full_pod_is_a_ring_with_two():
    assert seconds("all-gather", 1.8, 16, topology="16x16") == pytest.approx(1.8e9 / (2 * 90e9))


def test_cubes_close_to_rings_along_each_axis():
    assert seconds("all-gather", 1.8, 64, "v5p", "4x4x4") == pytest.approx(1.8e9 / (6 * 90e9))
    assert seconds("all-gather", 1.8, 16, "v5p", "2x2x4") == pytest.approx(1.8e9 / (3 * 90e9))


def test_dcn_is_a_chips_share_of_its_hosts_nics():
    assert traffic.seconds(traffic.Transfer("dcn", "ALL_REDUCE", 12.5e9), V6E, "4x4") == pytest.approx(1.0)
