"""Chat templates in the manner of published models, written for these tests."""

from __future__ import annotations

CHATML = """{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}\
{% if message.role == 'assistant' %}\
{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{{ '\\n' }}{% else %}\
{{ message['content'] + '<|im_end|>' + '\\n' }}{% endif %}{% endfor %}\
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
#: The role is a part of a token.
PHI = """{% for message in messages %}<|{{ message.role }}|>
{{ message.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}"""
HEADERS = """{{- bos_token }}
{%- for message in messages %}
    {%- set header = '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' %}
    {{- header + message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""
TURNS = """{{ bos_token }}\
{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}\
{% for message in messages %}\
{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}\
{% set role = 'model' if message.role == 'assistant' else message.role %}\
{{ '<start_of_turn>' ~ role ~ '\\n' ~ (message.content | trim) ~ '<end_of_turn>\\n' }}{% endfor %}\
{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""
INST = """{{ bos_token }}{% for message in messages %}{% if message.role == 'assistant' %}\
{% generation %} {{ message.content }}{{ eos_token }}{% endgeneration %}\
{% else %}[INST] {{ message.content }} [/INST]{% endif %}{% endfor %}"""
#: Answers are divided at "</think>", and the thoughts of earlier ones are left out; tools are JSON.
THINKING = """{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- set ns = namespace(last=-1) %}
{%- for message in messages %}{% if message.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for message in messages %}
{%- set content = message.content if message.content is string else '' %}
{%- set reasoning = '' %}
{%- if message.reasoning_content is string %}{% set reasoning = message.reasoning_content %}
{%- elif '</think>' in content %}
    {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
    {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
{%- endif %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' and loop.index0 > ns.last %}<think>
{{ reasoning.strip('\\n') }}
</think>

{% endif %}
{{- content }}
{%- for call in message.tool_calls or [] %}
{{ {'name': call.function.name, 'arguments': call.function.arguments} | tojson(indent=2) }}
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% endif %}{% endif %}"""
MACRO = """{% macro turn(role, text) %}<｜{{ role }}｜>{{ text }}{% endmacro %}
{%- for message in messages %}{% if message.role == 'tool' %}{% continue %}{% endif %}
{{- turn(message.role, message.content) }}
{%- if message.role == 'assistant' %}<｜end▁of▁sentence｜>{% endif %}{% endfor %}
{%- if add_generation_prompt %}<｜assistant｜>{% endif %}"""
TEMPLATES = {
    "chatml": CHATML, "phi": PHI, "headers": HEADERS, "turns": TURNS, "inst": INST, "thinking": THINKING,
    "macro": MACRO,
}  # fmt: skip
