-- What the store lacks for an answer with figures: conditions of the hints in the headers of queries.

-- lacks_several_ranks(of_run): no run has kernels of two ranks.
create or replace macro lacks_several_ranks(of_run) as
    not exists (select run from kernels where matches(run, of_run) group by run having count(distinct rank) > 1);

-- lacks_communication(of_run): no kernel communicates, by its name or by what is recorded of collectives.
create or replace macro lacks_communication(of_run) as
    not exists (
        from kernels
        where matches(run, of_run) and name in (select name from kernel_classes where collective is not null)
    )
    and not exists (from collectives where matches(run, of_run));

-- lacks_several_hosts(of_run): no run has ranks on two hosts that are known.
create or replace macro lacks_several_hosts(of_run) as
    not exists (
        select run
        from (select run, host from devices union all select run, host from runs)
        where matches(run, of_run)
        group by run
        having count(distinct host) > 1
    );

-- lacks_cpu_communication(of_run, of_rank): no range or op is communication on the CPU. Of many rows there are few names.
create or replace macro lacks_cpu_communication(of_run, of_rank) as
    not exists (
        from (
            select distinct name from annotations where scope = 'cpu' and matches(run, of_run) and matches(rank, of_rank)
            union all
            select distinct name from ops where matches(run, of_run) and matches(rank, of_rank)
        )
        where is_cpu_communication(name)
    );

-- lacks_all_to_alls(of_run): neither the name of a kernel nor what a profiler noted is an all-to-all.
create or replace macro lacks_all_to_alls(of_run) as
    not exists (
        from (select distinct name from kernels where matches(run, of_run))
        join kernel_classes using (name)
        where kernel_classes.collective = 'all_to_all'
    )
    and not exists (from collectives where collective = 'all_to_all' and matches(run, of_run));

-- lacks_pipelines(of_run): no process group has the role of a pipeline.
create or replace macro lacks_pipelines(of_run) as
    not exists (
        with _executions as not materialized (
            select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation, in_scope
            from recorded_kernels
            where matches(run, of_run)
        ),
        _communication as materialized (
            from collective_kernels('_executions')
        )
        from role_groups('_communication') where role = 'pp'
    );
