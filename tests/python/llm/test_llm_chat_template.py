"""Chat templates: what they make of conversations, as Transformers does it, and within a budget."""

import datetime
import json
import random
import threading
import time

import pytest

pytest.importorskip("jinja2", reason="jinja2 is not installed")

from camshaft import InvalidArgumentError, InvalidModelError  # noqa: E402
from camshaft.llm import _sandbox  # noqa: E402
from camshaft.llm._chat_template import ChatTemplate  # noqa: E402

# In the styles of well-known models, with what these use: whitespace control, namespaces, macros, loops' variables, filters,
# tests, `generation`.
CHATML = """{%- if tools %}
<|im_start|>system
You have tools:
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
<|im_end|>
{% endif %}
{%- for message in messages %}
    {%- set ns = namespace(is_tool=message.role == 'tool') %}
    {%- if ns.is_tool %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}<|im_start|>user{% endif %}
<tool_response>{{ message.content }}</tool_response>
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>
{% endif %}
    {%- elif message.role == 'assistant' %}
<|im_start|>assistant
{% generation %}{{ message.content | default('') | trim }}
{%- for call in message.tool_calls or [] %}
<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>
{%- endfor %}<|im_end|>{% endgeneration %}

    {%- else %}
{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}
"""
LLAMA3 = """{{- bos_token }}
{%- macro header(role) %}{{ "<|start_header_id|>" ~ role ~ "<|end_header_id|>\n\n" }}{% endmacro %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content'] | trim %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set system = "" %}
    {%- set rest = messages %}
{%- endif %}
{{- header('system') }}{% if tools is not none %}{{- "Environment: ipython\n" }}{% endif %}
{{- "Year: " + strftime_now("%Y") + "\n" + system + "<|eot_id|>" }}
{%- for message in rest %}
    {%- if message.tool_calls is defined %}
        {{- header('assistant') }}
        {%- set call = message.tool_calls[0].function %}
        {{- '{"name": "' + call.name + '", "parameters": ' }}{{ call.arguments | tojson(indent=2) }}{{ "}<|eot_id|>" }}
    {%- else %}
        {{- header(message.role) + message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ header('assistant') }}{% endif %}
"""
MISTRAL = """{{ bos_token }}
{%- set ns = namespace(count=0) %}
{%- for message in messages %}
{%- if message['role'] == 'system' %}{% continue %}{% endif %}
{%- if (message['role'] == 'user') != (ns.count % 2 == 0) %}
{{- raise_exception("roles must alternate: user, assistant, user, …") }}
{%- endif %}
{%- set ns.count = ns.count + 1 %}
{%- if message['role'] == 'user' %}
{{- '[INST] ' }}{% if loop.last and messages[0].role == 'system' %}{{ messages[0].content + '\n\n' }}{% endif %}
{{- message['content'] + ' [/INST]' }}
{%- else %}
{{- ' ' + message['content'] + eos_token }}
{%- endif %}
{%- endfor %}"""
GEMMA = """{{ bos_token }}{% for message in messages %}
{% if message['role'] == 'assistant' %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}
<start_of_turn>{{ role }}
{% if message['content'] is string %}{{ message['content'] | trim }}{% else %}{% for part in message['content'] %}
{% if part.type == 'image' %}<image>{% else %}{{ part.text | trim }}{% endif %}
{% endfor %}{% endif %}<end_of_turn>
{% endfor %}
{% if add_generation_prompt %}
<start_of_turn>model
{% endif %}"""
TEMPLATES = {"chatml": CHATML, "llama3": LLAMA3, "mistral": MISTRAL, "gemma": GEMMA}
TOKENS = {"bos_token": "<s>", "eos_token": {"__type": "AddedToken", "content": "</s>"}}

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "It's <here> & now: Köln",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]
CALLS = [{"type": "function", "function": {"name": "weather", "arguments": {"city": "Köln <&'>", "n": 1.5}}}]
CONVERSATIONS = {
    "one": [{"role": "user", "content": "Hello,\n world! "}],
    "system": [
        {"role": "system", "content": 'Be <brief> & "kind".'},
        {"role": "user", "content": "Ölwechsel?"},
        {"role": "assistant", "content": " Ja.\n\n"},
        {"role": "user", "content": "{{ 7 * 7 }}{% raw %}"},
    ],
    "tools": [
        {"role": "user", "content": "How is the weather?"},
        {"role": "assistant", "content": None, "tool_calls": CALLS},
        {"role": "tool", "content": "sunny"},
        {"role": "tool", "content": "warm"},
    ],
}


