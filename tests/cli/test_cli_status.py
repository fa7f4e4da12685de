"""The command `bpe`: errors, interruption, behaviour as a process, and the exit status of each."""

import io
import itertools
import logging
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from conftest import fails

import bpe
from bpe.cli import main, parsing
from bpe.formats import id_files
from bpe.training.checkpoint import Checkpoint

# Wrong usage, status 2 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("tarin a.txt", "invalid choice: 'tarin'"),
        ("train a.txt -o t.json", "one of the arguments --vocab-size --num-merges is required"),
        ("train a.txt --vocab-size 300", "required: -o/--output"),
        ("train -o t.json --vocab-size 300", "either FILES or --counts"),
        ("train a.txt --counts w -o t.json --vocab-size 300", "either FILES or --counts"),
        ("train --counts w -o t.json --vocab-size 300 --per-line", "--per-line cut FILES"),
        ("train --counts w -o t.json --vocab-size 300 --separator x", "--separator and .* cut FILES"),
        ("train a.txt -o t.json --vocab-size 300 --num-merges 3", "not allowed with"),
        ("train a.txt -o t.json --vocab-size 0", "'0' is not a whole number from 1 to 2147483648"),
        ("train a.txt -o t.json --vocab-size 3e4", "'3e4' is not a whole number"),
        ("train a.txt -o t.json --vocab-size 300 --threads 0", "from 1 to 4096"),
        ("train a.txt -o t.json --vocab-size 300 --tie-break random", "invalid choice: 'random'"),
        ("train a.txt -o t.json --vocab-size 300 --pretokenizer gpt5", "'gpt5'; it must be one of 'gpt2'"),
        ("train a.txt -o t.json --vocab-size 300 --pattern (", "does not compile"),
        ("train a.txt -o t.json --vocab-size 300 --remove (", "does not compile"),
        ("train a.txt -o t.json --vocab-size 300 --pattern x --pretokenizer gpt2", "not allowed with"),
        ("train a.txt -o t.json --vocab-size 300 --normalizer nfx", "normalizer 'nfx' is not known; the names"),
        ("train a.txt -o t.json --vocab-size 300 --end-of-word-glued", "needs --end-of-word"),
        ("train a.txt -o t.json --vocab-size 300 --per-line --separator x", "not allowed with"),
        (r"train a.txt -o t.json --vocab-size 300 --separator \q", r"has '\\\\q'; known are \\n \\r \\t"),
        ("train - - -o t.json --vocab-size 300", "stdin.* only once"),
        ("train a.txt -o - --vocab-size 300", "to a file, not to stdout"),
        ("train a.txt -o t.json --vocab 300", "unrecognized arguments: --vocab; did you mean --vocab-size"),
        (f"train a.txt -o t.json --vocab-size 300 --max-memory {'9' * 5000}", "it must be less than 2"),
        ("count-words -o w.counts", "required: FILE"),
        ("count-words a.txt", "required: -o/--output"),
        ("count-words a.txt -o -", "to a file, not to stdout"),
        ("count-words a.txt -o w.counts --pretokenizer gpt5", "'gpt5'; it must be one of 'gpt2'"),
        ("count-words a.txt -o w.counts --pattern (", "does not compile"),
        ("count-words a.txt -o w.counts --pattern x --pretokenizer gpt2", "not allowed with"),
        ("count-words a.txt -o w.counts --per-line --separator x", "not allowed with"),
        ("count-words a.txt -o w.counts --threads 0", "from 1 to 4096"),
        ("count-words a.txt -o w.counts --timeout 0", "more than 0 seconds"),
        ("encode a.txt -t t.json --timeout soon", "'soon' is not a number of seconds"),
        ("count-words a.txt -o w.counts --normalizer nfx", "normalizer 'nfx' is not known; the names"),
        ("count-words - - -o w.counts", "stdin.* only once"),
        ("merge-counts -o w.counts", "required: A"),
        ("merge-counts a.counts", "required: -o/--output"),
        ("merge-counts a.counts -o -", "to a file, not to stdout"),
        ("encode a.txt", "required: -t"),
        ("encode -t t.json", "either FILES or --text"),
        ("count a.txt -t t.json --text x", "either FILES or --text"),
        ("encode -t t.json --text x --format native -o o", "--text gives ids, and --format native writes"),
        ("decode a b -t t.json", "give one file, or ids such as 12 13; there are 2 words, and a is no id"),
        ("decode 1 2 b -t t.json", "give one file, or ids such as 12 13; there are 3 words, and b is no id"),
        ("-t t.json", "no command is given"),
        ("encode a.txt -t t.json --format npy", "needs -o ids.npy"),
        ("encode a.txt -t t.json -o a.parquet", r"a\.parquet would hold lines of ids, not \.parquet; name it \.txt or"),
        ("encode a.txt -t t.json -o a.BIN", r"a\.BIN would hold lines of ids, not \.bin; name it .* or say --format"),
        ("encode a.txt -t t.json --format csv", "invalid choice"),
        ("encode a.txt -t t.json --format parquet", r"--format parquet needs -o OUT/: the folder for the shards"),
        ("encode a.txt -t t.json --shard-size 5", r"--shard-size is for training shards; give --format native, "),
        ("decode -t t.json", "required: FILE"),
        ("show -t t.json", "required: TEXT"),
        ("demo --vocab-size 255", "from 256 to 2147483648"),
        ("info", "required"),
    ],
)
def test_wrong_usage_has_status_2(line, pattern, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("some text")
    err = fails(capsys, line.split(), 2, pattern)
    assert re.match(r"bpe( [\w-]+)?: error: ", err)
    assert err.rstrip().endswith("--help")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_an_empty_separator_is_wrong_usage(capsys):
    fails(capsys, ["encode", "a.txt", "-t", "t.json", "--separator", ""], 2, "at least one character")


@pytest.mark.parametrize(
    ("text", "meant"), [(r"\n", "\n"), (r"\r\n\t\0", "\r\n\t\0"), (r"\\n", r"\n"), ("<|end|>", "<|end|>"), ("é", "é")]
)
def test_escapes_in_separators(text, meant):
    assert parsing.unescape(text) == meant


def test_help_and_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"bpe {bpe.__version__}\n"
    for command in ("train", "count-words", "merge-counts", "encode", "decode", "count", "info", "show", "demo"):
        assert main([command, "--help"]) == 0
        assert command in capsys.readouterr().out
    assert main(["--help"]) == 0
    assert "demo" in capsys.readouterr().out


def test_slow_patterns_name_the_flag(capsys, tmp_path):
    """The time limit of a pattern, on the command line and in a file, and the flag that sets it."""
    (tmp_path / "a.txt").write_text("a" * 60)
    pattern = bpe.Pretokenizer.from_regex("(a|a)+b")
    bpe.train(texts=["aab"], vocab_size=257, pretokenizer=pattern).save(tmp_path / "t.json")
    corpus, file = str(tmp_path / "a.txt"), str(tmp_path / "t.json")
    for line in (
        ["count-words", corpus, "-o", str(tmp_path / "w.counts"), "--pattern", "(a|a)+b"],
        [
            "train",
            corpus,
            "-o",
            str(tmp_path / "u.json"),
            "--vocab-size",
            "260",
            "--pattern",
            "(a|a)+b",
            "--gaps",
            "keep",
        ],
        ["encode", corpus, "-t", file],
        ["encode", corpus, "-t", file, "--format", "npy", "-o", str(tmp_path / "shards")],
        ["count", corpus, "-t", file],
    ):
        fails(capsys, [*line, "--timeout", "0.1"], 1, r"took more than 0\.1 s .*, or pass a longer --timeout")


# Invalid input, status 1 ----------------------------------------------------------------------------------------------


def test_missing_files_are_named(tmp_path, tokenizer_file, text_file, capsys):
    gone = str(tmp_path / "gone.txt")
    pattern = r"gone\.txt: No such file"
    fails(capsys, ["train", text_file, gone, "-o", str(tmp_path / "t.json"), "--vocab-size", "300"], 1, pattern)
    fails(capsys, ["encode", text_file, gone, "-t", tokenizer_file], 1, pattern)
    fails(capsys, ["encode", text_file, "-t", gone], 1, pattern)
    fails(capsys, ["decode", gone, "-t", tokenizer_file], 1, pattern)
    fails(capsys, ["count", text_file, gone, "-t", tokenizer_file], 1, pattern)
    fails(capsys, ["info", gone], 1, pattern)
    (tmp_path / "_empty").mkdir()
    fails(capsys, ["encode", str(tmp_path / "_empty"), "-t", tokenizer_file], 1, "the directory has no files")
    fails(capsys, ["encode", str(tmp_path / "*.md"), "-t", tokenizer_file], 1, "the pattern matches no file")
    (tmp_path / "_empty").rmdir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.txt"]


def test_invalid_outputs_are_refused_first(tmp_path, tokenizer_file, text_file, capsys, monkeypatch):
    monkeypatch.setattr(bpe, "train", None)  # must not be called
    monkeypatch.setattr(bpe.Tokenizer, "encode_batch", None)
    size = ["--vocab-size", "300"]
    nowhere = str(tmp_path / "no" / "out")
    fails(capsys, ["train", text_file, "-o", nowhere, *size], 1, "folder .*no does not exist; make it first")
    fails(capsys, ["encode", text_file, "-t", tokenizer_file, "-o", nowhere], 1, "does not exist")
    fails(capsys, ["decode", text_file, "-t", tokenizer_file, "-o", nowhere], 1, "does not exist")
    fails(capsys, ["train", text_file, "-o", str(tmp_path), *size], 1, "is a folder")
    fails(capsys, ["train", text_file, "-o", os.devnull, *size], 1, "is no regular file")
    old_content = Path(text_file).read_bytes()
    fails(capsys, ["train", text_file, "-o", text_file, *size], 1, "is one of the inputs")
    fails(capsys, ["encode", text_file, "-t", tokenizer_file, "-o", text_file], 1, "is one of the inputs")
    fails(capsys, ["encode", text_file, "-t", tokenizer_file, "-o", tokenizer_file], 1, "is one of the inputs")
    assert Path(text_file).read_bytes() == old_content
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_invalid_tokenizer_files_are_named(tmp_path, text_file, capsys):
    path = tmp_path / "t.json"
    for content in (b"", b"{", b"[]", b"{}", b'{"model": {"type": "WordPiece"}}', b"\xff\xfe"):
        path.write_bytes(content)
        fails(capsys, ["encode", text_file, "-t", str(path), "-o", str(tmp_path / "out")], 1, r"t\.json")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("ids", "pattern"),
    [
        (b"1 2\n3 x4\n", r"ids\.txt, line 2: 'x4' is not a token id"),
        (b"1 -2\n", r"line 1: '-2' is not a token id"),
        (b"1,2\n", "'1,2' is not a token id"),
        (b"1.5\n", "'1.5' is not a token id"),
        (b"caf\xe9\n", "not a token id"),
        (b"1\n300\n", "line 2: .*300"),
        (b"99999999999999999999\n", "line 1"),
        (b"4294967296\n", "line 1: .*4294967296"),
    ],
)
def test_invalid_ids_are_refused(tmp_path, tokenizer_file, capsys, ids, pattern):
    (tmp_path / "ids.txt").write_bytes(ids)
    out = tmp_path / "out.txt"
    fails(capsys, ["decode", str(tmp_path / "ids.txt"), "-t", tokenizer_file, "-o", str(out)], 1, pattern)
    assert [path.name for path in tmp_path.iterdir()] == ["ids.txt"], "a failed command leaves no output file"


