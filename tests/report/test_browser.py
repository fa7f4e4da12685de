"""The report, the playground and a notebook's output in a real browser: Chromium without a window, through playwright.

The tests need the dependency group `test-browser` and a Chromium: Debian's package, or the one named by BPE_CHROMIUM.
`.ci/run browser` runs them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile import HOSTILE
from serving import serve_playground

import bpe
from bpe import plots
from bpe.cli import demo
from bpe.report import Playground, write_page
from bpe.report import playground as playground_module
from bpe.show.pieces import split_pieces

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, in the dependency group test-browser")
CHROMIUM = os.environ.get("BPE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")

BOXES = "div.bpe-tokens"
#: A name of another site that leads to this machine, as after DNS rebinding.
REBOUND = "rebound.test"
ARABIC = "السوق صغير يبيع"
FAMILY = "👨\u200d👩\u200d👧\u200d👦"
TEXTS = {
    "ko": "한국어 한국 사람",
    "ja": "夜行列車の窓",
    "ar": ARABIC,
    "emoji": f"{FAMILY} 🇰🇷 e\u0301",
    "en": "low lower lowest",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as run:
        options = ["--no-sandbox", f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"]
        opened = run.chromium.launch(executable_path=CHROMIUM, args=options)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def wide() -> bpe.Tokenizer:
    """It has the words of TEXTS as tokens."""
    return bpe.train(texts=[*TEXTS.values()] * 5, num_merges=500)


@pytest.fixture(scope="module")
def narrow() -> bpe.Tokenizer:
    """Most characters are in several of its tokens."""
    return bpe.train(texts=["low lower"] * 5, num_merges=3)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, wide: bpe.Tokenizer, narrow: bpe.Tokenizer) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    tokenizers = {"wide": wide, "narrow": narrow}
    write_page(path, tokenizers, bpe.evaluate(tokenizers, {name: [text] * 2 for name, text in TEXTS.items()}), TEXTS)
    return path


class OpenPage:
    """A page in a tab of its own, with everything that it asked for and complained of."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.said: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append("dialog"), dialog.dismiss()))
        self.page.goto(url)

    def __enter__(self) -> Any:
        return self.page

    def __exit__(self, *_: object) -> None:
        self.context.close()


def draw_text(tokens: list[bytes]) -> str:
    """The text that the boxes must show."""
    return "".join(piece.text + "\n" * piece.breaks for token in split_pieces(tokens) for piece in token)


# The report -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("javascript", [True, False])
def test_hostile_texts_are_shown_and_do_nothing(browser, tmp_path, javascript):
    tok = bpe.train(texts=HOSTILE * 2, num_merges=300, special_tokens=[HOSTILE[0]])
    path = tmp_path / "hostile.html"
    write_page(path, {HOSTILE[0]: tok, HOSTILE[4]: tok}, texts={text: text for text in HOSTILE})
    opened = OpenPage(browser, path.as_uri(), java_script_enabled=javascript)
    with opened as page:
        page.mouse.move(200, 200)
        assert opened.said == []
        assert opened.requests == [path.as_uri()]
        assert len(page.frames) == 1
        if javascript:
            assert page.evaluate("window.hit") is None
        boxes = page.locator(BOXES)
        assert boxes.count() == 2 * len(HOSTILE)
        for i, text in enumerate(HOSTILE):
            ends = "" if text.endswith("\n") else "\n"
            assert boxes.nth(2 * i).text_content() == draw_text(tok.tokens(text)) + ends
        assert page.locator("#texts h3").count() == len(HOSTILE)


def test_page_can_be_read_without_javascript(browser, report):
    with OpenPage(browser, report.as_uri(), java_script_enabled=False) as page:
        assert page.locator("h2").all_inner_texts()[:3] == ["Summary", "Corpora", "The same text in each tokenizer"]
        token = page.locator(f"{BOXES} > span").first
        assert token.get_attribute("title").startswith("id ")
        assert "bytes: ed 95 9c" in token.get_attribute("title")
        page.locator("summary", has_text="As a table").first.click()
        assert page.locator("td", has_text="ed 95 9c").first.is_visible()
        assert not page.locator("#details").is_visible()


