#!/usr/bin/env python3
"""Compares trumanfs with the native file system, bindfs and fuse-overlayfs, side by side.

All candidates lie on one file system in memory and run the same workloads in turn, round after round. What counts is the
ratio to native within a round; the table shows the median over the rounds. See ../README.md.

Everything happens in a mount and a pid namespace of our own: whatever ends this program, by whatever means, takes the
mounts and the daemons with it.
"""

import argparse
import json
import math
import os
import platform
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
INSIDE = "TRUMANFS_BENCH_INSIDE"
MIB = 1 << 20
SETTLE = 0.03  # seconds for a daemon to finish what it owes (RELEASE, FORGET) before the next candidate runs


class Failure(Exception):
    """What went wrong, in words for the person who runs the benchmark."""


# ---- workloads ----

@dataclass
class Workload:
    group: str
    name: str
    about: str
    count: int = 0                  # operations of a loop in calls.c
    megabytes: int = 0              # size of a data workload's file
    prepare: list = field(default_factory=list)   # commands, not timed
    command: list = field(default_factory=list)   # the timed command, instead of a loop
    seeds: list = field(default_factory=list)     # what must lie in the store before it is mounted


def command_workload(name, about, command, prepare=(), seeds=()):
    return Workload("trees", name, about, prepare=list(prepare), command=command, seeds=list(seeds))


UNTAR = ["tar", "-xf", "{tar}"]
CLONE = ["git", "clone", "-q", "--no-hardlinks", "{origin}", "clone"]

WORKLOADS = [
    Workload("metadata", "create", "open(O_CREAT|O_EXCL) and close, in one directory", 2000),
    Workload("metadata", "create-unlink", "create, close and unlink the same name", 2000),
    Workload("metadata", "mkdir-rmdir", "mkdir and rmdir the same name", 2000),
    Workload("metadata", "rename", "rename to a free name in the same directory", 2000),
    Workload("metadata", "rename-over", "rename onto an existing file of 1 KiB", 2000),
    Workload("metadata", "chmod-utimens", "chmod and utimensat, 200 files in turn", 2000),
    Workload("metadata", "stat-hit", "stat of 200 files in turn", 20000),
    Workload("metadata", "stat-miss", "stat of 200 names that do not exist", 20000),
    Workload("metadata", "link", "one more hard link to the same file", 2000),
    command_workload("untar", "tar -xf of the source tree", UNTAR),
    command_workload("walk-first", "find -size +0 over a tree nobody has looked at yet",
                     ["find", "{seed}/walk", "-size", "+0"], seeds=["walk"]),
    command_workload("walk-again", "the same find once more",
                     ["find", "{seed}/walk", "-size", "+0"], prepare=[["find", "{seed}/walk", "-size", "+0"]], seeds=["walk"]),
    command_workload("grep-r", "grep -r for a word that is not there, over a tree nobody has read yet",
                     ["grep", "-rF", "no-such-word-in-any-file", "{seed}/grep"], seeds=["grep"]),
    command_workload("cp-r", "cp -r of a tree nobody has read yet", ["cp", "-r", "{seed}/copy", "copy"], seeds=["copy"]),
    command_workload("rm-rf", "rm -rf of a tree just unpacked", ["rm", "-rf", "tree"], prepare=[UNTAR]),
    command_workload("git-clone", "git clone of a packed repository on the native file system", CLONE),
    command_workload("git-status", "git status in a fresh clone", ["git", "-C", "clone", "status", "--porcelain"], prepare=[CLONE]),
    Workload("single calls", "open-read", "open, read 1 KiB, close; 200 files in turn", 5000),
    Workload("single calls", "open-write", "open, write 1 KiB over the old content, close; 200 files in turn", 5000),
    Workload("single calls", "append", "write 100 bytes to a file opened with O_APPEND", 20000),
    Workload("single calls", "truncate-write", "open(O_TRUNC), write 1 KiB, close; 200 files in turn", 3000),
    Workload("single calls", "readdir", "opendir, readdir to the end (200 entries), closedir", 1000),
    Workload("single calls", "write-stat", "write 100 bytes, then stat the file by name", 5000),
    Workload("single calls", "access", "access(R_OK|W_OK) of 200 files in turn", 20000),
    Workload("data", "write", "a new file in chunks of 1 MiB", megabytes=256),
    Workload("data", "read-first", "read() in chunks of 128 KiB; nobody has read the file yet", megabytes=256, seeds=["read"]),
    Workload("data", "read-again", "the same once more", megabytes=256, seeds=["read"]),
    Workload("data", "random-read", "pread of 4 KiB pages at random places", 8192, 64, seeds=["random"]),
    Workload("data", "mmap-read", "mmap and read from start to end", megabytes=64, seeds=["mapped"]),
    Workload("rewriting", "overwrite", "an existing file from start to end in chunks of 1 MiB", megabytes=64),
    Workload("rewriting", "overwrite-middle", "open a big file, write 4 KiB into its middle, close", 200, 256),
    Workload("rewriting", "random-write", "pwrite of 4 KiB pages at random places", 8192, 64),
]
GROUPS = list(dict.fromkeys(w.group for w in WORKLOADS))
TREES = {"walk", "grep", "copy"}


