"""Any causal language model of Hugging Face's transformers, by name, with random weights; nothing is downloaded."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from common import transformers
from tokens import RandomTokens, loss_and_accuracy
from torch import Tensor, nn
from torch.utils.data import Dataset


@dataclass(frozen=True)
class Settings:
    """What a run can vary."""

    model: str = "gpt2"  # a model type, the folder of a config.json, or a name in Hugging Face's cache
    context: int = 64  # tokens of a sequence
    config: str = ""  # changes of the config: hidden_size=64,num_hidden_layers=2
    attention: str = "sdpa"  # or eager, flash_attention_2 …
    recompute: bool = False  # recompute activations in the backward pass


def config(settings: Settings) -> Any:  # noqa: ANN401  transformers carries no types here
    """Return the model's config with the changes of the settings."""
    library, name, own = transformers(), settings.model, {}
    load = library.AutoConfig.for_model
    if name not in library.CONFIG_MAPPING:
        load, own = library.AutoConfig.from_pretrained, {"local_files_only": True}
    changes = dict(pair.partition("=")[::2] for pair in settings.config.split(",") if pair)
    try:
        if unknown := [option for option in changes if not hasattr(load(name, **own), option)]:
            raise ValueError(f"--set config={unknown[0]}=…: the config of {name} has no such field")
        return load(name, **own, **{option: json.loads(value) for option, value in changes.items()}, use_cache=False)
    except OSError as error:
        raise ValueError(f"transformers has no model type {name!r}, and no config of that name is on disk") from error


def model(settings: Settings) -> nn.Module:
    """Build an untrained model."""
    network = transformers().AutoModelForCausalLM.from_config(config(settings), attn_implementation=settings.attention)
    if settings.recompute:
        old, new = "gradient_checkpointing_enable", "activation_checkpointing_enable"
        getattr(network, new if hasattr(network, new) else old)()
    return network.train()


def data(settings: Settings, *, train: bool) -> Dataset[tuple[Tensor, Tensor]]:
    """Return sequences of random tokens and their successors."""
    return RandomTokens(settings.context, config(settings).get_text_config().vocab_size, train=train)


def workload(network: nn.Module) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return the step: it takes a batch and returns loss and accuracy."""

    def step(tokens: Tensor, successors: Tensor) -> tuple[Tensor, Tensor]:
        # To choose a mask itself, transformers reads values, which a count of FLOPs, on meta tensors, does not have.
        mask = tokens.new_ones(1, 1, 1, tokens.shape[1], dtype=bool) if tokens.is_meta else None
        return loss_and_accuracy(network(tokens, attention_mask=mask).logits, successors)

    return step