@pytest.mark.parametrize("through", ["a file", "a file with offsets", "a pipe"])
def test_invalid_npy_files_are_refused(tmp_path, tokenizer_file, capsys, monkeypatch, through):
    path = tmp_path / "x.npy"
    buffer = io.BytesIO()
    np.save(buffer, np.array([1, 2, 3]))
    data = buffer.getvalue()
    offsets = tmp_path / "x.offsets.npy"

    def bad(data, message, name=r"x\.npy"):
        if through == "a pipe":
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        else:
            path.write_bytes(data)
        argument = "-" if through == "a pipe" else str(path)
        fails(
            capsys,
            ["decode", argument, "-t", tokenizer_file],
            1,
            f"{'stdin' if through == 'a pipe' else name}: .*{message}",
        )

    if through == "a file with offsets":
        np.save(offsets, np.array([0, 3]))
    for array, message in (
        (np.zeros(3), "<f8 of shape"),
        (np.zeros((2, 2), dtype=np.uint32), r"shape \(2, 2\)"),
        (np.array(3), r"shape \(\)"),
        (np.array([-1]), "-1 is out of range"),
        (np.array([1, 2**40]), "1099511627776 is out of range"),
        (np.array([{}], dtype=object), "must be a .npy file of token ids"),
        (np.array(["a"]), "<U1 of shape"),
    ):
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=True)
        if through == "a file with offsets":
            np.save(offsets, np.array([0, array.size]))
        bad(buffer.getvalue(), message)
    if through == "a file with offsets":
        np.save(offsets, np.array([0, 3]))
    for size in (6, 8, 9, 50, 127, 128, len(data) - 8, len(data) - 4):
        bad(data[:size], "must be a (complete )?.npy file")
    if through == "a file with offsets":
        path.write_bytes(data)
        np.save(offsets, np.array([0, 0, 2, 3, 3]))
        assert main(["decode", str(path), "-t", tokenizer_file, "--separator", "|"]) == 0
        assert capsys.readouterr().out.count("|") == 3
        for invalid_offsets in ([0, 2], [0, 3, 2, 3], [], [0.0, 3.0]):
            np.save(offsets, np.array(invalid_offsets))
            bad(data, "", r"x\.offsets\.npy")


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<u4', 'fortran_order': False, 'shape': (1,), ",
        "{'descr': '''<u4",
        "  a\n b\n{",
        "{'descr': '<u4', 'fortran_order': False, 'shape': (" + "-" * 9000 + "1,)}",
        "(" * 100_000,
        "{'descr': [('a'," * 200,
        "{'descr': '<u4\0', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': ('<u4', (0,)), 'fortran_order': False, 'shape': (4,)}",
        "{'descr': '|V0', 'fortran_order': False, 'shape': (4,)}",
        "{'descr': '<u4', 'fortran_order': False, 'shape': (True,)}",
        "{'descr': '<u4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<u4', 'fortran_order': False, 'shape': (4611686018427387904,)}",
        "{'descr': '<u4', 'fortran_order': False, 'shape': (1000000000000000000000000000000,)}",
        "{'descr': '<u4', 'descr': '<u4', 'shape': (4,)}",
    ],
)
def test_headers_of_npy_files_are_not_evaluated(header):
    """NumPy parses headers as Python, which may raise TokenError or IndentationError, or take all memory."""
    for version, width in ((1, 2), (2, 4), (3, 4), (9, 4)):
        if len(header) < 1 << 8 * width:
            data = b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(width, "little") + header.encode()
            with pytest.raises(bpe.FormatError, match=r"npy file|token ids"):
                list(id_files.read_ids(io.BytesIO(data + bytes(64)), None))


