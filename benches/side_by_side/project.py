"""The real project of the group `work`: two releases of GNU gzip, as Debian keeps them, made into a git repository.

It has what is needed: a `configure` that makes and removes many small files, a build with many small objects, tests that are
shell scripts, an installation, 500 files that nearly all differ between the releases, no symbolic link anywhere (a home hides
them by default), and nothing to fetch but two archives of 800 KB.
"""

import hashlib
import shutil
import subprocess
from pathlib import Path

from ground import Failure, quiet

HELPER = "/usr/lib/apt/apt-helper"  # apt's own way to fetch one file and check its sum
ARCHIVES = {
    "1.12": "ce5e03e519f637e1f814011ace35c4f87b33c0bbabeec35baf5fbd3479e91956",
    "1.13": "7454eb6935db17c6655576c2e1b0fabefd38b4d0936e0f87f48cd062ce91a057",
}


def make_project(base, kept):
    """Makes base/project.git, whose branches are the releases. The archives stay in `kept` for the next run."""
    for program in ("make", "xz"):
        if not shutil.which(program):
            raise Failure(f"{program} is missing: run mount-scripts/setup")
    tree = base / "project"
    tree.mkdir()
    git = ["git", "-C", str(tree), "-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    quiet(git + ["init", "-q"])
    for release in ARCHIVES:
        for old in tree.iterdir():
            if old.name != ".git":
                shutil.rmtree(old) if old.is_dir() else old.unlink()
        quiet(["tar", "-C", str(tree), "--strip-components=1", "-xf", str(archive(release, kept))])
        # A release contains generated files, which its own ignore files name.
        quiet(git + ["add", "-A", "-f"])
        quiet(git + ["commit", "-q", "-m", release])
        quiet(git + ["branch", release])
    quiet(["git", "clone", "-q", "--bare", str(tree), str(base / "project.git")])
    shutil.rmtree(tree)


def archive(release, kept):
    path = kept / f"gzip_{release}.orig.tar.xz"
    if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == ARCHIVES[release]:
        return path
    if not Path(HELPER).exists():
        raise Failure(f"{path.name} comes from Debian, and there is no apt here; put it into {kept}")
    kept.mkdir(parents=True, exist_ok=True)
    quiet([HELPER, "download-file", f"{mirror()}/pool/main/g/gzip/{path.name}", str(path), f"SHA256:{ARCHIVES[release]}"], timeout=120)
    return path


def mirror():
    """The mirror of Debian's archive that this machine uses."""
    asked = ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", "Label: Debian", "Component: main"]
    sites = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False).stdout.split()
    if not sites:
        raise Failure("apt knows no mirror of Debian yet: run apt-get update")
    return sites[0]
