-- Tables that the export fills in: the part of each source to export, the place of every track, and the numbers of arrows.
create temp table exported (
    run varchar, source varchar, shift_ns bigint, from_ns bigint, to_ns bigint, ranks integer[]
);
create temp table exported_path_rows (
    run varchar, rank integer, source varchar, start_ns bigint, dur_ns bigint, class varchar, name varchar, op varchar,
    cause varchar
);
create temp table placed_tracks (
    run varchar, place varchar, track varchar, rank integer, pid bigint, tid bigint, device integer, context bigint,
    stream bigint, number integer, flat boolean, head varchar
);
create temp table numbered (run varchar, rank integer, place varchar, part bigint, number bigint);
create temp table flows (
    run varchar, source varchar, pid bigint, correlation bigint, start_ns bigint, end_ns bigint, tid bigint, flow varchar
);
