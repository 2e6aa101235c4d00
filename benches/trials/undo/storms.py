#!/usr/bin/env python3
"""Storms: three destructive occupants at once, then undo, redo and undo. Is the tree what it was each time?

    storms.py --seeds 0..2000 --results FILE    as root; goes on where an earlier call with the same label ended
    storms.py --sum FILE...                     adds up the results by combination

A seed stands for one combination of file system and flavour, the options of the mount, the start tree, and what each
occupant tries; 20 consecutive seeds are all combinations. In the storm the home is mounted again, the daemon killed and
the undo killed, as the seed has it. A seed that differs keeps its store, with a text that says in what it differs."""

import argparse
import collections
import hashlib
import json
import mmap
import os
import random
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
import disks
import tree
from occupant import Occupant

HERE = os.path.dirname(os.path.abspath(__file__))
USER = 65534
# How a home is mounted: its options, whether its occupant is an ordinary user, whether its operator is.
FLAVOURS = {
    "passthrough": ([], False, False),
    "no-passthrough": (["--no-passthrough"], False, False),
    "owner": (["--owner", "nobody"], True, False),
    "durable": (["--durable"], False, False),
    "user": ([], True, True),
}
COMBINATIONS = [(kind, flavour) for flavour in FLAVOURS for kind in disks.KINDS]
LIMIT = 60
LEFT_OUT = """unreadable (files that an ordinary user may not read), append-cleared, orphans (versions without a record),
kills (of the daemon and of undo); with commas"""


class Differs(Exception):
    """What is not as it should be after a seed."""


def kill(pid):
    """Kills a process and waits until all its threads are gone, and its lock with the last of them."""
    process = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        select.select([process], [], [], LIMIT)
    finally:
        os.close(process)


