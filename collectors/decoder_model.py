"""Modules of a decoder: RMSNorm, rotary positions, SwiGLU, grouped-query attention, and a cache of keys and values."""

import re
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributed import get_world_size
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, parallelize_module
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy, scaled_dot_product_attention, silu
from torch.utils.checkpoint import checkpoint

BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}
INITIAL_DEVIATION = 0.02


@dataclass(frozen=True)
class Size:
    """Sizes of a model."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    """Heads of keys and values; each serves heads / kv_heads heads of queries."""
    head_width: int
    hidden: int
    """Width between the two products of the MLP."""
    vocabulary: int
    tied: bool
    """Whether the embedding of tokens is also the matrix of the scores."""
    theta: float
    """Base of the rotary frequencies."""

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads or self.head_width % 2:
            raise ValueError(
                f"{self.heads} heads of width {self.head_width} do not share {self.kv_heads} kv_heads evenly; "
                "choose an even head width, and heads that are a multiple of kv_heads"
            )


SIZES = {
    "tiny": Size(2, 64, 4, 2, 16, 192, 512, tied=True, theta=1e4),
    "135m": Size(30, 576, 9, 3, 64, 1536, 49_152, tied=True, theta=1e4),  # SmolLM-135M
    "1b": Size(16, 2048, 32, 8, 64, 8192, 128_256, tied=True, theta=5e5),  # Llama-3.2-1B
    "3b": Size(28, 3072, 24, 8, 128, 8192, 128_256, tied=True, theta=5e5),  # Llama-3.2-3B
    "8b": Size(32, 4096, 32, 8, 128, 14_336, 128_256, tied=False, theta=5e5),  # Llama-3.1-8B
    "70b": Size(80, 8192, 64, 8, 128, 28_672, 128_256, tied=False, theta=5e5),  # Llama-3.1-70B
}


class Cache:
    """Keys and values of the tokens so far, a pair of tensors per block, with room for `capacity` tokens."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.length = capacity, 0
        self.blocks: list[tuple[Tensor, Tensor]] = []

    def append(self, block: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write the keys and values of new tokens behind the others, and return those of all tokens."""
        if block == len(self.blocks):
            shape = (key.shape[0], key.shape[1], self.capacity, key.shape[3])
            self.blocks.append((key.new_empty(shape), value.new_empty(shape)))
        end = self.length + key.shape[2]
        keys, values = self.blocks[block]
        keys[:, :, self.length : end], values[:, :, self.length : end] = key, value
        return keys[:, :, :end], values[:, :, :end]


class Attention(nn.Module):
    def __init__(self, size: Size, backend: str) -> None:
        super().__init__()
        self.head_width, self.backend = size.head_width, BACKENDS.get(backend)
        self.query = nn.Linear(size.width, size.heads * size.head_width, bias=False)
        self.key = nn.Linear(size.width, size.kv_heads * size.head_width, bias=False)
        self.value = nn.Linear(size.width, size.kv_heads * size.head_width, bias=False)
        self.output = nn.Linear(size.heads * size.head_width, size.width, bias=False)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor], cache: Cache | None, block: int) -> Tensor:
        parts = (self.query, self.key, self.value)
        query, key, value = (part(x).unflatten(-1, (-1, self.head_width)).transpose(1, 2) for part in parts)
        query, key = rotate(query, rotation), rotate(key, rotation)
        if cache is not None:
            key, value = cache.append(block, key, value)
        attended = self.attend(query, key, value)
        return self.output(attended.transpose(1, 2).flatten(2))

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attend to all earlier tokens; keys and values that came from a cache are more than the queries."""
        new, known = query.shape[2], key.shape[2]
        mask, is_causal = None, False
        if new == known:  # a branch, because torch.compile has no symbolic value for is_causal
            is_causal = True
        elif new > 1:
            mask = torch.ones(new, known, dtype=torch.bool, device=query.device).tril(known - new)
        grouped = query.shape[1] != key.shape[1]
        if grouped and self.backend is SDPBackend.EFFICIENT_ATTENTION:  # it has no groups
            key, value = (each.repeat_interleave(query.shape[1] // key.shape[1], 1) for each in (key, value))
            grouped = False
        options = {"attn_mask": mask, "is_causal": is_causal, "enable_gqa": grouped}
        if self.backend is None or query.is_meta:  # a count of FLOPs, on meta tensors, has its own backend
            return scaled_dot_product_attention(query, key, value, **options)
        try:
            with sdpa_kernel(self.backend):
                return scaled_dot_product_attention(query, key, value, **options)
        except RuntimeError as error:
            if not re.search("no (viable backend|available kernel)", str(error), re.IGNORECASE):
                raise
            name = next(name for name, backend in BACKENDS.items() if backend is self.backend)
            raise ValueError(
                f"--set attention={name}: torch has no such kernel for {query.dtype} on {query.device.type}; "
                "choose another, or auto"
            ) from error


class Mlp(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.gate = nn.Linear(size.width, size.hidden, bias=False)
        self.expand = nn.Linear(size.width, size.hidden, bias=False)
        self.contract = nn.Linear(size.hidden, size.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(silu(self.gate(x)) * self.expand(x))


class Block(nn.Module):
    def __init__(self, size: Size, backend: str) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.RMSNorm(size.width, eps=1e-5), nn.RMSNorm(size.width, eps=1e-5)
        self.attention, self.mlp = Attention(size, backend), Mlp(size)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor], cache: Cache | None, block: int) -> Tensor:
        x = x + self.attention(self.attention_norm(x), rotation, cache, block)
        return x + self.mlp(self.mlp_norm(x))


class Decoder(nn.Module):
    def __init__(self, size: Size, backend: str = "auto", recompute: int = 0, loss_tokens: int = 0) -> None:
        super().__init__()
        self.size, self.recompute, self.loss_tokens = size, recompute, loss_tokens
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.blocks = nn.ModuleList(Block(size, backend) for _ in range(size.layers))
        self.norm = nn.RMSNorm(size.width, eps=1e-5)
        self.scores = nn.Linear(size.width, size.vocabulary, bias=False)
        if size.tied:
            self.scores.weight = self.tokens.weight
        for name, weight in self.named_parameters():
            initialize(name, weight)

    def forward(
        self, tokens: Tensor, successors: Tensor | None = None, cache: Cache | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return the scores of each token's successor, with a cache those of the last token's alone.

        With `successors` it returns loss and accuracy of each sequence, which DataParallel gathers over GPUs, and never
        holds the scores of more than `loss_tokens` tokens of each.
        """
        first = 0 if cache is None else cache.length
        rotation = rotations(first, tokens.shape[1], self.size, tokens.device)
        x = self.tokens(tokens)
        for number, block in enumerate(self.blocks):
            if self.recompute and number % self.recompute == 0 and torch.is_grad_enabled():
                x = checkpoint(block, x, rotation, None, number, use_reentrant=False)
            else:
                x = block(x, rotation, cache, number)
        if cache is not None:
            cache.length += tokens.shape[1]
            x = x[:, -1:]
        x = self.norm(x)
        if successors is None:
            return self.scores(x)
        parts = zip(*(each.split(self.loss_tokens, dim=1) for each in (x, successors)), strict=True)
        sums = [checkpoint(self.loss_and_hits, *part, use_reentrant=False) for part in parts]
        loss, hits = (sum(column) / successors.shape[1] for column in zip(*sums, strict=True))
        return loss, hits

    def loss_and_hits(self, x: Tensor, successors: Tensor) -> tuple[Tensor, Tensor]:
        """Return the summed loss of some tokens of each sequence, and how many successors have the highest score."""
        scores = self.scores(x)
        losses = cross_entropy(scores.flatten(0, 1).float(), successors.flatten(), reduction="none")
        hits = scores.detach().argmax(-1) == successors
        return losses.view_as(successors).sum(1), hits.float().sum(1)


def initialize(name: str, weight: Tensor) -> None:
    """Fill one weight of an untrained model: those of a norm with ones, all others with small random numbers."""
    with torch.no_grad():
        if name.endswith("norm.weight"):
            weight.fill_(1.0)
        else:
            weight.normal_(std=INITIAL_DEVIATION)


def tensor_parallel(network: Decoder, mesh: DeviceMesh) -> None:
    """Split the matrices of a decoder over the ranks of a mesh: its heads, its hidden units, its vocabulary."""
    size, ranks = network.size, mesh.size()
    if size.kv_heads % ranks or size.hidden % ranks or size.vocabulary % ranks:
        raise ValueError(
            f"{size.kv_heads} kv_heads, {size.hidden} hidden units and a vocabulary of {size.vocabulary} do not split "
            f"over {ranks} ranks; choose a number of ranks that divides them"
        )
    columns, rows = ColwiseParallel(), RowwiseParallel()
    block = {f"attention.{name}": columns for name in ("query", "key", "value")} | {"attention.output": rows}
    block |= {"mlp.gate": columns, "mlp.expand": columns, "mlp.contract": rows}
    block["attention"] = PrepareModuleInput(
        input_layouts=(Replicate(), None, None, None), desired_input_layouts=(Replicate(), None, None, None)
    )  # gradients of the input add up over its three uses, and then over the ranks once
    block["mlp"] = PrepareModuleInput(input_layouts=(Replicate(),), desired_input_layouts=(Replicate(),))
    plan = {f"blocks.*.{name}": style for name, style in block.items()}
    plan |= {
        "tokens": RowwiseParallel(input_layouts=Replicate()),
        "scores": ColwiseParallel(output_layouts=Replicate()),
    }
    parallelize_module(network, mesh, plan)
    if size.tied:
        network.scores.weight = network.tokens.weight


def rank_mesh(device: str) -> DeviceMesh:
    """Return the mesh of all ranks."""
    return init_device_mesh(torch.device(device).type, (get_world_size(),), mesh_dim_names=("tp",))


def rotations(first: int, count: int, size: Size, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of the rotary angles of `count` positions, of shape (position, half the head's width)."""
    half = size.head_width // 2
    frequencies = size.theta ** (-torch.arange(half, device=device, dtype=torch.float32) / half)
    angles = torch.arange(first, first + count, device=device, dtype=torch.float32)[:, None] * frequencies
    return angles.cos(), angles.sin()


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate each pair of elements that are half a head apart, as Llama does, in full precision."""
    cos, sin = rotation
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).type_as(x)
