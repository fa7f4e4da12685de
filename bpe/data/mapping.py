"""`map_function`, which makes a function for `datasets.Dataset.map` (Hugging Face).

Nothing here imports `datasets`; pyarrow, which `datasets` requires, is imported for batches in Arrow's format only.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any

import numpy as np

from bpe.base.forks import cached_property
from bpe.batch import TokenBatch, load_pyarrow
from bpe.errors import check_bool, check_iterable, describe, escape_unprintable, short_repr
from bpe.formats import huggingface
from bpe.tokenizer import Settings, Tokenizer, check_tokenizer, get_settings, make_with_settings
from bpe.vocab.special_tokens import Allowed, sort_names

#: The arguments append, prepend and allowed_special.
EncodeArguments = tuple[int | str | None, int | str | None, str | tuple[str, ...]]


def map_function(
    tokenizer: Tokenizer,
    column: str = "text",
    *,
    output: str = "input_ids",
    length: str | None = None,
    append: int | str | None = None,
    prepend: int | str | None = None,
    allowed_special: Allowed = (),
    keep_columns: bool = True,
) -> MapFunction:
    """Make a function for `datasets.Dataset.map(..., batched=True)` that encodes one column.

    It works with any `num_proc`, and `datasets` finds its cache again: the function's hash is the same in every process
    and run for equal tokenizers and options. On a dataset `with_format("arrow")` no Python list is made, and ids are a
    `large_list`. A null is an empty text. Ids are int32, as `datasets` stores them.

    Args:
        tokenizer: the tokenizer.
        column: the column with the texts.
        output: the column for the ids.
        length: a column for the number of ids of each text, or None.
        append: as for `Tokenizer.encode_batch`.
        prepend: as for `Tokenizer.encode_batch`.
        allowed_special: as for `Tokenizer.encode`.
        keep_columns: with Arrow's format, whether the table returned has the batch's columns too. There
            `datasets.Dataset.map` ignores `remove_columns`.

    Raises:
        TypeError, ValueError: for a column's name that is not a str, and for tokens as `Tokenizer.encode_batch`.

    >>> import bpe
    >>> from bpe.data import map_function
    >>> tok = bpe.train(texts=["a b"], vocab_size=257, special_tokens=["<|end|>"])
    >>> encode = map_function(tok, column="text", append="<|end|>")   # dataset.map(encode, batched=True)
    >>> encode({"text": ["a", "ab"]})["input_ids"]
    [array([65,  0], dtype=int32), array([65, 66,  0], dtype=int32)]

    """
    check_tokenizer(tokenizer)
    for name, value in (("column", column), ("output", output), ("length", length)):
        if not isinstance(value, str) and (name, value) != ("length", None):
            raise TypeError(f"{name} is {describe(value)}; it must be a str, the name of a column")
    if length == output:
        raise ValueError(f"output and length are both {output!r}; they must be two columns")
    columns = column, output, length, check_bool("keep_columns", keep_columns)
    return MapFunction(tokenizer, columns, (append, prepend, sort_names(allowed_special)))


class MapFunction:
    """A function for `datasets.Dataset.map` that encodes one column; made by `map_function`.

    It is pickled as the tokenizer's tokenizer.json, what that does not hold, and its options. Equal tokenizers give
    equal files, so `datasets`, which names its cache after a hash of the pickled function, computes the same
    fingerprint in every process and run.

    >>> import bpe
    >>> tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)
    >>> encode = map_function(tok, length="length")
    >>> encode({"text": ["lower", "", "low"]})
    {'input_ids': [array([257,  68,  81], dtype=int32), array([], dtype=int32), array([257], dtype=int32)], \
'length': array([3, 0, 1])}

    """

    def __init__(
        self, tokenizer: Tokenizer, columns: tuple[str, str, str | None, bool], encoding: EncodeArguments
    ) -> None:
        self.tokenizer, self._encoding = tokenizer, encoding
        self.column, self.output, self.length, self.keep_columns = columns
        self._encode([""])  # checks the options

    def __call__(self, batch: Any) -> Any:
        """Encode a batch of rows, or one row.

        Args:
            batch: what `datasets` passes: a mapping of column names to lists, an Arrow table (`with_format("arrow")`),
                a pandas data frame, or, without `batched=True`, a mapping of column names to values. A null is an empty
                text.

        Returns:
            for an Arrow table, a table with the columns of the batch, if `keep_columns`, and the new ones: ids as
            `large_list<int32>`, lengths as int64. No Python list is made. For a data frame, that frame with the new
            columns. Otherwise a dict of the new columns: a list of int32 arrays, and an int64 array of lengths.

        Raises:
            KeyError: for a batch without the column.

        """
        if hasattr(batch, "column_names") and hasattr(batch, "set_column"):
            return self.encode_table(batch)
        self._check_column(batch)
        texts = batch[self.column]
        if texts is None or isinstance(texts, (str, bytes)):
            ids = self._encode([texts or ""])[0].view(np.int32)
            return {self.output: ids, **({self.length: len(ids)} if self.length else {})}
        check_iterable(self.column, texts, "texts, one for each row")
        encoded = self._encode(["" if text is None or text != text else text for text in texts])  # NaN: pandas' null
        new_columns: dict[str, Any] = {self.output: [ids.view(np.int32) for ids in encoded]}
        if self.length:
            new_columns[self.length] = encoded.lengths
        # `map` adds a dict to the batch, not a frame.
        return batch.assign(**new_columns) if hasattr(batch, "assign") else new_columns

    def encode_table(self, batch: Any, threads: int | None = None) -> Any:
        """Encode an Arrow table or record batch on a number of threads; None is one per core, as for `encode_batch`.

        Raises:
            KeyError: for a table without the column.
            TypeError: for what is no table.
            ModuleNotFoundError: without pyarrow.

        """
        if not (hasattr(batch, "column_names") and hasattr(batch, "set_column")):
            raise TypeError(f"batch is {describe(batch)}; it must be a table or record batch of pyarrow")
        self._check_column(batch.column_names)
        encoded = self._encode(batch.column(self.column), threads)
        pa = load_pyarrow("map_function")
        ids = pa.array(encoded.ids.view(np.int32))
        new_columns = {self.output: pa.LargeListArray.from_arrays(pa.array(encoded.offsets), ids)}
        if self.length:
            new_columns[self.length] = pa.array(encoded.lengths)
        kept_columns = [name for name in batch.column_names if name not in new_columns] if self.keep_columns else []
        return pa.table({**{name: batch.column(name) for name in kept_columns}, **new_columns})

    def _check_column(self, names: Collection[str]) -> None:
        """Raise KeyError, which names the columns of the batch, if it has not the one to encode."""
        if self.column not in names:
            columns = list(names)
            fix = f"column={short_repr(columns[0])}" if len(columns) == 1 else "one of these as column="
            raise KeyError(
                f"column {self.column!r} is not in the batch, which has {short_repr(columns, 200)}; pass {fix}"
            )

    def _encode(self, texts: Any, threads: int | None = None) -> TokenBatch:
        append, prepend, allowed = self._encoding
        return self.tokenizer.encode_batch(
            texts, threads=threads, append=append, prepend=prepend, allowed_special=allowed
        )

    # Identity ---------------------------------------------------------------------------------------------------------

    @cached_property
    def _file(self) -> bytes:
        """The tokenizer as tokenizer.json: unlike a pickle, the same bytes for equal tokenizers in every process."""
        return huggingface.write(self.tokenizer.spec)

    def __reduce__(self) -> tuple[Any, ...]:
        columns = self.column, self.output, self.length, self.keep_columns
        return _rebuild, (self._file, get_settings(self.tokenizer), columns, self._encoding)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MapFunction):
            return NotImplemented
        return self.tokenizer == other.tokenizer and self.__reduce__()[1][2:] == other.__reduce__()[1][2:]

    def __hash__(self) -> int:
        return hash((self.tokenizer, *self.__reduce__()[1][2:]))

    def __repr__(self) -> str:
        columns = escape_unprintable(f"{self.column} to {self.output}")
        return f"<bpe.data.map_function: {columns}, {self.tokenizer.fingerprint[:12]}>"


@lru_cache(maxsize=1)
def _load_tokenizer(file: bytes, settings: Settings) -> Tokenizer:
    """Load the tokenizer of a pickle: one object, with its cache of words, for all tasks of a worker process."""
    return make_with_settings(huggingface.read(file), settings)


def _rebuild(
    file: bytes, settings: Settings, columns: tuple[str, str, str | None, bool], encoding: EncodeArguments
) -> MapFunction:
    return MapFunction(_load_tokenizer(file, settings), columns, encoding)
