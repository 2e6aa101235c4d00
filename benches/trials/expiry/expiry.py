#!/usr/bin/env python3
"""Cuts the power in the middle of `trumanfs expire`, many times, and looks at what is left.

A disk is an image on an xfs that can clone files; the power is cut by cloning the image while the history expires, and by bringing
the clone up as after another start of the machine: what was in memory only is gone. Then, of each clone,

  * `fsck` finds no problem;
  * every point since the cut gives each file as it was;
  * the same command goes on to its end, `fsck` agrees, and the points that are kept are still whole.

Needs root, loop devices, mkfs.ext4 and mkfs.xfs. Prints a table; exits 1 where something else was found.
"""

import argparse
import collections
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

MKFS = {"ext4": (["mkfs.ext4", "-q"], 96), "xfs": (["mkfs.xfs", "-q", "-m", "reflink=1"], 320)}
FILES = [f"d{n % 3}/f{n // 3}" for n in range(12)]


def run(*words, check=True):
    done = subprocess.run([str(word) for word in words], capture_output=True, timeout=120)
    if check and done.returncode:
        raise RuntimeError(f"{words}: {done.returncode} {done.stderr.decode(errors='replace')}")
    return done


class Trial:
    def __init__(self, args):
        self.args, self.random = args, random.Random(args.seed)
        self.work = tempfile.mkdtemp(prefix="trumanfs-expiry-", dir=args.work)
        self.mounts, self.homes = [], []
        self.boot = os.path.join(self.work, "boot_id")
        with open(self.boot, "w", encoding="ascii") as file:
            file.write("00000000-0000-4000-8000-000000000000\n")
        self.count, self.broken = collections.Counter(), []

    def truman(self, *words, check=True):
        return run(self.args.trumanfs, *words, check=check)

    def later(self, *words):
        """Runs the program as after another start of the machine."""
        script = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'
        return run("unshare", "--mount", "sh", "-c", script, self.boot, self.args.trumanfs, *words, check=False)

    def attach(self, image, at, kind):
        os.makedirs(at, exist_ok=True)
        run("mount", "-o", "loop" if kind == "ext4" else "loop,nouuid", image, at)
        self.mounts.append(at)

    def detach(self, at):
        until = time.time() + 30
        while run("umount", at, check=time.time() > until).returncode:
            time.sleep(0.1)
        self.mounts.remove(at)

    def clean(self):
        for at in self.homes + list(reversed(self.mounts)):
            run("umount", "-l", at, check=False)
        shutil.rmtree(self.work, ignore_errors=True)

    def all(self):
        base = os.path.join(self.work, "base.img")
        with open(base, "wb") as file:
            file.truncate(8 << 30)
        run(*MKFS["xfs"][0], base)
        self.base = os.path.join(self.work, "base")
        self.attach(base, self.base, "ext4")
        number = 0
        while self.count["cuts"] < self.args.cuts:
            self.round(["ext4", "xfs"][number % 2], number)
            number += 1
            print(f"{self.count['cuts']} cuts, {len(self.broken)} broken", file=sys.stderr, flush=True)

    def change(self, home, n):
        """Does something in a home, and returns what its files hold then."""
        for _ in range(self.random.randrange(4, 30)):
            path = os.path.join(home, self.random.choice(FILES))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            act = self.random.randrange(5)
            if act == 0 and os.path.exists(path):
                os.unlink(path)
            elif act == 1:
                shutil.rmtree(os.path.dirname(path))
            else:
                with open(path, "ab" if act == 2 else "wb") as file:
                    file.write(f"{n} {self.random.random()} ".encode() * self.random.randrange(1, 9000))
        return {path: read(os.path.join(home, path)) for path in FILES}

    def round(self, kind, number):
        mkfs, megabytes = MKFS[kind]
        image = os.path.join(self.base, "disk")
        with open(image, "wb") as file:
            file.truncate(megabytes << 20)
        run(*mkfs, image)
        disk, home = os.path.join(self.work, "disk"), os.path.join(self.work, "home")
        os.makedirs(home, exist_ok=True)
        self.attach(image, disk, kind)
        store = os.path.join(disk, "store")
        os.makedirs(store)
        points = {}
        for n in range(8):
            self.truman("mount", store, home)
            self.homes.append(home)
            self.change(home, n)
            points[f"c{n}"] = self.change(home, n)
            self.truman("checkpoint", "create", home, f"c{n}")
            self.change(home, n)
            self.truman("umount", home)
            self.homes.remove(home)
        run("sync", "-f", disk)
        rule = self.random.choice([["--keep-last", "3"], ["--max-size", "200K"], ["--keep-last", "1"]])
        # While it goes on, and just after.
        began = time.time()
        going = subprocess.Popen([self.args.trumanfs, "expire", store, *rule], stdout=subprocess.DEVNULL)
        made = []
        while going.poll() is None or len(made) < 4:
            time.sleep(self.random.random() * 0.02)
            made.append(os.path.join(self.base, f"cut{len(made)}"))
            run("cp", "--reflink=always", image, made[-1])
            if len(made) >= self.args.each and time.time() - began > 5:
                break
        if going.wait() not in (0, 1):
            raise RuntimeError(f"expire {rule}: {going.returncode}")
        self.detach(disk)
        for cut in made:
            self.look(cut, kind, rule, points)
            os.unlink(cut)

    def look(self, cut, kind, rule, points):
        self.count["cuts"] += 1
        disk = os.path.join(self.work, "after")
        self.attach(cut, disk, kind)
        try:
            store = os.path.join(disk, "store")
            where = f"{kind} {' '.join(rule)}"
            before = self.states(store, points, f"{where}, after the cut")
            again = self.later("expire", store, *rule)
            if again.returncode not in (0, 1):
                self.fail(f"{where}: it does not go on: {again.returncode} {again.stderr.decode(errors='replace')[:500]}")
            after = self.states(store, points, f"{where}, after its end")
            kept = [point for point, lost in after.items() if lost is not None]
            self.count["points that are kept"] += len(kept)
            self.count["points that have expired"] += len(points) - len(kept)
            if kept != list(points)[len(points) - len(kept):]:
                self.fail(f"{where}: {kept} are kept, and others after them are not")
            for point in kept:
                for lost in (before[point], after[point]):
                    if lost or lost is None:
                        self.fail(f"{where}: {point} is not whole: {lost}")
        finally:
            self.detach(disk)

    def states(self, store, points, where):
        """Returns for each point what its files do not hold as then; nothing of a point that has expired. fsck must agree."""
        fsck = self.later("fsck", store)
        if fsck.returncode:
            self.fail(f"{where}: fsck {fsck.returncode}: {fsck.stdout.decode(errors='replace')[:900]}")
        states = {}
        for point, files in points.items():
            if self.later("diff", store, f"{point}..now").returncode == 3:
                states[point] = None
                continue
            states[point] = []
            for path, content in files.items():
                cat = self.later("cat", store, path, "--at", point)
                if (cat.stdout if cat.returncode == 0 else None) != content:
                    states[point].append(f"{path}: {cat.returncode} {cat.stderr.decode(errors='replace')[:200]}")
        return states

    def fail(self, why):
        self.broken.append(why)
        print(why, file=sys.stderr, flush=True)


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trumanfs", default="target/release/trumanfs", help="the program")
    parser.add_argument("--cuts", type=int, default=200, help="how many")
    parser.add_argument("--each", type=int, default=12, help="how many of one expiry")
    parser.add_argument("--seed", type=int, default=1, help="for histories and moments")
    parser.add_argument("--work", help="a directory for the images")
    args = parser.parse_args()
    args.trumanfs = os.path.abspath(args.trumanfs)
    trial = Trial(args)
    try:
        trial.all()
    finally:
        trial.clean()
    for what, count in sorted(trial.count.items()):
        print(f"{count:8} {what}")
    print(f"{len(trial.broken):8} broken")
    return bool(trial.broken)


if __name__ == "__main__":
    sys.exit(main())
