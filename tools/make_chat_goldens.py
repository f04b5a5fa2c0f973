#!/usr/bin/env python3
"""Renders the templates of tests/runtime/text/goldens/chat/ with jinja2, configured like in transformers, and records
the results in chat.json next to them. The C++ tests must give the same text, and an error where jinja2 gives one.

  python tools/make_chat_goldens.py

Needs transformers and jinja2; the goldens are committed, so run it only after changing a template.
"""

import json
import pathlib
import re

import jinja2
import transformers
from transformers.utils.chat_template_utils import _compile_jinja_template

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "runtime" / "text" / "goldens" / "chat"
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather at a place, in °C",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    },
}


def turn(role, content, **more):
    return {"role": role, "content": content, **more}


CHATS = [
    [turn("user", "Hello")],
    [turn("system", "  You are terse.\n"), turn("user", " Hi  there \n")],
    [turn("system", "S"), turn("user", "a"), turn("assistant", "b "), turn("user", "c<s>\n{{ x }} {% if %} 'q' \"r\"")],
    [turn("user", "über 日本語 😀"), turn("assistant", "<think>\nhm\n</think>\n\nfine"), turn("user", "")],
    [turn("user", "two"), turn("user", "users")],
    [turn("user", "why"), turn("assistant", "<think>\nlet me see\n</think>\n\nbecause")],
    [
        turn("system", "tools"),
        turn("user", "weather?"),
        turn("assistant", "", tool_calls=[{"function": {"name": "weather", "arguments": {"place": "Köln", "n": 1}}}]),
        turn("tool", "12 °C"),
        turn("tool", '{"rain": true}'),
        turn("assistant", "Mild."),
    ],
    [turn("user", [{"type": "image"}, {"type": "text", "text": " look "}])],
]
OPTIONS = [
    {"add_generation_prompt": True},
    {"add_generation_prompt": False},
    {"add_generation_prompt": True, "tools": [WEATHER, WEATHER], "enable_thinking": False, "date_string": "02 Feb 2022"},
]


