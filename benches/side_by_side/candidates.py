"""The candidates: how each is mounted and unmounted, and where its store lies."""

import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from ground import Failure, mounted, quiet


class Candidate:
    """A directory to work in. Without a daemon it is the native one."""

    def __init__(self, name, flags=()):
        self.name = name
        self.flags = list(flags)
        self.environment = {}
        self.daemon = None

    def prepare(self, base):
        """Makes the directories of one round and returns where the seeds go."""
        self.base = base
        self.home = base / "home"
        self.home.mkdir(parents=True)
        return self.home

    def command(self):
        return None

    def mount(self):
        command = self.command()
        if command is None:
            return
        self.errors = tempfile.TemporaryFile()
        # A session of its own, so that Ctrl-C reaches this program first and not the daemon.
        self.daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.errors, stderr=self.errors, start_new_session=True)
        deadline = time.monotonic() + 20
        while not mounted(self.home):
            if self.daemon.poll() is not None:
                raise Failure(f"{self.name} ended with {self.daemon.returncode}: {self.said()}")
            if time.monotonic() > deadline:
                raise Failure(f"{self.name} did not mount within 20 s: {self.said()}")
            time.sleep(0.01)
        os.statvfs(self.home)

    def said(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace").strip()[-400:] or "it said nothing"

    def unmount(self):
        if self.daemon is None:
            return
        daemon, self.daemon = self.daemon, None
        subprocess.run(["umount", str(self.home)], stderr=subprocess.DEVNULL)
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait(10)
        if mounted(self.home):
            subprocess.run(["umount", "-l", str(self.home)], check=False)

    def kill(self):
        """Ends the daemon, which wakes everybody who waits for it."""
        if self.daemon is not None:
            self.daemon.kill()


class Keeping(Candidate):
    """The native one, where the loops that overwrite copy first what they overwrite: what keeping costs without a file system
    between, where blocks cannot be shared."""

    def __init__(self):
        super().__init__("keeping")
        self.environment = {"BENCH_KEEP": "1"}


class Bindfs(Candidate):
    def prepare(self, base):
        super().prepare(base)
        self.store = base / "store"
        self.store.mkdir()
        return self.store

    def command(self):
        return ["bindfs", "-f", *self.flags, str(self.store), str(self.home)]


class FuseOverlayfs(Candidate):
    def prepare(self, base):
        super().prepare(base)
        for part in ("lower", "upper", "work"):
            (base / part).mkdir()
        return base / "lower"

    def command(self):
        layers = ",".join(f"{o}dir={self.base / o}" for o in ("lower", "upper", "work"))
        return ["fuse-overlayfs", "-f", *self.flags, "-o", layers, str(self.home)]


class Trumanfs(Bindfs):
    def __init__(self, name, program, flags):
        super().__init__(name, flags)
        self.program = program

    def command(self):
        return [self.program, "mount", "--foreground", *self.flags, str(self.store), str(self.home)]

    def unmount(self):
        """Unmounts as its operator would, so that the session ends as it should."""
        if self.daemon is not None:
            try:
                subprocess.run([self.program, "umount", str(self.home)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20, check=False)
            except subprocess.TimeoutExpired:
                pass
        super().unmount()

    def counters(self):
        status = json.loads(quiet([self.program, "status", str(self.home), "--json"], timeout=20))
        # For one home some versions may answer with a list of one.
        status = status[0] if isinstance(status, list) else status
        return {k: v for k, v in status["counters"].items() if isinstance(v, int)}


class Floor(Candidate):
    """The server that answers at once: what the machine allows at all."""

    def __init__(self, material):
        super().__init__("floor")
        self.program = material.base / "floor"

    def command(self):
        return [str(self.program), str(self.home)]


def candidates(options):
    made = []
    for name in options.candidates.split(","):
        if name == "native":
            made.append(Candidate("native"))
        elif name == "keeping":
            made.append(Keeping())
        elif name == "bindfs":
            made.append(Bindfs("bindfs", shlex.split(options.bindfs_flags)))
        elif name == "fuse-overlayfs":
            made.append(FuseOverlayfs("fuse-overlayfs", shlex.split(options.overlay_flags)))
        elif name == "trumanfs":
            made.append(Trumanfs("trumanfs", program(options.trumanfs), shlex.split(options.trumanfs_flags)))
        else:
            raise Failure(f"no such candidate: {name} (there are: native, keeping, bindfs, fuse-overlayfs, trumanfs)")
    for variant in options.variant:
        name, _, flags = variant.partition("=")
        made.append(Trumanfs(name, program(options.trumanfs), shlex.split(flags)))
    for binary in options.trumanfs_binary:
        name, _, path = binary.partition("=")
        made.append(Trumanfs(name, program(path), shlex.split(options.trumanfs_flags)))
    for tool in made:
        command = tool.name if type(tool) in (Bindfs, FuseOverlayfs) else None
        if command and not shutil.which(command):
            raise Failure(f"{command} is missing: run mount-scripts/setup")
    names = [c.name for c in made]
    if len(set(names)) != len(names):
        raise Failure(f"two candidates have one name: {', '.join(names)}")
    return made


def program(path):
    path = Path(path).resolve()
    if not path.is_file():
        raise Failure(f"{path} is missing: run cargo build --release, or name a binary with --trumanfs PATH")
    return str(path)