def selected(options):
    only = options.only
    known = set(GROUPS) | {w.name for w in WORKLOADS}
    unknown = set(only) - known
    if unknown:
        raise Failure(f"no such group or workload: {', '.join(sorted(unknown))} (there are: {', '.join(sorted(known))})")
    chosen = [w for w in WORKLOADS if not only or w.name in only or w.group in only]
    if options.quick:
        chosen = [replace(w, count=w.count // 4, megabytes=w.megabytes // 8) for w in chosen]
    return chosen


# ---- what the workloads need ----

class Material:
    """The tar archive, the git repository and the big file, made once, on the same file system but outside every candidate."""

    def __init__(self, base, options):
        self.base = base
        self.tree = base / "tree"
        self.tar = base / "tree.tar"
        self.origin = base / "origin"
        self.big = base / "big"
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
        for name in ("calls", "floor"):
            quiet([compiler, "-std=gnu11", "-O2", "-Wall", "-o", str(self.base / name), str(HERE / f"{name}.c")])

    def make(self, workloads):
        self.pick_tree()
        with tarfile.open(self.tar, "w") as archive:
            archive.add(self.tree, arcname="tree")
        if any(w.name.startswith("git") for w in workloads):
            self.make_origin()
        block = os.urandom(MIB)
        size = max((w.megabytes for w in workloads if w.seeds), default=0)
        with open(self.big, "wb") as big:
            for _ in range(size):
                big.write(block)

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
            else:
                size = max(w.megabytes for w in workloads if name in w.seeds) * MIB
                quiet(["cp", "--sparse=never", "--reflink=never", str(self.big), str(target)])
                os.truncate(target, size)


def quiet(command, **more):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode != 0:
        raise Failure(f"{shlex.join(command)}: exit {done.returncode}: {done.stdout.strip()[-400:]}")
    return done.stdout


# ---- candidates ----

class Candidate:
    """A directory to work in. Without a daemon it is the native one."""

    def __init__(self, name, flags=()):
        self.name = name
        self.flags = list(flags)
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


def mounted(path):
    wanted = str(path).encode()
    with open("/proc/self/mountinfo", "rb") as table:
        return any(line.split()[4] == wanted for line in table)


def candidates(options):
    made = []
    for name in options.candidates.split(","):
        if name == "native":
            made.append(Candidate("native"))
        elif name == "bindfs":
            made.append(Bindfs("bindfs", shlex.split(options.bindfs_flags)))
        elif name == "fuse-overlayfs":
            made.append(FuseOverlayfs("fuse-overlayfs", shlex.split(options.overlay_flags)))
        elif name == "trumanfs":
            made.append(Trumanfs("trumanfs", program(options), shlex.split(options.trumanfs_flags)))
        else:
            raise Failure(f"no such candidate: {name} (there are: native, bindfs, fuse-overlayfs, trumanfs)")
    for variant in options.variant:
        name, _, flags = variant.partition("=")
        made.append(Trumanfs(name, program(options), shlex.split(flags)))
    for tool in made:
        command = tool.name if type(tool) in (Bindfs, FuseOverlayfs) else None
        if command and not shutil.which(command):
            raise Failure(f"{command} is missing: run mount-scripts/setup")
    names = [c.name for c in made]
    if len(set(names)) != len(names):
        raise Failure(f"two candidates have one name: {', '.join(names)}")
    return made


def program(options):
    path = Path(options.trumanfs).resolve()
    if not path.is_file():
        raise Failure(f"{path} is missing: run cargo build --release, or name a binary with --trumanfs PATH")
    return str(path)


# ---- running ----

def run(candidate, workload, material, options, count_requests=False):
    """Runs one workload in one candidate. Returns seconds, or the requests by kind."""
    work = candidate.home / f"work-{workload.name}"
    work.mkdir()
    seed = candidate.home / "seed"
    places = {"tar": str(material.tar), "origin": str(material.origin), "seed": str(seed)}

    def told(command):
        return [word.format(**places) for word in command]

    for command in workload.prepare:
        quiet([str(material.calls), "run", str(work), *told(command)], timeout=options.timeout)
    if workload.command:
        command = [str(material.calls), "run", str(work), *told(workload.command)]
    else:
        command = [str(material.calls), workload.name, str(work), str(seed), str(workload.count), str(workload.megabytes * MIB)]
    if count_requests:
        return requests_of(candidate, command, options)
    time.sleep(SETTLE)
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        candidate.kill()
        raise Failure(f"no end within {options.timeout} s") from None
    if done.returncode != 0:
        raise Failure(done.stderr.strip()[-400:] or f"exit {done.returncode}")
    return int(done.stdout) / 1e9


def requests_of(candidate, command, options):
    helper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "BENCH_STEP": "1"})
    try:
        expect(helper, "ready")
        time.sleep(0.1)
        # Asking for the status may cost requests too: what one question costs is taken off.
        cost = difference(candidate.counters(), first := candidate.counters())
        answer(helper)
        expect(helper, "done")
        time.sleep(0.1)
        spent = difference(first, candidate.counters())
        answer(helper)
        helper.communicate(timeout=options.timeout)
    finally:
        if helper.poll() is None:
            helper.kill()
            helper.wait()
    if helper.returncode != 0:
        raise Failure(f"exit {helper.returncode}")
    return difference(cost, spent)


