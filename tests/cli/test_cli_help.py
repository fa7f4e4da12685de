"""The command `bpe`: its manual, its completion scripts, suggestions, and errors that name flags."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from conftest import fails

import bpe
from bpe.cli import arguments, main
from bpe.cli.arguments import COMPLETED_VALUES, SHELLS, build_parser, read_manual
from bpe.cli.manual import WIDTH, format_page, format_script
from bpe.cli.parsing import Option, option, replace_with_flags

COMMANDS = {name: build_parser(name) for name in arguments.COMMANDS}
PROSE = read_manual().commands


# The manual -----------------------------------------------------------------------------------------------------------


def test_the_manual_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    out = capsys.readouterr().out
    titles = [line for line in out.splitlines() if re.fullmatch("[A-Z ]+", line)]
    assert titles == [
        *(
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "COMMANDS",
            "EXIT STATUS",
            "FILES",
            "TOKENIZERS",
            "ENVIRONMENT",
            "EXAMPLES",
            "SEE ALSO",
        )
    ]
    for name, prose in PROSE.items():
        assert re.search(rf"^    {name} +{re.escape(prose.summary[:30])}", out, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_manual_of_each_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It has everything that the parser knows. Lines fit the width, except examples, which are to be copied."""
    assert main(["help", name]) == 0
    out = capsys.readouterr().out
    assert " ".join(out.split()).startswith(f"NAME bpe {name} - {PROSE[name].summary} SYNOPSIS bpe {name} ")
    for action in COMMANDS[name]._actions:
        for flag in action.option_strings:
            assert re.search(rf"^    (.*, )?{re.escape(flag)}\b", out, re.MULTILINE)
    assert "EXIT STATUS" in out
    described, _, _ = out.partition("EXAMPLES")
    assert max(map(len, described.splitlines())) <= WIDTH
    assert "%(" not in out
    assert "\x1b" not in out


def test_examples_use_existing_commands_and_flags() -> None:
    assert COMMANDS.keys() >= {name for name, prose in PROSE.items() if prose.examples}
    for line in (line for prose in PROSE.values() for line, _ in prose.examples):
        parts = map(shlex.split, re.split(r" \| | > | < ", line.replace('eval "$(', "").replace(')"', "")))
        commands = [words[1:] for words in parts if words[0] == "bpe"]
        assert commands, line
        for name, *args in commands:
            COMMANDS[name].parse_args(args)


def test_the_prose_describes_every_command() -> None:
    """In the order of the table, since the help follows the prose, and errors the table."""
    assert list(PROSE) == list(COMMANDS)
    for name, prose in PROSE.items():
        assert all((prose.group, prose.summary, prose.examples)), name


# Completion -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def completed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "bpe.bash"
    path.write_text(format_script("bash"), encoding="utf-8")
    return path


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="needs bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["tr"], {"train", "truncate"}),
        ([""], {*COMMANDS, "--help", "--version"}),
        (["train", "--vo"], {"--vocab-size"}),
        (["train", "a.txt", "--ma"], {"--max-token-length", "--max-memory"}),
        (["train", "--model", ""], {"byte", "char"}),
        (["train", "--tie-break", "s"], {"smallest"}),
        (["train", "--pretokenizer", "l"], {"llama3"}),
        (["count-words", "--normalizer", "nfk"], {"nfkc", "nfkd"}),
        (["train", "--vocab-size", ""], set()),
        (["encode", "-t", ""], set()),  # the shell's own: file names
        (["encode", "a"], set()),
        (["encode", "--format", ""], None),
        (["help", "merge"], {"merge-counts", "merge-manifests"}),
        (["completion", ""], set(SHELLS)),
        (["no-command", "--x"], set()),
    ],
)
def test_completion_in_bash(completed: Path, words: list[str], expected: set[str] | None) -> None:
    program = (
        f". {shlex.quote(str(completed))}; COMP_WORDS=(bpe {shlex.join(words)}); COMP_CWORD={len(words)}; "
        '_bpe; printf "%s\\n" "${COMPREPLY[@]}"; complete -p bpe'
    )
    process = subprocess.run(["/bin/bash", "-uc", program], capture_output=True, text=True, timeout=60, check=True)
    assert process.stderr == ""
    *words, registered = process.stdout.splitlines()
    assert registered == "complete -o default -F _bpe bpe"
    if expected is None:
        expected = set(next(a for a in COMMANDS["encode"]._actions if "--format" in a.option_strings).choices or ())
    assert {word for word in words if word} == expected


