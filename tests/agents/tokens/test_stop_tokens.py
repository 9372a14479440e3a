"""A turn ends at the token with which the chat template closes it, whatever the files name as end of sequence."""

import json
from pathlib import Path
from typing import Any

import pytest
from turnwise.agents.errors import UnusableChat
from turnwise.agents.tokens.conversation import Conversation
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.agents.tokens.renderers.text import TextRenderer
from turnwise.tests.soak.sampling import crossed, in_soak
from turnwise.tests.trainer.learner.model.parity import tokenizers as styles
from turnwise.tests.trainer.learner.model.parity.tokenizers import ChatStyle, new_tokenizer

STYLES = ("CHATML", "LLAMA", "MISTRAL", "GEMMA", "OLMO", "GRANITE", "PHI", "GPT_OSS")


def folder(path: Path, style: ChatStyle, *, eos: str | None, template: str = "", **generation: Any) -> Path:
    """Write the tokenizer of a style with another end of sequence, and settings of generation."""
    tokenizer = new_tokenizer(style, 512)
    tokenizer.eos_token = eos
    if template:
        tokenizer.chat_template = template
    tokenizer.save_pretrained(path)
    (path / "config.json").write_text('{"model_type": "llama"}')
    if generation:
        (path / "generation_config.json").write_text(json.dumps(generation))
    return path


def texts(path: Path) -> list[str]:
    renderer = load_renderer(path)
    return [renderer.encoder.token(one) for one in renderer.stop_tokens]


@pytest.mark.parametrize(("name", "eos"), crossed(STYLES, [None, "<|pad|>", "<unk>"]))
def test_the_first_stop_token_closes_a_turn_in_the_template(tmp_path: Path, name: str, eos: str | None) -> None:
    style: ChatStyle = getattr(styles, name)
    path = folder(tmp_path, style, eos=eos)
    assert texts(path) == [style.stop, *([] if eos is None else [eos])]
    chat = TextRenderer(path)
    assert chat.encode_completion("a b")[-1] == chat.stop_tokens[0]


def test_the_ends_that_the_files_name_still_end_a_turn(tmp_path: Path) -> None:
    path = folder(tmp_path, styles.CHATML, eos="<unk>", eos_token_id=[0, 1])
    assert texts(path) == ["<|im_end|>", "<unk>", "<|pad|>"]
    (path / "generation_config.json").write_text("{}")
    (path / "config.json").write_text('{"model_type": "llama", "eos_token_id": 0}')
    assert texts(path) == ["<|im_end|>", "<unk>", "<|pad|>"]


MESSAGE = "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}"
OPEN = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"


@pytest.mark.parametrize(
    ("closing", "stop"),
    [
        ("<|im_end|>\n", "<|im_end|>"),
        ("<|im_end|><|pad|>\n", "<|im_end|>"),
        ("{% if not loop.last %}<|im_end|>{% endif %}", "<|im_end|>"),
        ("{% if loop.last %}<|pad|>{% else %}<|im_end|>{% endif %}", "<|pad|>"),
        ("{{ eos_token }}", "<unk>"),
        *in_soak((" \n <|im_end|>", "<|im_end|>"), ("<|pad|><|im_end|>", "<|pad|>")),
    ],
)
def test_the_token_is_found_wherever_the_template_writes_it(tmp_path: Path, closing: str, stop: str) -> None:
    template = "{% for m in messages %}" + MESSAGE + closing + "{% endfor %}" + OPEN
    assert texts(folder(tmp_path, styles.CHATML, eos="<unk>", template=template))[0] == stop


