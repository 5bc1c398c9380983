"""The metadata of collectives, on a kernel or an op, by the names of every year."""

from pathlib import Path

import pytest

from tests.readers.small import TIMES, Row, given, ingest_bytes, kernel, op, trace

NCCL = {
    "Collective name": "allreduce",
    "In msg nelems": 1000,
    "Out msg nelems": 1000,
    "Group size": 2,
    "dtype": "Float",
    "Process Group Name": "0",
    "Process Group Description": "default_pg",
    "Process Group Ranks": "[0, 1]",
}


def collective(tmp_path: Path, **args: object) -> Row:
    return ingest_bytes(tmp_path, trace(kernel("ncclDevKernel_X", **(NCCL | args)))).one("collectives")


def test_metadata_of_a_kernel(tmp_path: Path) -> None:
    expected = TIMES | {
        "origin": "kernel",
        "collective": "all_reduce",
        "raw_name": "allreduce",
        "in_elements": 1000,
        "out_elements": 1000,
        "dtype": "Float",
        "size_bytes": 4000,
        "bytes_source": "trace",
        "group_name": "0",
        "group_size": 2,
        "group_ranks": [0, 1],
        "group_description": "default_pg",
        "is_p2p": False,
        "comm_id": None,
        "comms_id": None,
        "device": 0,
        "stream": 7,
        "correlation": 11,
        "external_id": 3,
    }
    assert given(collective(tmp_path, **{"External id": 3, "Seq": 14}), expected | {"seq": 14}) == expected | {
        "seq": 14
    }


def test_metadata_of_an_op_is_a_row_of_its_own(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(op("record_param_comms", ts=1000, dur=10, **NCCL)))
    expected = TIMES | {"origin": "op", "collective": "all_reduce", "size_bytes": 4000, "tid": 101, "pid": 100}
    expected |= {"external_id": 3, "device": None, "stream": None}
    assert given(lab.one("collectives"), expected) == expected
    assert (lab.one("ops")["name"], lab.counts) == ("record_param_comms", (1, 1, 0))


def test_names_of_before_december_2023(tmp_path: Path) -> None:
    old = {"Collective name": "broadcast", "In msg size": 10, "Out msg size": 30, "Group size": 4, "dtype": "Half"}
    lab = ingest_bytes(tmp_path, trace(kernel("ncclKernel_Broadcast_RING_LL_Sum_int8_t", **(old | {"PG ID": 3}))))
    expected = {"in_elements": 10, "out_elements": 30, "size_bytes": 60, "group_name": "3", "group_ranks": None}
    assert given(lab.one("collectives"), expected) == expected


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        ("allreduce", "all_reduce"),
        ("all_reduce", "all_reduce"),
        ("allreduce_coalesced", "all_reduce"),
        ("broadcast", "broadcast"),
        ("_broadcast_oop", "broadcast"),
        ("reduce", "reduce"),
        ("_reduce_oop", "reduce"),
        ("allgather", "all_gather"),
        ("all_gather", "all_gather"),
        ("_allgather_base", "all_gather"),
        ("allgather_into_tensor_coalesced", "all_gather"),
        ("reduce_scatter", "reduce_scatter"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("reduce_scatter_tensor_coalesced", "reduce_scatter"),
        ("all_to_all", "all_to_all"),
        ("all_to_allv", "all_to_all"),
        ("alltoall_base", "all_to_all"),
        ("send", "send_recv"),
        ("recv", "send_recv"),
        ("barrier", "other"),
        ("wait", "other"),
        ("gather", "other"),
        ("scatter", "other"),
    ],
)
def test_collective_by_name(tmp_path: Path, raw: str, canonical: str) -> None:
    expected = {"raw_name": raw, "collective": canonical}
    assert given(collective(tmp_path, **{"Collective name": raw}), expected) == expected


@pytest.mark.parametrize(
    ("dtype", "element_bytes"),
    [
        ("Float", 4),
        ("BFloat16", 2),
        ("Half", 2),
        ("Byte", 1),
        ("Char", 1),
        ("Bool", 1),
        ("Short", 2),
        ("Int", 4),
        ("Long", 8),
        ("Double", 8),
        ("Float8_e4m3fn", 1),
        ("Float8_e5m2", 1),
        ("ComplexFloat", 8),
        ("ComplexDouble", 16),
    ],
)
def test_size_by_element_type(tmp_path: Path, dtype: str, element_bytes: int) -> None:
    expected = {"dtype": dtype, "size_bytes": 1000 * element_bytes}
    assert given(collective(tmp_path, dtype=dtype), expected) == expected


def test_size_of_an_unknown_element_type_is_unknown(tmp_path: Path) -> None:
    expected = {"dtype": "Quaternion", "in_elements": 1000, "size_bytes": None, "bytes_source": None}
    assert given(collective(tmp_path, dtype="Quaternion"), expected) == expected


