"""What does not work in a folder of static pages: links to nowhere, and what would come from elsewhere."""

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LINKS = {"href", "src", "action", "poster", "data"}
_CSS = re.compile(r"""(?:url\(|@import\s+(?!url\())\s*["']?([^"');]+)""")


class Page(HTMLParser):
    """Anchors, links (tag, address) and the number of pictures without alternative text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[tuple[str, str]] = []
        self.without_alt: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        self.links += [(tag, given[name]) for name in _LINKS & given.keys()]
        if tag == "img" and not given.get("alt"):
            self.without_alt.append(given.get("src", "")[:60])


def check(folder: Path) -> list[str]:
    """A line for each thing that does not work in the site in ``folder``: page, link, reason."""

    @cache
    def page(path: Path) -> Page:
        return Page(path.read_text("utf-8"))

    def wrong(path: Path, link: str, loaded: bool) -> str:
        """Why the link does not work, an empty text where it does. ``loaded``: fetched with the page."""
        parts = urlsplit(link)
        if parts.scheme == "data" or (parts.scheme and not loaded):
            return ""
        if parts.scheme or parts.netloc:
            return "would be fetched from elsewhere"
        if parts.path.startswith("/"):
            return "works only at the root of a server"
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not target.is_file():
            return "there is no such file"
        anchor = unquote(parts.fragment)
        if anchor and target.suffix == ".html" and anchor not in page(target).anchors:
            return "there is no such anchor"
        return ""

    folder = folder.resolve()
    problems = []
    for path in sorted(folder.rglob("*.html")):
        for tag, link in dict.fromkeys(page(path).links):
            if reason := wrong(path, link, loaded=tag not in ("a", "area", "form")):
                problems.append(f"{path.relative_to(folder).as_posix()}: {link} ({reason})")
        problems += [
            f"{path.relative_to(folder).as_posix()}: {picture} (a picture without alternative text)"
            for picture in page(path).without_alt
        ]
    for path in sorted(folder.rglob("*.css")):
        for link in dict.fromkeys(_CSS.findall(path.read_text("utf-8"))):
            if reason := wrong(path, link, loaded=True):
                problems.append(f"{path.relative_to(folder).as_posix()}: {link} ({reason})")
    return problems
