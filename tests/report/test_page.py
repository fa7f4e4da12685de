"""The report's page as text: complete, escaped, bounded. What a browser makes of it: `test_browser.py`."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
from hostile import HOSTILE

import bpe
from bpe.report import page_html, write_page
from bpe.report.charts import Axis, draw_bar_chart, draw_column_chart, draw_line_chart
from bpe.report.measures import write_verdicts
from bpe.report.page import escape_json, make_policy
from bpe.report.panels import cut_beginning

TEXTS = {"en": "low lower lowest & <b>", "ko": "한국어 한국 사람 👩\u200d💻"}


@pytest.fixture(scope="module")
def small() -> bpe.Tokenizer:
    return bpe.train(texts=["low lower lowest", "한국어 한국"] * 4, vocab_size=275, special_tokens=["<|end|>"])


@pytest.fixture(scope="module")
def large() -> bpe.Tokenizer:
    return bpe.train(texts=["low lower lowest", "한국어 한국 사람"] * 4, vocab_size=290)


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the text inside each box of tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "line", "rect", "circle", "path", "polyline", "input", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            assert tag in ("line", "rect", "circle", "path", "polyline"), (tag, self.open[-3:])


def list_elements(page: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = Elements()
    parser.feed(page)
    parser.close()
    assert not parser.open, parser.open
    return parser.found


def read_data(page: str) -> dict[str, dict[str, list[object]]]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    return json.loads(match[1])


def test_page_is_complete_and_needs_nothing_else(small, large, tmp_path):
    path = tmp_path / "report.html"
    evaluation = bpe.evaluate({"small": small, "large": large}, {name: [text] * 3 for name, text in TEXTS.items()})
    write_page(path, {"small": small, "large": large}, evaluation, {name: [text] * 3 for name, text in TEXTS.items()})
    page = path.read_text(encoding="utf-8")
    page_elements = list_elements(page)
    ids = [attributes["id"] for _, attributes in page_elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {"summary", "corpora", "texts", "vocabularies", "tokens", "differences"} <= set(ids)
    links = [attributes["href"] for tag, attributes in page_elements if tag == "a"]
    assert {link[1:] for link in links} <= set(ids)
    for tag, attributes in page_elements:
        assert tag not in ("link", "img", "iframe", "object", "base")
        assert not {"src", "style", "srcset", "action"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
    assert "ko: large needs" in page
    assert "Compression by vocabulary size" in page
    assert "share of words that are cut" in page


def test_without_an_evaluation_the_texts_are_counted(small, large):
    page = page_html([small, large], texts=list(TEXTS.values()))
    assert "text 2: tokenizer 2 needs" in page
    total = len(small.encode(TEXTS["ko"]))
    assert f"{total} tokens · {len(TEXTS['ko'].encode())} bytes" in page


@pytest.mark.parametrize("text", ["", " ", "\n\n", "a"])
def test_small_texts(small, text):
    list_elements(page_html(small, texts=text))


def test_without_texts_the_vocabularies_are_shown(small, large):
    page = page_html({"a": small, "b": large})
    assert 'id="differences"' in page
    assert 'id="texts"' not in page


@pytest.mark.parametrize(
    "tokenizer",
    [
        bpe.train(texts=["aab aab"], num_merges=1, model="char", end_of_word="</w>"),
        bpe.train(texts=["aab aab"], num_merges=1, model="char", unk_token="<unk>"),
        bpe.train(texts=["aab aab"], num_merges=0),
        bpe.train(texts=["aab aab"], num_merges=1, pretokenizer=None, alphabet=bpe.Alphabet(initial="corpus")),
        bpe.train(texts=["aab aab"], num_merges=2, alphabet=bpe.Alphabet(first_id=7), special_tokens=["<s>"]),
    ],
)
def test_every_kind_of_model(tokenizer):
    list_elements(page_html({"other": tokenizer}, texts=["aab xyz é", "aab"]))


def test_hostile_names_and_texts_are_escaped():
    tok = bpe.train(texts=HOSTILE * 2, vocab_size=700, special_tokens=["<script>window.hit = 1</script>"])
    names = {text: text for text in HOSTILE}
    page = page_html(dict.fromkeys(HOSTILE[:3], tok), texts=names)
    page_elements = list_elements(page)
    assert [tag for tag, _ in page_elements].count("script") == 2
    assert not {tag for tag, _ in page_elements} & {"img", "iframe", "base", "link", "textarea"}
    assert not [name for _, attributes in page_elements for name in attributes if name.startswith("on")]
    main_html = page[page.index('<main id="main">') : page.index('<script type="application/json"')]
    for character in "\x00\x07\x1b\x7f\x85\u202e\u2066\u2028\ufeff\ufffe\U000e0041":
        assert character not in re.sub("\U0001f3f4[\U000e0020-\U000e007f]+", "", main_html)
    assert set(read_data(page)) == {"0", "1", "2"}


def test_json_cannot_end_its_element():
    value = {text: [text] for text in HOSTILE}
    written = escape_json(value)
    assert not set("<>&\u2028\u2029") & set(written)
    assert json.loads(written) == value


def test_a_long_text_is_drawn_in_part(small):
    text = ("low lower lowest 한국어 " * 400_000)[:5_000_000]
    page = page_html(small, texts=text)
    size = len(text.encode())
    assert len(page) < 3_000_000
    assert f"of {size:,} bytes are drawn; all are counted." in page
    assert f"{small.count_tokens(text):,} tokens" in page


@pytest.mark.parametrize("most", range(1, 30))
def test_the_beginning_of_a_text_is_whole_characters(most):
    text = "한국어 and 👩\u200d💻, no white space:한국어한국어".encode()
    part = cut_beginning(text, most)
    assert text.startswith(part)
    assert len(part) <= most
    part.decode()


def test_details_have_the_merges_of_all_tokens(small):
    data = read_data(page_html({"small": small}, texts="lowest"))["0"]
    ids = small.encode("lowest").tolist()
    assert {str(token_id) for token_id in ids} <= set(data)
    for spelling, rank, *parts in data.values():
        assert (rank is None) == (not parts)
        if parts:
            assert spelling == "".join(str(data[str(part)][0]) for part in parts)


def test_an_evaluation_of_other_tokenizers(small, large):
    evaluation = bpe.evaluate({"small": small, "large": large}, texts=["low"])
    assert "tokenizer 2" in page_html([small, large], evaluation.to_dict())
    with pytest.raises(ValueError, match="the evaluation is of small, large, the report of large, small"):
        page_html({"large": large, "small": small}, evaluation)
    with pytest.raises(ValueError, match=f"a has {large.vocab_size} tokens, and in the evaluation {small.vocab_size}"):
        page_html({"a": large, "b": small}, evaluation)


def test_bad_arguments():
    tok = bpe.train(texts=["a"], num_merges=0)
    with pytest.raises(ValueError, match="there is no tokenizer"):
        page_html([])
    with pytest.raises(TypeError, match=r"tokenizer is 'a\.json', a path; load it first"):
        page_html({"a": "a.json"})
    with pytest.raises(TypeError, match="a text is 3, an int"):
        page_html(tok, texts=[3])
    with pytest.raises(ValueError, match="the evaluation is of 1 tokenizers, the report of 2"):
        page_html([tok, tok], bpe.evaluate(tok, texts=["a"]))


def test_policy_names_the_style_and_the_script():
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[\w+/=]{44}'; script-src 'sha256-[\w+/=]{44}'; base-uri 'none'; "
        r"form-action 'none'",
        make_policy(),
    )


# Charts ---------------------------------------------------------------------------------------------------------------


def test_charts_of_nothing_and_of_single_values():
    assert draw_line_chart("t", {"a": []}, ("x", "y")) == ""
    assert draw_bar_chart("t", {}, "x") == ""
    for value in (0, 1, -3, 1e-9, 1e12):
        list_elements(draw_line_chart("t", {"a": [(1, value)]}, ("x", "y")))
        list_elements(draw_column_chart("t", ["g"], {"a": [value]}, ("x", "y")))
        list_elements(draw_bar_chart("t", {"g": {"a": (value, value, value)}}, "x"))
    list_elements(draw_line_chart("t", {"a": [(0, 0), (1, 1), (10, 5)]}, ("x", "y"), log_x=True, log_y=True))


@pytest.mark.parametrize("values", [[0, 1], [3, 3], [0, 0], [0.001, 0.0013], [1, 1e6], [-5, 5], [7, 123456]])
@pytest.mark.parametrize("from_zero", [True, False])
def test_axes_hold_their_values(values, from_zero):
    axis = Axis(values, (0, 100), from_zero=from_zero)
    assert all(-1e-6 <= axis.position(value) <= 100 + 1e-6 for value in [*values, *axis.ticks])
    assert 2 <= len(axis.ticks) <= 12


@pytest.mark.parametrize(
    ("interval", "ending"),
    [
        ([1.25, 1.6], "33.3% fewer tokens than b [20.0%, 37.5%]."),
        ([0.5, 1.6], "33.3% fewer tokens than b [-100.0%, 37.5%, which may be chance]."),
        ([0.0, 1.6], "33.3% fewer tokens than b [-inf%, 37.5%, which may be chance]."),
    ],
)
def test_a_tokenizer_may_have_no_tokens_for_some_documents(interval, ending):
    metrics = {
        "a": {"tokens": 2},
        "b": {
            "tokens": 3,
            "normalized_sequence_length": 1.5,
            "normalized_sequence_length_interval": interval,
        },
    }
    assert list(write_verdicts(metrics)) == [f"all texts: a needs {ending}"]
