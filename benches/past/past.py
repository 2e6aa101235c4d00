#!/usr/bin/env python3
"""Measures how long trumanfs takes to answer about the past, and to take it back.

Makes a store whose journal has a million records, all of them written by work in a mounted home, and asks it what an
operator asks. Then makes stores in which 100,000 operations were done, and undoes them, mounted and not. Prints processor
time, elapsed time and memory. See ../README.md.

Everything happens in a mount and a pid namespace of our own: whatever ends this program, by whatever means, takes the
mounts and the daemons with it.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
INSIDE = "TRUMANFS_BENCH_INSIDE"
NAME = Path(sys.argv[0]).stem
FOLDER = 1000       # files in one directory
SHARE = 8           # the work repeats itself after so many files
PATIENCE = 60       # seconds for a daemon to come or go
LOOK = 0.01         # seconds between two looks at a running program's memory
TICKS = os.sysconf("SC_CLK_TCK")


class Failure(Exception):
    """What went wrong, in words for the person who runs the benchmark."""


# ---- a home ----

class Home:
    """A store, and the daemon that serves it while it is mounted."""

    def __init__(self, program, place):
        self.program = program
        self.store, self.home = place / "store", place / "home"
        self.store.mkdir(parents=True)
        self.home.mkdir()
        self.daemon = None

    def mount(self):
        device = self.home.stat().st_dev
        self.daemon = subprocess.Popen([self.program, "mount", "--foreground", str(self.store), str(self.home)],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        end = time.monotonic() + PATIENCE
        while self.home.stat().st_dev == device:
            if self.daemon.poll() is not None or time.monotonic() > end:
                self.daemon.kill()
                raise Failure("the home was not mounted: " + self.daemon.stderr.read().decode(errors="replace").strip()[-400:])
            time.sleep(0.01)

    def unmount(self):
        if self.daemon is None:
            return
        daemon, self.daemon = self.daemon, None
        subprocess.run([self.program, "umount", str(self.home)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        daemon.stderr.close()
        daemon.wait(PATIENCE)

    def spent(self):
        """The processor seconds of the daemon so far."""
        fields = Path(f"/proc/{self.daemon.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def listing(self):
        """What the store holds for its occupant: path, mode and size of everything."""
        found = {}
        for top, folders, files in os.walk(self.store):
            if top == str(self.store):
                folders[:] = [name for name in folders if name not in (".trash", ".trumanfs")]
            for name in folders + files:
                path = os.path.join(top, name)
                meta = os.lstat(path)
                found[path] = (meta.st_mode, meta.st_size if not os.path.isdir(path) else 0)
        return found


# ---- work ----

def work(home, records):
    """Work as a program does it, until about so many records are in the journal: files come to be in directories of a
    thousand; some are moved, get other permissions, are written to again, replaced or removed."""
    written = file = 0
    while written < records:
        if file % FOLDER == 0:
            folder = f"{home}/{file // FOLDER:05}"
            os.mkdir(folder)
            written += 1
        turn = file % SHARE
        path = f"{folder}/{file:07}"
        # One in eight has a content; most files of a build have none that matters here.
        put(path, b"first\n" if turn == 0 else b"")
        written += 1
        if turn == 0:
            put(path, b"and then another\n")
            written += 1
        if turn in (1, 2, 3):
            os.rename(path, path + ".moved")
            written += 1
        if turn in (2, 4):
            os.chmod(path + ".moved" if turn == 2 else path, 0o600)
            written += 1
        if turn in (3, 5):
            os.unlink(path + ".moved" if turn == 3 else path)
            written += 1
        if turn == 7:
            os.rename(path, f"{folder}/{file - 1:07}")     # onto the one before
            written += 1
        file += 1


def put(path, content):
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    if content:
        os.write(descriptor, content)
    os.close(descriptor)


def seed(store, files):
    """Files that are there before anybody mounts the store."""
    for file in range(files):
        folder = f"{store}/{file // FOLDER:05}"
        if file % FOLDER == 0:
            os.mkdir(folder)
        put(f"{folder}/{file:07}", b"")


def unlinks(home, operations):
    for file in range(operations):
        os.unlink(f"{home}/{file // FOLDER:05}/{file:07}")


UNDOS = {"unlinks": (seed, unlinks), "mixed": (lambda store, operations: None, work)}


# ---- asking ----

class Cost:
    def __init__(self, processor, elapsed, memory):
        self.processor, self.elapsed, self.memory = processor, elapsed, memory


def run(command, fine=(0,)):
    """Runs a program to its end. Returns what it cost, and what it said."""
    with tempfile.TemporaryFile() as said:
        start = time.monotonic()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)
        peak = ended = 0
        while not ended:
            time.sleep(LOOK)
            # Not ru_maxrss: that begins with what Python had at the fork.
            peak = max(peak, memory_of(child.pid))
            ended, status, used = os.wait4(child.pid, os.WNOHANG)
        elapsed = time.monotonic() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read()
    if child.returncode not in fine:
        last = text.decode(errors="replace").strip()[-400:]
        raise Failure(f"{' '.join(map(str, command[1:]))}: exit {child.returncode}: {last}")
    return Cost(used.ru_utime + used.ru_stime, elapsed, peak), text


def memory_of(pid):
    """The most memory that a process has had, in MB; 0 when it has ended."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next((int(line.split()[1]) * 1024 / 1e6 for line in status.splitlines() if line.startswith("VmHWM")), 0)