def folder_of(path, template=None, **config):
    path.mkdir(exist_ok=True)
    if template is not None:
        config["chat_template"] = template
    (path / "tokenizer_config.json").write_text(json.dumps({**TOKENS, **config}))
    return path


def test_a_conversation_becomes_a_text(tmp_path):
    template = ChatTemplate(folder_of(tmp_path, CHATML))
    assert template.render(CONVERSATIONS["one"]) == (
        "<|im_start|>user\nHello,\n world! <|im_end|>\n<|im_start|>assistant\n"
    )
    assert template.render(CONVERSATIONS["one"], enable_thinking=False).endswith("assistant\n<think>\n\n</think>\n\n")
    text = template.render(CONVERSATIONS["tools"], TOOLS, add_generation_prompt=False)
    assert '"It\'s <here> & now: Köln"' in text, "no escapes of HTML"
    assert '{"name": "weather", "arguments": {"city": "Köln <&\'>", "n": 1.5}}</tool_call>' in text
    assert "None" not in text
    llama = ChatTemplate(folder_of(tmp_path / "llama", LLAMA3))
    assert llama.render(CONVERSATIONS["system"]).startswith(
        f'<s><|start_header_id|>system<|end_header_id|>\n\nYear: {datetime.datetime.now().year}\nBe <brief> & "kind".'
    )
    mistral = ChatTemplate(folder_of(tmp_path / "mistral", MISTRAL))
    assert "{{ 7 * 7 }}{% raw %} [/INST]" in mistral.render(CONVERSATIONS["system"]), "what is said is no template"
    with pytest.raises(InvalidArgumentError, match="refuses the conversation: roles must alternate"):
        mistral.render(CONVERSATIONS["one"] * 2)


@pytest.mark.parametrize("style", sorted(TEMPLATES))
def test_it_is_that_of_transformers(tmp_path, style):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    tokenizers = pytest.importorskip("tokenizers")
    folder_of(tmp_path, TEMPLATES[style], tokenizer_class="PreTrainedTokenizerFast")
    words = {"<s>": 0, "</s>": 1, "<unk>": 2}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    made.save(str(tmp_path / "tokenizer.json"))
    theirs = transformers.PreTrainedTokenizerFast.from_pretrained(str(tmp_path))
    ours = ChatTemplate(tmp_path)
    for name, conversation in CONVERSATIONS.items():
        for tools in (None, TOOLS):
            for prompt in (True, False):
                arguments = {"tools": tools, "add_generation_prompt": prompt, "enable_thinking": False}
                try:
                    expected = theirs.apply_chat_template(conversation, tokenize=False, **arguments)
                except Exception:
                    with pytest.raises(InvalidArgumentError):
                        ours.render(conversation, **arguments)
                    continue
                assert ours.render(conversation, **arguments) == expected, (name, prompt)
    ends = [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": "It was a "}]
    expected = theirs.apply_chat_template(ends, tokenize=False, continue_final_message=True)
    assert ours.render(ends, add_generation_prompt=False, continue_final_message=True) == expected


def test_where_templates_are_found(tmp_path):
    with pytest.raises(InvalidArgumentError, match="there is no chat template: neither"):
        ChatTemplate(folder_of(tmp_path)).render(CONVERSATIONS["one"])
    (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": "of the json"}))
    assert ChatTemplate(tmp_path).render(CONVERSATIONS["one"]) == "of the json"
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "{{ tools | length }} tools"}]
    template = ChatTemplate(folder_of(tmp_path, named))
    assert template.names == ["default", "tool_use"]
    assert template.render(CONVERSATIONS["one"]) == "plain"
    assert template.render(CONVERSATIONS["one"], TOOLS) == "1 tools"
    assert template.render(CONVERSATIONS["one"], chat_template="tool_use", tools=[]) == "0 tools"
    assert template.render(CONVERSATIONS["one"], chat_template="{{ bos_token }}!") == "<s>!"
    with pytest.raises(InvalidArgumentError, match="no chat template 'other'"):
        template.render(CONVERSATIONS["one"], chat_template="other")
    (tmp_path / "chat_template.jinja").write_text("of the file")
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "rag.jinja").write_text("{{ documents[0].text }}")
    template = ChatTemplate(tmp_path)
    assert template.render(CONVERSATIONS["one"]) == "of the file"
    documents = [{"text": "found"}]
    assert template.render(CONVERSATIONS["one"], chat_template="rag", documents=documents) == "found"


