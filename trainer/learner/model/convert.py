"""Convert a GGUF file, the format of llama.cpp, into a Hugging Face folder: weights dequantized to float32."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from ....errors import TurnwiseError
from ....user_files import open_regular_file
from .supported import refuse_unsupported_config

MAGIC = b"GGUF"
FLOAT32_BYTES = 4
OTHER_FILES_BYTES = 64 << 20
"""Space for all files of the folder except the weights."""
PEAK_COPIES = 2
"""Peak memory of a conversion, in copies of the weights in float32."""
SCALED_ROTARY = ("rope_freqs", "rope_factors")
"""First parts of the names of tensors that scale a rotary embedding; `transformers` leaves them out."""
READS_SCALING = frozenset({"gpt-oss"})
"""Architectures of which `transformers` reads the scaling of the rotary embedding."""
DIGITS_ALONE = frozenset({"codeshell", "command-r", "exaone", "refact", "smollm", "starcoder"})
"""Pre-tokenizers of llama.cpp that split every digit from its neighbors, then split as GPT-2's does."""
LIKE_GPT2 = frozenset({"default", "gpt-2", "jais", "mpt", "olmo"})


def convert_gguf(file: Path, folder: Path) -> str:
    """Write the model and the tokenizer of a GGUF file into a new Hugging Face folder; return a note, or nothing.

    The weights are float32. The note says that text may be split into other tokens than the model was trained with.

    Raises:
        TurnwiseError: the file is not a whole GGUF file of one model with a chat template, `transformers` cannot read
            it, the learner cannot train it, ``folder`` exists, or memory or space do not suffice.
    """
    if folder.exists():
        raise TurnwiseError(f"`{folder}` exists: choose a new folder")
    source = _read(file)
    fields = {name: field.contents() for name, field in source.fields.items() if len(field.data) == 1}
    _refuse_unreadable(file, fields, [tensor.name for tensor in source.tensors])
    parent = folder.resolve().parent
    weights = FLOAT32_BYTES * sum(int(tensor.n_elements) for tensor in source.tensors)
    _refuse_short(file, weights, parent)
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=parent) as scratch:
        # In a separate folder: transformers would also read the other files of the folder.
        alone = Path(scratch) / "source"
        alone.mkdir()
        (alone / "model.gguf").symlink_to(file.resolve())
        note = _convert(file, source, alone, fields, Path(scratch) / "model")
        (Path(scratch) / "model").rename(folder)
    return note


def _read(file: Path) -> Any:
    """Return the reader of a whole GGUF file.

    Raises:
        TurnwiseError: the package `gguf` is missing, or the file is not one.
    """
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise TurnwiseError(
            "a GGUF file is read by the package `gguf`, which is not installed: `make install`, or `pip install gguf`"
        ) from error
    try:
        with open_regular_file(file) as opened:
            magic = opened.read(len(MAGIC))
    except OSError as error:
        raise TurnwiseError(f"`{file}` cannot be read: {error.strerror}") from error
    if magic != MAGIC:
        raise TurnwiseError(f"`{file}` is not a GGUF file: it does not begin with `GGUF`")
    try:
        return GGUFReader(file)
    except (ValueError, IndexError, KeyError, OverflowError, OSError, MemoryError, UnicodeDecodeError) as error:
        raise TurnwiseError(
            f"`{file}` is damaged or incomplete ({str(error).partition(chr(10))[0]}): fetch it again"
        ) from error


def _refuse_unreadable(file: Path, fields: dict[str, Any], tensors: list[str]) -> None:
    """Refuse a file of which `transformers` would read no model, or another one."""
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

    architecture = str(fields.get("general.architecture", ""))
    if fields.get("split.count", 1) > 1:
        raise TurnwiseError(
            f"`{file}` is one of {fields['split.count']} parts: join them first, with llama.cpp's "
            "`llama-gguf-split --merge FIRST_PART WHOLE`"
        )
    if fields.get("general.type", "model") != "model":
        raise TurnwiseError(f"`{file}` holds no model, but a `{fields['general.type']}`: convert the model's file")
    known = {name.replace("_", "") for name in GGUF_SUPPORTED_ARCHITECTURES}
    if architecture.replace("_", "").replace("-", "") not in known:
        raise TurnwiseError(
            f"`{file}`: transformers does not read the architecture `{architecture}` from a GGUF file: use the "
            "model's folder in safetensors"
        )
    scaling = fields.get(f"{architecture}.rope.scaling.type", "none")
    scaled = scaling != "none" or any(name.startswith(SCALED_ROTARY) for name in tensors)
    if scaled and architecture not in READS_SCALING:
        raise TurnwiseError(
            f"`{file}`: its rotary embedding is scaled, and transformers does not read the scaling from a GGUF file: "
            "use the model's folder in safetensors"
        )
    if not str(fields.get("tokenizer.chat_template", "")).strip():
        raise TurnwiseError(
            f"`{file}` has no chat template (`tokenizer.chat_template`): use the file of an instruction-tuned model"
        )


