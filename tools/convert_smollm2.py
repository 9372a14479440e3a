"""Write the Hugging Face folder of SmolLM2's GGUF file: ``convert_smollm2.py FILE FOLDER``."""

import sys
from pathlib import Path

import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

file, folder = map(Path, sys.argv[1:])
source = {"pretrained_model_name_or_path": file.parent, "gguf_file": file.name}
model = AutoModelForCausalLM.from_pretrained(
    **source, quantization_config=GgufConfig(dequantize=True), dtype=torch.float32
)
tokenizer = AutoTokenizer.from_pretrained(**source)
# transformers does not know this rule of llama.cpp: SmolLM2 splits every digit from its neighbors.
tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
    [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
)
model.generation_config.eos_token_id = [tokenizer.eos_token_id]
model.config._name_or_path = ""
model.save_pretrained(folder)
tokenizer.save_pretrained(folder)
