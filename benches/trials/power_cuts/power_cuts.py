#!/usr/bin/env python3
"""Cuts the power of a store, many times, at any moment, and looks at what can be had back.

A disk is an image on an xfs that can clone files; the power is cut by cloning the image while a storm of changes goes on in a
home over it, and by bringing the clone up elsewhere: what was in memory only is gone. Then

  * the whole session is undone, and every file that was on the disk before it is compared with what it was;
  * what each record destroyed is read back (`cat --at`) and compared with what the storm had put there.

A former content that is given back as whole without being what it was is wrong, and so is a part of one where other bytes than those
that are named as missing differ. Neither may ever happen. With --durable nothing may be missing, nor doubted. What comes out of the
trash without it is the file as the disk has it, which nothing is promised of; it is counted.

Needs root, loop devices, mkfs.ext4 and mkfs.xfs. Prints a table; exits 1 where a promise was broken.
"""

import argparse
import collections
import ctypes
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16

MKFS = {
    "ext4": (["mkfs.ext4", "-q"], 96),
    "xfs": (["mkfs.xfs", "-q", "-m", "reflink=1"], 320),
    # Without shared blocks: copies, and block by block.
    "xfs-plain": (["mkfs.xfs", "-q", "-m", "reflink=0"], 320),
}


def run(*words, check=True, timeout=120):
    done = subprocess.run([str(word) for word in words], capture_output=True, timeout=timeout)
    if check and done.returncode:
        raise RuntimeError(f"{words}: {done.returncode} {done.stderr.decode(errors='replace')}")
    return done