# One line per template: if jinja2 gives an error, so must Lockstep; else the same text.
SNIPPETS = [
    "{{ undefined_name }}|{{ undefined_name is defined }}",
    "{{ undefined_name.attribute }}",
    "{{ undefined_name['x'] }}",
    "{{ undefined_name + 1 }}",
    "{{ undefined_name() }}",
    "{% for x in undefined_name %}a{% else %}b{% endfor %}",
    "{{ undefined_name | length }}",
    "{{ none.x }}|{{ none['x'] }}",
    "{{ none | length }}",
    "{{ 'a' + 1 }}",
    "{{ 1 + 'a' }}",
    "{{ 'a' < 1 }}",
    "{{ 1 / 0 }}",
    "{{ 1 // 0 }}",
    "{{ 1 in 'a' }}",
    "{{ 1 in 5 }}",
    "{{ [1].append(2) }}",
    "{{ {}.update({'a': 1}) }}",
    "{{ 'x' | nosuchfilter }}",
    "{{ 'x' is nosuchtest }}",
    "{{ 'x'.nosuchmethod() }}",
    "{{ raise_exception('on purpose') }}",
    "{% if false %}{{ raise_exception('never') }}{% endif %}fine",
    "{% for a, b in [[1, 2], [3]] %}{{ a }}{% endfor %}",
    "{% for a, b in [[1, 2], [3, 4]] %}{{ a }}{{ b }}{% endfor %}",
    "{{ range(3) | list }}{{ range(1, 4) | list }}{{ range(200000) | list }}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(b=2) }}",
    "{% macro f(a) %}[{{ a }}]{% endmacro %}{{ f() }}{{ f(a=3) }}",
    "{% set x = 1 %}{% macro f() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ f() }}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% set x = 1 %}{% with x = 5 %}{{ x }}{% set x = 6 %}{{ x }}{% endwith %}{{ x }}",
    "{% for i in [1, 2, 3] %}{% if loop.first %}{% set seen = i %}{% endif %}{{ seen }}|{% endfor %}",
    "{% for i in [1] %}{% for j in [1, 2] %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{{ loop }}{{ loop is defined }}",
    "{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{{ ns.b }}|{{ ns.b is defined }}",
    "{% set d = {} %}{% set d.a = 1 %}",
    "{{ {'a': 1}.a }}{{ {'a': 1}['a'] }}{{ {1: 'x'}[1] }}",
    "{{ messages[0].role }}{{ messages[-1]['content'] }}{{ messages[99] }}|{{ messages[99] is defined }}",
    "{{ messages[99].role }}",
    "{{ 'abc'[10] }}|{{ 'abc'[1:][0] }}",
    "{{ 3.0 }} {{ 1e3 }} {{ 1e-7 }} {{ 123456789.123 }} {{ 1.0e22 }} {{ -0.0 }} {{ 10 / 4 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}",
    "{{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ -1 | abs }} {{ 1 - -1 }} {{ +5 }}",
    "{{ 'a' ~ 1 + 2 }} {{ 1 + 2 ~ 'a' }} {{ 'a' ~ 'b' * 2 }}",
    "{{ not true }} {{ not not 1 }} {{ 1 and 2 }} {{ 0 or 'x' }} {{ '' and 1 }}|{{ none or false }}",
    "{{ (1, 2) | length }} {{ () | length }} {{ [] }} {{ {} }} {{ [none, true] }}",
    "{{ 1 if false }}|{{ 1 if true else 2 if true else 3 }}|{{ [1 if false else 2] }}",
    "{{ x if x is defined else 'no x' }} {{ messages is defined and messages | length > 0 }}",
    "{{ 'a b c' | replace(' ', '') | upper ~ '!' }} {{ ('a' ~ 'b') | upper }} {{ 'a' ~ 'b' | upper }}",
    "{{ [1, 2, 3] | map('string') | join('-') }} {{ ['a', 'b'] | join(', ', attribute='x') }}",
    "{{ 'İıSsß' | lower }} {{ 'straße' | upper }} {{ 'ǆ' | title }} {{ 'ÉCOLE'.capitalize() }}",
    "{{ '\u00a0 x\u2003' | trim }}| {{ '\\x1c y \\x1f'.strip() }}|",
    "{{ 'a\\tb\\vc\\fd'.split() }} {{ ''.split() }} {{ ''.split(',') }} {{ 'abc'.split('') }}",
    "{{ 'aaa'.replace('', '-') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'é'.replace('', '.') }}",
    "{{ true + true }} {{ true == 1 }} {{ 'True' == true }} {{ true | int }} {{ none | string }} {{ true | tojson }}",
    "{{ '%s' }} {{ 5 % 3 }} {{ '5' | int % 3 }} {{ '0x1f' | int(base=16) }} {{ ' 12 ' | int }} {{ '1e3' | int }}",
    "{{ {'a': undefined_name} | tojson }}",
    "{{ {'a': 1.0, 'b': 1e100, 'c': -5, 'd': [[]], 'e': '</s>'} | tojson }} {{ 'a/b' | tojson }} {{ '\\x7f\\x01' | tojson }}",
    "{{ messages | tojson }} {{ messages[0] }}",
    "line one\n{{ 1 }}\n  {% set a = 1 %}  \n{% if a %}\nx\n{% endif %}\n\n end \n\n",
    "  {% if true %}a{% endif %}  \n  {{ 'b' }}  \n{# c #}\nd {# e #} f\n",
    "a\r\nb\r{% if true %}\r\nc{% endif %}\r\n",
    "{%- if true -%}\n\n x \n\n{%- endif -%}\n y",
    "x  {%- raw -%}  {{ y }}  {%- endraw -%}  z {% raw %}\n{% set %}\n{% endraw %}\nw",
    "{{ '}}' }}{{ \"%}\" }}{% if '%}' %}ok{% endif %}{{ {'a':{'b':'c'}}.a.b }}",
    "{{ 1 }",
    "{{ 1 ",
    "{% if true %}a",
    "{% endif %}",
    "{% for x in %}{% endfor %}",
    "{% for x of [1] %}{% endfor %}",
    "{{ 'unterminated }}",
    "{{ (1, }}",
    "{{ [1, 2 }}",
    "{{ 1 2 }}",
    "{{ a.b. }}",
    "{{ | upper }}",
    "{% unknown %}",
    "{% break %}",
    "{# never closed",
    "{{ }}",
    "plain text only { not a tag } { { % }",
    "{% macro m() %}{% endmacro %}{{ m() | length }}{{ m() is string }}",
    "{% macro m(x, y=x) %}{{ x }}{{ y }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}",
    "{% set f = 'x' %}{% for f in [1] %}{{ f }}{% endfor %}{{ f }}",
    "{% for m in messages %}{{ loop.index0 }}{{ m.role }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{{ messages | selectattr('nothing') | list }} {{ messages | rejectattr('role', 'in', ['user']) | list | length }}",
    "{{ [3, 1] | sort }} {{ [[2, 'b'], [1, 'a']] | sort }} {{ ['b', 'a'] | sort | first }} {{ [{'k': 2}, {'k': 1}] | sort(attribute='k') }}",
    "{{ 'x' * 0 }}|{{ 'x' * -1 }}|{{ 3 * 'ab' }}",
    "{{ [1,2,3,4,5][-2:] }}{{ [1,2,3][::-1] }}{{ [1,2,3][0:2][1] }}{{ 'hello'[1:-1] }}{{ 'hello'[-3:-1] }}{{ [1,2,3][2:0:-1] }}",
    "{{ namespace(a=1).a }} {{ dict(a=1).a }} {{ dict({'x': 2}, y=3) }}",
    "{{ 'abc' is string and 'abc' | length == 3 }} {{ 4 is divisibleby 2 and true }} {{ 'a' is in 'abc' }}",
    "{{ 'a' is not string }} {{ not 'a' is string }} {{ 1 is not none and 2 is not none }}",
    "{{ messages[0]['items'] is defined }} {{ messages[0].items() | length }}",
    "  {% raw %}\n x  \n  {% endraw %}\n y {% raw -%}\n {% endraw +%}\nz",
    "{% raw %} a \n\t {%+ endraw %}|{% raw %}\n b {%- endraw %}|",
    "{{ \"they don't a.b x-y (z [w {v <u é\" | title }} {{ \"they don't a.b x-y\".title() }} {{ 'ǆ ﬁx ŉ ა'.title() }}",
    "{{ 'hello'.startswith('l', 2) }}{{ 'hello'.startswith('l', 9) }}{{ 'hello'.endswith(('l', 'e'), 0, -1) }}{{ 'a'.startswith('', 2) }}",
    "{{ 'hélolo'.find('o', 4) }}{{ 'hélolo'.rfind('lo', 0, -1) }}{{ 'hélolo'.index('o', none, 5) }}{{ 'hélolo'.rindex('o') }}",
    "{{ 'hélolo'.count('o', 4) }}{{ 'hélolo'.count('', 1, 3) }}{{ 'ab'.count('', 3) }}{{ 'ab'.find('', 3) }}{{ 'ab'.find('', 2) }}",
    "{{ 'hello'.index('o', 0, 2) }}",
    "{{ ' a b  c '.split(none, 1) }}{{ ' a '.split(none, 0) }}{{ ' a b '.rsplit() }}{{ 'a,b,c'.rsplit(',', 1) }}",
    "{{ 'a\\r\\nb\\rc\\x0bd\\x0ce\\x1cf\\x85g\\u2028h\\n'.splitlines() }} {{ 'a\\u2029b\\n\\n'.splitlines(true) }}",
    "{{ 'a\\r\\n\\nb\\u2028c\\n' | indent(2) }}|{{ '' | indent }}|{{ 'a\\n\\nb' | indent(-1, true, true) }}|{{ 'a\\r' | indent }}|",
    "{% for i in [1] %}{% for j in [1] %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}{% endfor %}",
    "{{ ['\u00a0', '\u200b', '\ufeff', '\u2028', '\x85', '\ue000', '\\U000e0001', '\u0301é😀'] }} {{ {'\u00ad': '\\'\"'} }}",
    "{{ 'ΣΟΣ' | lower }} {{ 'ΑΣ.Β ΑΣ. Σ'.lower() }} {{ 'ΑΣ'.capitalize() }} {{ 'ﬁ ŉ և ΐ' | upper }} {{ 'ﬁX'.capitalize() }}",
    "{{ '½'.isdigit() }}{{ '²٣'.isdigit() }}{{ 'Ⅷ'.isdigit() }}{{ 'Ⓐ'.isalpha() }}{{ '‿'.isalpha() }}{{ 'ªé'.isalpha() }}{{ '½a'.isalnum() }}",
    "{{ '\\x1c'.isspace() }} {{ 'a\\x1cb'.split() }}",
    "{{ '123' is lower }}{{ '' is lower }}{{ 'a1' is lower }}{{ 'ǅ' is upper }}{{ 'A ' is upper }}{{ 'Ab' is upper }}",
    "{{ '0x10' | int }} {{ '1_000' | int }} {{ '1__0' | int }} {{ '0b11' | int(0, 2) }} {{ '0o17' | int(0, 0) }} {{ '010' | int }} {{ '010' | int('x', 0) }} {{ '-0x_f' | int(base=16) }}",
    "{{ '1_0.5' | float }} {{ '0x1p3' | float }} {{ ' Infinity ' | float }} {{ 'nan' | float('x') }} {{ '1e' | float('x') }} {{ 'inf' | int('x') }} {{ -1.9 | int }}",
    "{{ undefined_name | int }}",
    "{{ 7 | round }} {{ 7 | round(-1) }} {{ 25 | round(-1) }} {{ 7.25 | round(1) }} {{ 1250.0 | round(-2) }} {{ true | round }} {{ 7 | round(0, 'ceil') }} {{ 2.5 | round }}",
    "{{ 1.0 // 0.1 }} {{ -1.0 // 0.1 }} {{ 1.0 % 0.1 }} {{ -4.0 % 2 }} {{ 0.0 // -3 }} {{ 5.5 % -2 }}",
    "{{ 0.0 ** -1 }}",
    "{{ [0.1, 0.2, 0.3, 1, 0.7] | sum }} {{ [[1], [2]] | sum(start=[]) }} {{ [1, true] | sum(start=1.5) }}",
    "{{ ['a'] | sum(start='') }}",
    "{{ [[1, 2], [3, 4]] | map(attribute='1') | list }} {{ [{'a': [5]}] | map(attribute='a.0') | list }}",
    "{{ [{'k': 1, 'v': 2}, {'k': 1, 'v': 3}] | unique(attribute='k') | list }}",
    "{{ 'a' | upper(1) }}",
    "{{ 'a' | trim(foo=1) }}",
    "{{ 'a' | default('b', false, 'c') }}",
    "{{ [1] | tojson(foo=1) }}",
    "{{ 'a'.upper(1) }}",
    "{{ 'a'.strip('a', 'b') }}",
    "{{ {}.items(1) }}",
    "{{ namespace(_x=1) }}",
    "{% set ns = namespace() %}{% set ns._x = 1 %}",
    "{{ [1] + (2,) }}",
    "{{ (1,) + (2,) }}",
    "{{ (1,) < [2] }}",
    "{{ 'a1'.islower() }}{{ 'A1'.isupper() }}{{ '1'.isupper() }}",
]