def test_keyboard_moves_through_tokens(browser, report):
    with OpenPage(browser, report.as_uri()) as page:
        box = page.locator(BOXES).last  # en, narrow
        assert box.locator("[tabindex='0']").count() == 1
        assert box.get_attribute("role") == "listbox"
        box.locator("span").first.focus()
        details = page.locator("#details")
        assert details.is_visible()
        page.keyboard.press("End")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowRight")
        assert box.locator("[aria-selected=true]").count() == 1
        page.keyboard.press("Home")
        focused = page.locator(":focus")
        assert focused.get_attribute("aria-label").startswith("low, id ")
        assert "rank" in details.inner_text()
        assert details.locator("#tree li").count() == 5  # low, lo, l, o, w
        assert box.locator("[tabindex='0']").count() == 1
        page.keyboard.press("Escape")
        assert not details.is_visible()


def test_arrow_keys_follow_the_direction_of_the_text(browser, report):
    with OpenPage(browser, report.as_uri()) as page:
        box = page.locator(BOXES).nth(4)  # ar, wide
        first, second = (box.locator(":scope > span").nth(i) for i in (0, 1))
        assert first.bounding_box()["x"] > second.bounding_box()["x"]
        first.focus()
        page.keyboard.press("ArrowLeft")
        assert second.evaluate("token => token === document.activeElement")


def test_pointer_and_touch_show_details(browser, report):
    with OpenPage(browser, report.as_uri()) as page:
        page.locator(f"{BOXES} > span").nth(1).hover()
        assert page.locator("#details").is_visible()
    with OpenPage(
        browser, report.as_uri(), viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True
    ) as page:
        token = page.locator(BOXES).last.locator("span").first
        token.tap()
        assert "id " in page.locator("#facts").inner_text()
        page.get_by_label("Close the details").tap()
        assert not page.locator("#details").is_visible()
        assert token.evaluate("token => token === document.activeElement")
        assert page.locator(".now").count() == 0


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_page_does_not_scroll_sideways(browser, report, width):
    with OpenPage(browser, report.as_uri(), viewport={"width": width, "height": 800}) as page:
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [320, 390])
def test_page_of_many_vocabularies_does_not_scroll_sideways(browser, tmp_path, wide, width):
    tokenizers = {f"vocabulary_{index}_base": wide for index in range(5)}
    path = tmp_path / "report.html"
    write_page(path, tokenizers, bpe.evaluate(tokenizers, {"en": ["some text"] * 2}), {"en": "some text"})
    with OpenPage(browser, path.as_uri(), viewport={"width": width, "height": 800}) as page:
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_characters_are_drawn_whole_or_by_rule(browser, report):
    with OpenPage(browser, report.as_uri()) as page:
        boxes = page.locator(BOXES)
        emoji = boxes.nth(6).locator(":scope > span", has_text=FAMILY).first
        emoji_box = emoji.bounding_box()
        assert emoji_box["width"] < 2.6 * 16.3  # one picture, not four
        assert boxes.nth(6).locator(".x").count() == 0
        assert boxes.nth(6).locator(".b").text_content() == "e"  # the pattern of GPT-2 divides letters from accents
        assert boxes.nth(6).locator(".p").text_content() == "\u25cc\u0301"
        assert boxes.nth(1).locator(".x").first.text_content() in ("ed 95", "ed")
        assert boxes.nth(5).evaluate("box => getComputedStyle(box).unicodeBidi") == "plaintext"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessibility(browser, tmp_path, scheme, wide, narrow):
    package = pytest.importorskip("axe_playwright_python", reason="needs axe-playwright-python (group test-browser)")
    path = tmp_path / "report.html"
    texts = {"en": "low low é", "ko": "한국"}
    tokenizers = {"wide": wide.truncate_vocab(270)[0], "narrow": narrow}
    write_page(path, tokenizers, bpe.evaluate(tokenizers, {name: [text] * 2 for name, text in texts.items()}), texts)
    with OpenPage(browser, path.as_uri(), color_scheme=scheme, bypass_csp=True) as page:
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        page.locator(f"{BOXES} > span").first.focus()
        page.add_script_tag(path=Path(package.__file__).parent / "axe.min.js")
        report = page.evaluate("axe.run({resultTypes: ['violations']})")
        assert [(violation["id"], violation["nodes"][0]["html"]) for violation in report["violations"]] == []