def test_headers_of_npy_files_are_read_as_numpy_reads_them():
    names = ["'<u4'", "'>i8'", "'|u1'", "(4,)", "True", "'<u4,'"]
    shapes = ["(5,)", "( 5 ,\n)", "(5)", "'5'", "'(5,)'", "True"]
    n_read = 0
    for name, order, shape in itertools.product(names, ["False", "True", "'x'", "(1,)", "()"], shapes):
        text = f"{{'descr': {name}, 'fortran_order': {order}, 'shape': {shape}}}\n".encode()
        data = b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + bytes(64)
        expected = None
        with suppress(ValueError, TypeError):
            expected = np.load(io.BytesIO(data))
        if expected is None or expected.dtype.kind not in "iu":
            with pytest.raises(bpe.FormatError):
                id_files.parse_npy_header(data, "x.npy")
        else:
            header = id_files.parse_npy_header(data, "x.npy")
            assert (header.length, header.dtype) == (len(expected), expected.dtype)
            n_read += 1
    assert n_read == 3 * 2 * 2


def test_a_character_model_names_the_file_that_it_cannot_encode(tmp_path, text_file, capsys):
    tok = tmp_path / "t.json"
    bpe.train(texts=["abc abd"], num_merges=2, model="char").save(tok)
    (tmp_path / "fine.txt").write_text("ab abc")
    Path(text_file).write_bytes(b"abc \xff")
    argv = ["encode", str(tmp_path / "fine.txt"), text_file, "-t", str(tok), "-o", str(tmp_path / "ids")]
    fails(capsys, argv, 1, r"text\.txt, offset 4: byte 0xff is not UTF-8")
    assert not (tmp_path / "ids").exists()
    argv = ["train", text_file, "-o", str(tmp_path / "u.json"), "--model", "char", "--vocab-size", "300"]
    fails(capsys, argv, 1, r"offset 4: byte 0xff is not UTF-8 .*pass --encoding-errors replace to read")
    fails(capsys, [*argv, "--encoding-errors", "bytes"], 1, "--encoding-errors is 'bytes', but a character model")
    assert not (tmp_path / "u.json").exists()