def expect(helper, word):
    line = helper.stdout.readline().strip()
    if line != word:
        raise Failure(f"calls said {line!r} instead of {word!r}")


def answer(helper):
    helper.stdin.write("\n")
    helper.stdin.flush()


def difference(before, after):
    changed = {k: v - before.get(k, 0) for k, v in after.items()}
    return {k: v for k, v in changed.items() if v > 0}


class Round:
    """Fresh stores for all candidates, seeded, then mounted; torn down again whatever happens."""

    def __init__(self, tools, material, workloads, directory):
        self.tools, self.material, self.workloads, self.directory = tools, material, workloads, directory

    def __enter__(self):
        try:
            for tool in self.tools:
                seeds = tool.prepare(self.directory / tool.name) / "seed"
                seeds.mkdir()
                self.material.seed(seeds, self.workloads)
                tool.mount()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for tool in self.tools:
            tool.unmount()
        # A program that went on working for a moment may leave something behind: the file system goes in the end anyway.
        shutil.rmtree(self.directory, ignore_errors=True)


def measure(tools, workloads, material, options):
    seconds = {w.name: {t.name: [] for t in tools} for w in workloads}
    failures = {}
    for number in range(options.rounds):
        progress(f"round {number + 1} of {options.rounds}")
        with Round(tools, material, workloads, material.base / f"round-{number}"):
            for workload in workloads:
                progress(f"round {number + 1} of {options.rounds}: {workload.name}")
                turn = number % len(tools)
                for tool in tools[turn:] + tools[:turn]:
                    try:
                        spent = run(tool, workload, material, options)
                    except (Failure, OSError) as error:
                        failures.setdefault((workload.name, tool.name), str(error))
                        spent = None
                    seconds[workload.name][tool.name].append(spent)
    progress("")
    return seconds, failures