def test_screen_readers_find_a_name_for_everything(browser, report):
    """In the tree that Chromium gives to screen readers."""
    opened = OpenPage(browser, report.as_uri())
    with opened as page:
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        page.locator(f"{BOXES} > span").first.focus()
        nodes = opened.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    by_id = {node["nodeId"]: node for node in nodes}
    roles: dict[str, list[dict[str, Any]]] = {}
    for node in nodes:
        if not node["ignored"]:
            roles.setdefault(node["role"]["value"], []).append(node)
    for role in (
        "heading",
        "link",
        "button",
        "listbox",
        "option",
        "image",
        "graphics-symbol",
        "columnheader",
        "rowheader",
    ):
        assert roles[role]
        assert [node["nodeId"] for node in roles[role] if not node["name"]["value"].strip()] == [], role
    names = [node["name"]["value"] for node in roles["listbox"]]
    assert len(names) == len(set(names)) == 2 * len(TEXTS)
    assert "wide, ko: the tokens" in names
    assert any(node["name"]["value"].startswith("ed, id ") for node in roles["option"])  # a part of a character
    assert len(roles["columnheader"]) >= 2 * len(roles["table"])
    for table in roles["table"]:
        ancestor = table
        while not ancestor.get("name", {}).get("value"):
            ancestor = by_id[ancestor["parentId"]]
        assert ancestor["role"]["value"] in ("table", "group"), "a table has no name, and no box with one"


def test_ten_megabytes_make_a_small_page(browser, tmp_path, narrow):
    path = tmp_path / "long.html"
    write_page(path, {"narrow": narrow}, texts={"long": (demo.page() * 1500)[:7_000_000]})
    assert path.stat().st_size < 2_000_000
    with OpenPage(browser, path.as_uri()) as page:
        assert page.evaluate("document.querySelectorAll('*').length") < 40_000
        page.locator(f"{BOXES} > span").nth(1).hover()
        assert page.locator("#details").is_visible()


# The playground -------------------------------------------------------------------------------------------------------


@pytest.fixture
def playground(wide: bpe.Tokenizer, narrow: bpe.Tokenizer) -> Iterator[Playground]:
    with serve_playground({"wide": wide, "narrow": narrow}) as server:
        yield server


def test_playground_follows_typing(browser, playground, wide):
    opened = OpenPage(browser, playground.url)
    with opened as page:
        boxes = page.locator(f"#panels {BOXES}")
        assert boxes.count() == 2
        for text in ["lowest 한국", *HOSTILE]:
            with page.expect_response("**/tokens"):
                page.fill("textarea", text)
            typed = page.input_value("textarea").encode("utf-8", "replace")
            page.wait_for_function(
                "t => document.querySelector('#panels div.bpe-tokens').textContent === t",
                arg=draw_text(wide.tokens(typed)) + "\n" * (not typed.endswith(b"\n")),
            )
        assert page.evaluate("window.hit") is None
        assert opened.said == []
        assert {url.removeprefix(playground.url) for url in opened.requests} <= {"", "tokens", "favicon.ico"}
        with page.expect_response("**/tokens"):
            page.fill("textarea", "low")
        page.wait_for_function("document.querySelectorAll('#panels div.bpe-tokens')[0].textContent === 'low\\n'")
        page.locator(f"#panels {BOXES} > span").first.click()
        assert "id " in page.locator("#facts").inner_text()


def test_playground_without_javascript(browser, playground):
    with OpenPage(browser, playground.url, java_script_enabled=False) as page:
        page.fill("textarea", "</textarea><b>한국")
        page.click("button[type=submit]")
        assert page.input_value("textarea") == "</textarea><b>한국"
        assert page.locator(f"#panels {BOXES}").first.text_content() == "</textarea><b>한국\n"


