"""Map labels of the details page, and names of earlier tools, to current metric names."""

import re
from collections.abc import Mapping

_LABEL_AND_NAME = re.compile(
    r"(?P<label>.*\S)\s+\((?P<name>(?:(?!__)[A-Za-z0-9_.:])*+__[\w.:]+|inst_executed\w*|thread_inst_\w+)\)"
)
_PEAK = "pct_of_peak_sustained"
_INST = "sass_thread_inst_executed_op_"

_MEMORY_CHART = {
    "Average Bytes Per Sector For Global Loads": "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
    "Average Bytes Per Sector For Global Stores": "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",
    "DRAM bandwidth": "dram__bytes.sum.per_second",
    "L1TEX Hit Rate For Global Loads": "l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct",
    "L1TEX Hit Rate For Global Stores": "l1tex__t_sector_pipe_lsu_mem_global_op_st_hit_rate.pct",
    "L2 Cache Sectors": "lts__t_sectors.sum",
    "L2 Hit Rate For Loads": "lts__t_sector_op_read_hit_rate.pct",
    "L2 Hit Rate For Stores": "lts__t_sector_op_write_hit_rate.pct",
}

LABELS: Mapping[str, Mapping[str, str]] = {
    "GPU Speed Of Light": {
        "Duration": "gpu__time_duration.sum",
        "SM Active Cycles": "sm__cycles_active.avg",
    },
    "GPU Speed Of Light Throughput": {
        "Compute (SM) Throughput": f"sm__throughput.avg.{_PEAK}_elapsed",
        "Compute (SM) [%]": f"sm__throughput.avg.{_PEAK}_elapsed",
        "DRAM Frequency": "dram__cycles_elapsed.avg.per_second",
        "DRAM Throughput": f"gpu__dram_throughput.avg.{_PEAK}_elapsed",
        "Duration": "gpu__time_duration.sum",
        "Elapsed Cycles": "gpc__cycles_elapsed.max",
        "L1/TEX Cache Throughput": f"l1tex__throughput.avg.{_PEAK}_active",
        "L2 Cache Throughput": f"lts__throughput.avg.{_PEAK}_elapsed",
        "Memory Throughput": f"gpu__compute_memory_throughput.avg.{_PEAK}_elapsed",
        "Memory [%]": f"gpu__compute_memory_throughput.avg.{_PEAK}_elapsed",
        "SM Active Cycles": "sm__cycles_active.avg",
        "SM Frequency": "gpc__cycles_elapsed.avg.per_second",
        "Waves Per SM": "launch__waves_per_multiprocessor",
    },
    "GPU Speed Of Light Roofline Chart": {
        "DRAM Bandwidth": "dram__bytes.sum.per_second",
        "DRAM Frequency": "dram__cycles_elapsed.avg.per_second",
        "Theoretical DRAM Bytes Accessible": "dram__bytes.sum.peak_sustained",
        **{
            f"Theoretical Predicated-On {op.upper()} Operations": f"derived__sm__{_INST}{op}_pred_on_x2"
            for op in ("ffma", "dfma")
        },
        **{
            f"Theoretical Predicated-On {op.upper()} Thread Instructions Executed": (
                f"sm__{_INST}{op}_pred_on.sum.peak_sustained"
            )
            for op in ("ffma", "dfma")
        },
        **{
            f"Predicated-On {op.upper()} Operations Per Cycle": f"derived__smsp__{_INST}{op}_pred_on_x2"
            for op in ("ffma", "dfma")
        },
        **{
            f"Predicated-On {op.upper()} Thread Instructions Executed Per Cycle": (
                f"smsp__{_INST}{op}_pred_on.sum.per_cycle_elapsed"
            )
            for op in ("fadd", "fmul", "ffma", "dadd", "dmul", "dfma")
        },
    },
    "GPU and Memory Workload Distribution": {
        f"{verb} {what} {state} Cycles": f"{unit}__cycles_{state.lower()}.{rollup}"
        for verb, state, rollup in (("Average", "Active", "avg"), ("Total", "Elapsed", "sum"))
        for what, unit in (("SM", "sm"), ("SMSP", "smsp"), ("L1", "l1tex"), ("L2", "lts"), ("DRAM", "dram"))
    },
    "Compute Workload Analysis": {
        "Executed Ipc Active": "sm__inst_executed.avg.per_cycle_active",
        "Executed Ipc Elapsed": "sm__inst_executed.avg.per_cycle_elapsed",
        "Issue Slots Busy": f"sm__inst_issued.avg.{_PEAK}_active",
        "Issued Ipc Active": "sm__inst_issued.avg.per_cycle_active",
        "SM Busy": f"sm__instruction_throughput.avg.{_PEAK}_active",
    },
    "Instruction Statistics": {
        "Avg. Executed Instructions Per Scheduler": "smsp__inst_executed.avg",
        "Avg. Issued Instructions Per Scheduler": "smsp__inst_issued.avg",
        "Executed Instructions": "smsp__inst_executed.sum",
        "Issued Instructions": "smsp__inst_issued.sum",
    },
    "Launch Statistics": {
        "# SMs": "launch__sm_count",
        "Block Size": "launch__block_size",
        "Cluster Scheduling Policy": "launch__cluster_scheduling_policy",
        "Cluster Size": "launch__cluster_size",
        "Driver Shared Memory Per Block": "launch__shared_mem_per_block_driver",
        "Dynamic Shared Memory Per Block": "launch__shared_mem_per_block_dynamic",
        "Function Cache Configuration": "launch__func_cache_config",
        "Grid Size": "launch__grid_size",
        "Registers Per Thread": "launch__registers_per_thread",
        "Shared Memory Configuration Size": "launch__shared_mem_config_size",
        "Static Shared Memory Per Block": "launch__shared_mem_per_block_static",
        "Threads": "launch__thread_count",
        "Uses Green Context": "launch__uses_green_context",
        "Waves Per SM": "launch__waves_per_multiprocessor",
    },
    "Memory Workload Analysis": {
        "L1/TEX Hit Rate": "l1tex__t_sector_hit_rate.pct",
        "L2 Compression Ratio": "lts__average_gcomp_output_sector_compression_achieved_rate.ratio",
        "L2 Compression Success Rate": "lts__average_gcomp_input_sector_success_rate.pct",
        "L2 Hit Rate": "lts__t_sector_hit_rate.pct",
        "Max Bandwidth": f"gpu__compute_memory_request_throughput.avg.{_PEAK}_elapsed",
        "Mem Busy": f"gpu__compute_memory_access_throughput.avg.{_PEAK}_elapsed",
        "Mem Pipes Busy": f"sm__memory_throughput.avg.{_PEAK}_elapsed",
        "Memory Throughput": "dram__bytes.sum.per_second",
    },
    "Memory Workload Analysis Chart": _MEMORY_CHART,
    "Memory Workload Analysis Tables": _MEMORY_CHART,
    "Occupancy": {
        "Achieved Active Warps Per SM": "sm__warps_active.avg.per_cycle_active",
        "Achieved Occupancy": f"sm__warps_active.avg.{_PEAK}_active",
        "Block Limit Barriers": "launch__occupancy_limit_barriers",
        "Block Limit Registers": "launch__occupancy_limit_registers",
        "Block Limit SM": "launch__occupancy_limit_blocks",
        "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem",
        "Block Limit Warps": "launch__occupancy_limit_warps",
        "Cluster Occupancy": "launch__occupancy_cluster_pct",
        "Max Active Clusters": "launch__cluster_max_active",
        "Max Cluster Size": "launch__cluster_max_potential_size",
        "Overall GPU Occupancy": "launch__occupancy_cluster_gpu_pct",
        "Theoretical Active Warps per SM": "sm__maximum_warps_avg_per_active_cycle",
        "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
    },
    "Scheduler Statistics": {
        "Active Warps Per Scheduler": "smsp__warps_active.avg.per_cycle_active",
        "Eligible Warps Per Scheduler": "smsp__warps_eligible.avg.per_cycle_active",
        "Issued Warp Per Scheduler": "smsp__issue_active.avg.per_cycle_active",
        "No Eligible": f"smsp__issue_inst0.avg.{_PEAK}_active",
        "One or More Eligible": f"smsp__issue_active.avg.{_PEAK}_active",
    },
    "Source Counters": {
        "Avg. Divergent Branches": "smsp__sass_branch_targets_threads_divergent.avg",
        "Branch Efficiency": "smsp__sass_average_branch_targets_threads_uniform.pct",
        "Branch Instructions": "smsp__inst_executed_op_branch.sum",
        "Branch Instructions Ratio": "derived__smsp__inst_executed_op_branch_pct",
    },
    "Warp State Statistics": {
        "Avg. Active Threads Per Warp": "smsp__thread_inst_executed_per_inst_executed.ratio",
        "Avg. Not Predicated Off Threads Per Warp": "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
        "Warp Cycles Per Executed Instruction": "smsp__average_warps_active_per_inst_executed.ratio",
        "Warp Cycles Per Issued Instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
    },
}
"""By section: the metric of a label, if it is the same in the known versions (2022.3, 2024.1). Other labels stay:
what 2019's "SOL L2" measured, for example, depends on the version.
"""

