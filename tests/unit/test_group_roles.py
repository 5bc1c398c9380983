"""Roles of process groups by what frameworks call them."""

from pathlib import Path

import duckdb
import pytest

from tracelab.errors import StoreError
from tracelab.store import rules as name_rules

ROLES = {
    "default_pg": "world",
    "TENSOR_MODEL_PARALLEL_GROUP": "tp",
    "PIPELINE_MODEL_PARALLEL_GROUP": "pp",
    "DATA_PARALLEL_GROUP": "dp",
    "DATA_PARALLEL_GROUP_WITH_CP": "dp",
    "TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP": "tp_dp",
    "TENSOR_AND_CONTEXT_PARALLEL_GROUP": "tp_cp",
    "CONTEXT_PARALLEL_GROUP": "cp",
    "MODEL_PARALLEL_GROUP": "tp_pp",
    "EXPERT_MODEL_PARALLEL_GROUP": "ep",
    "EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP": "tp_ep",
    "EXPERT_DATA_PARALLEL_GROUP": "ep_dp",
    "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP": "tp_ep_pp",
    "EMBEDDING_GROUP": "embedding",
    "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP": "optimizer",
    "mesh_dp_replicate": "dp_replicate",
    "dp_shard": "dp_shard",
    "mesh_dp_shard_cp": "dp_shard",
    "cp": "cp",
    "mesh_tp": "tp",
    "pp": "pp",
    "mesh_ep": "ep",
    "mesh_dim_0": None,
    "undefined": None,
}


def roles(store: Path, *descriptions: str) -> list[str | None]:
    con = duckdb.connect()
    con.execute(name_rules.render_role_rules(name_rules.load_role_rules(store)))
    return [con.execute("select group_role(?)", [each]).fetchall()[0][0] for each in descriptions]


def test_groups_of_megatron_and_torchtitan_have_their_role(tmp_path: Path) -> None:
    assert dict(zip(ROLES, roles(tmp_path, *ROLES), strict=True)) == ROLES


def test_rules_of_the_store_come_first(tmp_path: Path) -> None:
    (tmp_path / "group_roles.csv").write_text("pattern,role\n^mesh_dim_0$,dp_shard\n^mesh_tp$,mine\n")
    assert roles(tmp_path, "mesh_dim_0", "mesh_tp", "pp") == ["dp_shard", "mine", "pp"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pattern\nx\n", "group_roles.csv:1: the columns must be pattern,role"),
        ("pattern,role\nx,\n", "group_roles.csv:2: a rule needs a pattern and a role"),
        ("pattern,role\n(,tp\n", "group_roles.csv:2: '[(]' is not a valid regular expression"),
    ],
)
def test_a_bad_rule_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "group_roles.csv").write_text(text)
    with pytest.raises(StoreError, match=message):
        roles(tmp_path, "x")