@pytest.mark.parametrize(
    ("opening", "closing", "stops"),
    [
        ("", "{% if loop.last %}<|pad|>{% else %}<|im_end|>{% endif %}", ["<|pad|>", "<|im_end|>"]),
        ("", "{% if loop.last %}<|im_end|>{% else %}<|pad|>\n{% endif %}", ["<|im_end|>", "<|pad|>"]),
        ("", "{% if loop.last %}<|im_end|>{% else %} END{% endif %}", ["<|im_end|>"]),
        ("<think></think>", "{% if loop.last %}<|pad|>{% else %}<|im_end|>{% endif %}", ["<|pad|>"]),
    ],
)
def test_a_turn_ends_at_the_token_that_closes_the_last_one_and_at_that_of_an_earlier_one(
    tmp_path: Path, opening: str, closing: str, stops: list[str]
) -> None:
    """A policy of such a template writes either token. A template that opens the text itself closes messages only."""
    message = MESSAGE.replace(
        "{{ m['content'] }}", "{% if m['role'] == 'assistant' %}OPENING{% endif %}{{ m['content'] }}"
    )
    template = "{% for m in messages %}" + message.replace("OPENING", opening) + closing + "{% endfor %}" + OPEN
    path = folder(tmp_path, styles.CHATML, eos=None, template=template)
    assert texts(path) == stops
    chat = TextRenderer(path)
    for stop in chat.stop_tokens:
        assert chat.turn_text([*chat.encode_completion("go")[:-1], stop]) == "go"


@pytest.mark.parametrize("opening", ["<think>\n", *in_soak("", "<think>")])
def test_a_template_that_opens_the_reasoning_of_a_turn_closes_it_with_both_tokens(tmp_path: Path, opening: str) -> None:
    closing = "{% if loop.last %}<|pad|>{% else %}<|im_end|>{% endif %}"
    asks = OPEN.replace("{% endif %}", opening + "{% endif %}")
    template = "{% for m in messages %}" + MESSAGE + closing + "{% endfor %}" + asks
    assert texts(folder(tmp_path, styles.CHATML, eos=None, template=template)) == ["<|pad|>", "<|im_end|>"]


@pytest.mark.parametrize(
    "closing", ["", "</turn>", "[END]<|im_end|>", *in_soak("\n", "\n\n### User:\n", "<|im_start|", ".")]
)
def test_a_turn_that_no_single_token_closes_is_refused(tmp_path: Path, closing: str) -> None:
    template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}" + closing + "{% endfor %}"
    path = folder(tmp_path, styles.CHATML, eos="<|im_end|>", template=template)
    with pytest.raises(UnusableChat, match=r"its chat template closes a turn with .* control token"):
        load_renderer(path)


@pytest.mark.parametrize("end", ["<|im_end|>", True, -1, [0, None], *in_soak(1.0, [[0]], {"a": 1})])
def test_an_end_that_is_no_token_id_is_refused(tmp_path: Path, end: Any) -> None:
    path = folder(tmp_path, styles.CHATML, eos="<|im_end|>", eos_token_id=end)
    with pytest.raises(UnusableChat, match=r"`eos_token_id` in its `generation_config\.json` is .*, no token id"):
        load_renderer(path)


CHANGES = (
    ".splitlines() | last",
    " | replace('\\n', ' ')",
    " | replace('<', '')",
    ".split('</b>')[-1]",
    " | lower",
    " | striptags",
    " | urlize",
    " | tojson",
    " | replace('\\r', '')",
)


def changed(change: str) -> tuple[str, str]:
    """Return a template that changes each text, and its refusal."""
    template = "{% for m in messages %}{{ m['content']" + change + " }}{% endfor %}"
    return template, "leaves out the instructions and an"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{% for m in messages %}", "cannot be rendered: TemplateSyntaxError"),
        ("{{ messages[0]['content'] + 1 }}", "cannot be rendered: TypeError"),
        ("{{ messages[0]['content'][0]['text'] }}", "leaves out the instructions and an observation and the policy's"),
        ("{{ raise_exception('tools only') }}", "cannot be rendered: TemplateError: tools only"),
        ("{% for m in messages %}{{ m['content'] | unknown }}{% endfor %}", "cannot be rendered: Template"),
        ("{{ messages[-1]['content'] }}<|im_end|>", "leaves out the instructions and an observation and"),
        ("Hello<|im_end|>", "leaves out the instructions and an observation and the policy's turn"),
        ("{% for m in messages %}{{ m['content'] | truncate(40) }}{% endfor %}", "leaves out the instructions and an"),
        ("{% for m in messages %}{{ m['content'][:9000] }}{% endfor %}", "leaves out the instructions and an"),
        *(changed(one) for one in (".split('\\n')[0]", " | e", "[:90000]")),
        *in_soak(*map(changed, CHANGES)),
        ("{% for m in messages if m['role'] != 'assistant' %}{{ m['content'] }}{% endfor %}", "out the policy's turn"),
        ("{% for m in messages | reverse %}{{ m['content'] }}<|im_end|>{% endfor %}", "in another order"),
        (
            "{% for m in messages | sort(attribute='role') %}{{ m['content'] }}<|im_end|>{% endfor %}",
            "in another order",
        ),
        (
            "{% for m in messages %}{{ m['content'] }}{% if m['role'] == 'assistant' %}{{ m['content'] }}{% endif %}"
            "<|im_end|>{% endfor %}",
            "writes the policy's turn more than once",
        ),
        (
            "{% for m in messages %}{% if not loop.first %}{{ loop.previtem['content'] }}{% endif %}{{ m['content'] }}"
            "<|im_end|>{% endfor %}",
            "writes the instructions and an observation and the policy's turn more than once",
        ),
        ("{% for m in messages[:4] %}{{ m['content'] }}<|im_end|>{% endfor %}", "leaves out the policy's turn and an"),
    ],
)
def test_a_template_that_cannot_hold_a_conversation_is_refused(tmp_path: Path, template: str, message: str) -> None:
    path = folder(tmp_path, styles.CHATML, eos="<|im_end|>", template=template)
    with pytest.raises(UnusableChat, match=message) as refused:
        load_renderer(path)
    assert "\n" not in str(refused.value)