# What is asked of the big store. The second of a pair is how it may end well: `diff` ends with 1 where something differs.
QUESTIONS = {
    "log": (["log", "{store}"], (0,)),
    "log --path": (["log", "{store}", "--path", "{path}"], (0,)),
    "diff --stat": (["diff", "{store}", "{session}:0..now", "--stat"], (0, 1)),
    "diff PATH": (["diff", "{store}", "{session}:0..now", "{path}"], (0, 1)),
    "versions PATH": (["versions", "{store}", "{path}"], (0,)),
    "fsck": (["fsck", "{store}"], (0,)),
    "undo --dry-run": (["undo", "{store}", "--session", "{session}", "--dry-run"], (0,)),
}


def questions(options, store, table):
    sessions = sorted(entry.name for entry in (store / ".trumanfs" / "sessions").iterdir())
    journal = store / ".trumanfs" / "sessions" / sessions[-1] / "journal.jsonl"
    with open(journal, "rb") as lines:
        records = sum(block.count(b"\n") for block in iter(lambda: lines.read(1 << 20), b""))
    size = journal.stat().st_size
    progress(f"{records:,} records, {size / records:.0f} bytes each")
    # A file that was written to twice, in the middle of the journal.
    middle = records // 4 // SHARE * SHARE
    places = {"store": store, "session": sessions[-1], "path": f"{middle // FOLDER:05}/{middle:07}"}
    for name, (words, fine) in QUESTIONS.items():
        if options.only and not any(name.startswith(only) for only in options.only):
            continue
        costs = []
        for _ in range(options.rounds):
            progress(name)
            cost, _ = run([options.program, *(word.format(**places) for word in words)], fine)
            costs.append(cost)
        table.append((name, middle_of(costs)))
    return {"records": records, "bytes": size}


def middle_of(costs):
    return sorted(costs, key=lambda cost: cost.processor)[len(costs) // 2]


# ---- taking back ----

def undo(options, place, kind, mounted):
    """Does the operations in a fresh store, takes them back, and sees to it that they are."""
    prepare, act = UNDOS[kind]
    home = Home(options.program, place)
    try:
        progress(f"making {options.operations:,} operations ({kind})")
        prepare(home.store, options.operations)
        before = home.listing()
        home.mount()
        act(str(home.home), options.operations)
        if not mounted:
            home.unmount()
        changed = len(set(before.items()) ^ set(home.listing().items()))
        if not changed:
            raise Failure("nothing was changed, so nothing can be undone")
        progress(f"undoing them ({kind}, {'mounted' if mounted else 'not mounted'})")
        spent = home.spent() if mounted else 0
        cost, said = run([options.program, "undo", str(home.store), "--session", "last", "--json"])
        if mounted:
            cost.processor += home.spent() - spent
            cost.memory = max(cost.memory, memory_of(home.daemon.pid))
            home.unmount()
        if home.listing() != before:
            raise Failure(f"the undo did not bring back what was: {said.decode(errors='replace')[:400]}")
        return cost
    finally:
        home.unmount()
        progress("removing the store")
        shutil.rmtree(place)


# ---- telling ----

def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="" if text else "\r", file=sys.stderr, flush=True)


def print_table(table, facts):
    processor = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), platform.machine())
    progress("")
    print(f"{time.strftime('%Y-%m-%d', time.gmtime())}, Linux {platform.release()}, {os.cpu_count()} x {processor}; {facts}")
    print()
    print("| what | processor | elapsed | memory |")
    print("| --- | ---: | ---: | ---: |")
    for name, cost in table:
        print(f"| {name} | {cost.processor:.1f} s | {cost.elapsed:.1f} s | {cost.memory:.0f} MB |")


# ---- from start to end ----

