"""Tiny local policies: ``new_model`` writes a Hugging Face folder that any part (and any other tool) can load.

The model is a two-layer Qwen3 or Llama with *mimetic* initialization, which lets so small a network learn to copy and
compare words within seconds. The tokenizer has whole words, separated by white space. Two choices matter more than they
appear to:

* The chat template puts nothing between an observation and the action. A separator there hides the signal that the
  first word of the action must read.
* The tokens that end a turn and that pad contain a blank, so no word is one of them: any word can be in an action, and
  no text ends a turn.

The result is a function of the arguments: the same call writes the same bytes of weights.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

STOP = "<end of turn>"
"""Ends a turn; the model samples it."""
UNKNOWN = "<unk>"
PAD = "<pad token>"
TEMPLATE = (
    "{% for m in messages %}{{ m['content'] }}{% if m['role'] == 'assistant' %} "
    + STOP
    + "{% endif %}{{ '\n' }}{% endfor %}"
)
"""The line end is an expression: transformers drops one that follows a block, which would join two words."""


def new_model(
    path: str | Path,
    vocabulary: Sequence[str],
    *,
    hidden: int = 128,
    layers: int = 2,
    heads: int = 4,
    seed: int = 0,
    arch: Literal["qwen3", "llama"] = "qwen3",
    tie: bool = True,
    max_context: int = 4096,
) -> Path:
    """Write a randomly initialized float32 model and its word-level tokenizer to ``path``.

    ``vocabulary`` is every word that the environment shows or accepts; any other word becomes ``<unk>``. Duplicates are
    ignored. ``max_context`` is the maximum context length of the model, in tokens.

    Raises:
        ValueError: a word is empty or contains white space, no word is given, or ``heads`` does not divide ``hidden``.
        FileExistsError: ``path`` already holds a model.
    """
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    path = Path(path)
    if (path / "config.json").exists():
        raise FileExistsError(f"{path} already holds a model; choose another folder, or delete it first")
    tokenizer = word_tokenizer(vocabulary, max_context)
    config = _config(arch, tokenizer, hidden, layers, heads, tie, max_context)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        initialize(model, model.model.layers)
    path.mkdir(parents=True, exist_ok=True)
    logging.disable_progress_bar()
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def new_tokenizer(path: Path, vocabulary: Sequence[str], max_context: int) -> Path:
    """Write the tokenizer of ``new_model`` alone.

    Raises:
        ValueError: as ``new_model``.
    """
    word_tokenizer(vocabulary, max_context).save_pretrained(path)
    return path


def word_tokenizer(vocabulary: Sequence[str], max_context: int, control: Sequence[str] = ()) -> Any:
    """Return the tokenizer of ``new_model``, with further ``control`` tokens.

    Raises:
        ValueError: as ``new_model``.
    """
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    for word in vocabulary:
        if not word or word.split() != [word]:
            raise ValueError(f"{word!r} is not a word: a vocabulary entry must be non-empty and without white space")
    words = [word for word in dict.fromkeys(vocabulary) if word != UNKNOWN]
    if not words:
        raise ValueError("the vocabulary is empty: pass every word that the environment shows or accepts")
    vocab = {word: i for i, word in enumerate([UNKNOWN, *words])}
    tokenizer = Tokenizer(WordLevel(vocab, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token=UNKNOWN,
        pad_token=PAD,
        eos_token=STOP,
        chat_template=TEMPLATE,
        additional_special_tokens=list(control),
        model_max_length=max_context,
        clean_up_tokenization_spaces=False,
    )


def _config(arch: str, tokenizer: Any, hidden: int, layers: int, heads: int, tie: bool, max_context: int) -> Any:
    from transformers import AutoConfig

    if hidden % heads:
        raise ValueError(f"hidden ({hidden}) must be a multiple of heads ({heads})")
    return AutoConfig.for_model(
        arch,
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=hidden // heads,
        max_position_embeddings=max_context,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        tie_word_embeddings=tie,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


def initialize(model: Any, layers: Any) -> None:
    """Initialize mimetically: in the decoder ``layers`` of ``model`` keys equal queries, and the output projection
    undoes the values; all other weights are small."""
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(0, 0.02)
        model.get_input_embeddings().weight.normal_(0, 0.1)
        for layer in layers:
            attention = layer.self_attn
            attention.k_proj.weight.copy_(attention.q_proj.weight)
            torch.nn.init.orthogonal_(attention.v_proj.weight)
            attention.o_proj.weight.copy_(attention.v_proj.weight.T)