def test_other_sites_get_nothing_from_the_playground(browser, playground, tmp_path, monkeypatch):
    texts: list[str] = []
    monkeypatch.setattr(playground, "draw_panels", lambda text: (texts.append(text), {}))
    port = playground.server_port
    with OpenPage(browser, f"http://{REBOUND}:{port}/") as page:
        assert "names another server" in page.content()
        send = """async url => {
            const options = {method: "POST", body: '{"text": "low"}', headers: {"Content-Type": "application/json"}};
            try { return (await fetch(url, options)).status } catch (error) { return "no answer" }
        }"""
        assert page.evaluate(send, "tokens") == 421
        assert page.evaluate(send, f"{playground.url}tokens") == "no answer"
    path = tmp_path / "other.html"
    form = f'<form method=post action="{playground.url}tokens" enctype="text/plain"><button>x</button></form>'
    path.write_text(f"<!doctype html><title>x</title>{form}<iframe src='{playground.url}'></iframe>")
    with OpenPage(browser, path.as_uri()) as page:
        assert page.evaluate(send, f"{playground.url}tokens") == "no answer"
        with page.expect_navigation():
            page.click("button")
        assert "another site" in page.content()
    assert texts in ([], [playground_module._SAMPLE]), "the frame asks for the page, which it may not show"


# Notebooks ------------------------------------------------------------------------------------------------------------


def test_hostile_texts_in_a_notebook_are_shown_and_do_nothing(browser, tmp_path):
    tok = bpe.train(texts=HOSTILE * 2, num_merges=300, special_tokens=[HOSTILE[0]])
    evaluation = bpe.evaluate({HOSTILE[4]: tok}, {HOSTILE[5]: HOSTILE})
    outputs = [tok, bpe.count_words(texts=HOSTILE), evaluation, *(tok.show(text) for text in HOSTILE)]
    body = "".join(output._repr_html_() for output in outputs) + plots.show_merges(tok, HOSTILE[1])._repr_html_()
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><meta charset=utf-8><title>x</title>{body}", encoding="utf-8")
    opened = OpenPage(browser, path.as_uri())
    with opened as page:
        assert page.evaluate("window.hit") is None
        assert opened.said == []
        assert opened.requests == [path.as_uri()]
        assert page.locator("script, iframe, img, link, base, svg[onload]").count() == 0
        shown = page.locator("body").inner_text()
        assert "window.hit" in shown
        assert not set("\u202e\u2066\x1b\x07\x00") & set(shown), "control characters and overrides have labels"


def test_steps_of_a_notebook_need_no_script(browser, tmp_path, wide):
    steps = plots.show_merges(wide, "lowest")
    path = tmp_path / "steps.html"
    both = f"<!doctype html><meta charset=utf-8><title>x</title>{steps.html()}{steps.html()}"
    path.write_text(both, encoding="utf-8")
    with OpenPage(browser, path.as_uri(), java_script_enabled=False) as page:
        last_step = len(steps) - 1
        shown = page.locator(".step:visible")
        assert [text.split(":")[0] for text in shown.all_inner_texts()] == [f"step 0 of {last_step}"] * 2
        page.locator("input").first.focus()
        page.keyboard.press("ArrowRight")
        assert [text.split(":")[0] for text in shown.all_inner_texts()] == [
            f"step 1 of {last_step}",
            f"step 0 of {last_step}",
        ]
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        assert "lowest" in shown.first.inner_text()


def test_cards_keep_their_alignment_in_jupyter(browser, tmp_path, wide):
    """JupyterLab and nbconvert align all cells to the right, by a rule that comes after the card's."""
    path = tmp_path / "card.html"
    rule = ".jp-RenderedHTMLCommon td, .jp-RenderedHTMLCommon th {text-align: right}"
    card = bpe.count_words(texts=["low lower"])._repr_html_()
    page = f'<title>x</title><div class="jp-RenderedHTMLCommon">{card}</div><style>{rule}</style>'
    path.write_text(f"<!doctype html><meta charset=utf-8>{page}", encoding="utf-8")
    with OpenPage(browser, path.as_uri()) as page:
        cells = page.locator("th, td").evaluate_all(
            "cells => cells.map(cell => [cell.className === 'n', getComputedStyle(cell).textAlign])"
        )
        assert {True, False} == {is_number for is_number, _ in cells}
        assert all(align == ("end" if is_number else "start") for is_number, align in cells)
