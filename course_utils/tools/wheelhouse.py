"""``python3 -m course_utils wheelhouse``: everything that an installation downloads, in one folder."""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

from course_utils.__main__ import NEWEST, OLDEST
from course_utils.tools import install, offline
from course_utils.tools.environment import Place, SetupError, clean, locked
from course_utils.tools.install import Say
from course_utils.tools.offline import Target

ROOT = Path(__file__).resolve().parents[2]
GLIBC = range(5, 29)  # manylinux_2_5 to manylinux_2_28, which PyTorch needs
PLATFORMS = {  # each with pip's names for it, and with what a requirement's marker sees there
    "linux-x86_64": ([f"manylinux_2_{n}_x86_64" for n in GLIBC], "posix", "linux", "Linux", "x86_64"),
    "linux-aarch64": ([f"manylinux_2_{n}_aarch64" for n in GLIBC], "posix", "linux", "Linux", "aarch64"),
    "macos-arm64": (["macosx_14_0_arm64"], "posix", "darwin", "Darwin", "arm64"),
    "windows-x86_64": (["win_amd64"], "nt", "win32", "Windows", "AMD64"),
}
PYTHONS = [f"{OLDEST[0]}.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)]
# pip's --platform chooses wheels, but leaves markers ("colorama; sys_platform == 'win32'") to this machine
AS_TARGET = """
import json, runpy, sys
from pip._vendor.packaging import markers
facts = json.loads(sys.argv.pop(1))
markers.default_environment = lambda: dict(facts)
said = " and ".join(f"{name} == '{value}'" for name, value in facts.items() if value)
if not markers.Marker(said).evaluate():
    sys.exit("ERROR: this release of pip can't be told for which system to choose")
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


def markers(target: Target) -> dict[str, str]:
    """What a requirement's marker would see on ``target``."""
    _, os_name, sys_platform, system, machine = PLATFORMS[target.platform]
    full = f"{target.python}.9"  # some patch release: which one it will be is not known
    return {
        "implementation_name": "cpython",
        "implementation_version": full,
        "os_name": os_name,
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": system,
        "platform_version": "",
        "python_full_version": full,
        "python_version": target.python,
        "sys_platform": sys_platform,
    }


def pip_command(target: Target, dest: Path, folder: Path, requirements: list[str]) -> list[str]:
    """The command that puts wheels of all requirements, and of what these need, into ``dest``."""
    options = ["--find-links", str(folder), *requirements]
    if target == offline.here():  # also builds what has no wheel
        return [sys.executable, "-m", "pip", "wheel", "--wheel-dir", str(dest), *options]
    command = [sys.executable, "-c", AS_TARGET, json.dumps(markers(target)), "download", "--dest", str(dest)]
    command += ["--only-binary=:all:", "--implementation=cp", f"--python-version={target.python}"]
    return [*command, *(f"--platform={tag}" for tag in PLATFORMS[target.platform][0]), *options]


def make(place: Place, folder: Path, target: Target, say: Say = install.say) -> None:
    """Have in ``folder`` all that ``target`` needs. Raises SetupError; what the folder had, it keeps then."""
    wanted = offline.wanted(place.root)
    with locked(place.lock, say) as held:
        requirements, files = offline.read(folder, target)
        if requirements != wanted or not all((folder / name).is_file() for name in files):
            half = folder / ".half"
            shutil.rmtree(half, ignore_errors=True)
            half.mkdir(parents=True)
            say(f"Wheels for {target} into {folder}; PyTorch is most of it.")
            run = {"folder": place.root, "log": place.log, "tell": say, "held": held}
            run["failed"] = f"pip could not fill {folder}; what stood there still does."
            bare = ["download", "--no-deps", "--only-binary=:all:", "--dest", str(half), "pip"]
            install.pip([sys.executable, "-m", "pip", *bare], env=clean(), head="1 of 2: pip", **run)
            command = pip_command(target, half, folder, wanted)
            install.pip(command, env=offline.with_pip(half, clean()), head="2 of 2: requirements.txt", **run)
            files = _take(half, folder, target, wanted)
        size = sum((folder / name).stat().st_size for name in files)
    say(f"{folder} is complete for {target}: {len(files)} files, {size / 1e6:.0f} MB.")
    say("Bring it along; there, in a copy of this repository: python3 -m course_utils lab --offline FOLDER")


def _take(half: Path, folder: Path, target: Target, wanted: list[str]) -> dict[str, str]:
    """Move the new wheels to the others, write for whom they are, and remove what nobody needs any more."""
    files = {path.name: offline.digest(path) for path in sorted(half.glob("*.whl"))}
    for name in files:
        os.replace(half / name, folder / name)
    note = half / "manifest.json"
    note.write_text(json.dumps({"requirements": wanted, "files": files}, indent=1), "utf-8")
    os.replace(note, offline.manifest(folder, target))
    needed = {name for each in offline.targets(folder) for name in offline.read(folder, each)[1]}
    for path in folder.glob("*.whl"):
        if path.name not in needed:
            path.unlink()
    shutil.rmtree(half)
    return files


def main(argv: list[str]) -> int:
    """The command. Exit status: 0, or 2 for wrong arguments. Raises SetupError."""
    this = offline.here()
    parser = argparse.ArgumentParser(
        prog="python3 -m course_utils wheelhouse",
        description="Download all that an installation needs; then lab --offline FOLDER asks no network.",
    )
    parser.add_argument(
        "folder",
        nargs="?",
        default=offline.DEFAULT,
        help="where to; without it, wheelhouse/ in the repository",
    )
    parser.add_argument("--python", choices=PYTHONS, default=this.python, help="for this version of Python")
    parser.add_argument(
        "--platform",
        choices=sorted({*PLATFORMS, this.platform}),
        default=this.platform,
        help="for this system",
    )
    args = parser.parse_args(argv)
    target = Target(args.python, args.platform)
    if target.platform not in PLATFORMS and target != this:
        parser.error(f"--platform {target.platform}: only for the Python that runs this, {this.python}")
    try:
        make(Place(ROOT), Path(args.folder).resolve(), target)
    except OSError as error:
        raise SetupError(f"The wheelhouse could not be written: {error}\n{install.ADVICE['disk']}") from error
    return 0
