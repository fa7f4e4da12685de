"""What notebooks and terminals draw: views of texts, steps of merges, cards, plots."""

import re
from itertools import pairwise

import pytest

import bpe
from bpe import plots
from bpe.plots import measure_compression
from bpe.show.html import STYLE, Html, make_card, make_table

HUG = bpe.train(counts={"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}, num_merges=3, special_tokens=["<|end|>"])


def list_tags(html):
    return re.findall(r"<(?!/)([a-z]+)", html)


def test_view_of_a_text(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    view = HUG.show("hugs <b>한")
    assert repr(view) == "hug|s|·|<|b|>|한₁|한₂|한₃"
    html = view._repr_html_()
    assert "<b>" not in html
    assert 'title="id 259 · 3 bytes: 68 75 67 · rank 2">hug</span>' in html
    assert 'part of 한"><span class="x">ed</span>' in html
    assert "9 tokens, 11 bytes, 1.22 bytes per token" in html
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert repr(view).count("\x1b[0m") == 9


def test_view_of_a_long_text_draws_its_beginning():
    view = HUG.show("hug " * 3000, max_tokens=100)
    assert (len(view.tokens), view.n_tokens, view.n_bytes) == (100, 6000, 12000)
    assert view.text(colour=False).endswith("\n… and 5900 more tokens")
    assert "Only the first 100 tokens are drawn" in view.html()
    with pytest.raises(ValueError, match="max_tokens is 0"):
        HUG.show("hug", max_tokens=0)


def test_special_tokens_and_symbols_without_an_id():
    tokens = HUG.show("hug<|end|>", allowed_special="all").tokens
    assert [(token.id, token.special) for token in tokens] == [(259, False), (0, True)]
    tok = bpe.train(texts=["ab ab"], num_merges=1, model="char")
    assert [(token.data, token.id) for token in tok.show("abz").tokens] == [(b"ab", 2), (b"z", None)]
    assert "no id" in tok.show("abz").html()


@pytest.mark.parametrize(
    "tok",
    [
        HUG,
        bpe.train(texts=["low lower lowest 한국어 한국"] * 3, num_merges=30),
        bpe.train(texts=["aab aab abc"], num_merges=4, model="char", end_of_word="</w>"),
        bpe.train(texts=["aab aab abc"], num_merges=4, pretokenizer=None),
    ],
)
@pytest.mark.parametrize("text", ["", "hug pug", "low lowest 한국 사람", "aab abc xyz", "aaaaaaab"])
def test_steps_end_with_the_tokens_of_encode(tok, text):
    steps = plots.show_merges(tok, text).steps
    last_tokens = [token.data for token in steps[-1][1]]
    assert last_tokens == [token if isinstance(token, bytes) else token.encode() for token in tok.tokens(text)]
    for (_, before), (_, after) in pairwise(steps):
        assert len(after) < len(before)
        assert b"".join(token.data for token in before) == b"".join(token.data for token in after)


def test_steps_are_in_the_order_of_ranks():
    merges = [merge for merge, _ in plots.show_merges(HUG, "hugs pun").steps]
    assert merges == ["", "u + g (rank 0, id 257)", "u + n (rank 1, id 258)", "h + ug (rank 2, id 259)"]
    html = plots.show_merges(HUG, "hugs")._repr_html_()
    assert html.count('<input type="radio"') == 3
    assert html.count(" checked") == 1
    with pytest.raises(ValueError, match="10001 bytes; show_merges takes at most 10000"):
        plots.show_merges(HUG, "a" * 10_001)


def test_cards():
    hostile = "<script>alert(1)</script>"
    tok = bpe.train(texts=[hostile] * 9, num_merges=40, special_tokens=["<b>"])
    counts = bpe.count_words(texts=[hostile])
    cards = [tok, tok.encode_batch([hostile] * 20), counts, tok.show(hostile), plots.show_merges(tok, hostile)]
    cards += [bpe.evaluate([tok, HUG], {"en": [hostile, "b"], "ko": ["한국", "c"]}), bpe.evaluate(tok, texts=["a"])]
    cards += [bpe.TokenBatch.from_lists([]), bpe.WordCounts()]
    for shown in cards:
        html = shown._repr_html_()
        assert html.count(STYLE) == 1
        assert "script" not in list_tags(html)
        assert set(list_tags(html)) <= {
            *("style", "div", "strong", "table", "thead", "tbody", "tr", "th", "td", "span", "p", "details", "summary"),
            "input",
        }
    assert "1,234,567" in make_card("x", {"n": 1234567})
    assert make_table(["a"], [[Html("<i>")]]).count("<i>") == 1
    assert bpe.evaluate(tok, texts=["a"])._repr_html_().count("bytes per token") >= 1


def test_compression_by_size_is_that_of_truncated_vocabularies():
    text = "low lower lowest, newest and widest. " * 3
    tok = bpe.train(texts=[text] * 3 + ["한국어 한국 사람"], vocab_size=290, model="char")
    compression = measure_compression(tok, text)
    assert [size for size, _ in compression] == [32, tok.vocab_size]
    for size, ratio in compression:
        assert ratio == len(text) / tok.truncate_vocab(size)[0].count_tokens(text)


def test_plots():
    matplotlib = pytest.importorskip("matplotlib", reason="needs matplotlib, the extra plot")
    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    assert plots.plot_lengths(HUG).get_xlabel() == "bytes in a token"
    assert len(plots.plot_frequencies(HUG, ["hug pug"]).lines) == 1
    sizes = plots.plot_compression(HUG, "hug pun " * 20).lines[0].get_xdata()
    assert list(sizes) == [260]
    evaluation = bpe.evaluate([HUG, HUG], {"en": ["hug", "pug"], "ko": ["한국", "c"]})
    ax = evaluation.plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["en", "ko"]
    sample = bpe.evaluate(HUG, texts=["hug hug", "zq"], resamples=1, seed=2)
    low, high = sample.to_dict()["bytes_per_token_interval"]
    assert not low <= sample["bytes_per_token"] <= high
    (whisker,) = sample.plot().collections[0].get_segments()
    assert whisker[:, 0].tolist() == pytest.approx([low, high])
    with pytest.raises(ValueError, match="metric is 'nothing'"):
        evaluation.plot("nothing", ax)
    with pytest.raises(ValueError, match="the text is empty"):
        plots.plot_compression(HUG, "")
    with pytest.raises(ValueError, match="'x'"):
        plots.plot_compression(bpe.train(texts=["ab"], model="char", num_merges=1), "x")
    plt.close("all")


def test_plots_without_matplotlib(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"bytepair\[plot\]"):
        plots.plot_lengths(HUG)


def test_metrics_with_and_without_intervals_begin_at_one_place() -> None:
    page = bpe.evaluate([HUG, HUG], ["hug", "pug", "c"])._repr_html_()
    assert "<td>3</td>" in page  # documents
    assert " to " in page
    assert 'class="n"' not in page
