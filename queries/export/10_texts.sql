-- Pieces of the JSON that an export is made of. A piece is NULL where its value is, so that concat_ws leaves it out.

-- as_us(ns): ns of 0 or more as microseconds with three decimals, exact as text.
create or replace temp macro as_us(ns) as (ns // 1000) || '.' || right('00' || (ns % 1000), 3);

-- arg(key, value): a number or truth value with its key; arg_text(key, value): a text; arg_finite(key, value): a number
-- that JSON can hold; arg_json(key, value): JSON, which
-- is written as text where it is not valid. NaN and Infinity are none, though DuckDB takes them: Perfetto drops all arguments
-- beside them.
create or replace temp macro arg(key, value) as '"' || key || '":' || value;
create or replace temp macro arg_text(key, value) as '"' || key || '":' || to_json(value)::varchar;
create or replace temp macro arg_finite(key, value) as arg(key, case when isfinite(value) then value end);
create or replace temp macro is_plain_json(value) as
    json_valid(value) and not regexp_matches(value, '(?i)(^|[:,\[])\s*[+-]?(nan|inf)');
create or replace temp macro arg_json(key, value) as
    '"' || key || '":' || case when is_plain_json(value) then value else to_json(value)::varchar end;

-- left_over(args): the members of a row's `args`, without those that an export adds itself; NULL where there are none.
create or replace temp macro left_over(args) as
    case
        when args is null or args = '{}' then null
        when not is_plain_json(args) or args[1] <> '{' then arg_text('arguments', args)
        when contains(args, '"tracelab"') then nullif((json_merge_patch(args, '{"tracelab":null}')::varchar)[2:-2], '')
        else nullif(args[2:-2], '')
    end;

-- own(members): what tracelab works out itself, apart from what was recorded.
create or replace temp macro own(members) as '"tracelab":{' || nullif(members, '') || '}';

-- shown(start_ns, end_ns, from_ns, to_ns): whether a row has a place in the time that is asked for.
create or replace temp macro shown(start_ns, end_ns, from_ns, to_ns) as
    start_ns >= from_ns and start_ns < to_ns or start_ns < from_ns and end_ns > from_ns;
