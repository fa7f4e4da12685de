"""Chat templates: Jinja2 programs that turn the messages of a conversation into the text that a model expects.

They come with tokenizers and run in Jinja's immutable sandbox, with the settings, filters and globals that transformers
gives them: `trim_blocks`, `lstrip_blocks`, loop controls, `tojson` without escapes for HTML, `raise_exception`,
and blocks `{% generation %}` around what the assistant says. A template can reach no file and no private
attribute; one that loops for long is not stopped.

Source: `utils/chat_template_utils.py` of transformers 5.24.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from functools import lru_cache
from itertools import accumulate, product
from typing import TYPE_CHECKING, Any, NoReturn

from bpe.base.utf8 import to_bytes
from bpe.errors import raise_if_of_signal_handler, short_repr
from bpe.vocab.spec import DEFAULT_TEMPLATE

if TYPE_CHECKING:
    from jinja2 import Environment

#: The name of the template for calls with tools.
TOOLS_TEMPLATE = "tool_use"
#: The oldest jinja2 without known ways out of its sandbox.
MIN_JINJA = (3, 1, 6)
#: Start and end of what the assistant says, in characters of the rendered text.
Spans = list[tuple[int, int]]
#: The same while the text is rendered: how many blocks of text come before, and the length.
_NotedSpans = list[tuple[int, int]]


#: Filters and methods that make characters of what others stand for: name → what is read so.
_DECODERS = {"striptags": "&", "unescape": "&", "format": "%{", "format_map": "{", "%": "%"}
_CASE_CHANGERS = {"upper", "lower", "title", "capitalize", "swapcase", "casefold"}
_RECODERS = {"decode", "translate"}


class ChatTemplate:
    """A compiled template. Immutable; any number of threads may render it at once.

    Args:
        source: the template.

    Attributes:
        marks_assistant: whether it has blocks `{% generation %}`.
        strings: the string constants in its expressions.
        decoders: the characters from which it may make others, as "&" of "&lt;".
        changes_case: whether it may change the case of texts.
        recodes: whether it may make any characters of any others.

    Raises:
        ModuleNotFoundError: without jinja2.
        ValueError: for a template with a syntax error; it names the line.

    """

    def __init__(self, source: str) -> None:
        environment, self._tracked_spans = _make_environment()
        from jinja2 import TemplateSyntaxError, nodes

        try:
            tree = environment.parse(source)
            self._template = environment.from_string(source)
        except TemplateSyntaxError as error:
            raise ValueError(f"chat template, line {error.lineno}: {error.message}; correct the template") from None
        except (RecursionError, SyntaxError):  # of the Python code that jinja2 makes
            raise ValueError("the chat template is nested too deeply; use another template") from None
        self.marks_assistant = any(
            isinstance(node.call.node, nodes.ExtensionAttribute) for node in tree.find_all(nodes.CallBlock)
        )
        self.strings = tuple(node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str))
        self._written = {*self.strings, *(node.data for node in tree.find_all(nodes.TemplateData))}
        called = {node.name for node in tree.find_all(nodes.Filter)}
        called |= {node.attr for node in tree.find_all(nodes.Getattr)} | {*self.strings}  # {{ x['format'](y) }}
        called |= {"%" for _ in tree.find_all(nodes.Mod)}
        self.decoders = "".join(sorted({*"".join(_DECODERS.get(name, "") for name in called)}))
        self.changes_case = not called.isdisjoint(_CASE_CHANGERS)
        self.recodes = not called.isdisjoint(_RECODERS)

    def list_completions(self, name: str, units: Iterable[str]) -> list[str]:
        """List what would complete a special token of which the template writes the parts that have the units.

        >>> ChatTemplate("<|{{ role }}|>{{ content }}<|end|>").list_completions("<|user|>", ["|"])
        ['user']
        """
        starts, ends, completions = {""}, {""}, set()
        for written in {each for text in self._written for each in (text, text.strip())}:
            starts |= {name[:end] for end in range(1, len(name)) if written.endswith(name[:end])}
            ends |= {name[start:] for start in range(1, len(name)) if written.startswith(name[start:])}
            if written and written in name:
                completions |= {*name.split(written)}
        for start, end in product(starts, ends):
            if len(start) + len(end) < len(name):
                completions.add(name[len(start) : len(name) - len(end)])
        return sorted(part for part in completions if part and not any(unit in part for unit in units))

    def render(self, variables: Mapping[str, Any]) -> tuple[str, Spans]:
        """Render the template: the text, without surrogates, and the spans of its generation blocks.

        Raises:
            ValueError: if the template refuses the variables, or fails.

        """
        blocks: list[str] = []
        noted: _NotedSpans = []
        token = self._tracked_spans.set((blocks, noted))
        try:
            for block in self._template.generate(variables):
                blocks.append(_replace_surrogates(block))  # noqa: PERF401  # generation blocks look at those before
        except RecursionError:
            raise ValueError("the chat template recurses too deeply for these messages; use another template") from None
        except Exception as error:  # a template may do anything that Python's types can
            raise_if_of_signal_handler(error)
            raise ValueError(f"the chat template refuses these messages: {error}") from error
        finally:
            self._tracked_spans.reset(token)
        block_starts = [0, *accumulate(map(len, blocks))]
        return "".join(blocks), [(block_starts[index], block_starts[index] + length) for index, length in noted]


@lru_cache(64)
def compile_template(source: str) -> ChatTemplate:
    """Compile a template; the last ones are kept."""
    return ChatTemplate(source)


def choose_template(templates: Mapping[str, str], name_or_source: str | None, has_tools: bool) -> str:
    """Choose the source of a template as transformers does.

    Args:
        templates: the templates of a tokenizer, name → source.
        name_or_source: the name of one of them, or a template; None for the default one, or with tools for that of the
            name "tool_use" if there is one.
        has_tools: whether the call has tools.

    Raises:
        ValueError: if there is no such template.

    """
    known_names = f"the tokenizer has {short_repr(list(templates), 200)}" if templates else "the tokenizer has none"
    if name_or_source is not None:
        if not isinstance(name_or_source, str) or not (name_or_source in templates or "{" in name_or_source):
            raise ValueError(
                f"chat_template is {short_repr(name_or_source)}; it must be the name of a template ({known_names}), or "
                "a template of Jinja"
            )
        return templates.get(name_or_source, name_or_source)
    name = TOOLS_TEMPLATE if has_tools and TOOLS_TEMPLATE in templates else DEFAULT_TEMPLATE
    if name not in templates:
        raise ValueError(
            f"there is no default chat template ({known_names}); load the folder that has the tokenizer's "
            "tokenizer_config.json or chat_template.jinja, with Tokenizer.load(folder), or pass chat_template= to "
            "tok.chat"
        )
    return templates[name]


def _make_environment() -> tuple[Environment, ContextVar[tuple[list[str], _NotedSpans] | None]]:
    """Make an environment for one template, and the variable with the blocks and the spans of a rendering."""
    try:
        import jinja2
    except ModuleNotFoundError:
        raise ModuleNotFoundError("chat templates need jinja2: pip install 'bytepair[chat]'", name="jinja2") from None
    if tuple(int(part) for part in jinja2.__version__.split(".")[:3] if part.isdigit()) < MIN_JINJA:
        needed = ".".join(map(str, MIN_JINJA))
        raise ImportError(f"jinja2 is {jinja2.__version__}, whose sandbox has holes; install {needed} or later")
    from jinja2.exceptions import SecurityError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.nodes import CallBlock
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.utils import Namespace

    tracked_spans: ContextVar[tuple[list[str], _NotedSpans] | None] = ContextVar("tracked_spans", default=None)

    class GenerationBlocks(Extension):
        """The tag `{% generation %}`."""

        tags = {"generation"}  # noqa: RUF012  # as jinja2 declares it

        def parse(self, parser: Any) -> CallBlock:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return CallBlock(self.call_method("_note_span"), [], [], body, lineno=line)

        def _note_span(self, caller: Any) -> str:
            text = _replace_surrogates(caller())
            tracked = tracked_spans.get()
            if tracked is not None:
                blocks, noted = tracked
                noted.append((len(blocks), len(text)))
            return text

    class SafeNamespace(Namespace):
        """A namespace without private attributes, through which a template could reach Python's internals."""

        def __init__(*args: Any, **attributes: Any) -> None:  # `self` may be an attribute
            namespace, *mappings = args
            values = dict(*mappings, **attributes)
            for name in values:
                SafeNamespace._check_name(name)
            Namespace.__init__(namespace, values)

        def __setitem__(self, name: str, value: Any) -> None:
            SafeNamespace._check_name(name)
            Namespace.__setitem__(self, name, value)

        @staticmethod
        def _check_name(name: object) -> None:
            if isinstance(name, str) and name.startswith("_"):
                raise SecurityError(f"the attribute {name!r} of a namespace begins with an underscore")

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlocks, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals.update(raise_exception=_raise_exception, dict=_TemplateDict(), namespace=SafeNamespace)
    return environment, tracked_spans


def _replace_surrogates(text: str) -> str:
    """Replace surrogates as encoding does, so that positions in the text and in its UTF-8 agree."""
    return to_bytes(text).decode()


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: Any = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    """Serialize a value as JSON; Jinja's own filter escapes characters of HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: object) -> NoReturn:
    from jinja2 import TemplateError

    raise TemplateError(str(message))


class _TemplateDict:
    """What `dict` is in templates: it makes dicts, and has no attributes of the class."""

    def __call__(self, *args: Any, **fields: Any) -> dict[Any, Any]:
        return dict(*args, **fields)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)
