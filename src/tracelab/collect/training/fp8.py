"""Compute linear layers in fp8: operands scaled by their largest magnitude, results in bf16.

Inputs and weights become e4m3, gradients of results e5m2; weights, their gradients and the optimizer stay as they are.
"""

import functools
from typing import Any

from tracelab.errors import UsageError

MULTIPLE = 16
"""Sizes of a product in fp8 are multiples of this."""


def check_support(torch: Any, device: Any) -> None:  # noqa: ANN401  torch carries no types here
    """Refuse fp8 where torch or the device cannot multiply it, which one small product shows."""
    try:
        ones = torch.ones(MULTIPLE, MULTIPLE, device=device).to(torch.float8_e4m3fn)
        scale = torch.ones((), device=device)
        torch._scaled_mm(ones, ones.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)
    except (AttributeError, NotImplementedError, RuntimeError, TypeError) as error:
        problem = " ".join(str(error).split("\n")[0].split())[:200]
        raise UsageError(
            f"--precision fp8: torch {torch.__version__} multiplies no fp8 on this {device.type} device ({problem}); "
            "use a GPU of compute capability 8.9 or newer, or --precision bf16"
        ) from error


def convert_linears(torch: Any, network: Any) -> int:  # noqa: ANN401
    """Compute the linear layers of a model in fp8, and return how many; others keep autocast's bf16.

    A layer qualifies if both its sizes are multiples of 16. Raises UsageError if none does.
    """
    linears = [module for module in network.modules() if type(module) is torch.nn.Linear]
    fitting = [each for each in linears if each.in_features % MULTIPLE == 0 and each.out_features % MULTIPLE == 0]
    if not fitting:
        raise UsageError(
            f"--precision fp8 computes linear layers whose sizes are multiples of {MULTIPLE}, and this model has none; "
            "use --precision bf16"
        )
    for each in fitting:
        each.__class__ = _linear_class()  # parameters and hooks stay the same objects
    return len(fitting)


@functools.cache
def _linear_class() -> Any:  # noqa: ANN401
    import torch
    from torch.nn import Linear
    from torch.nn.functional import pad

    class Product(torch.autograd.Function):  # type: ignore[misc]  # torch carries no types here
        """The product of rows of inputs and the transposed weight; all three products of it are in fp8."""

        @staticmethod
        def forward(context: Any, rows: Any, weight: Any) -> Any:  # noqa: ANN401
            inputs, input_scale = _quantize(torch, rows, torch.float8_e4m3fn)
            weights, weight_scale = _quantize(torch, weight, torch.float8_e4m3fn)
            context.save_for_backward(inputs, input_scale, weights, weight_scale)
            context.dtypes = rows.dtype, weight.dtype
            return _multiply(torch, inputs, input_scale, weights.t(), weight_scale, fast=True)

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:  # noqa: ANN401
            inputs, input_scale, weights, weight_scale = context.saved_tensors
            gradients, gradient_scale = _quantize(torch, gradient, torch.float8_e5m2)
            of_rows = _multiply(torch, gradients, gradient_scale, _by_column(weights), weight_scale, fast=False)
            turned = gradients.t().contiguous()
            of_weight = _multiply(torch, turned, gradient_scale, _by_column(inputs), input_scale, fast=False)
            return of_rows.to(context.dtypes[0]), of_weight.to(context.dtypes[1])

    class Fp8Linear(Linear):  # type: ignore[misc]
        """A linear layer whose products are in fp8."""

        def forward(self, inputs: Any) -> Any:  # noqa: ANN401
            rows = inputs.reshape(-1, self.in_features)
            count = rows.shape[0]
            output = Product.apply(pad(rows, (0, 0, 0, -count % MULTIPLE)), self.weight)[:count]
            if self.bias is not None:
                output = output + self.bias.to(output.dtype)
            return output.reshape(*inputs.shape[:-1], self.out_features)

    return Fp8Linear


def _quantize(torch: Any, tensor: Any, dtype: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """Return a tensor in fp8 and the scale that restores it; its largest magnitude becomes the largest of fp8."""
    largest = tensor.abs().amax().float().clamp(min=torch.finfo(torch.float32).tiny * torch.finfo(dtype).max)
    scale = largest / torch.finfo(dtype).max
    return (tensor.float() / scale).to(dtype), scale


def _by_column(tensor: Any) -> Any:  # noqa: ANN401
    """Return the same matrix stored by columns, as fp8 products need the right operand."""
    return tensor.t().contiguous().t()


def _multiply(torch: Any, left: Any, left_scale: Any, right: Any, right_scale: Any, *, fast: bool) -> Any:  # noqa: ANN401
    return torch._scaled_mm(
        left, right, scale_a=left_scale, scale_b=right_scale, out_dtype=torch.bfloat16, use_fast_accum=fast
    )
