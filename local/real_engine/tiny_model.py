"""Models of the real architectures, small enough for a CPU: random weights, made on the spot, nothing downloaded."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen3_5Config,
    Qwen3_5ForConditionalGeneration,
    Qwen3Config,
    Qwen3ForCausalLM,
)

Kind = Literal["dense", "hybrid"]

NAMES: dict[Kind, str] = {"dense": "Qwen3-0.01B", "hybrid": "Qwen3.5-0.01B"}
"""Folder names that model_families.toml takes for the family."""

VOCABULARY = 512

_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
_CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_tiny_model(*, kind: Kind, folder: Path) -> Path:
    """Weights, config and tokenizer of one model under `folder`; the path is what `model_source` takes.

    `dense` is a Qwen3 of 4 attention layers; `hybrid` a Qwen3.5 of 3 gated delta net layers and 1 attention layer with
    its vision tower. Equal on every call: the seed is fixed.
    """
    path = folder / NAMES[kind]
    tokenizer = _tokenizer()
    tokenizer.save_pretrained(path)
    torch.manual_seed(0)
    model = _dense() if kind == "dense" else _hybrid(tokenizer)
    # The default spread of 0.02 makes logits so flat that the answer hardly depends on the prompt.
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.15)
    model.to(torch.bfloat16).save_pretrained(path)
    return path


def _tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(_SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # The interpreter's own documentation is a text that is always there.
    tokenizer.train_from_iterator([str(vars(kind).get("__doc__")) for kind in (str, bytes, dict, list, int, float)], trainer)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    wrapped.chat_template = _CHAT_TEMPLATE
    return wrapped


def _dense() -> Qwen3ForCausalLM:
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY, hidden_size=128, intermediate_size=256, num_hidden_layers=4, num_attention_heads=4,
            num_key_value_heads=2, head_dim=32, max_position_embeddings=4096, tie_word_embeddings=False,
        )
    )  # fmt: skip


def _hybrid(tokenizer: PreTrainedTokenizerFast) -> Qwen3_5ForConditionalGeneration:
    token = tokenizer.convert_tokens_to_ids
    return Qwen3_5ForConditionalGeneration(
        Qwen3_5Config(
            text_config={
                "vocab_size": VOCABULARY, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4,
                "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 4096,
                "layer_types": ["linear_attention"] * 3 + ["full_attention"],
                # As in the published config.json; vLLM takes the state's type from it.
                "mamba_ssm_dtype": "float32",
                "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 32, "linear_value_head_dim": 32,
            },
            vision_config={
                "depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 128,
                "num_position_embeddings": 16,
            },
            image_token_id=token("<|image_pad|>"),
            video_token_id=token("<|video_pad|>"),
            vision_start_token_id=token("<|vision_start|>"),
            vision_end_token_id=token("<|vision_end|>"),
        )
    )  # fmt: skip