def test_forms_of_the_interface(tmp_path):
    parts = [{"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}]
    assert "user\none\ntwo<|im_end|>" in ChatTemplate(folder_of(tmp_path, CHATML)).render(parts)
    gemma = ChatTemplate(folder_of(tmp_path / "gemma", GEMMA))
    assert "one\n" not in gemma.render(parts) and "onetwo" in gemma.render(parts), "the template reads parts itself"
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "…"}}]}]
    with pytest.raises(InvalidArgumentError, match="'image_url': the model reads text alone"):
        ChatTemplate(folder_of(tmp_path, CHATML)).render(image)
    call = {"type": "function", "function": {"name": "weather", "arguments": '{"city": "Bonn"}'}}
    text = ChatTemplate(tmp_path).render([{"role": "assistant", "content": "", "tool_calls": [call]}])
    assert '"arguments": {"city": "Bonn"}}' in text
    for wrong in (["text"], [], "text"):
        with pytest.raises(InvalidArgumentError):
            ChatTemplate(tmp_path).render(wrong)


@pytest.mark.parametrize(
    "endless",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{{ f(n - 1) }}{{ f(n - 1) }}{% endmacro %}{{ f(1) }}",
        "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{% set ns = namespace(x='a') %}{% for a in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x='a') %}{% for a in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[0]) %}{% for a in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{{ 'a' * 10000000000 }}",
        "{{ 10000000000 * [1] }}",
        "{{ 9 ** (9 ** 9) }}",
        "{% set ns = namespace(x=3) %}{% for a in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
        "{{ range(1000000) | list }}",
        "{% for a in [[]] recursive %}{{ loop([[]]) }}{% endfor %}",
        "{{ '%2000000000d' % 1 }}{{ '%*d' % (2000000000, 1) }}",
        "{{ '%*d' % (2000000000, 1) }}",
        "{{ '%2000000000d' | format(1) }}",
        "{{ '{:2000000000}'.format(1) }}",
        "{{ '{:{}}'.format(1, 2000000000) }}",
        "{{ 'a'.ljust(2000000000) }}",
        "{{ 'a\na' | indent(2000000000) }}",
        "{% set x = 'a' * 1000000 %}{{ x | replace('a', x) }}",
        "{% set x = 'a' * 1000000 %}{{ x.replace('a', x) }}",
        "{% set x = 'a' * 1000000 %}{{ x | list | join(x) }}",
        "{% set x = 'a' * 1000000 %}{{ x.join(x) }}",
        # Texts of many outputs.
        "{% set a = 'x' * 16777216 %}{% for i in range(5000) %}{{ a }}{% endfor %}",
        "{% set a = 'x' * 16777216 %}{% set b %}{% for i in range(5000) %}{{ a }}{% endfor %}{% endset %}",
        "{% set a = 'x' * 16777216 %}{% macro f() %}{% for i in range(50) %}{{ a }}{% endfor %}{% endmacro %}{{ f() }}",
        "{% set a = 'x' * 16777216 %}{% filter upper %}{% for i in range(50) %}{{ a }}{% endfor %}{% endfilter %}",
        "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = ns.x + ['x' * 16777216] %}{% endfor %}",
        # Texts of lists, where one large text may be many items, and a list may be in itself.
        "{% set x = (['x' * 16777216] * 1000) | join %}",
        "{% set x = (['x' * 16777216] * 1000) | join('') %}{{ x | length }}",
        "{% set x = ''.join(['x' * 16777216] * 1000) %}",
        "{% set x = ['x' * 16777216] * 1000 %}{{ (x ~ '') | length }}",
        "{{ ['x' * 16777216] * 1000 }}",
        "{{ (['x' * 16777216] * 1000) | string | length }}",
        "{{ (['x' * 16777216] * 1000) | tojson | length }}",
        "{{ '%s' % (['x' * 16777216] * 1000) }}",
        "{{ '{}'.format(['x' * 16777216] * 1000) }}",
        "{% set ns = namespace(x=1) %}{% for a in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=1) %}{% for a in range(60) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ {ns.x: 1} }}",
        "{% set ns = namespace(x=1) %}{% for a in range(60) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ {}[ns.x] }}",
        "{% set ns = namespace(x=1, y=1) %}{% for a in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
        "{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
        "{% set ns = namespace(x=1) %}{% for a in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
        "{% set ns = namespace(x=1) %}{% for a in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
        "{{ raise_exception(ns.x) }}",
        "{{ ([[0] * 1000] * 1000000) | sum(start=[]) }}",
        "{{ [1] * 16777216 }}",
        "{% set x = ('a,' * 8000000).split(',') %}",
        # Formats, and methods that grow a text.
        "{% set x = ('{0:999999}' * 10000).format('x') %}",
        "{% set x = ('%999999d' * 10000) % 1 %}",
        "{% set x = '%%(a%999999999d' % 1 %}",
        "{% set x = '%(a(b))999999999d' % {'a(b)': 1} %}",
        "{{ '{:{}9999}'.format(1, 99999) }}",
        "{% set x = ('\n' * 1000000) | indent(16000, blank=true) %}",
        "{% set x = ('\t' * 16777216).expandtabs(1000) %}",
        "{% set x = ('x' * 16777216).translate({120: 'x' * 1000}) %}",
        "{% set x = [[[1]]] | tojson(indent=2000000000) %}",
        # Time without turns.
        "{{ ([range(100000)] * 16777216) | map('sum') | sum }}",
        "{{ ([range(100000)] * 1000000) | map('sum') | sum }}",
        "{% for a in range(100000) if ([range(100000)] * 1000) | map('sum') | sum == 1 %}{% endfor %}",
        "{% for a in range(100000) if a < 0 %}{% else %}{% for b in range(99999) %}{% for c in range(99999) if c < 0 %}"
        "{% endfor %}{% endfor %}{% endfor %}",
        "{% set x = range(100) | map(attribute='a.' * 8000000, default=1) | list %}",
        "{{ ('f' * 16777216) | int(0, 16) }}",
        "{{ (('f' * 16777216) | int(0, 16)) // (('e' * 8388608) | int(0, 16)) }}",
        "{{ 1.5 | round(1000000000, 'ceil') }}{{ 'x' | round(9, 'ceil') }}",
        "{% set x = ('x' * 16777215 + 'y') %}" + "{% set y = x | upper | lower %}" * 2000,
        "{% set take_turn = 1 %}{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    ],
)
def test_templates_that_do_not_end_are_stopped(tmp_path, endless, monkeypatch):
    monkeypatch.setattr(_sandbox, "MOST_SECONDS", 1.0)
    template = ChatTemplate(folder_of(tmp_path, endless))
    begin = time.monotonic()
    with pytest.raises(InvalidArgumentError, match="the chat template (was stopped: it|has called itself too often)"):
        template.render(CONVERSATIONS["one"])
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize(
    "escape",
    [
        "{{ messages.__class__.__mro__ }}{{ ''.__class__.__bases__[0].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{% include 'tokenizer_config.json' %}",
        "{% if %}",
        "{{ 1 / 0 }}",
        "{{ lipsum(n=1000000000) }}",
        "{{ 'a' | center(2000000000) }}",
        "{{ 'a' | wordwrap(1, wrapstring='x' * 16777216) }}",
        "{{ [1] | batch(2000000000, 0) | list }}",
        "{{ ['a'] | map('center', 2000000000) | list }}",
        "{{ (1).to_bytes(2000000000) }}",
        "{{ {}.fromkeys(range(10)) }}",
        "{{ '%2000000000d' is odd }}",
        "{{ '%2000000000d' is divisibleby(1) }}",
        "{% block a %}{{ self.a() }}{% endblock %}",
        "{% autoescape true %}{{ '<' }}{% endautoescape %}",
    ],
)
def test_what_a_template_may_not_do(tmp_path, escape):
    with pytest.raises((InvalidArgumentError, InvalidModelError), match="chat template"):
        ChatTemplate(folder_of(tmp_path, escape)).render(CONVERSATIONS["one"])


