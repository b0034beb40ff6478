# SPDX-License-Identifier: Apache-2.0
"""The model's tokenizer, built from the vocabulary and merges of its GGUF file."""

from __future__ import annotations

from .weights import WeightsFile

CONTROL_TYPE = 3  # tokenizer.ggml.token_type of <|im_start|> and the like
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


class Tokenizer:
    """Text to token ids and back, byte-level BPE with single digits (GGUF pre-tokenizer "smollm")."""

    def __init__(self, weights: WeightsFile) -> None:
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

        if (weights.field("tokenizer.ggml.model"), weights.field("tokenizer.ggml.pre")) != ("gpt2", "smollm"):
            raise ValueError(
                "The weights have another tokenizer than gpt2 / smollm: use the weights of SmolLM2."
            )
        texts = weights.field("tokenizer.ggml.tokens")
        merges = [tuple(merge.split(" ")) for merge in weights.field("tokenizer.ggml.merges")]
        vocabulary = {text: number for number, text in enumerate(texts)}
        self._tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        self._tokenizer.decoder = decoders.ByteLevel()
        types = weights.field("tokenizer.ggml.token_type")
        control = [text for text, kind in zip(texts, types) if kind == CONTROL_TYPE]
        self._tokenizer.add_special_tokens([AddedToken(text, special=True) for text in control])
        self.end = weights.field("tokenizer.ggml.eos_token_id")

    def encode(self, text: str) -> list[int]:
        """Token ids; control tokens are read when they stand in the text."""
        return self._tokenizer.encode(text).ids

    def decode(self, ids: list[int]) -> str:
        """Text of token ids up to the first end-of-turn token, without control tokens."""
        ids = ids[: ids.index(self.end)] if self.end in ids else ids
        return self._tokenizer.decode(ids)

    def chat(self, question: str) -> list[int]:
        """Token ids of one user's turn, ready for the model's answer (the chat template of the file)."""
        return self.encode(
            f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
        )
