#!/usr/bin/env python3
"""Two in one directory: a person who saves in the store as editors do, an agent in its home, and then undo, redo, reject,
restore and merge. Is what the person wrote last where it was put, and is every past that is shown true?

    two.py --seeds 0..200 --binary PATH --results FILE    as root; goes on where an earlier call with the same label ended
    two.py --add FILE...                                  adds up the results
    two.py --seeds 17 -v                                  one seed, and what happens in it
    two.py --seeds 17 --shrink                            leaves out steps for as long as the same law is broken

A seed that breaks a law leaves a text `differs.txt` in a directory below the temporary directory, which has the steps."""

import argparse
import collections
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../undo"))
import choices
import disks
import laws
import storm

INSIDE = "TRUMANFS_TWO"
USER = 65534
LIMIT = 90
KINDS = [*disks.KINDS, "stand-in"]


class StandIn:
    """A directory in memory that a file system in user space shows: without times of birth."""

    def __init__(self, base):
        self.at, self.real = os.path.join(base, "stand-in"), os.path.join(base, "real")
        for path in (self.at, self.real):
            os.mkdir(path)
        program = os.path.join(HERE, "../../../tests/store/stand_in/stand_in.py")
        self.process = subprocess.Popen(["/usr/bin/python3", program, self.real, self.at], stdout=subprocess.PIPE)
        if not select.select([self.process.stdout], [], [], 20)[0] or not self.process.stdout.readline():
            raise OSError("the stand-in cannot be mounted: it needs pyfuse3")

    def store(self, name):
        path = os.path.join(self.at, name)
        os.mkdir(path)
        return path

    def unmount(self):
        subprocess.run(["umount", "-l", self.at], check=False)
        self.process.kill()
        self.process.wait()


def prepare(args, base):
    """A device that everybody may open, and a copy of the program that everybody may run."""
    disks.call("mount", "-t", "tmpfs", "-o", "mode=755,size=2G", "none", base)
    device = os.path.join(base, "dev")
    os.mkdir(device)
    disks.call("mount", "-t", "tmpfs", "none", device)
    os.mknod(device + "/fuse", 0o020666, os.makedev(10, 229))
    os.chmod(device + "/fuse", 0o666)
    disks.call("mount", "--bind", device + "/fuse", "/dev/fuse")
    shutil.copy(args.binary, os.path.join(base, "trumanfs"))
    os.mkdir(os.path.join(base, "disks"))
    if args.fs == "stand-in":
        return StandIn(os.path.join(base, "disks"))
    return disks.Disk(args.fs, os.path.join(base, "disks"))


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


class Seed:
    """One seed, in a process of its own, and all that has to be put away after it."""

    def __init__(self, seed, args, disk, top, skip=()):
        self.seed, self.args, self.skip = seed, args, skip
        self.base = os.path.join(top, f"seed-{seed}")
        for path in ["", "home", "run", "state"]:
            os.mkdir(os.path.join(self.base, path))
        self.top = disk.store(f"s{seed}")
        self.store = os.path.join(self.top, "store")
        os.mkdir(self.store)
        if args.user != "root":
            for path in [self.base, self.top, self.store, *(os.path.join(self.base, name) for name in ["home", "run", "state"])]:
                os.chown(path, USER, USER)
        self.binary = os.path.join(top, "trumanfs")

    def run(self):
        """Returns the law that is broken, or nothing, and the text for it."""
        answer = os.path.join(self.base, "answer")
        child = os.fork()
        if child == 0:
            self.child(answer)
        end = time.monotonic() + LIMIT
        while not os.waitpid(child, os.WNOHANG)[0]:
            if time.monotonic() > end:
                kill(child)
                os.waitpid(child, 0)
                break
            time.sleep(0.01)
        try:
            with open(answer, encoding="utf-8", errors="replace") as file:
                law, _, text = file.read().partition("\n")
        except OSError:
            law, text = "time", "the seed did not end in time"
        self.end()
        return law, text

    def child(self, answer):
        os.setpgid(0, 0)
        one = None
        try:
            with open(answer, "w", encoding="utf-8", errors="replace") as file:
                if self.args.user != "root":
                    os.setgroups([])
                    os.setresgid(USER, USER, USER)
                    os.setresuid(USER, USER, USER)
                os.umask(0o022)
                one = storm.Storm(self.seed, self.binary, self.base, self.store, self.skip, self.args.verbose)
                law, text = "", ""
                try:
                    one.all()
                except laws.Differs as error:
                    law, text = error.law, str(error)
                except subprocess.TimeoutExpired as error:
                    law, text = "time", str(error)
                except Exception as error:  # A fault of the trial itself has to show too.
                    law, text = "trial", "".join(traceback.format_exception(error))
                if law:
                    file.write(f"{law}\n{text}\n\n" + "\n".join(one.log) + "\n")
        finally:
            if one and one.agent:
                kill(one.agent.pid)
            os._exit(0)

    def end(self):
        home = os.path.join(self.base, "home")
        subprocess.run([self.binary, "umount", "--lazy", home], capture_output=True, timeout=LIMIT, check=False)
        try:
            with open(os.path.join(self.base, "daemon"), encoding="utf-8") as file:
                pid = int(file.read())
            deadline = time.monotonic() + 5
            # Its parent is gone, so that it is a child of this first process of the namespace.
            while not os.waitpid(pid, os.WNOHANG)[0] and time.monotonic() < deadline:
                time.sleep(0.005)
            kill(pid)
        except (OSError, ValueError):
            pass
        if home in open("/proc/self/mountinfo", encoding="utf-8").read():
            subprocess.run(["umount", "-l", home], capture_output=True, check=False)
        for path in [self.top, self.base]:
            shutil.rmtree(path, ignore_errors=True)


