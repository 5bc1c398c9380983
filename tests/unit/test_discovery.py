"""Which files of a folder are sources."""

from tracelab.ingest.discovery import expand_paths


def names(folder, *files):
    for file in files:
        (folder / file).write_text("x")
    return [path.name for path in expand_paths([folder], folder / "lab")]


def test_a_report_is_left_out_where_its_export_is_in_the_folder(tmp_path):
    files = ("rank0.nsys-rep", "rank0.sqlite", "rank1.nsys-rep", "rank0.ncu-repz", "rank0.ncu.csv", "rank1.ncu-rep")
    assert names(tmp_path, *files) == ["rank0.ncu.csv", "rank0.sqlite", "rank1.ncu-rep", "rank1.nsys-rep"]


def test_a_report_of_several_windows_is_left_out_by_its_own_export_alone(tmp_path):
    assert names(tmp_path, "rank0.1.nsys-rep", "rank0.2.nsys-rep", "rank0.2.sqlite") == [
        "rank0.1.nsys-rep",
        "rank0.2.sqlite",
    ]


def test_a_report_that_is_named_is_taken_even_where_its_export_exists(tmp_path):
    names(tmp_path, "rank0.nsys-rep", "rank0.sqlite")
    assert expand_paths([tmp_path / "rank0.nsys-rep"], tmp_path / "lab") == [tmp_path / "rank0.nsys-rep"]


def test_a_hidden_file_of_a_folder_is_left_out(tmp_path):
    assert names(tmp_path, ".rank0.partial.sqlite", "rank0.json") == ["rank0.json"]


def test_what_a_run_that_still_records_keeps_in_hidden_folders_is_left_out(tmp_path):
    process = tmp_path / ".processes" / "node.7"
    process.mkdir(parents=True)
    (tmp_path / ".outcomes").mkdir()
    for path in (process / "steps.rank0.jsonl", process / "record.json", tmp_path / ".outcomes" / "0.json"):
        path.write_text("{}")
    assert names(tmp_path, ".running", ".reserve", "run.json") == ["run.json"]
    assert expand_paths([process], tmp_path / "lab") == [process / "record.json", process / "steps.rank0.jsonl"]


def test_what_collect_writes_for_people_is_left_out(tmp_path):
    for name in ("run.json", "record", "rank0.log", "rank12.log", "steps.rank0.jsonl"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "sweep.json").write_text('{\n "tracelab": "sweep/1",\n')
    assert [path.name for path in expand_paths([tmp_path], tmp_path / "lab")] == ["run.json", "steps.rank0.jsonl"]


def test_results_of_a_gpu_check_are_left_out_where_both_json_files_are_there(tmp_path):
    for name in ("checks.json", "checks.md", "facts.json", "rank0.json"):
        (tmp_path / name).write_text("{}")
    assert [path.name for path in expand_paths([tmp_path], tmp_path / "lab")] == ["rank0.json"]
    (tmp_path / "facts.json").unlink()
    names_left = [path.name for path in expand_paths([tmp_path], tmp_path / "lab")]
    assert names_left == ["checks.json", "checks.md", "rank0.json"]


def test_files_of_such_names_are_sources_where_collect_did_not_write_them(tmp_path):
    for name in ("rank0.log", "record", "sweep.json"):
        (tmp_path / name).write_text("{}")
    assert [path.name for path in expand_paths([tmp_path], tmp_path / "lab")] == ["rank0.log", "record", "sweep.json"]
