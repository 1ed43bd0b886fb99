"""Readers of the real data in data/, whose README gives source and license of each file."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

DATA = Path(__file__).resolve().parent.parent / "data"


class Digits(NamedTuple):
    """Handwritten digits: gray values in [0, 1] as float32, classes 0 to 9 as int64."""

    train_x: Tensor  # (1536, 64)
    train_y: Tensor  # (1536,)
    test_x: Tensor  # (261, 64)
    test_y: Tensor  # (261,)


@dataclass(frozen=True)
class Text:
    """A text as character tokens: int64, numbered by the place of the character in `characters`."""

    train: Tensor  # (334167,) for Shakespeare: the first nine tenths
    validation: Tensor  # (37130,): the rest
    characters: str  # sorted, each once

    @property
    def vocab_size(self) -> int:
        return len(self.characters)

    def encode(self, string: str) -> Tensor:
        """Tokens (len(string),), int64. Raises ValueError for a character that the text does not have."""
        index = {character: i for i, character in enumerate(self.characters)}
        unknown = sorted(set(string) - index.keys())
        if unknown:
            raise ValueError(f"not in the vocabulary: {unknown}; it has the characters {self.characters!r}")
        return torch.tensor([index[character] for character in string], dtype=torch.int64)

    def decode(self, tokens: Tensor) -> str:
        """The string that tokens (T,) stand for."""
        return "".join(self.characters[i] for i in tokens.tolist())


def digits(n_train: int = 1536) -> Digits:
    """The 1,797 UCI handwritten digits of 8 x 8 pixels, flat (use `x.view(-1, 1, 8, 8)` for images).

    The order in the file is mixed and fixed; the first `n_train` images are the training set. The default
    divides evenly over 2, 4, 8, ... ranks, and what is left for the test does not.
    Raises ValueError for an `n_train` outside 1 to 1796.
    """
    with np.load(_path("digits.npz")) as file:
        x = torch.from_numpy(file["images"]).flatten(1).float() / 16  # (1797, 64)
        y = torch.from_numpy(file["labels"]).long()  # (1797,)
    if not 1 <= n_train < len(x):
        raise ValueError(f"n_train must be 1 to {len(x) - 1}, which leaves a test set, got {n_train}")
    return Digits(x[:n_train].clone(), y[:n_train].clone(), x[n_train:].clone(), y[n_train:].clone())


def shakespeare() -> Text:
    """Julius Caesar, Macbeth and Othello as 371,297 tokens out of 64 characters."""
    string = _path("shakespeare.txt").read_bytes().decode("ascii")
    characters = "".join(sorted(set(string)))
    tokens = Text(torch.empty(0), torch.empty(0), characters).encode(string)
    n_train = len(tokens) * 9 // 10
    return Text(tokens[:n_train].clone(), tokens[n_train:].clone(), characters)


def random_batch(
    tokens: Tensor, batch_size: int, length: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Sequences from random places of `tokens` (N,): x and y, each (batch_size, length), y one token ahead.

    The places come from `generator` alone: the same state gives the same batch.
    Raises ValueError for a length that `tokens` does not have.
    """
    _check_length(tokens, length)
    start = torch.randint(len(tokens) - length, (batch_size, 1), generator=generator)
    window = tokens[start + torch.arange(length + 1)]  # (batch_size, length + 1)
    return window[:, :-1], window[:, 1:]


def batches(tokens: Tensor, batch_size: int, length: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Walk through `tokens` (N,) once, in order: pairs x, y as in random_batch, every target at most once.

    The last batch may have fewer sequences; tokens at the end that fill no sequence are left out.
    Raises ValueError for a length that `tokens` does not have.
    """
    _check_length(tokens, length)
    n_sequences = (len(tokens) - 1) // length
    x = tokens[: n_sequences * length].view(n_sequences, length)
    y = tokens[1 : n_sequences * length + 1].view(n_sequences, length)
    yield from zip(x.split(batch_size), y.split(batch_size), strict=True)


def table(name: str) -> list[dict[str, int | float | str | None]]:
    """The rows of data/NAME.csv in order, a dictionary each, keyed by the header.

    Lines that begin with # hold the source and are skipped. A cell that reads as a number is an int or a
    float, an empty one is None. Raises FileNotFoundError, or ValueError for a row of the wrong length.
    """
    with _path(f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    for number, row in enumerate(rows, start=1):
        if None in row or None in row.values():
            raise ValueError(f"data/{name}.csv, row {number}: its number of cells differs from the header's")
    return [{key.strip(): _value(cell.strip()) for key, cell in row.items()} for row in rows]


def _value(cell: str) -> int | float | str | None:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return cell or None


def _check_length(tokens: Tensor, length: int) -> None:
    if not 1 <= length < len(tokens):
        raise ValueError(f"length must be 1 to {len(tokens) - 1} for {len(tokens)} tokens, got {length}")


def _path(name: str) -> Path:
    path = DATA / name
    if not path.is_file():
        there = sorted(p.name for p in DATA.glob("*") if p.suffix in {".csv", ".npz", ".txt"})
        raise FileNotFoundError(
            f"data/{name} is not there; {DATA} has: {', '.join(there) or 'nothing'}. "
            f"If it was deleted, `git checkout -- data/{name}` brings it back. If that is not the course's "
            "folder, run `pip install -r requirements.txt` there: that installs course_utils anew."
        )
    return path