def test_impossible_training(tmp_path, text_file, capsys):
    out = tmp_path / "t.json"
    (tmp_path / "empty.txt").write_bytes(b"")
    fails(capsys, ["train", str(tmp_path / "empty.txt"), "-o", str(out), "--vocab-size", "300"], 1, "no words")
    fails(capsys, ["train", text_file, "-o", str(out), "--vocab-size", "100"], 1, "100")
    fails(capsys, ["train", "--counts", text_file, "-o", str(out), "--vocab-size", "300"], 1, "is no word with a count")
    assert not out.exists()


# Interruptions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("raised", "status"), [(KeyboardInterrupt, 130), (MemoryError, 1), (BrokenPipeError, 0)])
def test_interruptions_leave_no_files(tmp_path, tokenizer_file, text_file, monkeypatch, capsys, raised, status):
    def block_ids(*args, **kwargs):
        raise raised

    monkeypatch.setattr("bpe.cli.encoding.encode_blocks", block_ids)
    monkeypatch.setattr("bpe.cli.silence_stdout", lambda: None)
    for name in ("ids.txt", "ids.npy"):
        assert main(["encode", text_file, "-t", tokenizer_file, "-o", str(tmp_path / name)]) == status
        out, err = capsys.readouterr()
        assert out == ""
        assert err == {130: "bpe: interrupted: nothing was saved\n", 1: "bpe: error: out of memory\n", 0: ""}[status]
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_the_log_handler_is_removed_when_the_command_ends(tokenizer_file, capsys):
    handlers = list(logging.getLogger("bpe").handlers)
    main(["info", tokenizer_file])
    main(["info", "gone.json"])
    assert logging.getLogger("bpe").handlers == handlers


