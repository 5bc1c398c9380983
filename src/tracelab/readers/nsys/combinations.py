"""Values computed once for each combination of values that several columns hold, instead of once a row."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tracelab.readers.nsys.export import Array

_LARGEST_CODE = 1 << 62


def map_combinations(columns: Sequence[Array], change: Callable[..., Any], dtype: pa.DataType) -> Array:
    """Return what `change` returns for each row's values; it runs once for each combination of values."""
    coded = [column.dictionary_encode(null_encoding="encode") for column in columns]
    places, numbers = number_combinations(coded)
    distinct = zip(*(column.take(places).to_pylist() for column in columns), strict=True)
    return pa.array([change(*values) for values in distinct], dtype).take(numbers)


def number_combinations(coded: Sequence[Any]) -> tuple[Array, Array]:
    """Number the combinations of values that dictionaries hold: the first row of each, and the number in each row."""
    codes = np.zeros(len(coded[0]), np.int64)
    size = 1
    for column in coded:
        if size * len(column.dictionary) > _LARGEST_CODE:
            codes = np.unique(codes, return_inverse=True)[1]
            size = int(codes.max()) + 1
        codes = codes * len(column.dictionary) + column.indices.to_numpy(zero_copy_only=False)
        size *= len(column.dictionary)
    if size == 1:
        return pa.array([0]), pa.array(codes)
    _, places, numbers = np.unique(codes, return_index=True, return_inverse=True)
    return pa.array(places), pa.array(numbers)
