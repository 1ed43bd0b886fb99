"""``python3 -m course_utils lab | test | run | ...``, with nothing installed.

Standard library only, and written so that Python 3.6 can still read it and say that it is too old.
"""

import difflib
import errno
import importlib
import os
import shutil
import subprocess
import sys

OLDEST, NEWEST = (3, 11), (3, 13)  # as requires-python in pyproject.toml
MODULES = {
    "lab": "lab",
    "test": "verify",
    "run": "run",
    "refresh": "refresh",
    "grade": "grade",
    "concepts": "concepts",
    "slides": "slides",
    "site": "site",
    "wheelhouse": "wheelhouse",
}
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

USAGE = """usage: python3 -m course_utils COMMAND [OPTIONS]

  lab       open the course in JupyterLab: your own copy, in my_course/
              05                 opened at that chapter
              --instructor       the originals, with their outputs
              --home FOLDER      your own copy there, as FOLDER/my_course
              --no-browser       only print the address
              --port N           this port, and no other
              -- OPTIONS         options of jupyter lab
  test      check that everything works: ruff, the tests, every notebook
              --all              also what needs a browser, system packages or a long time
              OPTIONS, PATHS     of pytest: -x, -k launch, notebooks/02_gradient_equivalence.ipynb
  run       execute chapters without a browser: run 02 05, or all of them
  refresh   execute chapters, store their outputs in one form, check the form
  slides    write chapters as slides that need no network: slides 13, into build/slides/13/
  site      write the whole course as static pages that need no network, into build/site/
  grade     judge the exercises in students' notebooks: grade FOLDER, a table and build/grades.csv
  concepts  a class's concept tests, before and after: concepts FOLDER, with the students' progress.json
  wheelhouse  everything that an installation downloads, in a folder: wheelhouse FOLDER
              --python N --platform NAME   for another Python or system

  lab --offline FOLDER  installs from such a folder and asks no network; without FOLDER, from
              wheelhouse/. The other commands take --offline or --offline=FOLDER.

The first use makes .venv and installs requirements.txt into it; later uses start at once.
"""


def wrong_python(version):
    """What to do about this version of Python; an empty text where it will do."""
    if OLDEST <= version <= NEWEST:
        return ""
    names = [f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)]
    found = [name for name in names if shutil.which(name) and starts(name)]
    is_now = f"Python {version[0]}.{version[1]} ({sys.executable})"
    words = f"The course runs on Python 3.{OLDEST[1]} to 3.{NEWEST[1]}, and this is {is_now}.\n"
    if found:
        return words + f"This machine also has {found[0]}: type that name in place of python3."
    return words + (
        "Install one of them (from your system's packages or from python.org) and start with its name:\n"
        f"{names[0]} -m course_utils lab"
    )


def starts(name):
    """Whether the program runs: a version manager puts names on the path that may stand for nothing."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.call([name, "--version"], **quiet) == 0


def wrong_folder():
    """What to do about where and how this was started; an empty text where it will do."""
    if __package__ == "course_utils" and os.path.realpath(os.getcwd()) == os.path.realpath(ROOT):
        return ""
    return f'Start the command in the folder of the repository:\ncd "{ROOT}"\npython3 -m course_utils lab'


def offline(command, rest):
    """The options ``rest`` without --offline, and the folder it means; None where it is not given."""
    ours = rest[: rest.index("--")] if "--" in rest else rest
    for place, word in enumerate(ours if command != "wheelhouse" else []):
        name, equals, folder = word.partition("=")
        if name == "--offline":
            after = place + 1
            if command == "lab" and not equals and ours[after:] and _may_be_folder(ours[after]):
                folder, after = ours[after], after + 1  # elsewhere the next word may be a path of pytest's
            return rest[:place] + rest[after:], os.path.abspath(folder or os.path.join(ROOT, "wheelhouse"))
    return rest, None


def _may_be_folder(word):
    """Whether it can be the folder after --offline: no option, and no chapter's number."""
    return not word.startswith("-") and (os.path.isdir(word) or not word.isdigit())


def no_command(word):
    """That there is no such command, and which one may have been meant."""
    near = difflib.get_close_matches(word, MODULES, n=1)
    meant = f"; did you mean {near[0]}?" if near else "."
    return f"There is no command {word!r}{meant}\npython3 -m course_utils --help names them all."


def not_written(error):
    """What to do where something in the repository can't be written; an empty text for any other error."""
    rights = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)
    place = os.path.realpath(str(error.filename or ""))
    inside = error.errno in rights and place.startswith(os.path.realpath(ROOT) + os.sep)
    if not inside and error.errno != errno.ENOSPC:
        return ""
    return f"{error}\n" + (
        "This command writes in the repository: mend the rights there or make room, "
        "or start it in a copy that is yours."
    )


def main(argv):
    """Run one command; returns the exit status. 2: it could not start as it was called, 130: interrupted."""
    command, rest = (argv[0], argv[1:]) if argv else ("", [])
    if command in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0
    if command not in MODULES:
        problem = no_command(command) if command else USAGE + "\nWhich command?"
    else:
        problem = wrong_python(sys.version_info[:2]) or wrong_folder()
    if problem:
        print(problem, file=sys.stderr)
        return 2

    from pathlib import Path

    from course_utils.tools import environment

    rest, folder = offline(command, rest)
    try:
        place = environment.Place(ROOT)
        if ("-h" in rest or "--help" in rest) and not environment.is_ready(place):
            print(USAGE, end="")
            print(f"\nOnce lab has made .venv, {command} --help says what {command} takes.")
            return 0
        if folder and environment.ENTERED not in os.environ and environment.is_ready(place):
            print(".venv is there already: --offline is not needed, and was passed over.", file=sys.stderr)
        environment.enter(place, argv, folder and Path(folder))  # comes back only inside .venv
        return importlib.import_module("course_utils.tools." + MODULES[command]).main(rest)
    except environment.SetupError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        if (error.name or "course_utils").startswith("course_utils"):
            raise
        environment.distrust(place)
        print(f"\n.venv lacks {error.name}. The same command again makes it whole.", file=sys.stderr)
        return 1
    except OSError as error:
        if not not_written(error):
            raise
        print(f"\n{not_written(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
