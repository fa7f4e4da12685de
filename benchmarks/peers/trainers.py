"""Training from a file. `train` returns a function that lists the merged tokens, so that listing them is not timed.

The tokens are bytes, in the order of the merges. All adapters use the same pattern unless they say otherwise.
`reference` names the adapter of this package that has the library's tie rule and divides the file as the library does,
so that both make the same tokens; None if there is none.
"""

from __future__ import annotations

import os
from typing import Any

from peers import counters
from peers.common import PATTERN, SEPARATOR, BpeBase, Peer, Tokens, read_documents


class Trainer(Peer):
    """A library that trains."""

    reference: str | None = "bpe"


class BpePeer(BpeBase, Trainer):
    """This package."""

    def train(self, path: str, vocab_size: int, threads: int) -> Tokens:
        """Tokens of merges in order. Bytes have the same ids as in the peers, so that ties break alike."""
        import bpe

        tok = bpe.train(
            files=bpe.Sources(path, separator=SEPARATOR),
            vocab_size=vocab_size,
            threads=threads,
            alphabet=bpe.Alphabet(initial=range(256)),
        )
        return lambda: [tok.token_bytes(index) for index in range(256, tok.vocab_size)]


class BpePeerByLetters(BpePeer):
    """This package with the alphabet in the order of GPT-2's letters, as in `tokenizers`; ties break differently."""

    name = "bpe-letters"
    reference = "bpe-letters"

    def train(self, path: str, vocab_size: int, threads: int) -> Tokens:
        """Tokens of merges in order."""
        import bpe

        tok = bpe.train(files=bpe.Sources(path, separator=SEPARATOR), vocab_size=vocab_size, threads=threads)
        return lambda: [tok.token_bytes(index) for index in range(256, tok.vocab_size)]


class BpePeerByLines(BpePeer):
    """This package with GPT-2's letters, each line as a document and separators as text, as gigabpe reads a file."""

    name = "bpe-lines"
    reference = "bpe-lines"

    def train(self, path: str, vocab_size: int, threads: int) -> Tokens:
        """Tokens of merges in order."""
        import bpe

        with open(path, encoding="utf-8", newline="\n") as file:
            tok = bpe.train(texts=file, vocab_size=vocab_size, threads=threads)
        return lambda: [tok.token_bytes(index) for index in range(256, tok.vocab_size)]


class Gigabpe(Trainer):
    """gigabpe, which reads lines and has Hugging Face's rules."""

    name = "gigabpe"
    reference = "bpe-lines"

    def train(self, path: str, vocab_size: int, threads: int) -> Tokens:
        """Tokens of merges in order; the alphabet has only the bytes of the file, so that some more are made."""
        import gigabpe

        from bpe.text.letters import map_letters_to_bytes

        _, merges = gigabpe.train_bpe([path], vocab_size, pretokenizer="bytelevel", threads=threads)
        read_byte = map_letters_to_bytes()
        pairs = merges[: vocab_size - 256]
        return lambda: [bytes(read_byte[letter] for letter in left + right) for left, right in pairs]


class Gigatoken(Trainer):
    """gigatoken's training."""

    name = "gigatoken"

    def train(self, path: str, vocab_size: int, threads: int) -> Tokens:
        """Tokens of merges in order; gigatoken maps the file."""
        del threads  # from the environment
        from gigatoken import gigatoken_rs

        source = gigatoken_rs.TextFileSource([path], separator=SEPARATOR)
        _, merges = gigatoken_rs.train_bpe(source, vocab_size, [], "raw_token_ids")
        return lambda: [left + right for left, right in merges]


class FFBPE(counters.FFBPE, Trainer):
    """ffbpe's trainer, on the words that its counter found."""

    name = "ffbpe"

    def train(self, path: str, vocab_size: int, threads: int) -> Tokens:
        """Tokens of merges in order."""
        import ffbpe

        trainer = ffbpe.BpeTrainer([], initial_alphabet="raw", tie_break="smallest_pair_id")
        trainer.add_word_counter(self.count(self.read(path), threads))
        trainer.train(vocab_size)
        model = trainer.validate_model()
        return lambda: list_tokens_by_id(model.vocab)


