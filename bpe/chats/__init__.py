"""Conversations: messages to ids by a tokenizer's chat template, with a mask of what the assistant says.

Takes messages as transformers and OpenAI's interface have them, and templates of Jinja; returns ids, masks and counts.
The files, in the order in which messages meet them:

- `messages.py` copies messages to plain data, `tools.py` makes JSON schemas of functions among the tools;
- `templates.py` compiles templates in a sandbox and renders them;
- `continuing.py` ends a text within its last message, which a model is to continue;
- `encoding.py` finds which special tokens are the template's, and encodes: `Tokenizer.chat`;
- `counting.py` OpenAI's rule for models without a published template: `Tokenizer.count_chat`.

Invariants: texts and masks are those of transformers; what users write becomes no special token, unless the caller
allows it. Cost: rendering twice, some 0.1 ms, and encoding; a mask takes less. Where a template has no generation
blocks, a mask renders it twice for each answer.

Sources: transformers 5.24, `apply_chat_template`; OpenAI's cookbook, "How to count tokens with tiktoken".
"""

from bpe.chats.encoding import Chat

__all__ = ["Chat"]