def ratios(seconds, tools):
    """Per workload and candidate: the median over the rounds of its time divided by native's in the same round."""
    table = {}
    for name, by_tool in seconds.items():
        table[name] = {}
        for tool in tools[1:]:
            pairs = zip(by_tool[tool.name], by_tool["native"])
            each = [mine / native for mine, native in pairs if mine and native]
            table[name][tool.name] = statistics.median(each) if each else None
    return table


def means(table, tools, workloads):
    """The geometric mean of each group; none where a workload of the group failed."""
    result = {}
    for group in GROUPS:
        names = [w.name for w in workloads if w.group == group]
        if not names:
            continue
        result[group] = {}
        for tool in tools[1:]:
            values = [table[n][tool.name] for n in names]
            result[group][tool.name] = None if None in values else math.exp(statistics.fmean(map(math.log, values)))
    return result


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def cell(value):
    return "failed" if value is None else f"{value:.2f}"


def milliseconds(values):
    known = [v for v in values if v]
    return f"{statistics.median(known) * 1e3:.2f} ms" if known else "failed"


def print_table(seconds, table, averages, tools, workloads):
    others = [t.name for t in tools[1:]]
    print(f"| group | workload | native | {' | '.join(others)} |")
    print(f"| --- | --- | ---: | {' | '.join('---:' for _ in others)} |")
    for w in workloads:
        cells = " | ".join(cell(table[w.name][t]) for t in others)
        print(f"| {w.group} | {w.name} | {milliseconds(seconds[w.name]['native'])} | {cells} |")
    print()
    print(f"| geometric mean | {' | '.join(others)} |")
    print(f"| --- | {' | '.join('---:' for _ in others)} |")
    for group, by_tool in averages.items():
        print(f"| {group} | {' | '.join(cell(by_tool[t]) for t in others)} |")


# ---- the three things to do ----

def compare(options, base):
    tools = candidates(options)
    if tools[0].name != "native":
        raise Failure("--candidates must start with native: all figures are ratios to it")
    workloads = selected(options)
    material = Material(base, options)
    material.make(workloads)
    seconds, failures = measure(tools, workloads, material, options)
    table = ratios(seconds, tools)
    averages = means(table, tools, workloads)
    machine = environment(options, material, tools)
    print(f"{machine['date']}, Linux {machine['kernel']}, {machine['processors']} x {machine['processor']}; {machine['file_system']}; "
          f"{options.rounds} rounds{', quick' if options.quick else ''}; tree: {material.files} files, {material.bytes // MIB} MiB. "
          "Times divided by native's, median over the rounds: less is better.\n")
    print_table(seconds, table, averages, tools, workloads)
    for (name, tool), reason in failures.items():
        print(f"\n{tool} failed {name}: {reason}")
    save(options, {"environment": machine, "seconds": seconds, "ratios": table, "means": averages,
                   "failures": [{"workload": n, "candidate": t, "reason": r} for (n, t), r in failures.items()]})
    return 1 if failures else 0