_FREQUENCY_OF_CURVE = {
    "Roofline": "sm__cycles_elapsed.avg.per_second",
    "Achieved Value": "smsp__cycles_elapsed.avg.per_second",
}
"""By the end of the name of a roofline's curve: the clock of its "SM Frequency"."""

FORMER_NAMES: Mapping[str, str] = {
    "gpu__time_duration": "gpu__time_duration.sum",
    "dram__read_bytes.sum": "dram__bytes_read.sum",
    "dram__write_bytes.sum": "dram__bytes_write.sum",
    "dram__read_bytes.sum.per_second": "dram__bytes_read.sum.per_second",
    "dram__write_bytes.sum.per_second": "dram__bytes_write.sum.per_second",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "dram_read_throughput": "dram__bytes_read.sum.per_second",
    "dram_write_throughput": "dram__bytes_write.sum.per_second",
    "dram_read_transactions": "dram__sectors_read.sum",
    "dram_write_transactions": "dram__sectors_write.sum",
    "inst_issued": "smsp__inst_issued.sum",
    "flop_count_sp_add": f"smsp__{_INST}fadd_pred_on.sum",
    "flop_count_sp_mul": f"smsp__{_INST}fmul_pred_on.sum",
    "flop_count_sp_fma": f"smsp__{_INST}ffma_pred_on.sum",
    "flop_count_dp_add": f"smsp__{_INST}dadd_pred_on.sum",
    "flop_count_dp_mul": f"smsp__{_INST}dmul_pred_on.sum",
    "flop_count_dp_fma": f"smsp__{_INST}dfma_pred_on.sum",
    "flop_count_hp_add": f"smsp__{_INST}hadd_pred_on.sum",
    "flop_count_hp_mul": f"smsp__{_INST}hmul_pred_on.sum",
    "flop_count_hp_fma": f"smsp__{_INST}hfma_pred_on.sum",
}
"""By name of nvprof or of ncu 2018 to 2020: the current name, if it counts exactly the same. nvprof's ratios in 0 to 1
and its sums of several counters have no such name.
"""


def current_name(section: str | None, recorded: str, item: str = "") -> tuple[str, dict[str, str]]:
    """Return the current name of a metric, and the written form if that differs.

    `item` is the curve of a chart.
    """
    if match := _LABEL_AND_NAME.fullmatch(recorded):  # --print-metric-name label-name
        metric, written_as = current_name(None, match["name"])
        return metric, written_as if match["label"] == match["name"] else {"label": match["label"], **written_as}
    bare = recorded.removesuffix(".sum") if "__" not in recorded else recorded
    if current := FORMER_NAMES.get(recorded) or FORMER_NAMES.get(bare):
        return current, {"earlier_name": recorded}
    current = LABELS.get(section or "", {}).get(recorded)
    if recorded == "SM Frequency" and not current:
        current = next((name for end, name in _FREQUENCY_OF_CURVE.items() if item.endswith(end)), None)
    if current:
        return current, {"label": recorded}
    return recorded, {}
