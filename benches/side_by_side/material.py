"""What the workloads need: the source tree, its archive, the git repository, the big file, the database, the project, and the
compiled loops."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from ground import HERE, MIB, Failure, quiet
from packages import make_packages
from project import make_project
from workloads import DATABASES, TRANSACTIONS, TREES


class Material:
    """All that the workloads need, made once, on the same file system but outside every candidate."""

    def __init__(self, base, options):
        self.base = base
        self.tree = base / "tree"
        self.tar = base / "tree.tar"
        self.origin = base / "origin"
        self.big = base / "big"
        self.database = base / "database"
        self.project = base / "project.git"
        self.packages = base / "packages"
        self.left_out = {}
        self.calls = base / "calls"
        self.source = None
        self.files = 0
        self.bytes = 0
        self.compile()
        self.options = options

    def compile(self):
        compiler = shutil.which("gcc") or shutil.which("cc")
        if not compiler:
            raise Failure("gcc is missing: run mount-scripts/setup")
        for name, parts in (("calls", ("calls", "loops", "data")), ("floor", ("floor",))):
            quiet([compiler, "-std=gnu11", "-O2", "-Wall", "-o", str(self.base / name), *(str(HERE / f"{part}.c") for part in parts)])

    def make(self, workloads):
        """Makes what the workloads need, and returns those for which it could be had; `left_out` says why the others are not among them."""
        workloads = self.fetched(workloads)
        self.pick_tree()
        with tarfile.open(self.tar, "w") as archive:
            archive.add(self.tree, arcname="tree")
        if any(w.name.startswith("git") for w in workloads):
            self.make_origin()
        block = os.urandom(MIB)
        size = max((w.megabytes for w in workloads if w.seeds and not DATABASES.intersection(w.seeds)), default=0)
        with open(self.big, "wb") as big:
            for _ in range(size):
                big.write(block)
        size = max((w.megabytes for w in workloads if DATABASES.intersection(w.seeds)), default=0)
        if size:
            quiet([*TRANSACTIONS, "make", str(self.database), str(size)])
        return workloads

    def fetched(self, workloads):
        """The workloads without those whose material is not to be had, which is said loudly."""
        needs = {"work": lambda: make_project(self.base, kept), "pnpm-install": lambda: make_packages(self.base, kept), "rg-first": has_rg, "rg-again": has_rg}
        kept = Path(self.options.material)
        for name in dict.fromkeys(n for w in workloads for n in (w.group, w.name) if n in needs):
            try:
                needs[name]()
            except (Failure, OSError, subprocess.TimeoutExpired) as error:
                self.left_out[name] = str(error)
                print(f"side_by_side: LEFT OUT, {name}: {error}", file=sys.stderr)
        return [w for w in workloads if not self.left_out.keys() & {w.group, w.name}]

    def pick_tree(self):
        """Copies regular files of a real source tree of this machine: no links, as a home hides them by default."""
        most_files, most_bytes = (500, 8 * MIB) if self.options.quick else (2000, 32 * MIB)
        for source in self.sources():
            files, total = [], 0
            for folder, folders, names in os.walk(source):
                folders.sort()
                for name in sorted(names):
                    path = Path(folder, name)
                    if path.is_symlink() or not path.is_file():
                        continue
                    size = path.stat().st_size
                    if size > MIB or total + size > most_bytes:
                        continue
                    files.append(path)
                    total += size
                    if len(files) == most_files:
                        break
                if len(files) == most_files:
                    break
            if len(files) < most_files // 2:
                continue
            for path in files:
                target = self.tree / path.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
            self.source, self.files, self.bytes = source, len(files), total
            return
        raise Failure("no source tree with enough files on this machine: name one with --tree DIR")

    def sources(self):
        if self.options.tree:
            return [Path(self.options.tree)]
        cargo = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "registry" / "src"
        found = sorted(cargo.glob("*")) if cargo.is_dir() else []
        return found + [Path("/usr/include"), Path("/usr/lib/python3"), Path("/usr/share/doc"), Path("/usr/share")]

    def make_origin(self):
        shutil.copytree(self.tree, self.origin)
        git = ["git", "-C", str(self.origin), "-c", "user.name=bench", "-c", "user.email=bench@localhost"]
        quiet(git + ["init", "-q"])
        for word in ("first", "second"):
            (self.origin / "CHANGED").write_text(word)
            # Some trees bring ignore files; what they name belongs to the tree all the same.
            quiet(git + ["add", "-A", "-f"])
            quiet(git + ["commit", "-q", "-m", word])
        quiet(git + ["gc", "-q"])

    def seed(self, directory, workloads):
        """Lays the seeds into a store that is not mounted yet."""
        for name in sorted({s for w in workloads for s in w.seeds}):
            target = directory / name
            if name in TREES:
                shutil.copytree(self.tree, target)
            elif name in DATABASES:
                quiet(["cp", "--reflink=never", str(self.database), str(target)])
            elif name == "names":
                target.mkdir()
                for number in range(max(w.count for w in workloads if name in w.seeds)):
                    (target / f"f{number:06}").touch()
            else:
                size = max(w.megabytes for w in workloads if name in w.seeds) * MIB
                quiet(["cp", "--sparse=never", "--reflink=never", str(self.big), str(target)])
                os.truncate(target, size)


def has_rg():
    if not shutil.which("rg"):
        raise Failure("rg is missing: run mount-scripts/setup")
