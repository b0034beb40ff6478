# SPDX-License-Identifier: Apache-2.0
"""A small GLM-5.2 of the transformers library with random weights and its logits, written to a folder.

`glm_reference.py FOLDER`: a process of its own, because transformers would use the torch_npu that tests fake.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

NUM_TOKENS = 180


def main(folder: Path) -> None:
    """config.json -> *.safetensors, and expected.pt with tokens int64 [T] and logits float32 [T, vocab]."""
    import torch
    from transformers import GlmMoeDsaConfig, GlmMoeDsaForCausalLM

    config = GlmMoeDsaConfig(**json.loads((folder / "config.json").read_text()), attn_implementation="eager")
    torch.manual_seed(0)
    model = GlmMoeDsaForCausalLM(config).float().eval()
    tokens = torch.randint(0, config.vocab_size, (1, NUM_TOKENS))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.2)
            else:
                parameter.uniform_(0.5, 1.5)
        logits = model(tokens).logits
    model.save_pretrained(folder)
    torch.save({"tokens": tokens[0], "logits": logits[0]}, folder / "expected.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
