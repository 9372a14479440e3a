"""Renderers with realistic templates, and the conversations of a policy with them."""

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
from turnwise.agents.tokens.conversation import Conversation
from turnwise.agents.tokens.renderers.text import TextRenderer
from turnwise.records import Message

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA3 = (
    "{{ '<|begin_of_text|>' }}{% for m in messages %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>\n\n"
    "{{ m['content'] | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
REASONING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' and '</think>' in m.content %}{{ m.content.split('</think>')[-1].lstrip('\n') }}"
    "{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NO_SYSTEM = (
    "{{ '<s>' }}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %} {{ m.content }}</s>{% endif %}{% endfor %}"
)
TEMPLATES = {
    "chatml": (CHATML, "<|im_end|>"),
    "llama3": (LLAMA3, "<|eot_id|>"),
    "reasoning": (REASONING, "<|im_end|>"),
    "no_system": (NO_SYSTEM, "</s>"),
}
CONTROL = ["<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
CONTROL += ["<s>", "</s>", "[INST]", "[/INST]"]


def new_chat(folder: Path, template: str, eos: str, *, plain: str = "") -> TextRenderer:
    """Return a chat on a small byte-level tokenizer, which lists ``plain`` as an added token that is no special one."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    control = [token for token in CONTROL if token != plain]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=control, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    backend.train_from_iterator(["click the lamp\n\nanswer 23 <think> why not </think>"] * 9, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=eos, chat_template=template)
    tokenizer.add_tokens(["<think>", "</think>", *([plain] if plain else [])])
    tokenizer.save_pretrained(folder)
    return TextRenderer(folder)


def sampled_ids(chat: TextRenderer, text: str, stop: bool = True) -> list[int]:
    """Return token ids that a policy may sample for ``text``."""
    return chat.encoder.encode(text, {}, start=False) + chat.stop_tokens[:1] * stop


def act(conversation: Conversation, tokens: list[int]) -> Message:
    return conversation.act(tokens, [-0.5] * len(tokens), [7] * len(tokens))


def raw(chat: TextRenderer, ids: list[int]) -> str:
    return str(chat.encoder._backend.decode(ids, skip_special_tokens=False))


def path(messages: list[Message]) -> list[int]:
    """Return the token ids on the path from the root to the last message."""
    ids: list[int] = []
    at: int | None = len(messages) - 1
    while at is not None:
        ids = [*messages[at].tokens, *ids]
        at = messages[at].parent
    return ids
