"""What Binder and Colab are told: in step with the repository, and tried as far as that goes without them."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import urllib.request
from pathlib import Path
from types import ModuleType

import pytest
import torch
from lab_server import _address
from repositories import write_setuptools

from course_utils import __main__ as commands
from course_utils.tools import lab

ROOT = Path(__file__).resolve().parents[1]
BINDER = ROOT / ".binder"
POSIX = pytest.mark.skipif(os.name == "nt", reason="Binder is a Linux")


@pytest.fixture(scope="module")
def badges() -> ModuleType:
    spec = importlib.util.spec_from_file_location("badges", BINDER / "badges.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_binder_installs_what_requirements_txt_says_and_nothing_of_its_own() -> None:
    python = re.fullmatch(r"python-(\d+)\.(\d+)\n", (BINDER / "runtime.txt").read_text())
    assert commands.wrong_python((int(python[1]), int(python[2]))) == ""
    assert "pip install --no-cache-dir -r requirements.txt" in (BINDER / "postBuild").read_text()
    configured = ["environment.yml", "requirements.txt", "Pipfile", "setup.py", "Dockerfile"]
    assert [
        name for name in configured if (BINDER / name).exists()
    ] == []  # a second list would go out of step
    assert os.access(BINDER / "postBuild", os.X_OK)
    assert os.access(BINDER / "start", os.X_OK)


def test_binder_opens_the_students_copy_of_the_first_chapter() -> None:
    settings = json.loads((BINDER / "jupyter" / "jupyter_config.json").read_text())
    assert settings["LabApp"]["default_url"] == settings["ServerApp"]["default_url"]
    assert settings["ServerApp"]["default_url"] == f"/lab/tree/my_course/{lab.FIRST}"


def test_what_colab_is_told_to_install_is_pinned() -> None:
    pattern = re.search(r'grep -E "(.*?)" requirements\.txt', (ROOT / "README.md").read_text("utf-8"))[1]
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    found = [line.split("==")[0] for line in lines if re.search(pattern, line)]
    assert found == ["torch", "ipywidgets", "cloudpickle", "psutil"]


@pytest.mark.parametrize(
    ("address", "binder", "colab"),
    [
        ("https://github.com/ann/course.git", "gh/ann/course/main", True),
        ("git@github.com:ann/course.git", "gh/ann/course/main", True),
        ("ssh://git@github.com/ann/course", "gh/ann/course/main", True),
        ("https://ann:secret@gitlab.com/ann/sub/course/", "gl/ann%2Fsub%2Fcourse/main", False),
        (
            "https://git.example.org/ann/course",
            "git/https%3A%2F%2Fgit.example.org%2Fann%2Fcourse/main",
            False,
        ),
    ],
)
def test_links_for_an_address(badges: ModuleType, address: str, binder: str, colab: bool) -> None:
    text = badges.badges(address, "main")
    assert f"/v2/{binder})" in text
    assert ("/github/ann/course/blob/main/notebooks/00_start_here.ipynb)" in text) is colab
    assert "secret" not in text


@pytest.mark.parametrize("address", ["", "/home/ann/course", "../course", "C:\\course"])
def test_a_folder_is_no_address(badges: ModuleType, address: str) -> None:
    with pytest.raises(ValueError, match="no public address"):
        badges.badges(address, "main")


def test_links_are_written_between_the_marks_and_replaced_there(badges: ModuleType, tmp_path: Path) -> None:
    readme = shutil.copy(ROOT / "README.md", tmp_path)
    before = re.sub(r"(<!-- badges -->\n)(.|\n)*(<!-- /badges -->)", r"\1\3", Path(readme).read_text("utf-8"))
    for text in ("one\ntwo", "three"):
        badges.write(Path(readme), text)
    after = Path(readme).read_text("utf-8")
    assert after == before.replace("<!-- badges -->\n", "<!-- badges -->\nthree\n")


@POSIX
def test_the_last_step_of_binder_makes_a_students_copy(tmp_path: Path) -> None:
    """The line alone: no other quick test would see it break, since no tool reads Python within bash."""
    last = (BINDER / "postBuild").read_text().splitlines()[-1]
    code = re.fullmatch(r"python3 -c '(.*)'", last)[1]
    for folder in ("course_utils", "notebooks"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, timeout=60, check=False)
    assert ran.returncode == 0
    assert (tmp_path / "my_course" / lab.FIRST).is_file()


@POSIX
@pytest.mark.all
def test_the_steps_of_binder_in_a_copy_of_the_repository(tmp_path: Path) -> None:
    """In an environment of its own with this one's packages behind it, so that pip finds them installed."""
    if torch.version.cuda:
        pytest.skip("Binder is for PyTorch's CPU build, and this is another")
    root, index = tmp_path / "repo", tmp_path / "index"
    ignored = shutil.ignore_patterns(
        ".git", ".venv", "my_course", "build", "wheelhouse", "torch-index", "*.egg-info"
    )
    shutil.copytree(ROOT, root, ignore=ignored)
    index.mkdir()
    write_setuptools(index)
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], timeout=120, check=True)
    inner = sysconfig.get_path("purelib", vars={"base": str(tmp_path / "env")})
    Path(inner, "behind.pth").write_text(sysconfig.get_path("purelib"))
    dirs = {f"JUPYTER_{kind}_DIR": str(tmp_path / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHONPATH"))}
    env |= {**dirs, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    env |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": index.as_uri()}

    def step(*command: str | Path) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command, cwd=root, env=env, capture_output=True, text=True, timeout=300, check=False
        )

    refused = step(root / ".binder" / "postBuild")
    assert refused.returncode == 1
    assert "README.md, 'On Binder and Colab'" in refused.stderr
    assert not (root / "my_course").exists()

    (root / ".binder" / "torch-index").write_text(index.as_uri() + "\n")
    built = step(root / ".binder" / "postBuild")
    assert built.returncode == 0, built.stdout + built.stderr
    first = json.loads((root / "my_course" / lab.FIRST).read_text("utf-8"))
    assert not any(cell.get("outputs") for cell in first["cells"])

    code = "import course_utils as c, torch.distributed as d; print(c.__file__, c.launch(d.get_rank))"
    ran = step(python, "-c", code)
    assert ran.stdout.split(maxsplit=1) == [str(root / "course_utils" / "__init__.py"), "[0, 1, 2, 3]\n"]

    log = tmp_path / "server.log"
    command = [root / ".binder" / "start", python, "-m", "jupyterlab", "--no-browser", "--ServerApp.port=0"]
    command += ["--allow-root"] if os.geteuid() == 0 else []
    with log.open("wb") as errors, subprocess.Popen(command, cwd=root, env=env, stderr=errors) as server:
        try:
            address = _address(server, log)
            home = re.sub(r"/lab.*\?", "/?", address)  # Binder sends a reader to the server's own first page
            with urllib.request.urlopen(home, timeout=60) as page:
                assert f"/lab/tree/my_course/{lab.FIRST}" in page.geturl()
        finally:
            server.terminate()
            server.wait(20)