def test_instructions_that_a_template_leaves_out_go_into_the_first_observation(tmp_path: Path) -> None:
    template = "{% for m in messages if m['role'] != 'system' %}" + MESSAGE + "<|im_end|>\n" + "{% endfor %}" + OPEN
    chat = TextRenderer(folder(tmp_path, styles.CHATML, eos="<|im_end|>", template=template))
    conversation = Conversation(chat, "Play well.")
    conversation.observe("a form")
    assert chat.encoder.decode(conversation.prompt()) == "user\nPlay well.\n\na form\nassistant\n"


PARTS = "{% for part in m['content'] | selectattr('type', 'equalto', 'text') %}{{ part['text'] }}{% endfor %}"
"""As templates of models that read images write a message: a string has no part of that type."""


def test_a_template_may_read_texts_as_parts_of_messages(tmp_path: Path) -> None:
    loop = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}TEXT{{ '<|im_end|>\n' }}{% endfor %}" + OPEN
    contexts = []
    for name, text in (("strings", "{{ m['content'] }}"), ("parts", PARTS)):
        (tmp_path / name).mkdir()
        template = loop.replace("TEXT", text)
        chat = TextRenderer(folder(tmp_path / name, styles.CHATML, eos="<|im_end|>", template=template))
        conversation = Conversation(chat, "Play well.")
        conversation.observe("a form")
        conversation.act(chat.encode_completion("click"), [-0.5] * 3, [0] * 3)
        conversation.observe("<|im_end|> a list")
        contexts.append(conversation.prompt())
    assert contexts[0] == contexts[1]


@pytest.mark.soak
def test_a_template_of_parts_needs_an_end_of_turns_too(tmp_path: Path) -> None:
    """That of LLaVA 1.5 has none."""
    template = "{% for m in messages %}{{ m['role'] | upper + ': ' }}" + PARTS + "{{ ' ' }}{% endfor %}ASSISTANT:"
    with pytest.raises(UnusableChat, match="closes a turn with ' ASSISTANT:'"):
        load_renderer(folder(tmp_path, styles.CHATML, eos="<|im_end|>", template=template))


def test_named_templates_need_a_default(tmp_path: Path) -> None:
    path = folder(tmp_path, styles.CHATML, eos="<|im_end|>")
    template = (path / "chat_template.jinja").read_text()
    (path / "chat_template.jinja").unlink()
    config = json.loads((path / "tokenizer_config.json").read_text())
    for names in (["tool_use", "rag"], ["default", "tool_use"]):
        config["chat_template"] = [{"name": name, "template": template} for name in names]
        (path / "tokenizer_config.json").write_text(json.dumps(config))
        if "default" in names:
            assert texts(path) == ["<|im_end|>"]
            continue
        with pytest.raises(UnusableChat, match="templates are named `tool_use`, `rag`, and none is `default`"):
            load_renderer(path)
