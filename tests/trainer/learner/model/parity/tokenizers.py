"""Byte-pair tokenizers trained on a small text, with the turn markers of each family of models."""

import json
from dataclasses import dataclass
from typing import Any

TEXT = [
    "The page shows a form with two fields, a list of results and a button that sends the order.",
    "click the button named send, then type your name and the number 42 into the second field.",
    "Open the file, search for the error, fix the function and run the tests again.",
    "observation: nothing changed; reward 0.0 after turn 3\naction: scroll down\n",
    "A policy samples tokens; the learner scores the same tokens with the same weights.",
]
VOCABULARY = 384
PAD = "<|pad|>"
UNKNOWN = "<unk>"


@dataclass(frozen=True, slots=True)
class ChatStyle:
    """How a family writes a conversation."""

    opening: str
    """Before a message; ``ROLE`` stands for its role."""
    closing: str
    """After a message."""
    answer: str
    """Before a turn of the policy."""
    end: str
    """After a turn of the policy."""
    stop: str
    """The token that ends a turn of the policy."""
    markers: tuple[str, ...] = ()
    """The other control tokens."""
    start: str = ""
    """The token at the start of the context."""
    has_system: bool = True
    spaces: bool = False
    """Whether spaces are letters of words, as SentencePiece has them; otherwise texts are bytes."""


def _with_role(opening: str, end: str, stop: str, *markers: str, role: str = "assistant", **more: Any) -> ChatStyle:
    """Return a style whose turns of the policy are written as the other messages."""
    return ChatStyle(opening, end, opening.replace("ROLE", role), end, stop, markers, **more)


ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
CHATML = _with_role("<|im_start|>ROLE\n", "<|im_end|>\n", "<|im_end|>", "<|im_start|>")
HEADERS = "<|start_header_id|>", "<|end_header_id|>"
LLAMA = _with_role(f"{HEADERS[0]}ROLE{HEADERS[1]}\n\n", "<|eot_id|>", "<|eot_id|>", *HEADERS, start="<|begin_of_text|>")
INSTRUCTION = "[INST]", "[/INST]"
MISTRAL = ChatStyle("[INST] ", "[/INST]", "", "</s>", "</s>", INSTRUCTION, "<s>", has_system=False, spaces=True)
OPEN, END = "<start_of_turn>", "<end_of_turn>"
GEMMA = _with_role(f"{OPEN}ROLE\n", f"{END}\n", END, OPEN, role="model", start="<bos>", has_system=False, spaces=True)
TEXT_END = "<|endoftext|>"
OLMO = ChatStyle("<|ROLE|>\n", "\n", "<|assistant|>\n", f"{TEXT_END}\n", TEXT_END, ROLES, TEXT_END)
ROLE = "<|start_of_role|>", "<|end_of_role|>"
GRANITE = _with_role(f"{ROLE[0]}ROLE{ROLE[1]}", "<|end_of_text|>\n", "<|end_of_text|>", *ROLE)
PHI = _with_role("<|ROLE|>\n", "<|end|>\n", "<|end|>", *ROLES, spaces=True)
HARMONY = "<|start|>", "<|message|>", "<|channel|>", "<|end|>"
FINAL = "<|start|>assistant<|channel|>final<|message|>"
GPT_OSS = ChatStyle("<|start|>ROLE<|message|>", "<|end|>", FINAL, "<|return|>", "<|return|>", HARMONY)


def new_tokenizer(style: ChatStyle, max_context: int) -> Any:
    """Return a byte-pair tokenizer of ``VOCABULARY`` tokens, with the template of ``style``."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer: Any = Tokenizer(models.BPE(unk_token=UNKNOWN if style.spaces else None))
    if style.spaces:
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
        tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
        tokenizer.decoder = decoders.Replace("▁", " ")
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
    special = [PAD, UNKNOWN, *dict.fromkeys((style.start, *style.markers, style.stop))]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[token for token in special if token],
        initial_alphabet=[] if style.spaces else pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=style.start or None,
        eos_token=style.stop,
        pad_token=PAD,
        unk_token=UNKNOWN if style.spaces else None,
        chat_template=_template(style),
        model_max_length=max_context,
        clean_up_tokenization_spaces=False,
    )


def _template(style: ChatStyle) -> str:
    """Return the Jinja template of a style."""
    before, _, after = style.opening.partition("ROLE")
    role = "{{ m['role'] }}" if after else ""
    refusal = "{% if m['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    return (
        f"{_text(style.start)}{{% for m in messages %}}{'' if style.has_system else refusal}"
        f"{{% if m['role'] == 'assistant' %}}{_text(style.answer)}{{{{ m['content'] }}}}{_text(style.end)}{{% else %}}"
        f"{_text(before)}{role}{_text(after)}{{{{ m['content'] }}}}{_text(style.closing)}{{% endif %}}{{% endfor %}}"
        f"{{% if add_generation_prompt %}}{_text(style.answer)}{{% endif %}}"
    )


def _text(text: str) -> str:
    """Return a text as an expression of Jinja, which keeps its white space."""
    return f"{{{{ {json.dumps(text)} }}}}" if text else ""