def measure(options, base):
    table = []
    facts = [f"{options.rounds} round{'s' if options.rounds > 1 else ''}"]
    known = None
    if options.store:
        known = questions(options, Path(options.store), table)
    elif options.records:
        home = Home(options.program, base / "big")
        try:
            progress(f"writing {options.records:,} records")
            start = time.monotonic()
            home.mount()
            work(str(home.home), options.records)
            facts.append(f"made in {time.monotonic() - start:.0f} s")
        finally:
            home.unmount()
        known = questions(options, home.store, table)
        progress("removing the store")
        if options.keep:
            shutil.move(home.store, options.keep)
        shutil.rmtree(base / "big")
    if known:
        facts.insert(0, f"{known['records']:,} records of {known['bytes'] / known['records']:.0f} bytes")
    for kind in UNDOS:
        for mounted in (True, False):
            name = f"undo of {options.operations:,}, {kind}, {'mounted' if mounted else 'not mounted'}"
            if not options.operations or options.only and not any(name.startswith(only) for only in options.only):
                continue
            costs = [undo(options, base / f"undo-{round}", kind, mounted) for round in range(options.rounds)]
            table.append((name, middle_of(costs)))
    print_table(table, "; ".join(facts))
    if options.json:
        rows = {name: vars(cost) for name, cost in table}
        Path(options.json).write_text(json.dumps({"facts": facts, "costs": rows}, indent=1) + "\n")
    return 0


def enter_namespaces():
    """Starts this program again in a mount and a pid namespace of its own, and waits for it."""
    if os.geteuid() != 0:
        raise Failure("run it as root: it mounts")
    # Python as PID 1 of the namespace: when it ends, the kernel kills whatever is left in there.
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
               sys.executable, str(Path(sys.argv[0]).resolve()), *sys.argv[1:]]
    os.execvpe(command[0], command, {**os.environ, INSIDE: "1"})


def leave_other_homes():
    """Homes that others have mounted came along with the namespace, and would not end as long as it lasts."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if " fuse.trumanfs " in line:
            subprocess.run(["umount", "--lazy", line.split()[4]], check=False)


def inside(options, measure):
    def interrupted(number, _frame):
        raise KeyboardInterrupt(signal.Signals(number).name)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    os.umask(0o022)
    leave_other_homes()
    place = Path(tempfile.mkdtemp(prefix=f"trumanfs-{NAME}-", dir=options.base))
    try:
        return measure(options, place)
    finally:
        progress("removing what was made")
        shutil.rmtree(place)
        progress("")


def parser_with(description, **more):
    """The options of every benchmark that has stores made."""
    parser = argparse.ArgumentParser(description=description, **more)
    parser.add_argument("--trumanfs", metavar="PATH", default=str(REPOSITORY / "target" / "release" / "trumanfs"), help="the binary (default: target/release/trumanfs)")
    parser.add_argument("--base", metavar="DIR", help="make the stores below this directory (default: where temporary files are)")
    return parser


def run_in_namespaces(parser, measure):
    """Calls `measure` with the options, and a directory in which everything lies. Returns how this program ends."""
    options = parser.parse_args()
    options.program = str(Path(options.trumanfs).resolve())
    if not Path(options.program).is_file():
        parser.error(f"{options.program} is missing: run cargo build --release, or name a binary with --trumanfs PATH")
    try:
        if os.environ.get(INSIDE) != "1":
            enter_namespaces()
        return inside(options, measure)
    except (Failure, subprocess.SubprocessError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\n{NAME}: interrupted", file=sys.stderr)
        return 130


def main():
    parser = parser_with("Measure what questions about the past cost, and undoing.",
                         epilog="Questions: " + ", ".join(QUESTIONS) + "; and: undo of.")
    parser.add_argument("--records", metavar="N", type=int, default=1_000_000, help="in the journal that is asked (default: %(default)s); 0: ask nothing")
    parser.add_argument("--operations", metavar="N", type=int, default=100_000, help="that are undone (default: %(default)s); 0: undo nothing")
    parser.add_argument("--rounds", metavar="N", type=int, default=1, help="how often each is measured; the median counts (default: %(default)s)")
    parser.add_argument("--only", metavar="WORDS", action="append", default=[], help="only what begins so; repeatable")
    parser.add_argument("--keep", metavar="DIR", help="keep the big store there, to ask it again with --store")
    parser.add_argument("--store", metavar="DIR", help="ask this store, which an earlier run kept; it is not changed and not removed")
    parser.add_argument("--json", metavar="FILE", help="also write the figures there")
    return run_in_namespaces(parser, measure)


if __name__ == "__main__":
    sys.exit(main())
