"""Write the links to Binder and Colab into README.md, for the address at which this repository is public.

python3 .binder/badges.py [ADDRESS] [--branch main] [--torch-index ADDRESS]

Without ADDRESS it is that of the remote "origin". Standard library only.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- badges -->", "<!-- /badges -->"
BINDER, COLAB = "https://mybinder.org", "https://colab.research.google.com"


def parts(address: str) -> tuple[str, str]:
    """Host, and owner/name, of an address that git knows. Raises ValueError for a folder."""
    found = re.fullmatch(
        r"(?:https?://|ssh://)?(?:[^@/]+@)?([\w.-]+\.[a-z]+)(?::\d+)?[:/]+(.+?)(?:\.git)?/?", address.strip()
    )
    if not found:
        raise ValueError(
            f"{address!r} is no public address: pass the one that a browser shows for the repository"
        )
    return found[1], found[2]


def badges(address: str, branch: str) -> str:
    """The links as Markdown: Binder for any host, Colab for GitHub alone, which is all that it opens."""
    host, name = parts(address)
    kinds = {"github.com": f"gh/{name}", "gitlab.com": f"gl/{quote(name, safe='')}"}
    place = kinds.get(host, "git/" + quote(f"https://{host}/{name}", safe=""))
    lines = [f"[![Open in Binder]({BINDER}/badge_logo.svg)]({BINDER}/v2/{place}/{branch})"]
    if host == "github.com":
        chapter = f"{COLAB}/github/{name}/blob/{branch}/notebooks/00_start_here.ipynb"
        lines.append(f"[![Open in Colab]({COLAB}/assets/colab-badge.svg)]({chapter})")
    return "\n".join(lines)


def write(readme: Path, text: str) -> None:
    """Put ``text`` between the two marks, in place of what stands there."""
    before, rest = readme.read_text("utf-8").split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    readme.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", "utf-8")


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the links to Binder and Colab into README.md.")
    parser.add_argument("address", nargs="?", default="", help="without it, the one of the remote origin")
    parser.add_argument("--branch", default="", help="without it, the one that is checked out")
    parser.add_argument("--torch-index", help="where pip finds PyTorch's CPU build; Binder needs it once")
    args = parser.parse_args()
    try:
        text = badges(
            args.address or git("remote", "get-url", "origin"), args.branch or git("branch", "--show-current")
        )
    except ValueError as error:
        sys.exit(str(error))
    write(ROOT / "README.md", text)
    index = ROOT / ".binder" / "torch-index"
    if args.torch_index:
        index.write_text(args.torch_index + "\n")
    print(text)
    print("Written into README.md; commit it" + (", and .binder/torch-index." if index.exists() else "."))
    if not index.exists():
        print("Binder also needs .binder/torch-index: the same command with --torch-index ADDRESS.")


if __name__ == "__main__":
    main()
