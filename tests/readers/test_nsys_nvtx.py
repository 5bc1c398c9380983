"""NVTX in Nsight Systems exports: ranges, marks, domains, categories, payloads, and NCCL's message sizes."""

import json
from pathlib import Path

import pytest

import tracelab
from tests.readers.nsys_small import GLOBAL_TID, PID, TID, export, folder_of, nvtx
from tests.readers.small import Lab, ingest_paths

NCCL = {"eventType": 75, "domainId": 3, "text": "NCCL", "end": None}


def read(folder: Path, *events: object, **tables: list) -> Lab:
    return ingest_paths(folder, [export(folder, {"NVTX_EVENTS": list(events), **tables})])


def collective(name: str, payload: object, **others: object) -> Lab:
    return nvtx(text=name, domainId=3, jsonText=json.dumps(payload), **others)


def test_a_push_pop_range_is_an_annotation_of_the_processor(tmp_path: Path) -> None:
    row = read(tmp_path, nvtx()).one("annotations")
    assert {name: value for name, value in row.items() if name not in ("run", "source")} == {
        "rank": 0,
        "pid": PID,
        "name": "step",
        "domain": None,
        "category": None,
        "scope": "cpu",
        "tid": TID,
        "device": None,
        "stream": None,
        "start_ns": 500,
        "dur_ns": 100,
        "payload": None,
        "args": '{"style":"push_pop"}',
    }


@pytest.mark.parametrize(("kind", "style"), [(34, "mark"), (59, "push_pop"), (60, "start_end")])
def test_a_mark_and_a_range_never_closed_have_no_duration_and_a_style_that_distinguishes_them(
    tmp_path: Path, kind: int, style: str
) -> None:
    row = read(tmp_path, nvtx(end=None, eventType=kind)).one("annotations")
    assert (row["start_ns"], row["dur_ns"], json.loads(row["args"])) == (500, None, {"style": style})


def test_nvtxt_events_have_the_styles_of_nvtx(tmp_path: Path) -> None:
    names = [{"id": 90, "name": "NvtxtMark"}, {"id": 91, "name": "NvtxtPushPopRange"}]
    names.append({"id": 92, "name": "NvtxtStartEndRange"})
    events = [nvtx(1, eventType=90, end=None), nvtx(2, eventType=91), nvtx(3, eventType=92)]
    rows = read(tmp_path, *events, ENUM_NSYS_EVENT_TYPE=names).rows("annotations")
    assert [json.loads(row["args"])["style"] for row in rows] == ["mark", "push_pop", "start_end"]


def test_nvtx_sum_separates_styles_and_counts_an_open_range_to_the_last_annotation(tmp_path: Path) -> None:
    events = [nvtx(0, 100, text="r"), nvtx(0, 300, text="r", eventType=60), nvtx(50, None, text="open")]
    lab = read(tmp_path, *events, nvtx(60, None, text="mark", eventType=34))
    rows = tracelab.open(lab.store).query("nvtx_sum").to_pylist()
    assert [(row["Style"], row["Range"], row["Instances"], row["Total Time (ns)"]) for row in rows] == [
        ("StartEnd", "r", 1, 300),
        ("PushPop", "open", 1, 250),
        ("PushPop", "r", 1, 100),
    ]


def test_a_registered_text_is_looked_up_and_an_own_text_wins(tmp_path: Path) -> None:
    lab = read(tmp_path, nvtx(text=None, textId=4), nvtx(501, textId=4), nvtx(502, text="", textId=4))
    assert [row["name"] for row in lab.rows("annotations")] == ["relu", "step", ""]


def test_an_old_export_has_no_registered_texts(tmp_path: Path) -> None:
    lab = read(tmp_path, {key: value for key, value in nvtx().items() if key != "textId"})
    assert lab.one("annotations")["name"] == "step"


def test_domains_and_categories_are_named_per_process(tmp_path: Path) -> None:
    other = GLOBAL_TID + (1 << 24)
    lab = read(
        tmp_path,
        {**nvtx(1), "eventType": 75, "domainId": 1, "text": "DALI"},
        {**nvtx(2), "eventType": 75, "domainId": 1, "text": "MPI", "globalTid": other},
        {**nvtx(3), "eventType": 33, "domainId": 1, "category": 8, "text": "loader"},
        nvtx(10, domainId=1, category=8),
        nvtx(11, domainId=1, globalTid=other, category=8),
        nvtx(12, domainId=9),
        nvtx(13, domainId=0, category=0),
    )
    assert [(row["start_ns"], row["domain"], row["category"]) for row in lab.rows("annotations")] == [
        (10, "DALI", "loader"),
        (11, "MPI", "8"),
        (12, "9", None),
        (13, None, None),
    ]
    assert [row["category"] for row in lab.rows("other_events")] == [
        "NvtxDomainCreate",
        "NvtxDomainCreate",
        "NvtxCategory",
    ]
    assert lab.counts == (7, 7, 0)