# As a process ---------------------------------------------------------------------------------------------------------


def start_process(*argv, command=(sys.executable, "-m", "bpe"), **options):
    return subprocess.run([*command, *argv], capture_output=True, timeout=120, check=False, **options)


def test_python_m_bpe_works_like_the_command(tmp_path, text_file, programs):
    path = str(tmp_path / "t.json")
    result = start_process("train", text_file, "-o", path, "--vocab-size", "280", "--quiet")
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")
    data = Path(text_file).read_bytes()
    command = [programs / "bpe"]
    ids = start_process("encode", "-", "-t", path, command=command, input=data)
    assert (ids.returncode, ids.stderr) == (0, b""), "no progress bar without a terminal"
    back = start_process("decode", "-", "-t", path, command=command, input=ids.stdout)
    assert (back.returncode, back.stdout, back.stderr) == (0, data, b"")
    assert start_process("encode", command=command).returncode == 2


def test_text_is_utf8_whatever_the_locale(tokenizer_file):
    tok = bpe.Tokenizer.load(tokenizer_file)
    for locale in ("C.UTF-8", "C"):
        result = start_process(
            "show", "다람쥐", "-t", tokenizer_file, env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": locale}
        )
        assert result.returncode == 0
        assert result.stdout.decode() == bpe.show.terminal.render(tok.tokens("다람쥐"), colour=False) + "\n"