def test_completion_in_other_shells(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "zsh"]) == 0
    zsh = capsys.readouterr().out
    assert zsh.startswith("autoload -U +X bashcompinit && bashcompinit\n_bpe() {")
    assert main(["completion", "fish"]) == 0
    fish = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert f"complete -c bpe -n __fish_use_subcommand -f -a {name} -d '" in fish
        lines = [line for line in fish.splitlines() if f"__fish_seen_subcommand_from {name}'" in line]
        for action in command._actions:
            for flag in action.option_strings:
                written = f" -l {flag[2:]} " if flag.startswith("--") else f" -s {flag[1:]} "
                assert any(written in line for line in lines), flag
    assert all(line.replace("\\'", "").count("'") % 2 == 0 for line in fish.splitlines())


def test_completed_values_are_those_of_the_library() -> None:
    for name in COMPLETED_VALUES["--pretokenizer"]:
        if name != "none":
            bpe.count_words(texts=["a"], pretokenizer=name)
    for name in COMPLETED_VALUES["--normalizer"]:
        bpe.count_words(texts=["a"], normalizer=name)  # type: ignore[arg-type]


# Suggestions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("trian a.txt", r"^bpe: error: invalid choice: 'trian'; did you mean train\? \(choose from train, "),
        ("count_words a.txt", r"'count_words'; did you mean count-words\?"),
        ("help encod", r"'encod'; did you mean encode\?"),
        ("xyzzy", r"'xyzzy' \(choose from train, "),
        ("train a.txt -o t.json --vocab-sise 300", r"arguments: --vocab-sise; did you mean --vocab-size\?; see bpe tr"),
        ("train a.txt -o t.json --vocab_size=300", r"arguments: --vocab_size; did you mean --vocab-size\?"),
        ("train a.txt -o t.json --xyzzy", r"unrecognized arguments: --xyzzy; see"),
        ("train a.txt --model bite", r"argument --model: invalid choice: 'bite'; did you mean byte\? \(choose from by"),
        ("encode a.txt -t t.json --per-lines", r"did you mean --per-line\?"),
    ],
)
def test_unknown_words_get_a_suggestion(line: str, pattern: str, capsys: pytest.CaptureFixture[str]) -> None:
    fails(capsys, line.split(), 2, pattern)


def test_a_value_may_look_like_a_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("a--x b--x")
    argv = ["train", "-o", str(tmp_path / "t.json"), "--num-merges", "1", "--separator=--x", "--quiet", "--"]
    assert main([*argv, str(tmp_path / "a.txt")]) == 0
    assert bpe.Tokenizer.load(tmp_path / "t.json").tokens("b") == [b"b"]
    fails(capsys, [*argv, "--xyzzy"], 1, "--xyzzy: No such file")


# Errors name flags ----------------------------------------------------------------------------------------------------

#: Python arguments that are flags. Names without an underscore are English words too, so only `name=` is matched.
PYTHON = {
    *inspect.signature(bpe.train).parameters,
    *inspect.signature(bpe.count_words).parameters,
    *inspect.signature(bpe.Tokenizer.encode_files).parameters,
}


