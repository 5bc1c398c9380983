-- Shapes and types of the tensors that ops take, as Kineto writes them, and what formulas of op_formulas.csv compute with them.

-- element_count(sizes): the product of sizes, 1 without any.
create or replace macro element_count(sizes) as list_reduce(sizes::hugeint[], lambda a, b: a * b, 1::hugeint);

-- recorded_arguments(text): the parts of a JSON list: of `input_shapes` a list of sizes each, or of lists; NULL where the
-- text is no list.
create or replace macro recorded_arguments(text) as try(from_json(text, '["JSON"]'));

-- recorded_sizes(arguments): the sizes of each argument of recorded_arguments(); [] of a number, NULL of a list of tensors.
create or replace macro recorded_sizes(arguments) as
    list_transform(arguments, lambda argument: try_cast(argument as bigint[]));

-- recorded_counts(arguments): the elements of each argument; those of the tensors of a list are added up.
create or replace macro recorded_counts(arguments) as
    list_transform(
        arguments,
        lambda argument: coalesce(
            element_count(try_cast(argument as bigint[])),
            list_sum(list_transform(try_cast(argument as bigint[][]), lambda sizes: element_count(sizes)))
        )
    );

-- recorded_texts(text): the parts of a JSON list of texts: of `input_types` and of the argument "Concrete Inputs".
create or replace macro recorded_texts(text) as try(from_json(text, '["VARCHAR"]'));

-- type_bytes(type): bytes of an element of a tensor of this type; NULL of what is no tensor, or one of no known type.
create or replace macro type_bytes(type) as
    case type
        when 'float' then 4 when 'double' then 8 when 'c10::Half' then 2 when 'c10::BFloat16' then 2
        when 'long int' then 8 when 'long' then 8 when 'long long' then 8 when 'int' then 4 when 'short' then 2
        when 'signed char' then 1 when 'unsigned char' then 1 when 'bool' then 1
        when 'c10::complex<float>' then 8 when 'c10::complex<double>' then 16
        else case when type like 'c10::Float8\_%' escape '\' then 1 end
    end;

-- recorded_type_bytes(text): bytes of an element of each argument, by `input_types`.
create or replace macro recorded_type_bytes(text) as list_transform(recorded_texts(text), lambda type: type_bytes(type));

-- scalar_type_bytes(number): bytes of an element of the type of this number in torch's enumeration ScalarType.
create or replace macro scalar_type_bytes(number) as
    case number
        when '0' then 1 when '1' then 1 when '2' then 2 when '3' then 4 when '4' then 8 when '5' then 2 when '6' then 4
        when '7' then 8 when '11' then 1 when '15' then 2 when '23' then 1 when '24' then 1 when '25' then 1 when '26' then 1
    end;

-- tensor_bytes(n, z, place): bytes of an argument by its elements and the bytes of one; 0 of what is no tensor.
create or replace macro tensor_bytes(n, z, place) as coalesce(n[place] * z[place], 0);

-- int_list(text): the numbers of an argument as it is written: [1, 1].
create or replace macro int_list(text) as try_cast(text as bigint[]);

-- convolved_sizes(input, weight, stride, padding, dilation): height, width … of a convolution's output:
-- floor((x + 2 p - d (k - 1) - 1) / s) + 1. A list of one number holds for all of them.
create or replace macro convolved_sizes(input, weight, stride, padding, dilation) as
    list_transform(
        range(1, len(weight) - 1),
        lambda i: (
            input[i + 2] + 2 * coalesce(padding[i], padding[1]) - coalesce(dilation[i], dilation[1]) * (weight[i + 2] - 1) - 1
        ) // coalesce(stride[i], stride[1]) + 1
    );

-- convolved_count(s, c): elements of the result of aten::convolution, by its arguments input, weight, bias, stride, padding,
-- dilation. Not of a transposed one.
create or replace macro convolved_count(s, c) as
    s[1][1] * s[2][1] * element_count(convolved_sizes(s[1], s[2], int_list(c[4]), int_list(c[5]), int_list(c[6])));

-- transposed_count(s, c): elements of the result of a transposed aten::convolution, whose weight is (channels in, channels out of a
-- group, height, width …), by its output padding and groups, too: of each size (x - 1) s - 2 p + d (k - 1) + output padding + 1.
create or replace macro transposed_count(s, c) as
    s[1][1] * s[2][2] * try_cast(c[9] as bigint) * element_count(
        list_transform(
            range(1, len(s[2]) - 1),
            lambda i: (s[1][i + 2] - 1) * coalesce(int_list(c[4])[i], int_list(c[4])[1])
                - 2 * coalesce(int_list(c[5])[i], int_list(c[5])[1])
                + coalesce(int_list(c[6])[i], int_list(c[6])[1]) * (s[2][i + 2] - 1)
                + coalesce(int_list(c[8])[i], int_list(c[8])[1]) + 1
        )
    );

-- convolution_flop(elements, weight): a product and a sum of each element of the result with each number of one of the filters
-- of `weight`, its sizes. A transposed convolution exchanges the roles of its result and its input.
create or replace macro convolution_flop(elements, weight) as 2 * elements * element_count(weight[2:]);

-- requests_input(mask), requests_weight(mask): 1 where the output_mask of a backward convolution requests the gradient of its
-- input, or its weight, else 0. The mask is text: [True, True, False].
create or replace macro requests_input(mask) as starts_with(mask, '[True')::integer;
create or replace macro requests_weight(mask) as regexp_matches(mask, '^\[\w+, True')::integer;

-- requested_gradients(mask): how many of these gradients a backward convolution computes; each costs as much as its forward pass.
create or replace macro requested_gradients(mask) as requests_input(mask) + requests_weight(mask);

-- attention_flop(q, k, v, keys): 2 products of each query with all keys; `keys` is how many a sequence has.
create or replace macro attention_flop(q, k, v, keys) as 2 * (element_count(q) // q[-1]) * keys * (q[-1] + v[-1]);

-- attention_backward_flop(q, k, v, keys): 5 products: the scores anew, and the gradients of queries, keys, values and scores.
create or replace macro attention_backward_flop(q, k, v, keys) as
    2 * (element_count(q) // q[-1]) * keys * (3 * q[-1] + 2 * v[-1]);

-- broadcast_count(a, b): elements of the result of an elementwise op.
create or replace macro broadcast_count(a, b) as
    element_count(
        list_transform(
            range(1, greatest(len(a), len(coalesce(b, []))) + 1),
            lambda i: case
                when coalesce(a[-i], 1) = 1 then coalesce(b[-i], 1)
                else a[-i]
            end
        )
    );