def test_a_closed_pipe_is_silent(tmp_path, tokenizer_file):
    (tmp_path / "long.txt").write_text("low lower newest widest\n" * 20_000)
    argv = [sys.executable, "-m", "bpe", "encode", str(tmp_path / "long.txt"), "-t", tokenizer_file, "--per-line"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(timeout=120) == 0


def test_a_closed_trace_does_not_lose_the_tokenizer(tmp_path, text_file):
    path = tmp_path / "t.json"
    (tmp_path / "words.txt").write_text(" ".join(f"word{i * i}" for i in range(3000)))
    argv = [sys.executable, "-m", "bpe", "train", str(tmp_path / "words.txt"), "-o", str(path), "--vocab-size", "2500"]
    with subprocess.Popen([*argv, "--trace", "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout.readline() == b"step\tleft\tright\ttoken\tcount\n"
        assert running.stdout.readline().startswith(b"1\t")
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(timeout=120) == 0
    assert bpe.Tokenizer.load(path).vocab_size == 2500


def test_ctrl_c_ends_with_130(tmp_path, tokenizer_file):
    fcntl, termios = (pytest.importorskip(name) for name in ("fcntl", "termios"))
    os.mkfifo(tmp_path / "never")
    pipe = os.open(tmp_path / "never", os.O_RDWR)  # a pipe that can be opened and never ends
    argv = [sys.executable, "-m", "bpe", "encode", str(tmp_path / "never"), "-t", tokenizer_file]
    argv += ["-o", str(tmp_path / "out")]
    # A background job of a shell ignores SIGINT, and so do its child processes; a command at a terminal does not.
    heeding = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with subprocess.Popen(argv, stderr=subprocess.PIPE, **heeding) as running:
        try:
            os.write(pipe, b"low")
            while (
                fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4) != b"\0" * 4
            ):  # until the command has read this and waits
                assert running.poll() is None
                time.sleep(0.01)
            running.send_signal(signal.SIGINT)
            assert running.wait(timeout=120) == 130
        finally:
            running.kill()
        assert running.stderr.read() == b"bpe: interrupted: nothing was saved\n"
    os.close(pipe)
    assert [path.name for path in tmp_path.iterdir()] == ["never"]


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no SIGHUP")
def test_signals_that_end_a_job_save_what_ctrl_c_saves(tmp_path, text_file, tokenizer_file, monkeypatch, capsys):
    keep, checkpoint = Checkpoint.save_merges_if_due, str(tmp_path / "c")
    argv = ["train", text_file, "-o", str(tmp_path / "t.json"), "--num-merges", "9", "--checkpoint", checkpoint]
    old_handler = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which the process that runs the tests may ignore
    for signal_number, learned in ((signal.SIGTERM, 3), (signal.SIGHUP, 6)):

        def keeping(self, merges, signal_number=signal_number, learned=learned):
            keep(self, merges)
            if len(merges()) >= learned:
                os.kill(os.getpid(), signal_number)
                os.kill(os.getpid(), signal_number)  # a second one ends nothing that the first one has begun
                time.sleep(1)

        with monkeypatch.context() as patch:
            patch.setattr(Checkpoint, "save_merges_if_due", keeping)
            patch.setattr("bpe.training.trainer.MERGES_PER_CALL", 1)
            assert main(argv) == 128 + signal_number
        name = signal.Signals(signal_number).name
        last = capsys.readouterr().err.splitlines()[-1]
        assert last.startswith(f"bpe: ended by {name}: the checkpoint {checkpoint} has the word counts and {learned} ")
        assert signal.getsignal(signal_number) == signal.SIG_DFL
    assert main(argv) == 0
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # under nohup
    try:
        assert main(argv) == 0
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, old_handler)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_process_that_waits_ends_with_sigterm(tmp_path, tokenizer_file):
    os.mkfifo(tmp_path / "pipe")
    argv = [sys.executable, "-m", "bpe", "encode", str(tmp_path / "pipe"), "-t", tokenizer_file, "--format", "native"]
    with subprocess.Popen([*argv, "-o", str(tmp_path / "shards")], stderr=subprocess.PIPE, text=True) as running:
        pipe = None
        while pipe is None:  # until it is open on the other side
            assert running.poll() is None
            with suppress(OSError):
                pipe = os.open(tmp_path / "pipe", os.O_WRONLY | os.O_NONBLOCK)
            time.sleep(0.01)
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=120) == 143
        os.close(pipe)
        assert running.stderr.read().startswith("bpe: ended by SIGTERM: 0 shards finished")


def test_importing_the_command_line_loads_no_optional_package():
    code = "import sys, bpe.cli; print(*{'tqdm', 'bpe.cli.demo', 'pyarrow', 'tokenizers', 'ftfy'} & set(sys.modules))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert process.stdout.split() == []
