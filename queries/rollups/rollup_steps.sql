select
    run, rank, device, step, step_ns, compute_ns, exposed_comm_ns, exposed_memory_ns, other_steps_ns, idle_ns, cpu_ns, kernels
from step_breakdown
where step is not null
order by run, rank, device, step