def test_broken_files(tmp_path):
    for text in ("[1]", "{", '{"chat_template": [{"name": 1}]}'):
        (tmp_path / "tokenizer_config.json").write_text(text)
        with pytest.raises(InvalidModelError, match="tokenizer_config.json"):
            ChatTemplate(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidModelError, match="no text in UTF-8"):
        ChatTemplate(tmp_path)


def test_operations_within_the_budget(tmp_path):
    template = ChatTemplate(
        folder_of(
            tmp_path,
            "{{ '%05.1f|%s' % (1.5, 'a') }}{{ 7 % 4 }}{{ ['a', 'b'] | join(', ') }}"
            "{{ 'aXa' | replace('X', 'YY') }}{{ 'a b'.split(' ') | join('-') }}{{ '{}-{:>3} 12345678'.format(1, 2) }}"
            "{{ ', '.join(['a', 'b']) }}{{ 'ab'.replace('a', 'c') }}{{ 'a\nb' | indent(2) }}{{ messages | length }}"
            "{{ messages | map(attribute='role') | join(';') }}{{ 'ab'.startswith('a') }}"
            "{{ none | map('upper') | list }}{{ {'a': [1]} }}{{ [1, 2.5] | sum }}{{ [[1], [2]] | sum(start=[]) }}"
            "{{ '7' | int }}{{ 2.55 | round(1) }}{{ {'a': [1]} | tojson(indent=1) }}{{ '<' | safe }}{{ 2 ** 10 // 3 }}"
            "{{ 3 in [1, 3] }}{{ [1, 2, 3][1:] }}{{ 'x' in 'yx' }}{{ [2, 1] | sort | first }}{{ 3 is odd }}"
            "{{ [{'a': 1}, {'a': 2}] | selectattr('a', 'gt', 1) | list }}{{ {'b': 1, 'a': 2} | dictsort }}"
            "{% for a in range(4) if a is even %}{{ a }}{{ loop.last }}{% endfor %}{{ [1, 1] | unique | list }}"
            "{% for key, value in {'k': 'v'} | items %}{{ key }}{{ value }}{% endfor %}{{ '100 %%, %.2f' | format(2) }}"
            "{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.next() }}{{ [{'a': 'b'}] | join('', attribute='a') }}",
        )
    )
    assert template.render(CONVERSATIONS["one"]) == (
        "001.5|a3a, baYYaa-b1-  2 12345678a, bcba\n  b1userTrue"
        "[]{'a': [1]}3.5[1, 2]"
        '72.5{\n "a": [\n  1\n ]\n}<341'
        "True[2, 3]True1True"
        "[{'a': 2}][('a', 2), ('b', 1)]"
        "0False2True[1]"
        "kv100 %, 2.00"
        "12b"
    )