def requests(options, base):
    workloads = selected(options)
    material = Material(base, options)
    material.make(workloads)
    tools = [t for t in candidates(options) if isinstance(t, Trumanfs)]
    if not tools:
        raise Failure("--requests needs trumanfs among the candidates")
    result, failed = {}, 0
    for tool in tools:
        print(f"Requests to {tool.name}, timed part of each workload\n")
        print("| group | workload | operations | requests | per operation | by kind |")
        print("| --- | --- | ---: | ---: | ---: | --- |")
        with Round([tool], material, workloads, base / "requests"):
            for w in workloads:
                try:
                    kinds = run(tool, w, material, options, count_requests=True)
                except (Failure, OSError, KeyError, ValueError, subprocess.TimeoutExpired) as error:
                    print(f"| {w.group} | {w.name} | | failed: {error} | | |")
                    failed = 1
                    continue
                total = sum(kinds.values())
                most = sorted(kinds.items(), key=lambda item: -item[1])[:6]
                each = f"{total / w.count:.2f}" if w.count else ""
                print(f"| {w.group} | {w.name} | {w.count or ''} | {total} | {each} | {', '.join(f'{k} {v}' for k, v in most)} |")
                result.setdefault(tool.name, {})[w.name] = kinds
        print()
    save(options, {"requests": result})
    return failed