def render(source, context):
    """The text, or null where jinja2 fails."""
    try:
        template = _compile_jinja_template(source)
    except (jinja2.TemplateError, SyntaxError):
        return None
    template.environment.globals.pop("strftime_now", None)  # another test covers the clock
    template.globals.pop("strftime_now", None)
    try:
        return template.render(**context)
    except Exception:  # noqa: BLE001  template errors have many types
        return None


def main():
    cases = []
    for path in sorted(FOLDER.glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        for chat in CHATS:
            for option in OPTIONS:
                context = {"tools": None, "documents": None, **TOKENS, **option, "messages": chat}
                cases.append({"template": path.name, "context": context, "text": render(source, context)})
            if path.name == "language.jinja":
                break
    context = {"messages": CHATS[2], "tools": None, **TOKENS}
    snippets = [{"source": source, "text": render(source, context)} for source in SNIPPETS]
    golden = {
        "transformers": transformers.__version__,
        "jinja2": jinja2.__version__,
        "cases": cases,
        "snippet_context": context,
        "snippets": snippets,
    }
    text = json.dumps(golden, ensure_ascii=True, separators=(",", ":"))
    (FOLDER / "chat.json").write_text(re.sub(r'(\},)(\{"(?:template|source)")', r"\1\n\2", text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
