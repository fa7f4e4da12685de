"""`bpe demo`: all its steps on the embedded sample, with and without Python's help texts."""

import re
import sys

import pytest

import bpe
from bpe.cli import demo, main


def test_the_sample_has_many_scripts_and_mostly_korean():
    text = demo.page()
    assert 6_000 < len(text.encode()) < 13_000
    scripts = "[가-힣] [ぁ-ん] [ァ-ン] [一-龥] [а-я] [α-ω] [ء-ي] [א-ת] [ऀ-ॿ] [ก-๙] [à-ü] ß [ğşı] [ạ-ỹ]"
    for script in scripts.split():
        assert re.search(script, text), script
    assert "👩\u200d💻" in text
    assert "🇰🇷" in text
    assert len(re.findall("[가-힣]", text)) > 400
    assert "def widest" in text
    assert demo.SAMPLE_LINES[1] in text


def test_the_help_topics_come_from_python():
    texts = demo.read_topics()
    assert texts == demo.read_topics()
    if texts:
        assert sum(map(len, texts)) > 100_000


def test_demo_trains_saves_and_round_trips(tmp_path, capsys):
    path = tmp_path / "tokenizer.json"
    assert main(["demo", "-o", str(path), "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert bpe.Tokenizer.load(path).vocab_size == 4000
    assert err == ""
    assert "\x1b" not in out, "without a terminal there are no colours"
    assert "merge     1 " in out
    assert "merge   500 " in out
    assert "merge 3,500 " in out
    assert "merge    10 " not in out
    assert "bytes per token" in out
    assert len(re.findall(r"(?:training|encoding|decoding) [\d.,]+ MB/s", out)) == 3
    assert "|·the|·expression|" in out
    assert "|·하나|로|" in out, "Korean too has whole words"
    assert "every document back" in out


def test_demo_without_python_s_help_texts(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    assert demo.read_topics() == []
    assert main(["demo", "--vocab-size", "600"]) == 0
    out = capsys.readouterr().out
    assert "without its help texts" in out
    assert "Sample: a page in many scripts, " in out
    assert "every document back" in out


def test_demo_in_colour():
    lines = []
    assert demo.run(lines.append, vocab_size=400, colour=True)["same"]
    assert any("\x1b[" in line for line in lines)


@pytest.mark.parametrize(("method", "message"), [("decode_batch", "ANOTHER text"), ("encode_batch", "OTHER ids")])
def test_demo_fails_if_the_decoded_text_differs(method, message, monkeypatch, capsys):
    right = getattr(bpe.Tokenizer, method)
    calls = []

    def wrong(self, *args, **kwargs):
        calls.append(method)
        answer = right(self, *args, **kwargs)
        if method == "decode_batch":
            return [*answer[:-1], answer[-1] + "?"]
        return answer if len(calls) == 1 else bpe.TokenBatch(answer.ids + 1, answer.offsets)

    monkeypatch.setattr(bpe.Tokenizer, method, wrong)
    assert main(["demo", "--vocab-size", "300"]) == 1
    assert message in capsys.readouterr().out


def test_demo_refuses_a_folder_that_does_not_exist(tmp_path, capsys):
    assert main(["demo", "-o", str(tmp_path / "no" / "tokenizer.json")]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"bpe: error: the output's folder .* does not exist; .*\n", err)