class Storm(threading.Thread):
    """Changes in a home, one after the other, and what each path held through it all."""

    def __init__(self, home, seed, pace, start):
        super().__init__(daemon=True)
        self.home, self.random, self.pace = home, random.Random(seed), pace
        self.held = collections.defaultdict(list)
        self.now = dict(start)
        for path, content in start.items():
            self.held[path].append(content)
        self.done, self.stop, self.failed = 0, False, None

    def run(self):
        try:
            while not self.stop:
                self.change()
                self.done += 1
                if self.pace:
                    time.sleep(self.random.random() * self.pace)
        except Exception as error:  # told by whoever waits
            self.failed = error

    def text(self, size):
        line = f"{self.done} {self.random.random()} "
        return (line * (size // len(line) + 1)).encode()[:size]

    def holds(self, path, content):
        self.now[path] = bytes(content)
        self.held[path].append(self.now[path])

    def change(self):
        pick = self.random
        path = f"d{pick.randrange(3)}/f{pick.randrange(8)}"
        at = os.path.join(self.home, path)
        there = self.now.get(path)
        if there is None:
            content = self.text(pick.choice([10, 3000, 20000]))
            with open(at, "wb") as file:
                file.write(content)
            # Empty, for a moment: the file is made before it is written.
            self.held[path].append(b"")
            self.holds(path, content)
            return
        size = len(there)
        act = pick.choice("append append empty rewrite over over over cut grow remove replace move punch mixed sync sync".split())
        if act == "append":
            more = self.text(pick.choice([3, 500, 9000]))
            with open(at, "ab") as file:
                file.write(more)
            self.holds(path, there + more)
        elif act == "empty":
            os.close(os.open(at, os.O_WRONLY | os.O_TRUNC))
            self.holds(path, b"")
        elif act == "rewrite":
            content = self.text(pick.choice([10, 3000, 20000, 20000, 1_500_000]))
            with open(at, "wb") as file:
                self.holds(path, b"")
                file.write(content)
            self.holds(path, content)
        elif act == "over" and size:
            offset, over = pick.randrange(size), self.text(pick.choice([4, 700]))
            with open(at, "r+b", buffering=0) as file:
                os.pwrite(file.fileno(), over, offset)
            self.holds(path, there[:offset] + over + there[offset + len(over):])
        elif act == "cut" and size:
            to = pick.randrange(size)
            os.truncate(at, to)
            self.holds(path, there[:to])
        elif act == "grow" and size < 2_000_000:
            to = size + pick.choice([1, 5000, 70000])
            os.truncate(at, to)
            self.holds(path, there + bytes(to - size))
        elif act == "remove":
            os.unlink(at)
            del self.now[path]
        elif act in ("replace", "move"):
            other = f"d{pick.randrange(3)}/f{pick.randrange(8)}"
            if other != path and (other in self.now) == (act == "replace"):
                os.rename(at, os.path.join(self.home, other))
                del self.now[path]
                self.holds(other, there)
        elif act == "punch" and size > 4096:
            offset, length = pick.randrange(size), pick.choice([100, 9000])
            mode = pick.choice([PUNCH_HOLE | KEEP_SIZE, ZERO_RANGE | KEEP_SIZE])
            file = os.open(at, os.O_RDWR)
            try:
                if LIBC.fallocate(file, mode, ctypes.c_long(offset), ctypes.c_long(length)) == 0:
                    self.holds(path, (there[:offset] + bytes(length) + there[offset + length:])[:size])
            finally:
                os.close(file)
        elif act == "mixed" and size:
            # Several changes through one open file: one former content.
            with open(at, "r+b", buffering=0) as file:
                over = self.text(40)
                os.pwrite(file.fileno(), over, size // 2)
                once = there[:size // 2] + over + there[size // 2 + 40:]
                self.holds(path, once)
                # Without passthrough the cut may come to the store before what the kernel has still to write.
                self.held[path].append(there[:size // 2 + 7])
                os.ftruncate(file.fileno(), size // 2 + 7)
                self.holds(path, once[:size // 2 + 7])
        elif act == "sync":
            # All names and records that the file system has go to the disk, and the data of this one file.
            file = os.open(at, os.O_RDWR if size else os.O_RDONLY)
            os.fsync(file)
            os.close(file)


class Trial:
    def __init__(self, args):
        self.args, self.random = args, random.Random(args.seed)
        self.work = tempfile.mkdtemp(prefix="trumanfs-power-", dir=args.work)
        self.mounts, self.homes = [], []
        self.boot = os.path.join(self.work, "boot_id")
        with open(self.boot, "w", encoding="ascii") as file:
            file.write("00000000-0000-4000-8000-000000000000\n")
        self.table = collections.defaultdict(collections.Counter)
        self.broken = []

    def truman(self, *words, check=True):
        return run(self.args.trumanfs, *words, check=check)

    def later(self, *words):
        """Runs the program as after another start of the machine."""
        boot = "/proc/sys/kernel/random/boot_id"
        script = f'mount --bind "$0" {boot} && exec "$@"'
        return run("unshare", "--mount", "sh", "-c", script, self.boot, self.args.trumanfs, *words, check=False)

    def attach(self, image, at, options="loop"):
        os.makedirs(at, exist_ok=True)
        run("mount", "-o", options, image, at)
        self.mounts.append(at)

    def detach(self, at):
        # Whoever looks through all mounts at this moment keeps it busy.
        until = time.time() + 30
        while run("umount", at, check=time.time() > until).returncode:
            time.sleep(0.1)
        self.mounts.remove(at)

    def clean(self):
        for home in self.homes:
            run("umount", "-l", home, check=False)
        for at in reversed(self.mounts):
            run("umount", "-l", at, check=False)
        shutil.rmtree(self.work, ignore_errors=True)

    def image(self, name, kind):
        mkfs, megabytes = MKFS[kind]
        image = os.path.join(self.base, name)
        with open(image, "wb") as file:
            file.truncate(megabytes << 20)
        run(*mkfs, image)
        return image

    def all(self):
        base = os.path.join(self.work, "base.img")
        with open(base, "wb") as file:
            file.truncate(8 << 30)
        run(*MKFS["xfs"][0], base)
        self.base = os.path.join(self.work, "base")
        self.attach(base, self.base)
        kinds = [kind for kind in MKFS if self.args.fs in ("all", kind)]
        all_options = ["--durable", "", "--durable --no-passthrough", "--no-passthrough"]
        durable = {"both": (True, False), "only": (True,), "not": (False,)}[self.args.durable]
        ways = [(kind, options) for options in all_options if ("--durable" in options) in durable for kind in kinds]
        left, number = self.args.cuts, 0
        while left > 0:
            cuts = min(self.args.each, left)
            self.round(number, *ways[number % len(ways)], cuts)
            left, number = left - cuts, number + 1
            print(f"{self.args.cuts - left} cuts, {len(self.broken)} promises broken", file=sys.stderr, flush=True)

    def round(self, number, kind, options, cuts):
        image = self.image("disk", kind)
        disk, home = os.path.join(self.work, "disk"), os.path.join(self.work, "home")
        os.makedirs(home, exist_ok=True)
        # The other half of a cloned xfs may still be mounted somewhere.
        self.attach(image, disk, "loop" if kind == "ext4" else "loop,nouuid")
        store, start = os.path.join(disk, "store"), {}
        for n in range(24):
            path = f"d{n % 3}/f{n // 3}"
            os.makedirs(os.path.join(store, os.path.dirname(path)), exist_ok=True)
            size = 1_500_000 if n % 8 == 7 else n * n * 40
            line = f"before {number} {n} "
            start[path] = (line * (size // len(line) + 1)).encode()[:size]
            with open(os.path.join(store, path), "wb") as file:
                file.write(start[path])
                if n % 8 == 6:
                    # One with a hole.
                    file.seek(100_000, 1)
                    file.write(b"end")
                    start[path] += bytes(100_000) + b"end"
        run("sync", "-f", disk)
        self.truman("mount", store, home, *options.split())
        self.homes.append(home)
        durable = "--durable" in options
        storm = Storm(home, f"{self.args.seed} {number}", 0 if durable else 0.004, start)
        storm.start()
        made = []
        for n in range(cuts):
            until, limit = storm.done + self.random.randrange(2, 40 if durable else 250), time.time() + 30
            while storm.done < until and time.time() < limit and not storm.failed:
                time.sleep(0.0005)
            time.sleep(self.random.random() * 0.004)
            made.append(os.path.join(self.base, f"cut{n}"))
            run("cp", "--reflink=always", image, made[-1])
        storm.stop = True
        storm.join(60)
        self.truman("umount", home)
        self.homes.remove(home)
        if storm.failed:
            raise storm.failed
        # Else what the cuts are compared with would be worth nothing.
        for path, content in storm.now.items():
            with open(os.path.join(store, path), "rb") as file:
                there = file.read()
            if there != content:
                raise RuntimeError(f"without a cut, {kind} {options}: {path}: {nearest(there, [content])}")
        self.detach(disk)
        for cut in made:
            self.look(cut, kind, options, storm, start)
            os.unlink(cut)

    def look(self, cut, kind, options, storm, start):
        count = self.table[f"{kind} {options}".strip()]
        count["cuts"] += 1
        disk = os.path.join(self.work, "after")
        self.attach(cut, disk, "loop" if kind == "ext4" else "loop,nouuid")
        try:
            self.after(os.path.join(disk, "store"), count, "--durable" in options, storm, start, f"{kind} {options}")
        finally:
            self.detach(disk)

    def fail(self, count, what, why):
        count[what] += 1
        self.broken.append(f"{what}: {why}")
        print(f"{what}: {why}", file=sys.stderr)

    def after(self, store, count, durable, storm, start, way):
        try:
            first = min(os.listdir(os.path.join(store, ".trumanfs/sessions")))
        except (FileNotFoundError, ValueError):
            count["no session on the disk yet"] += 1
            if durable:
                self.fail(count, "no session", way)
            return
        undone = self.later("undo", store, "--session", first)
        said = (undone.stdout + undone.stderr).decode(errors="replace")
        if undone.returncode == 4 and not durable:
            forced = self.later("undo", store, "--session", first, "--force")
            said += (forced.stdout + forced.stderr).decode(errors="replace")
        elif undone.returncode not in (0, 1, 3, 5) or durable and undone.returncode == 5:
            self.fail(count, "undo failed", f"{way}: {undone.returncode} {said[:600]}")
        self.compare(store, count, durable, storm, start, said, way)
        journal = os.path.join(store, ".trumanfs/sessions", first, "journal.jsonl")
        try:
            with open(journal, encoding="utf-8") as file:
                records = [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            records = []
        aborted = {record["of"] for record in records if record["op"] == "abort"}
        count["records"] += len(records)
        wanted = [record for record in records if record["seq"] not in aborted and self.destroys(record)]
        # What was destroyed last is what may not have been on the disk.
        some = wanted[max(0, len(wanted) - self.args.contents):]
        some += self.random.sample(wanted[:-len(some)] if some else [], min(5, len(wanted) - len(some)))
        for record in some:
            self.content(store, count, durable, storm, first, record, f"{way}, undo {undone.returncode} {said[:200]!r}")

    @staticmethod
    def destroys(record):
        op = record["op"]
        if op in ("write", "truncate", "allocate"):
            # Without, it is covered by what was kept when the file was opened, or it was empty.
            return "kept" in record
        return op == "unlink" or op == "rename" and "replaced" in record

    def compare(self, store, count, durable, storm, start, said, way):
        for path, content in start.items():
            count["files before"] += 1
            try:
                with open(os.path.join(store, path), "rb") as file:
                    there = file.read()
            except FileNotFoundError:
                there = None
            if there == content:
                continue
            if durable:
                self.fail(count, "not back", f"{way}: {path}")
            elif "/" + path in said:
                count["not back, named"] += 1
            else:
                # Its record had not reached the disk.
                count["not back, no record"] += 1

    def content(self, store, count, durable, storm, session, record, way):
        path = record.get("to") if record["op"] == "rename" else record["path"]
        held = [content for content in storm.held[path.lstrip("/")]]
        at = f"{session}:{record['seq'] - 1}"
        cat = self.later("cat", store, path, "--at", at)
        said, there = cat.stderr.decode(errors="replace"), cat.stdout
        count["contents"] += 1
        how = record.get("kept", {}).get("how", "trash")
        where = f"{way}: {path} before {session}:{record['seq']} ({record['op']}, {how}): {said[:300]}"
        if cat.returncode == 0:
            if there in held:
                count[f"whole ({how})"] += 1
            elif how == "trash" and not durable:
                # What is removed is the file itself, as the disk has it; no record says what it held.
                count["not whole, not named (trash)"] += 1
            else:
                self.fail(count, "wrong", where + nearest(there, held))
        elif cat.returncode == 5 and path in said:
            ranges = [(int(start), int(size)) for size, start in re.findall(r"(\d+) from offset (\d+)", said)]
            if durable:
                self.fail(count, "missing", where)
            elif "nothing says that all of it" in said:
                count[f"doubted, and {'whole' if there in held else 'not whole'} ({how})"] += 1
            elif not any(same_but(there, content, ranges) for content in held):
                self.fail(count, "wrong", where + nearest(there, held))
            else:
                count[f"in part, named ({how})"] += 1
        elif said:
            if durable:
                self.fail(count, "missing", where)
            else:
                count[f"nothing left, named ({how})"] += 1
        else:
            self.fail(count, "wrong", where)


def nearest(there, held):
    """Says how what is there differs from the content that it is most like."""
    page = 4096

    def pages(content):
        return {at for at in range(0, max(len(there), len(content)), page) if there[at:at + page] != content[at:at + page]}

    like = min(held, key=lambda content: (len(pages(content)), abs(len(content) - len(there))), default=b"")
    told = [f"{len(there)} bytes for {len(like)}"]
    for at in sorted(pages(like))[:3]:
        one, other = there[at:at + page], like[at:at + page]
        first = next((n for n, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
        told.append(f"page {at} from +{first}: {one[first:first + 12]!r} for {other[first:first + 12]!r}, {one[first:].count(0)} zeros in {len(one) - first}")
    return "; ".join(told)


def same_but(there, content, ranges):
    """Whether a content is there but for these ranges (starts and lengths)."""
    there, content = bytearray(there), bytearray(content)
    for start, length in ranges:
        end = min(start + length, len(there))
        if end > start:
            there[start:end] = content[start:end]
    end = min([start for start, length in ranges if start + length == len(content)], default=len(content))
    return len(there) >= end and bytes(there[:end]) == bytes(content[:end]) and len(there) <= len(content)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trumanfs", default="target/release/trumanfs", help="the program")
    parser.add_argument("--cuts", type=int, default=1000, help="how many")
    parser.add_argument("--each", type=int, default=12, help="how many of one storm")
    parser.add_argument("--contents", type=int, default=15, help="how many of the contents destroyed last are read back after each")
    parser.add_argument("--fs", default="all", choices=["all", *MKFS], help="which file system")
    parser.add_argument("--durable", default="both", choices=["both", "only", "not"], help="whether the homes are durable")
    parser.add_argument("--seed", type=int, default=1, help="for storms and moments")
    parser.add_argument("--work", help="a directory for the images")
    args = parser.parse_args()
    args.trumanfs = os.path.abspath(args.trumanfs)
    trial = Trial(args)
    began = time.time()
    try:
        trial.all()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    finally:
        trial.clean()
    for way, count in trial.table.items():
        print(way)
        for what, number in sorted(count.items()):
            print(f"  {number:8}  {what}")
    total = sum(trial.table.values(), collections.Counter())
    print("all")
    for what in ("cuts", "files before", "contents", "wrong", "missing", "not back", "undo failed"):
        print(f"  {total[what]:8}  {what}")
    print(f"{time.time() - began:.0f} s, seed {args.seed}")
    sys.exit(1 if trial.broken else 0)


if __name__ == "__main__":
    main()