def _refuse_short(file: Path, weights: int, parent: Path) -> None:
    """Refuse a conversion that memory or the disk cannot hold; ``weights`` is in bytes of float32."""
    import psutil

    existing = next(one for one in (parent, *parent.parents) if one.exists())
    free, available = shutil.disk_usage(existing).free, psutil.virtual_memory().available
    if free < weights + OTHER_FILES_BYTES:
        raise TurnwiseError(
            f"`{file}` has {weights / 1e9:.1f} GB of weights in float32, and `{existing}` has {free / 1e9:.1f} GB "
            "free: free some space, or choose a folder on another disk"
        )
    if available < PEAK_COPIES * weights:
        raise TurnwiseError(
            f"`{file}`: converting it needs {PEAK_COPIES * weights / 1e9:.1f} GB of memory, and "
            f"{available / 1e9:.1f} GB are free: convert a smaller model, or convert it on another machine"
        )


def _convert(file: Path, source: Any, alone: Path, fields: dict[str, Any], folder: Path) -> str:
    """Write the folder of the model ``alone/model.gguf``, which is ``file``; return a note, or nothing."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig

    try:
        config = AutoConfig.from_pretrained(alone, gguf_file="model.gguf")
        refuse_unsupported_config(config, str(file), "FILE.gguf")
        tokenizer = AutoTokenizer.from_pretrained(alone, gguf_file="model.gguf")
        model, loading = AutoModelForCausalLM.from_pretrained(
            alone,
            gguf_file="model.gguf",
            quantization_config=GgufConfig(dequantize=True),
            dtype=torch.float32,
            output_loading_info=True,
        )
    except (
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        NotImplementedError,
        RuntimeError,
        OSError,
        ImportError,
    ) as error:
        reason = str(error).partition("\n")[0]
        raise TurnwiseError(
            f"`{file}`: transformers cannot read it: {type(error).__name__}: {reason}. Use the model's folder in "
            "safetensors"
        ) from error
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    with torch.device("meta"):  # a load from a GGUF file compares no shapes
        empty = type(model)(model.config)
    expected = {name: tensor.shape for name, tensor in empty.state_dict().items()}
    if wrong := sorted(loading["missing_keys"] | {name for name in expected if shapes.get(name) != expected[name]}):
        raise TurnwiseError(
            f"`{file}` lacks {len(wrong)} tensors of the model, or has them in another shape: {', '.join(wrong[:3])}. "
            "Use the model's folder in safetensors"
        )
    names = [tensor.name for tensor in source.tensors]
    if dropped := sorted(loading["unexpected_keys"]) or _dropped(names, str(fields["general.architecture"]), empty):
        raise TurnwiseError(
            f"`{file}` has {len(dropped)} tensors that transformers does not read: {', '.join(dropped[:3])}. Use the "
            "model's folder in safetensors"
        )
    note = _set_pre_tokenizer(tokenizer, fields)
    ends = [fields.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom")]
    model.generation_config.eos_token_id = list(dict.fromkeys(int(end) for end in ends if end is not None)) or None
    model.config._name_or_path = ""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return note


def _dropped(names: list[str], architecture: str, model: Any) -> list[str]:
    """Return the tensors of a file that `transformers` leaves out of the model without a word.

    Args:
        names: of the tensors in the file.
        model: of the same class and sizes, with or without weights.
    """
    from transformers.integrations.gguf.utils import is_gguf_arch_supported
    from transformers.modeling_gguf_pytorch_utils import (
        TENSOR_PROCESSORS,
        TensorProcessor,
        get_gguf_hf_weights_map,
    )

    if is_gguf_arch_supported(architecture):  # a newer reader, which lists them itself
        return []
    read = get_gguf_hf_weights_map(model, TENSOR_PROCESSORS.get(architecture, TensorProcessor)(config={}))
    # Stacked experts are mapped without their suffix.
    experts = {f"{name}.weight" for name in read if name.endswith("_exps")}
    return sorted(
        name for name in names if name not in read and name not in experts and not name.startswith(SCALED_ROTARY)
    )


def _set_pre_tokenizer(tokenizer: Any, fields: dict[str, Any]) -> str:
    """Split text as the model's own tokenizer does where `transformers` knows no rule of that name; return a note."""
    from tokenizers import pre_tokenizers
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    rule = str(fields.get("tokenizer.ggml.pre", "default"))
    if fields.get("tokenizer.ggml.model") != "gpt2" or rule in GGUF_PRE_TOKENIZER_SPLITS:
        return ""
    if rule in DIGITS_ALONE:
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        return ""
    if rule in LIKE_GPT2:
        return ""
    return (
        f"the file's pre-tokenizer `{rule}` is not known, so text is split as by GPT-2: compare some texts with the "
        "model's own `tokenizer.json`"
    )