def shrink(seed, args, disk, top, law):
    """Leaves out each step, from the last, without which the same law is broken still."""
    skip = set()
    for step in reversed(range(len(choices.plan(seed)))):
        if Seed(seed, args, disk, top, skip | {step}).run()[0] == law:
            skip.add(step)
    return skip


def one_seed(seed, args, disk, top):
    began = time.monotonic()
    skip = set(args.skip)
    law, text = Seed(seed, args, disk, top, skip).run()
    if law and args.shrink:
        skip |= shrink(seed, args, disk, top, law)
        law, text = Seed(seed, args, disk, top, skip).run()
    took = time.monotonic() - began
    if law:
        kept = os.path.join(args.keep, f"seed-{seed}-{args.fs}-{args.user}")
        os.makedirs(kept, exist_ok=True)
        again = f"two.py --seeds {seed} --fs {args.fs} --user {args.user} -v"
        again += " --skip " + ",".join(map(str, sorted(skip))) if skip else ""
        with open(os.path.join(kept, "differs.txt"), "w", encoding="utf-8", errors="replace") as file:
            file.write(f"{again}\n\n{text}")
        print(f"seed {seed}: {text.splitlines()[0][:200] if text else law}\n    {kept}/differs.txt", flush=True)
    return f"{seed} {args.fs} {args.user} {(law or 'holds').replace(' ', '-')} {took:.2f} {args.label}"


def add_up(files):
    """Prints how many seeds came out how. The last line of a seed counts."""
    last = {}
    for name in files:
        with open(name, encoding="utf-8") as lines:
            for line in lines:
                seed, kind, user, outcome, took, label = line.split()
                last[label, kind, user, int(seed)] = (outcome, float(took))
    table = collections.defaultdict(list)
    for (label, kind, user, _), row in last.items():
        table[label, kind, user].append(row)
    for key, rows in sorted(table.items()):
        count = collections.Counter(outcome for outcome, _ in rows)
        told = ", ".join(f"{number} {outcome}" for outcome, number in sorted(count.items()))
        print(f"{' '.join(key):40} {len(rows):6} seeds, {sum(took for _, took in rows):8.0f} s: {told}")
    wrong = sum(outcome != "holds" for outcome, _ in last.values())
    print(f"{len(last)} seeds, {wrong} differ")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0..20", help="A..B without B, or some with commas")
    parser.add_argument("--binary", default=os.path.join(HERE, "../../../target/release/trumanfs"))
    parser.add_argument("--label", default="", help="what results go by; the commit if not said")
    parser.add_argument("--results", help="a file that gets a line for each seed")
    parser.add_argument("--fs", choices=KINDS, default="ext4")
    parser.add_argument("--user", choices=["root", "nobody"], default="root")
    parser.add_argument("--keep", default=os.path.join(tempfile.gettempdir(), "trumanfs-two-differs"))
    parser.add_argument("--skip", type=lambda text: [int(word) for word in text.split(",")], default=[], help="steps left out")
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("--add", nargs="+", metavar="FILE")
    args = parser.parse_args()
    args.binary = os.path.abspath(args.binary)
    return args


def seeds_of(args):
    first, dots, end = args.seeds.partition("..")
    seeds = range(int(first), int(end)) if dots else [int(seed) for seed in args.seeds.split(",")]
    known = set()
    if args.results and os.path.exists(args.results):
        with open(args.results, encoding="utf-8") as lines:
            for line in lines:
                seed, kind, user, _, _, label = line.split()
                if (kind, user, label) == (args.fs, args.user, args.label):
                    known.add(int(seed))
    return [seed for seed in seeds if seed not in known]


def main():
    args = parse()
    if args.add:
        add_up(args.add)
        return 0
    if os.geteuid() != 0:
        sys.exit("two.py: needs root, for loop devices and namespaces")
    if not os.environ.get(INSIDE):
        os.environ[INSIDE] = "1"
        # Whatever is left ends with the namespaces.
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
        # A Python below /root could load nothing for an ordinary user.
        python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
        os.execvp("unshare", [*namespaces, python, os.path.abspath(__file__), *sys.argv[1:]])
    if not args.label:
        named = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, check=False)
        args.label = named.stdout.decode().strip() or "unknown"
    disks.let_go_of_others()
    top, disk = tempfile.mkdtemp(prefix="trumanfs-two-"), None
    seeds, wrong = seeds_of(args), 0
    try:
        disk = prepare(args, top)
        for seed in seeds:
            line = one_seed(seed, args, disk, top)
            wrong += line.split()[3] != "holds"
            if args.results:
                with open(args.results, "a", encoding="utf-8") as file:
                    file.write(line + "\n")
    finally:
        if disk:
            disk.unmount()
        for at in ["/dev/fuse", os.path.join(top, "dev"), top]:
            subprocess.run(["umount", "-l", at], check=False)
        shutil.rmtree(top, ignore_errors=True)
    print(f"{len(seeds)} seeds, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