class Storm:
    """One seed. All random choices of the script come from `draw`."""

    def __init__(self, seed, args, disk, base):
        self.seed, self.args, self.disk = seed, args, disk
        self.draw = random.Random(seed)
        self.kind, self.flavour = COMBINATIONS[seed % len(COMBINATIONS)]
        options, self.occupant_is_user, self.operator_is_user = FLAVOURS[self.flavour]
        choose = self.draw.choice
        self.options = options + choose([[], ["--symlinks", "inside"], ["--symlinks", "inside"]])
        self.options += choose([[], ["--xattr"]]) + choose([[], [], ["--copy-up-to", "4K"]])
        if self.flavour in ("owner", "durable"):
            self.options += choose([[], ["--no-passthrough"]])
        self.home = os.path.join(base, f"home{seed}")
        self.base = base
        self.store = None
        self.log = []
        self.named, self.named_inodes = "", set()

    def run(self, *words, codes=(0,)):
        """Runs the program as the operator."""
        done = self.start(words).communicate(timeout=LIMIT)
        return self.judge(words, codes, done)

    def start(self, words):
        self.log.append(" ".join(words))
        more = {"user": USER, "group": USER, "extra_groups": []} if self.operator_is_user else {}
        environment = dict(os.environ, HOME=self.base, XDG_RUNTIME_DIR=os.path.join(self.base, "run"))
        self.process = subprocess.Popen(
            [self.args.binary, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/", env=environment, **more
        )
        return self.process

    def judge(self, words, codes, done):
        out, err = (text.decode(errors="replace") for text in done)
        code = self.process.returncode
        self.log.append(f"    {code}: {(out + err).strip()[:3000]}")
        if code not in codes:
            raise Differs(f"{' '.join(words)}: exit {code}\n{out[-2000:]}{err[-3000:]}")
        return code, out, err

    # The storm

    def mount(self):
        self.run("mount", self.store, self.home, *self.options)

    def umount(self):
        self.run("umount", self.home)

    def daemon(self):
        _, out, _ = self.run("status", self.home, "--json")
        return json.loads(out)["pid"]

    def clear(self):
        """Takes the home of a dead daemon out of sight."""
        self.run("umount", "--lazy", self.home)

    def occupy(self, phase, daemon=None):
        """Lets three occupants loose. Kills the daemon while they work, if it is given."""
        count = self.args.count
        done = mmap.mmap(-1, 3 * 8)
        children = [self.fork(phase * 3 + number, count, done) for number in range(self.args.occupants)]
        moment = self.draw.randrange(count * self.args.occupants)
        delay = self.draw.random() * 0.002
        end = time.monotonic() + LIMIT
        killed = daemon is None
        while children:
            if not killed and sum(struct.unpack("3Q", done[:])) >= moment:
                time.sleep(delay)
                self.log.append(f"kill -9 {daemon} after {struct.unpack('3Q', done[:])}")
                kill(daemon)
                killed = True
            for child in children[:]:
                if os.waitpid(child, os.WNOHANG)[0]:
                    children.remove(child)
            if time.monotonic() > end:
                for child in children:
                    os.kill(child, signal.SIGKILL)
                raise Differs("an occupant hangs")
            time.sleep(0.0005)
        if not killed:
            kill(daemon)

    def fork(self, number, count, done):
        child = os.fork()
        if child:
            return child
        try:
            if self.occupant_is_user:
                os.setgroups([])
                os.setresgid(USER, USER, USER)
                os.setresuid(USER, USER, USER)
            os.umask(0o022)
            try:
                os.chdir(self.home)
            except OSError:  # The daemon has been killed already.
                return
            occupant = Occupant(self.seed * 100 + number, self.leave_out())
            slot = number % 3 * 8
            for n in range(count):
                if not occupant.act():
                    break
                done[slot : slot + 8] = struct.pack("Q", n + 1)
        except Exception:  # An occupant that ends early is no failure, but a fault of its own shall show.
            traceback.print_exc()
        finally:
            os._exit(0)

    def leave_out(self):
        """What an ordinary user's storm leaves out concerns nobody else."""
        return [what for what in self.args.leave_out if what != "unreadable" or self.flavour == "user"]

    def sessions(self):
        return sorted(os.listdir(os.path.join(self.store, ".trumanfs/sessions")))

    def rage(self):
        """The storm itself. Returns what `undo` shall take back; afterwards nothing is mounted."""
        draw = self.draw
        phases = draw.choice([1, 1, 2, 3])
        checkpoint = phases > 1 or draw.random() < 0.3
        killed = False
        for phase in range(phases):
            self.mount()
            if phase == 0:
                first = self.sessions()[-1]
                if checkpoint:
                    self.run("checkpoint", "create", self.store, "start")
                # The first mount makes the directories of the program's own in the root.
                self.start_of_root = os.stat(self.store).st_mtime_ns
            dies = draw.random() < 0.4 and "kills" not in self.args.leave_out
            self.occupy(phase, self.daemon() if dies else None)
            if dies:
                killed = True
                self.clear()
            else:
                self.umount()
        if dies:
            # What was under way is settled by the next mount, or by the next line on the unmounted store.
            if draw.random() < 0.5:
                self.mount()
                self.umount()
            else:
                self.run("exec", "--root", self.store, "--", "ls nothing", codes=(0, 2))
        if checkpoint:
            return ["--to", "start"]
        name = open("/proc/self/comm", encoding="utf-8").read().strip()
        by = draw.choice([[], [], ["--program", name]]) if not killed else []
        return ["--session", first, *by]

    # Taking back

    def undo(self, by, cut):
        """Takes back; `cut`: a kill ends it, or the daemon that does it, half-way. Then it is asked for once more."""
        codes = (0, 1, 3, 5) if self.occupant_is_user else (0, 1, 3)
        mounted = self.draw.random() < 0.5
        if mounted:
            self.mount()
        if cut:
            self.cut_undo(by, mounted)
        code, _, err = self.run("undo", self.store, *by, codes=codes)
        if code == 5:
            self.name(err)
        elif self.draw.random() < 0.5:
            # Undoing twice is undoing once.
            self.run("undo", self.store, *by, codes=(1, 3))
        if mounted:
            self.umount()

    def cut_undo(self, by, mounted):
        daemon = self.daemon() if mounted and self.draw.random() < 0.7 else None
        words = ["undo", self.store, *by]
        process = self.start(words)
        time.sleep(self.draw.random() * 0.08)
        self.log.append("kill -9 " + ("the daemon" if daemon else "the undo"))
        kill(daemon or process.pid)
        done = process.communicate(timeout=LIMIT)
        self.log.append(f"    {process.returncode}: {done}"[:1500])
        if daemon:
            self.clear()
            self.mount()

    def redo(self):
        mounted = self.draw.random() < 0.5
        if mounted:
            self.mount()
        # Each undo that changed something is one to take back.
        for _ in range(9):
            code, _, err = self.run("redo", self.store, codes=(0, 1, 3, 5) if self.occupant_is_user else (0, 1, 3))
            if code == 5:
                self.name(err)
            if code in (1, 3):
                break
        if mounted:
            self.umount()

    def compare(self, when, before):
        after = tree.look(self.store)
        found = tree.differences(before, after)
        wrong = [f"    {path!r}: {what}" for path, what in found if not self.is_named(path)]
        if wrong:
            raise Differs(f"{when}, {len(wrong)} differences:\n" + "\n".join(line[:400] for line in wrong[:40]))
        return after

    def check(self):
        code, out, _ = self.run("fsck", self.store, codes=(0, 1))
        problems = [line for line in out.splitlines() if line.startswith("problem:")]
        if "orphans" in self.args.leave_out:
            problems = [line for line in problems if "belongs to no record" not in line]
        if problems:
            raise Differs("fsck: " + "\n".join(problems))

    def name(self, err):
        """Takes down what an undo or redo left as it is: a file may have other names, or another one after the next redo."""
        self.named += err
        words = [line.removeprefix("trumanfs: ").split(" stays as it is") for line in err.splitlines()]
        self.named_inodes |= {self.inode(path.replace("\\x0a", "\n")) for path, *why in words if why}

    def inode(self, path):
        try:
            return os.lstat(self.store + path).st_ino
        except OSError:
            return None

    def is_named(self, path):
        inode, path = self.inode(path), path.replace("\n", "\\x0a")
        return f" {path}:" in self.named or f" {path} " in self.named or (inode and inode in self.named_inodes)

    def all(self):
        self.store = self.disk.store(f"store{self.seed}")
        os.makedirs(self.home)
        if self.occupant_is_user:
            os.chown(self.home, USER, USER)
        tree.build(self.store, USER if self.occupant_is_user else None, self.leave_out())
        start = tree.look(self.store)
        by = self.rage()
        start["/"].fields[3] = self.start_of_root
        left = tree.look(self.store)
        cut = self.draw.random() < 0.35 and "kills" not in self.args.leave_out
        self.undo(by, cut)
        self.compare("after undo", start)
        self.redo()
        self.compare("after redo", left)
        self.undo(by, False)
        self.compare("after the second undo", start)
        self.check()

    def end(self):
        """Unmounts whatever is still mounted."""
        if os.path.ismount(self.home) or any(self.home in line for line in open("/proc/self/mountinfo", encoding="utf-8")):
            subprocess.run([self.args.binary, "umount", "--lazy", self.home], capture_output=True, timeout=LIMIT, check=False)
            subprocess.run(["umount", "-l", self.home], capture_output=True, check=False)
        if self.store and os.path.exists(self.store):
            shutil.rmtree(self.store, ignore_errors=True)
            subprocess.run(["rm", "-rf", self.store], check=False)
        shutil.rmtree(self.home, ignore_errors=True)


def one_seed(seed, args, disk, base):
    """Returns the outcome in a word, after keeping what differs."""
    storm = Storm(seed, args, disk, base)
    began = time.monotonic()
    outcome, text = "same", ""
    try:
        storm.all()
        if storm.named:
            outcome = "named"
    except Differs as error:
        outcome, text = "differs", str(error)
    except (subprocess.TimeoutExpired, OSError) as error:
        outcome, text = "error", "".join(traceback.format_exception(error))
    took = time.monotonic() - began
    if text:
        text = f"seed {seed} {storm.kind} {storm.flavour}: {text}"
        print(text, flush=True)
        kept = os.path.join(args.keep, f"seed-{seed}")
        if storm.home in open("/proc/self/mountinfo", encoding="utf-8").read():
            subprocess.run(["umount", "-l", storm.home], capture_output=True, check=False)
            time.sleep(0.2)
        shutil.rmtree(kept, ignore_errors=True)
        os.makedirs(kept)
        with open(os.path.join(kept, "differs.txt"), "w", encoding="utf-8", errors="replace") as file:
            file.write("\n".join([text, "", *storm.log, ""]))
        try:
            disk.keep(storm.store, kept)
        except OSError as error:
            print(f"seed {seed}: its store cannot be kept: {error}", flush=True)
    storm.end()
    return f"{seed} {storm.kind} {storm.flavour} {outcome} {took:.2f} {args.label}"


def add_up(files):
    """Prints how many seeds of each combination came out how. The last line of a seed counts."""
    last = {}
    for name in files:
        with open(name, encoding="utf-8") as lines:
            for line in lines:
                seed, kind, flavour, outcome, took, label = line.split()
                last[label, int(seed)] = (kind, flavour, outcome, float(took))
    table = collections.defaultdict(list)
    for (label, _), (kind, flavour, outcome, took) in last.items():
        table[label, flavour, kind].append((outcome, took))
    for (label, flavour, kind), rows in sorted(table.items()):
        count = collections.Counter(outcome for outcome, _ in rows)
        middle = sorted(took for _, took in rows)[len(rows) // 2]
        words = ", ".join(f"{number} {outcome}" for outcome, number in sorted(count.items()))
        print(f"{label} {kind:6} {flavour:15} {len(rows):5} seeds, {middle:.1f} s each: {words}")
    wrong = sorted(seed for (_, seed), row in last.items() if row[2] in ("differs", "error"))
    print(f"{len(last)} seeds, {len(wrong)} differ: {wrong}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seeds", default="0..20", help="A..B, without B, or one seed")
    parser.add_argument("--count", type=int, default=25, help="what each occupant tries in each mount")
    parser.add_argument("--occupants", type=int, default=3, help="how many work at once: one, two or three")
    parser.add_argument("--only", default="", help="flavours or file systems, with commas")
    parser.add_argument("--leave-out", default="", help=LEFT_OUT)
    parser.add_argument("--results", help="a file that gets a line for each seed; seeds that are in it are not repeated")
    parser.add_argument("--label", help="which program this is; the commit that HEAD names")
    parser.add_argument("--keep", default=os.path.join(tempfile.gettempdir(), "trumanfs-storms"))
    parser.add_argument("--binary", default=os.path.join(HERE, "../../../target/release/trumanfs"))
    parser.add_argument("--sum", nargs="+", metavar="FILE")
    args = parser.parse_args()
    args.leave_out = [what for what in args.leave_out.split(",") if what]
    args.only = [what for what in args.only.split(",") if what]
    return args


def seeds_of(args):
    first, _, last = args.seeds.partition("..")
    seeds = range(int(first), int(last) if last else int(first) + 1)
    known = set()
    if args.results and os.path.exists(args.results):
        with open(args.results, encoding="utf-8") as lines:
            known = {int(line.split()[0]) for line in lines if line.split()[5] == args.label}
    wanted = lambda seed: not args.only or any(what in args.only for what in COMBINATIONS[seed % len(COMBINATIONS)])
    return [seed for seed in seeds if seed not in known and wanted(seed)]


def prepare(args, base):
    """A place of its own in this mount namespace: a device that everybody may open, and a copy of the program."""
    os.chmod(base, 0o755)
    for name in ["dev", "run", "disks"]:
        os.mkdir(os.path.join(base, name))
    os.chown(os.path.join(base, "run"), USER, USER)
    device = os.path.join(base, "dev")
    disks.call("mount", "-t", "tmpfs", "none", device)
    os.mknod(device + "/fuse", 0o020666, os.makedev(10, 229))
    os.chmod(device + "/fuse", 0o666)
    disks.call("mount", "--bind", device + "/fuse", "/dev/fuse")
    shutil.copy(args.binary, os.path.join(base, "trumanfs"))
    args.binary = os.path.join(base, "trumanfs")
    return {kind: disks.Disk(kind, os.path.join(base, "disks")) for kind in disks.KINDS}


def main():
    args = parse()
    if args.sum:
        add_up(args.sum)
        return 0
    if os.geteuid() != 0:
        sys.exit("storms.py: needs root, for loop devices and namespaces")
    if not os.environ.get("TRUMANFS_STORM"):
        os.environ["TRUMANFS_STORM"] = "1"
        namespace = ["unshare", "--mount", "--propagation", "private"]
        os.execvp("unshare", [*namespace, sys.executable, os.path.abspath(__file__), *sys.argv[1:]])
    if not args.label:
        named = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, check=False)
        args.label = named.stdout.decode().strip() or "unknown"
    disks.let_go_of_others()
    base = tempfile.mkdtemp(prefix="trumanfs-storm-", dir="/dev/shm")
    wrong, seeds = 0, seeds_of(args)
    all_disks = prepare(args, base)
    try:
        for seed in seeds:
            line = one_seed(seed, args, all_disks[COMBINATIONS[seed % len(COMBINATIONS)][0]], base)
            wrong += line.split()[3] in ("differs", "error")
            if args.results:
                with open(args.results, "a", encoding="utf-8") as file:
                    file.write(line + "\n")
            else:
                print(line, flush=True)
    finally:
        for disk in all_disks.values():
            disk.unmount()
        for at in ["/dev/fuse", os.path.join(base, "dev")]:
            subprocess.run(["umount", "-l", at], check=False)
        shutil.rmtree(base, ignore_errors=True)
    print(f"{len(seeds)} seeds, {wrong} differ" + (f"; their stores are in {args.keep}" if wrong else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