def test_size_is_the_larger_side(tmp_path: Path) -> None:
    expected = {"in_elements": 25136, "out_elements": 201088, "size_bytes": 402176}
    args = {"In msg nelems": 25136, "Out msg nelems": 201088, "dtype": "BFloat16", "Collective name": "_allgather_base"}
    assert given(collective(tmp_path, **args), expected) == expected


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("[0, 1]", [0, 1]),
        ("[0,1,2]", [0, 1, 2]),
        ("[]", None),
        ("[0, 1, 2, ...]", None),
        ("[0, 1, ..., 7]", None),
        ("", None),
        ([0, 1], [0, 1]),
    ],
)
def test_ranks_of_a_group_only_where_all_are_listed(tmp_path: Path, text: object, ranks: object) -> None:
    assert collective(tmp_path, **{"Process Group Ranks": text})["group_ranks"] == ranks


@pytest.mark.parametrize("number", ["18446744073709551615", "9223372036854775809", "5"])
@pytest.mark.parametrize("quoted", [True, False])
def test_the_id_of_an_operation_is_text_to_its_last_digit(tmp_path: Path, number: str, quoted: bool) -> None:
    assert collective(tmp_path, **{"Comms Id": number if quoted else int(number)})["comms_id"] == number


def group(first: int, stride: int, size: int) -> dict[str, object]:
    """A group of which an event lists 30 ranks, as torch writes it."""
    ranks = list(range(first, first + stride * size, stride))
    cut = ", ".join(map(str, ranks[:30]))
    return {"pg_name": "7", "pg_size": size, "ranks": ranks, "cut": f"[{cut}, ...]"}


def members(tmp_path: Path, entry: dict[str, object], *events: object, **args: object) -> list[object]:
    info = {"rank": 0, "world_size": 128, "pg_config": [{"pg_name": "0", "ranks": []}, entry]}
    cut = NCCL | {"Process Group Name": "7", "Group size": entry["pg_size"], "Process Group Ranks": entry["cut"]}
    content = trace(kernel("ncclDevKernel_X", **(cut | args)), *events, distributedInfo=info)
    row = ingest_bytes(tmp_path, content).one("collectives")
    return [row[name] for name in ("group_start", "group_stride", "group_ranks", "group_size")]


def test_members_of_a_large_group_come_from_the_head_of_the_file(tmp_path: Path) -> None:
    assert members(tmp_path, group(1, 2, 64)) == [1, 2, None, 64]


def test_unevenly_spaced_members_are_listed(tmp_path: Path) -> None:
    entry = group(0, 1, 40) | {"ranks": [*range(39), 77]}
    assert members(tmp_path, entry) == [None, None, [*range(39), 77], 40]


@pytest.mark.parametrize("ranks", ["[0, 1, ...]", [0, "1"], list(range(30)), [-1, *range(40)], [True] * 40])
def test_a_head_that_lists_no_ranks_names_no_members(tmp_path: Path, ranks: object) -> None:
    assert members(tmp_path, group(0, 1, 40) | {"ranks": ranks}) == [None, None, None, 40]


def test_spacing_on_the_event_comes_first(tmp_path: Path) -> None:
    args = {"Global rank start": 4, "Global rank stride": 3}
    assert members(tmp_path, group(1, 2, 64), **args) == [4, 3, None, 64]


def test_a_quote_in_the_name_of_a_group_is_harmless(tmp_path: Path) -> None:
    entry = group(1, 2, 64) | {"pg_name": "it's"}
    assert members(tmp_path, entry, **{"Process Group Name": "it's"}) == [1, 2, None, 64]


def test_no_description_is_null(tmp_path: Path) -> None:
    assert collective(tmp_path, **{"Process Group Description": "undefined"})["group_description"] is None


@pytest.mark.parametrize(
    ("name", "is_p2p"), [("send", True), ("recv", True), ("all_to_allv", False), ("coalesced", None), ("wait", None)]
)
def test_only_sends_and_receives_are_between_two_ranks(tmp_path: Path, name: str, is_p2p: object) -> None:
    assert collective(tmp_path, **{"Collective name": name})["is_p2p"] is is_p2p


def test_ends_of_a_send(tmp_path: Path) -> None:
    row = collective(tmp_path, **{"Collective name": "send", "Dst Rank": 3, "Rank": 1})
    assert (row["src_rank"], row["dst_rank"], row["peer"]) == (None, 3, 3)


def test_peer_of_a_send(tmp_path: Path) -> None:
    args = {"Collective name": "send", "Src Rank": 0, "Dst Rank": 3, "Rank": 0}
    assert given(collective(tmp_path, **args), {"collective": "", "peer": 0}) == {"collective": "send_recv", "peer": 3}


def test_peer_of_a_receive(tmp_path: Path) -> None:
    args = {"Collective name": "recv", "Src Rank": 2, "Dst Rank": 0, "Rank": 0}
    assert collective(tmp_path, **args)["peer"] == 2


def test_kernels_with_metadata_are_among_the_others(tmp_path: Path) -> None:
    kernels = [kernel("gemm", ts=1), kernel("nccl", ts=2, **NCCL), kernel("sum", ts=3), kernel("nccl", ts=4, **NCCL)]
    lab = ingest_bytes(tmp_path, trace(*kernels))
    assert lab.kernels == ["gemm", "nccl", "sum", "nccl"]
    assert [row["start_ns"] for row in lab.rows("collectives")] == [2_000, 4_000]


def test_kernel_without_metadata_has_no_collective(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(kernel("ncclKernel_AllReduce_RING_LL_Sum_float"), op("record_param_comms")))
    assert lab.rows("collectives") == []
