# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M-Instruct decoding with sparse attention in MindSpore; its KV resident, offloaded or pooled.

package.py finds or installs the weights, weights.py and tokenizer.py read them, text.py makes a long prompt,
model.py is the decoder, storage.py the three places for KV, decode.py the loop with and without drafts, and
run.py puts them together. Importing this package loads none of them.
"""
