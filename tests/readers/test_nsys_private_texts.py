"""Private texts of an Nsight Systems export, such as settings and output of the program, are not stored."""

from pathlib import Path

import pytest

from tests.readers.nsys_small import (
    CALLS,
    GLOBAL_PID,
    KERNELS,
    call,
    diagnostic_codes,
    ingest_export,
    kernel,
    nvtx,
)


def test_call_stacks_environment_and_output_of_the_program_are_not_stored(tmp_path: Path) -> None:
    lab = ingest_export(
        tmp_path,
        **{
            KERNELS: [kernel()],
            "OSRT_CALLCHAINS": [{"id": 1, "symbol": 4}],
            "TARGET_INFO_SYSTEM_ENV": [{"name": "Token", "value": "hunter2"}],
            "META_DATA_CAPTURE": [{"name": "ENV", "value": "hunter2"}],
            "ProcessStreams": [{"globalPid": GLOBAL_PID, "filenameId": 4, "contentId": 5}],
        },
    )
    assert "hunter2" not in lab.texts()
    assert diagnostic_codes(lab) == {"call_stacks"}
    assert lab.counts == (1, 1, 0)


PRIVATE_TEXTS = {
    "a setting": "AWS_SECRET_ACCESS_KEY=hunter2",
    "settings": "A=1\0B=hunter2",
    "a path with options": "/usr/bin/train --api-key hunter2",
    "a command line": "python3 train.py -k hunter2",
    "output": "A=1\nB=hunter2\n",
    "one line of listed output": "the password is hunter2",
    "listed output": "hunter2",
    "a listed file": "/logs/hunter2.log",
}


@pytest.mark.parametrize("text", PRIVATE_TEXTS.values(), ids=PRIVATE_TEXTS)
@pytest.mark.parametrize("table", ["ProcessStreams", "ANALYSIS_FILE"])
def test_a_damaged_string_id_names_no_event_by_a_private_text(tmp_path: Path, text: str, table: str) -> None:
    listed = {"the password is hunter2": {"contentId": 9}, "hunter2": {"contentId": 9}}
    ids = {"filenameId": 4, "contentId": 8} | listed.get(text, {"filenameId": 9} if text.startswith("/logs") else {})
    lab = ingest_export(
        tmp_path,
        StringIds=[{"id": 3, "value": "cudaLaunchKernel_v7000"}, {"id": 9, "value": text}],
        **{
            KERNELS: [kernel(demangledName=9, shortName=9)],
            CALLS: [call(nameId=9), call(correlationId=12, nameId=3)],
            table: [{"globalPid": GLOBAL_PID, **ids}],
        },
    )
    assert "hunter2" not in lab.texts()
    assert [row["name"] for row in lab.rows("api_calls")] == [None, "cudaLaunchKernel"]
    (row,) = [row for row in lab.rows("diagnostics") if row["code"] == "text_withheld"]
    assert row["count"] == 2


ENVIRONMENTS_OF_ONE_SETTING = {
    "a variable": [(9, "AWS_SECRET_ACCESS_KEY=hunter2")],
    "a variable in small letters": [(9, "http_proxy=http://me:hunter2@proxy")],
    "before another environment": [(9, "site=hunter2"), (10, "A=1\0B=2")],
    "behind another environment": [(8, "A=1\0B=2"), (9, "site=hunter2")],
    "between environments of one setting": [(7, "A=1\0B=2"), (8, "PATH=/bin"), (9, "site=hunter2"), (10, "x=hunter2")],
}


@pytest.mark.parametrize("texts", ENVIRONMENTS_OF_ONE_SETTING.values(), ids=ENVIRONMENTS_OF_ONE_SETTING)
def test_a_damaged_string_id_names_no_range_by_an_environment_of_one_setting(
    tmp_path: Path, texts: list[tuple[int, str]]
) -> None:
    lab = ingest_export(
        tmp_path,
        StringIds=[{"id": number, "value": text} for number, text in [(1, "step"), *texts]],
        NVTX_EVENTS=[
            nvtx(text=None, textId=9, jsonTextId=9),
            nvtx(501, text=None, textId=1),
            nvtx(1, None, eventType=75, text=None, textId=9, domainId=1),
        ],
    )
    assert "hunter2" not in lab.texts()
    assert [row["name"] for row in lab.rows("annotations")] == [None, "step"]


def test_a_range_may_be_named_like_a_setting(tmp_path: Path) -> None:
    names = ["step=3", "BATCH=32", "shape=2x3", "lr=0.1 model=resnet"]
    lab = ingest_export(
        tmp_path,
        StringIds=[{"id": 2 * number, "value": text} for number, text in enumerate(["A=1\0B=2", "step", *names])],
        NVTX_EVENTS=[nvtx(at, text=None, textId=2 * at + 4) for at in range(len(names))],
    )
    assert [row["name"] for row in lab.rows("annotations")] == names
    assert diagnostic_codes(lab) == set()


def test_names_that_resemble_private_texts_are_kept(tmp_path: Path) -> None:
    names = ["Vec::operator=(Vec const&)", "f(int)::{lambda() -> x}", "operator==(A, B)", "void f<(int)-1>(float*)"]
    texts = [*names, "BATCH=32\nstep --all", "cudaLaunchKernel_v7000"]
    lab = ingest_export(
        tmp_path,
        StringIds=[{"id": number, "value": text} for number, text in enumerate(texts)],
        **{
            KERNELS: [kernel(1000 + 20 * i, 1010 + 20 * i, demangledName=i) for i in range(len(names))],
            CALLS: [call(nameId=5)],
            "NVTX_EVENTS": [nvtx(text=None, textId=4)],
            "ProcessStreams": [{"globalPid": GLOBAL_PID, "filenameId": 77, "contentId": 5}],
        },
    )
    assert [row["name"] for row in lab.rows("kernels")] == names
    assert (lab.one("api_calls")["name"], lab.one("annotations")["name"]) == ("cudaLaunchKernel", texts[4])
    assert "text_withheld" not in diagnostic_codes(lab)