def test_long_conversations_are_within_the_budget(tmp_path):
    gathers = (
        "{% set ns = namespace(rest=[]) %}{% for message in messages %}{% set ns.rest = ns.rest + [message] %}{% endfor %}"
        "{% for message in ns.rest %}{{ message.role + ': ' + message.content | trim }}{% endfor %}"
    )
    messages = CONVERSATIONS["one"] * 10_000
    expected = "user: Hello,\n world!" * 10_000
    assert ChatTemplate(folder_of(tmp_path, gathers)).render(messages) == expected


def test_threads_have_budgets_of_their_own(tmp_path, monkeypatch):
    made = _sandbox.Sandbox.__init__
    # Long enough that others come meanwhile.
    monkeypatch.setattr(_sandbox.Sandbox, "__init__", lambda self: (time.sleep(0.01 * random.random()), made(self))[1])
    folder = folder_of(tmp_path, CHATML)
    expected = ChatTemplate(folder).render(CONVERSATIONS["system"])
    for _ in range(20):
        template, results, start = ChatTemplate(folder), [], threading.Barrier(8)

        def render(template=template, results=results, start=start):
            start.wait()
            results.append(template.render(CONVERSATIONS["system"]))

        threads = [threading.Thread(target=render) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [expected] * 8
        assert template.render(CONVERSATIONS["system"]) == expected, "what was compiled first is whole"
