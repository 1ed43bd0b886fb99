"""Make data/digits.npz from the copy of the UCI handwritten digits inside scikit-learn's package.

Usage: pip install scikit-learn, then python3 data/make_digits.py [OUTPUT]

The order of scikit-learn's copy is not random (it begins 0, 1, 2, ..., 9, 0, 1, 2, ...), so the images are
sorted by the hash of their pixels: that mixes the classes, and no random generator's version can change it.
"""

import hashlib
import sys
from pathlib import Path

import numpy as np

OUTPUT = Path(__file__).resolve().parent / "digits.npz"


def make_digits(output: Path = OUTPUT) -> None:
    """Write images (1797, 8, 8) of gray values 0 to 16 and labels (1797,), both uint8."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images, labels = digits.images.astype(np.uint8), digits.target.astype(np.uint8)
    order = sorted(range(len(images)), key=lambda i: hashlib.sha256(images[i].tobytes()).digest())
    # Not compressed: the bytes then do not depend on the version of zlib.
    np.savez(output, images=images[order], labels=labels[order])


if __name__ == "__main__":
    make_digits(Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT)