def floor(options, base):
    """For each workload: native time + requests that are waited for × the cost of an empty request, beside what is reached."""
    workloads = [w for w in selected(options) if w.count and w.group != "data"]
    tools = candidates(options)
    if [t.name for t in tools][:1] != ["native"] or not isinstance(tools[-1], Trumanfs) or len(tools) != 2:
        raise Failure("--floor needs --candidates native,trumanfs")
    material = Material(base, options)
    material.make(workloads)
    empty = {"on one processor": [], "anywhere": []}
    for number in range(options.rounds):
        with Round([server := Floor(material)], material, [], material.base / f"floor-{number}"):
            empty["anywhere"].append(ask(material, server, options))
            # The server, and the client that inherits it from us.
            allowed = os.sched_getaffinity(0)
            try:
                for pid in (0, server.daemon.pid):
                    os.sched_setaffinity(pid, {min(allowed)})
                empty["on one processor"].append(ask(material, server, options))
            finally:
                os.sched_setaffinity(0, allowed)
    seconds, failures = measure(tools, workloads, material, options)
    table = ratios(seconds, tools)
    least = statistics.median(empty["on one processor"])
    print(f"One request that is answered at once: {least * 1e6:.1f} µs on one processor, "
          f"{statistics.median(empty['anywhere']) * 1e6:.1f} µs where the kernel likes ({options.rounds} rounds).\n")
    print("| group | workload | native per operation | requests waited for | at best | reached |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    best = {}
    with Round([tools[-1]], material, workloads, base / "requests"):
        for w in workloads:
            kinds = run(tools[-1], w, material, options, count_requests=True)
            waited = sum(n for kind, n in kinds.items() if kind not in ("release", "forget")) / w.count
            native = statistics.median(v for v in seconds[w.name]["native"] if v) / w.count
            best[w.name] = (native + waited * least) / native
            print(f"| {w.group} | {w.name} | {native * 1e6:.1f} µs | {waited:.2f} | {best[w.name]:.2f} | {cell(table[w.name][tools[-1].name])} |")
    print("\n| geometric mean | at best | reached |")
    print("| --- | ---: | ---: |")
    reached = means(table, tools, workloads)
    for group in reached:
        lowest = math.exp(statistics.fmean(math.log(best[w.name]) for w in workloads if w.group == group))
        print(f"| {group} | {lowest:.2f} | {cell(reached[group][tools[-1].name])} |")
    save(options, {"empty_request": empty, "seconds": seconds, "ratios": table, "at_best": best})
    return 1 if failures else 0


def ask(material, server, options, times=20000):
    """Seconds that one empty request takes."""
    command = [str(material.calls), "ask", str(server.home), "-", str(times), "0"]
    return int(quiet(command, timeout=options.timeout)) / 1e9 / times


def memory(options, base):
    material = Material(base, options)
    print(f"{options.memory} empty files in directories of 1000, made on the store, then all looked at through the home\n")
    print("| candidate | made in s | looked at in s | VmRSS MiB | VmHWM MiB | descriptors | threads |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    result, failed = {}, 0
    for tool in candidates(options):
        if tool.name == "native":
            continue
        directory = base / "memory"
        try:
            seed = tool.prepare(directory / tool.name) / "many"
            seed.mkdir()
            made = calls(material, "fill", seed, options)
            tool.mount()
            looked = calls(material, "stat-all", tool.home / "many", options)
            state = process_state(tool.daemon.pid)
            print(f"| {tool.name} | {made:.1f} | {looked:.1f} | {state['VmRSS'] / 1024:.0f} | {state['VmHWM'] / 1024:.0f} "
                  f"| {state['descriptors']} | {state['Threads']} |", flush=True)
            result[tool.name] = {"files": options.memory, "seconds": looked, **state}
        except (Failure, OSError, subprocess.TimeoutExpired) as error:
            failed = 1
            print(f"| {tool.name} | failed: {error} | | | | | |", flush=True)
        finally:
            tool.unmount()
            shutil.rmtree(directory, ignore_errors=True)
    save(options, {"memory": result})
    return failed


def calls(material, loop, directory, options):
    patience = max(options.timeout, options.memory / 1000)
    return int(quiet([str(material.calls), loop, str(directory), "-", str(options.memory), "0"], timeout=patience)) / 1e9


def process_state(pid):
    state = {"descriptors": len(os.listdir(f"/proc/{pid}/fd"))}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key in ("VmRSS", "VmHWM", "Threads"):
            state[key] = int(value.split()[0])
    return state


def environment(options, material, tools):
    processor = next((l.partition(":")[2].strip() for l in Path("/proc/cpuinfo").read_text().splitlines() if l.startswith("model name")), platform.machine())
    versions = {}
    for tool in tools[1:]:
        command = [tool.program if isinstance(tool, Trumanfs) else tool.name, "--version"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        versions[tool.name] = {"version": (done.stdout or done.stderr).strip().splitlines()[:2], "flags": tool.flags}
    return {"date": time.strftime("%Y-%m-%d", time.gmtime()), "kernel": platform.release(), "processor": processor, "processors": os.cpu_count(),
            "file_system": options.base or options.fs, "rounds": options.rounds, "quick": options.quick, "unprivileged": options.unprivileged,
            "tree": {"files": material.files, "bytes": material.bytes}, "candidates": versions}


def save(options, data):
    if options.json:
        Path(options.json).write_text(json.dumps(data, indent=1) + "\n")


# ---- namespaces ----

def enter_namespaces(options):
    """Starts this program again in a mount and a pid namespace of its own, and waits for it."""
    if os.geteuid() != 0 and not options.unprivileged:
        raise Failure("run it as root (it mounts), or with --unprivileged in a user namespace")
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
    if options.unprivileged:
        command += ["--user", "--map-root-user"]
    # Python as PID 1 of the namespace: when it ends, the kernel kills whatever is left in there.
    command += [sys.executable, str(Path(__file__).resolve()), *sys.argv[1:]]
    os.execvpe(command[0], command, {**os.environ, INSIDE: "1"})


def leave_other_homes():
    """Homes that others have mounted came along with the namespace, and would not end as long as it lasts."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if " fuse.trumanfs " in line:
            subprocess.run(["umount", "--lazy", line.split()[4]], check=False)


def inside(options):
    def interrupted(number, _frame):
        raise KeyboardInterrupt(signal.Signals(number).name)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    os.umask(0o022)
    leave_other_homes()
    # The same git everywhere, whatever the user has configured.
    os.environ.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null", GIT_TERMINAL_PROMPT="0", LC_ALL="C")
    place = Path(tempfile.mkdtemp(prefix="trumanfs-bench-", dir=options.base))
    mounts = []
    try:
        base = place if options.base else file_system(options, place, mounts)
        if options.memory:
            return memory(options, base)
        if options.requests:
            return requests(options, base)
        if options.floor:
            return floor(options, base)
        return compare(options, base)
    finally:
        for mount in reversed(mounts):
            subprocess.run(["umount", "-l", str(mount)], check=False)
        if options.base:
            shutil.rmtree(place, ignore_errors=True)
        else:
            os.rmdir(place)


def file_system(options, place, mounts):
    """Mounts the file system that all candidates share, in memory either way."""
    # The size is a bound, not a reservation; a million inodes need more than the default number of them.
    quiet(["mount", "-t", "tmpfs", "-o", "size=80%,nr_inodes=0,mode=0755", "tmpfs", str(place)])
    mounts.append(place)
    if options.fs == "tmpfs":
        return place
    image, base = place / "image", place / "ext4"
    base.mkdir()
    image.touch()
    os.truncate(image, os.statvfs(place).f_blocks * os.statvfs(place).f_frsize * 7 // 8)
    # Everything is laid out at once, so that no background thread of ext4 works while we measure.
    quiet(["mkfs.ext4", "-q", "-F", "-i", "8192", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image)])
    quiet(["mount", "-o", "loop", str(image), str(base)])
    mounts.append(base)
    return base


def arguments():
    parser = argparse.ArgumentParser(description="Compare trumanfs with native, bindfs and fuse-overlayfs on one file system in memory.",
                                     epilog="Groups: " + ", ".join(GROUPS) + ". Workloads: " + ", ".join(w.name for w in WORKLOADS) + ".")
    parser.add_argument("--trumanfs", metavar="PATH", default=str(REPOSITORY / "target" / "release" / "trumanfs"), help="the binary (default: target/release/trumanfs)")
    parser.add_argument("--trumanfs-flags", metavar="FLAGS", default="", help="more arguments of trumanfs mount, as in --trumanfs-flags='--no-follow'")
    parser.add_argument("--variant", metavar="NAME=FLAGS", action="append", default=[], help="trumanfs once more, with other flags; repeatable")
    parser.add_argument("--bindfs-flags", metavar="FLAGS", default="")
    parser.add_argument("--overlay-flags", metavar="FLAGS", default="")
    parser.add_argument("--candidates", metavar="LIST", default="native,bindfs,fuse-overlayfs,trumanfs", help="default: %(default)s")
    parser.add_argument("--only", metavar="GROUP|WORKLOAD", action="append", default=[], help="repeatable")
    parser.add_argument("--rounds", metavar="N", type=int, help="default: 9, with --quick 3")
    parser.add_argument("--quick", action="store_true", help="a quarter of the operations, an eighth of the data: a look, not a result")
    parser.add_argument("--requests", action="store_true", help="count FUSE requests for each workload instead of time")
    parser.add_argument("--floor", action="store_true", help="what one empty request costs here, and what that makes of each workload at best; with --candidates native,trumanfs")
    parser.add_argument("--memory", metavar="N", type=int, nargs="?", const=1_000_000, help="the daemons' memory with N known files (default 1,000,000)")
    parser.add_argument("--tree", metavar="DIR", help="the source tree to work with (default: one found on this machine)")
    parser.add_argument("--timeout", metavar="SECONDS", type=int, default=120, help="for one run of one workload (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="also write everything that was measured")
    parser.add_argument("--fs", choices=("tmpfs", "ext4"), default="tmpfs", help="the file system in memory that all share; ext4 lies in a file on a tmpfs (default: %(default)s)")
    parser.add_argument("--base", metavar="DIR", help="work below this directory, on whatever file system it has, instead")
    parser.add_argument("--unprivileged", action="store_true", help="in a user namespace: without kernel passthrough")
    options = parser.parse_args()
    options.rounds = options.rounds or (3 if options.quick else 9)
    return options


def main():
    options = arguments()
    try:
        if os.environ.get(INSIDE) != "1":
            selected(options)
            candidates(options)
            enter_namespaces(options)
        return inside(options)
    except Failure as error:
        print(f"side_by_side: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nside_by_side: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