class RustBPE(Trainer):
    """karpathy/rustbpe."""

    name = "rustbpe"

    def train(self, path: str, vocab_size: int, threads: int) -> Tokens:
        """Tokens of merges in order."""
        import rustbpe

        os.environ["RAYON_NUM_THREADS"] = str(threads)
        tok = rustbpe.Tokenizer()
        tok.train_from_iterator(iter(read_documents(path)), vocab_size, pattern=PATTERN)
        return lambda: [bytes(token) for token, rank in tok.get_mergeable_ranks() if rank >= 256]


class BPEasy(Trainer):
    """gautierdag/bpeasy: a trainer; one core."""

    name = "bpeasy"

    def train(self, path: str, vocab_size: int, threads: int) -> Tokens:
        """Tokens of merges in order."""
        del threads  # from the environment
        import bpeasy

        longest = 1 << 20  # bpeasy requires a limit
        vocab = bpeasy.train_bpe(iter(read_documents(path)), PATTERN, longest, vocab_size)
        return lambda: list_tokens_by_id(vocab)


class HuggingFace(Trainer):
    """Hugging Face's `tokenizers`."""

    name = "tokenizers"
    reference = "bpe-letters"

    def train(self, path: str, vocab_size: int, threads: int) -> Tokens:
        """Tokens of merges in order; its ids of bytes are in the order of GPT-2's letters."""
        del threads  # from the environment
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers

        from bpe.text.letters import map_letters_to_bytes

        tok = Tokenizer(models.BPE())
        tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False)
        tok.train_from_iterator(read_documents(path), trainer)
        read_byte = map_letters_to_bytes()
        return lambda: list_tokens_by_id(
            {bytes(read_byte[letter] for letter in token): token_id for token, token_id in tok.get_vocab().items()}
        )


class SentencePiece(Trainer):
    """google/sentencepiece's BPE, which splits words by its own rule and merges characters; outputs differ."""

    name = "sentencepiece"
    reference = None

    def train(self, path: str, vocab_size: int, threads: int) -> Tokens:
        """All pieces except the three special ones; without normalization, and with long lines."""
        import io

        import sentencepiece

        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            input=path,
            model_writer=model,
            model_type="bpe",
            vocab_size=vocab_size,
            character_coverage=1.0,
            normalization_rule_name="identity",
            max_sentence_length=1 << 30,
            num_threads=threads,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        return lambda: [processor.id_to_piece(index).encode() for index in range(3, processor.vocab_size())]


class YouTokenToMe(Trainer):
    """VKCOM/YouTokenToMe, which splits words at white space and merges characters; outputs differ."""

    name = "youtokentome"
    reference = None

    def train(self, path: str, vocab_size: int, threads: int) -> Tokens:
        """All pieces except the four special ones."""
        import tempfile

        import youtokentome

        with tempfile.NamedTemporaryFile() as model:
            tokenizer = youtokentome.BPE.train(
                data=path, model=model.name, vocab_size=vocab_size, coverage=1.0, n_threads=threads
            )
        return lambda: [piece.encode() for piece in tokenizer.vocab()[4:]]


class MinBPE(Trainer):
    """karpathy/minbpe, in Python, for teaching. It breaks ties by first occurrence, so its tokens may differ."""

    name = "minbpe"
    reference = None

    def get_version(self) -> str:
        """The source is used, since minbpe has no release."""
        return "source"

    def train(self, path: str, vocab_size: int, threads: int) -> Tokens:
        """Tokens of merges in order; the documents are concatenated."""
        del threads  # minbpe has one
        import minbpe

        tok = minbpe.RegexTokenizer(PATTERN)
        tok.train("".join(read_documents(path)), vocab_size)
        return lambda: [tok.vocab[index] for index in range(256, len(tok.vocab))]


def list_tokens_by_id(vocab: dict[bytes, int]) -> list[bytes]:
    """The tokens of a vocabulary in the order of their ids, without the 256 bytes."""
    return [token for token, token_id in sorted(vocab.items(), key=lambda item: item[1]) if token_id >= 256]


TRAINERS: dict[str, Any] = {
    peer.name: peer
    for peer in (
        BpePeer, BpePeerByLetters, BpePeerByLines, Gigabpe, Gigatoken, FFBPE, RustBPE, BPEasy, HuggingFace,
        SentencePiece, YouTokenToMe, MinBPE,
    )
}  # fmt: skip
