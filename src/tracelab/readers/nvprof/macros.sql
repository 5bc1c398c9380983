-- hex_at(text, byte, length): little-endian bytes of a text in hex as a number.
create macro hex_at(text, byte, length) as
    try_cast('0x' || list_reduce(
        list_transform(range(length), lambda place: substr(text::varchar, (2 * (byte + length - 1 - place) + 1)::bigint, 2)),
        lambda high, low: high || low
    ) as ubigint);

-- int_at(text, place): the unsigned 32-bit number at a place of a union, as CUPTI puts process, thread and device there.
create macro int_at(text, place) as hex_at(text, 4 * place, 4)::bigint;

-- metric_value(text): the value of a union of a double and 64-bit integers, whose kind is not in the file. A whole
-- number below 2^52 would be a double too small to be measured; a negative one would be no number.
create macro metric_value(text) as (
    select case
        when bits is null then null
        when bits < 4503599627370496 then bits::double
        when (bits >> 52) & 2047 = 2047 and bits >> 63 = 1 then (bits::hugeint - 18446744073709551616)::double
        when (bits >> 52) & 2047 = 2047 then null
        else (case when bits >> 63 = 1 then -1.0 else 1.0 end)
            * (1.0 + (bits & 4503599627370495)::double / 4503599627370496.0)
            * pow(2.0, ((bits >> 52) & 2047)::double - 1023.0)
    end
    from (select hex_at(text, 0, 8) as bits)
);

-- payload(kind, text): the payload of a marker as JSON; NULL where it has none.
create macro payload(kind, text) as
    case when replace(text::varchar, '0', '') <> '' then to_json({'kind': kind, 'value': metric_value(text)}) end;

create macro api_name(of_api, number) as
    coalesce((select name from cbids where cbids.api = of_api and cbids.cbid = number), 'cbid ' || number);

create macro device_of(of_context) as (select device from contexts where context = of_context);