def list_python_arguments(message: str) -> list[str]:
    return [
        name
        for name in PYTHON
        if re.search(rf"(?<![-\w]){name}=", message) or ("_" in name and re.search(rf"(?<![-\w]){name}\b", message))
    ]


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        (
            "--vocab-size 3",
            r"--vocab-size is 3, but the alphabet has 256 symbols, .*; it must be at least 256$",
        ),
        ("--vocab-size 99999999999", r"--vocab-size: '99999999999' is not a whole number from 1 to 2147483648"),
        ("--num-merges 99999999999", r"--num-merges: '99999999999' is not a whole number from 0 to 2147483648"),
        ("--num-merges 3 --threads 5000", r"--threads: '5000' is not a whole number from 1 to 4096"),
        (
            "--num-merges 3 --max-token-length 99999999999",
            r"--max-token-length: '99999999999' is not a whole number from 1",
        ),
        ("--num-merges 3 --max-memory 3M", r"error: --max-memory is 3145728 bytes \(3 MB\), but this"),
        ("--num-merges 3 --max-memory much", r"error: --max-memory is 'much'; it must be a number of bytes"),
        ("--num-merges 3 --end-of-word X --special-token X", r"--end-of-word 'X' is a special token too"),
        ("--num-merges 3 --model char --unk-token= ", r"--unk-token is ''; it must be at least one character"),
        ("--num-merges 3 --end-of-word= ", r"--end-of-word is ''; it must be at least one character"),
        ("--num-merges 3 --special-token= ", r"special"),
        ("--num-merges 3 --special-token X --special-token X", r"special"),
        ("--num-merges 3 --model char --bad", r"not UTF-8.*--encoding-errors"),
        ("--num-merges 3 --byte-fallback --model byte", r"--byte-fallback is for models of characters"),
        ("--num-merges 3 --character-coverage 0.5", r"--character-coverage is for models of characters"),
        ("--num-merges 3 --pretokenizer nothing", r"error: --pretokenizer is 'nothing'; it must be one of"),
        ("--num-merges 3 --normalizer nothing", r"argument --normalizer: .*nothing"),
        ("--num-merges 3 --pattern (", r"argument --pattern: .*does not compile"),
        ("--num-merges 3 --remove (", r"argument --remove: .*does not compile"),
        ("--num-merges 3 --unk-token <unk>", None),
        ("--num-merges 3 --per-line --separator X", r"--separator.*--per-line|--per-line.*--separator"),
    ],
)
def test_errors_of_training_name_flags(
    line: str, pattern: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_bytes(b"low lower lowest" + (b"\xff" if "--bad" in line else b""))
    words = [word for word in line.split(" ") if word not in ("", "--bad")]
    status = main(["train", str(tmp_path / "a.txt"), "-o", str(tmp_path / "t.json"), *words])
    err = capsys.readouterr().err.rstrip("\n").removesuffix("; see bpe train --help")
    assert not list_python_arguments(err.replace(str(tmp_path), ""))
    if pattern is not None:
        assert status in (1, 2)
        assert re.search(pattern, err), err


@pytest.mark.parametrize(
    ("first", "then", "pattern"),
    [
        ("--num-merges 3", "--num-merges 4", r"was made with --num-merges 3, but --num-merges 4 is requested"),
        ("--num-merges 3", "--num-merges 3 --tie-break first", r"--tie-break id, but --tie-break first"),
        ("--num-merges 3", "--vocab-size 300", r"with no --vocab-size, but --vocab-size 300"),
        ("--num-merges 3 --end-of-word </w>", "--num-merges 3", r"--end-of-word '</w>', but no --end-of-word"),
        (
            "--num-merges 3 --end-of-word </w>",
            "--num-merges 3 --end-of-word </w> --end-of-word-glued",
            "was made with no --end-of-word-glued, but --end-of-word-glued is requested",
        ),
        ("--num-merges 3", "--num-merges 3 --special-token A", r"--special-token"),
        ("--num-merges 3", "--num-merges 3 --separator x", r"no --separator, but --separator x"),
        ("--num-merges 3", "--num-merges 3 --per-line", r"no --per-line, but --per-line is requested"),
        ("--num-merges 3", "--num-merges 3 --pretokenizer cl100k", r"--pretokenizer "),
        ("--num-merges 3", "--num-merges 3 --normalizer nfc", r"no --normalizer, but --normalizer "),
        (
            "--num-merges 3 --model char",
            "--num-merges 3 --model char --character-coverage 0.5",
            r"--character-coverage",
        ),
    ],
)
def test_errors_of_checkpoints_name_flags(
    first: str, then: str, pattern: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("low lower lowest")
    argv = ["train", str(tmp_path / "a.txt"), "-o", str(tmp_path / "t.json"), "--checkpoint", str(tmp_path / "ckpt")]
    assert main([*argv, *first.split(), "--quiet"]) == 0
    capsys.readouterr()  # discards the warning about files that Hugging Face's library cannot load
    err = fails(capsys, [*argv, *then.split(), "--quiet"], 1, pattern)
    assert not list_python_arguments(err.replace(str(tmp_path), ""))


def test_errors_of_counts_name_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("low lower lowest")
    counting = ["count-words", str(tmp_path / "a.txt"), "--quiet", "-o"]
    paths = [str(tmp_path / name) for name in ("a.counts", "b.counts", "c.counts")]
    for path, more in zip(paths, ([], ["--normalizer", "nfc"], ["--special-token", "low"]), strict=True):
        assert main([*counting, path, *more]) == 0
    training = ["train", "--counts", paths[0], "-o", str(tmp_path / "t.json"), "--num-merges", "2"]
    for argv, pattern in (
        (
            [*training, "--pretokenizer", "cl100k"],
            "made with --pretokenizer gpt2, but --pretokenizer cl100k is requested",
        ),
        ([*training, "--normalizer", "nfc"], r"made with no --normalizer, but --normalizer NFC\(\) is requested"),
        (["merge-counts", *paths[:2], "-o", str(tmp_path / "d")], r"made with --normalizer NFC\(\)"),
        (["merge-counts", paths[0], paths[2], "-o", str(tmp_path / "d")], r"made with --special-token \('low',\)"),
    ):
        err = fails(capsys, argv, 1, pattern)
        assert not list_python_arguments(err.replace(str(tmp_path), ""))


def test_text_of_the_user_is_not_rewritten() -> None:
    train = COMMANDS["train"]
    for text in (
        "special token 'vocab_size' is there twice",
        "/data/vocab_size/a.txt: it is empty",
        "the model is large and the separator of the file is a newline",
        "max_memory_of_mine is none of ours",
        "run.first_id is a file",
    ):
        assert replace_with_flags(text, train) == text


# Files that cannot be written -----------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["encode", "show"])
def test_stdout_on_a_full_disk(command: str, tokenizer_file: str, text_file: str, programs: Path) -> None:
    argv = {
        "encode": ["encode", text_file, "-t", tokenizer_file],
        "show": ["show", "x" * 100_000, "-t", tokenizer_file],
    }[command]
    with open("/dev/full", "wb") as full:
        process = subprocess.run(
            [programs / "bpe", *argv], stdout=full, stderr=subprocess.PIPE, timeout=120, check=False
        )
    assert (process.returncode, process.stderr) == (1, b"bpe: error: stdout: No space left on device\n")


def test_a_read_only_folder_names_the_target(
    tmp_path: Path, text_file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    argv = ["train", text_file, "-o", str(tmp_path / "t.json"), "--num-merges", "2"]
    fails(capsys, argv, 1, f"the output {tmp_path}/t.json cannot be written: its folder {tmp_path} is read-only; name")


def test_the_manual_follows_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new option is in the help, the manual and the scripts."""
    demo = arguments.COMMANDS["demo"]
    more = option("--how", "the way", choices=("a", "b"))
    monkeypatch.setitem(arguments.COMMANDS, "demo", arguments.Command(demo.function, *demo.arguments, more))
    assert "--how {a,b}\n        the way" in format_page("demo")
    assert "--how" in build_parser("demo").format_help()
    assert "demo:--how) words='a b'" in format_script("bash")


def test_an_option_is_described_by_its_usage() -> None:
    assert option("-o --output OUT", "to") == Option(("-o", "--output"), {"help": "to", "metavar": "OUT"})
    assert option("folder IN", "of") == Option(("folder",), {"help": "of", "metavar": "IN"})
    assert option("--quiet", "no log") == Option(("--quiet",), {"help": "no log", "action": "store_true"})
    assert option("--by", "it", choices=("a",)) == Option(("--by",), {"help": "it", "choices": ("a",)})


def test_commands_are_listed_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    groups = re.findall(r"^([a-z ]+):\n((?:  .*\n)+)", capsys.readouterr().out, re.MULTILINE)
    listed = [(name, re.findall(r"^  ([a-z-]+) ", lines, re.MULTILINE)) for name, lines in groups]
    assert listed[0][0] == "options"
    assert [name for _, names in listed[1:] for name in names] == list(COMMANDS)
    assert [name for name, _ in listed[1:]] == list(dict.fromkeys(prose.group for prose in PROSE.values()))
    assert len(listed) > 5


def test_the_command_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    alone = capsys.readouterr()
    assert main(["--help"]) == 0
    assert alone == capsys.readouterr()


def test_training_has_few_options_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "-h"]) == 0
    shown = capsys.readouterr().out
    options = re.findall(r"^  -", shown, re.MULTILINE)
    assert len(options) <= 38
    assert re.findall(r"^(\w+):$", shown, re.MULTILINE) == ["options", "corpus", "words", "vocabulary", "merges", "run"]