@pytest.mark.parametrize(
    ("column", "value", "payload"),
    [("uint64Value", 7, "7"), ("doubleValue", 0.5, "0.5"), ("jsonText", '{"a": 1}', '{"a": 1}')],
)
def test_a_payload_is_kept_as_json(tmp_path: Path, column: str, value: object, payload: str) -> None:
    assert read(tmp_path, nvtx(**{column: value})).one("annotations")["payload"] == payload


def test_values_without_a_column_are_in_args(tmp_path: Path) -> None:
    row = read(tmp_path, nvtx(color=4278190335, rangeId=3)).one("annotations")
    assert json.loads(row["args"]) == {"style": "push_pop", "color": 4278190335, "rangeId": 3}


def test_a_type_of_event_that_is_not_known_is_kept(tmp_path: Path) -> None:
    row = read(tmp_path, nvtx(eventType=199)).one("other_events")
    assert (row["category"], row["name"], row["start_ns"], row["dur_ns"]) == ("NVTX event type 199", "step", 500, 100)


def test_an_nccl_call_with_a_message_size_is_a_collective_of_an_op(tmp_path: Path) -> None:
    payload = {"NCCL communicator ID": 18446744073709551615, "Message size [bytes]": 4096, "Root": 2}
    row = read(tmp_path, nvtx(1, **NCCL), collective("ncclBroadcast", payload)).one("collectives")
    columns = (
        "origin",
        "collective",
        "raw_name",
        "size_bytes",
        "bytes_source",
        "comm_id",
        "root",
        "pid",
        "tid",
        "dur_ns",
    )
    assert tuple(row[name] for name in columns) == (
        *("op", "broadcast", "ncclBroadcast", 4096, "nvtx", "18446744073709551615", 2, PID, TID, 100),
    )


def test_a_payload_as_a_list_of_fields_is_read_too(tmp_path: Path) -> None:
    payload = {"payload": [{"name": "Message size [bytes]", "value": 64}, {"name": "Peer rank", "value": 1}]}
    row = read(tmp_path, collective("ncclSend", payload)).one("collectives")
    assert (row["collective"], row["is_p2p"], row["size_bytes"], row["peer"]) == ("send_recv", True, 64, 1)


def test_the_size_of_an_all_gather_needs_the_number_of_ranks(tmp_path: Path) -> None:
    payload = {"Message size [bytes]": 64}
    lab = read(
        tmp_path, collective("ncclAllGather", payload), collective("ncclAllGather", payload | {"No. of ranks": 4})
    )
    assert {(row["size_bytes"], row["group_size"]) for row in lab.rows("collectives")} == {(None, None), (256, 4)}
    assert {row["args"] for row in lab.rows("collectives")} == {'{"message_bytes": 64}'}


def test_an_nccl_call_without_a_payload_is_an_annotation_alone(tmp_path: Path) -> None:
    lab = read(tmp_path, nvtx(1, **NCCL), nvtx(text=None, textId=5, domainId=3))
    assert lab.one("annotations")["domain"] == "NCCL"
    assert lab.rows("collectives") == []


def test_payloads_that_are_no_json_are_kept_as_they_are(tmp_path: Path) -> None:
    lab = read(tmp_path, nvtx(text="ncclSend", jsonText="{not json"))
    assert (lab.one("annotations")["payload"], lab.rows("collectives")) == ("{not json", [])


def test_a_text_that_begins_after_many_without_one_is_read(tmp_path: Path) -> None:
    events = [nvtx(at, text=None, textId=4) for at in range(3_000)] + [nvtx(5_000, text="late", doubleValue=1.5)]
    rows = read(tmp_path, *events).rows("annotations")
    assert (len(rows), rows[-1]["name"], rows[-1]["payload"]) == (3_001, "late", "1.5")


def test_the_same_comes_of_a_folder_of_parquet_files(tmp_path: Path) -> None:
    events = [nvtx(1, **NCCL), collective("ncclReduce", {"Message size [bytes]": 8}), nvtx(700, text=None, textId=4)]
    path = export(tmp_path, {"NVTX_EVENTS": events})
    one = ingest_paths(tmp_path / "a", [path])
    other = ingest_paths(tmp_path / "b", [folder_of(path, tmp_path / "in" / "report_pqtdir")])
    for table in ("annotations", "collectives", "other_events"):
        left, right = ([row | {"source": ""} for row in lab.rows(table)] for lab in (one, other))
        assert left == right
        assert left
