"""Every package that an installation brings is pinned, else a later release of any could break the course."""

import re
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from course_utils.tools.run import ROOT


def brought(name: str, found: set[str]) -> None:
    """Add to ``found`` the package and all that it needs here."""
    if name in found:
        return
    found.add(name)
    for line in distribution(name).requires or ():
        needed = Requirement(line)
        if needed.marker is None or needed.marker.evaluate({"extra": ""}):
            brought(canonicalize_name(needed.name), found)


def test_what_comes_along_is_pinned_and_installed_as_pinned() -> None:
    text = (ROOT / "requirements.txt").read_text("utf-8")
    pins = {canonicalize_name(name): version for name, version in re.findall(r"(?m)^([\w.-]+)==(\S+)", text)}
    found: set[str] = set()
    for name in pins:
        try:
            brought(name, found)
        except PackageNotFoundError as error:
            raise AssertionError(f"{error.name} is pinned, or needed by one that is, and not here") from None
    assert found - pins.keys() <= {"setuptools"}  # a part of Python 3.11, or what builds the course
    here = {name: distribution(name).version.partition("+")[0] for name in pins}
    assert here == pins
