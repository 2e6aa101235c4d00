#!/usr/bin/env python3
"""Random changes of three big files, on file systems that keep contents in different ways: is each past content given back?

    benches/trials/contents/contents.py [--rounds N] [--seed N] [--fs NAME ...] [--steps N] [--binary PATH]

A round makes a file system on a loop device in memory, mounts a store on it, and writes over parts of the files, cuts,
maps, punches, copies and appends. After the unmount, and in some rounds before, it compares each past content with what
the file held, and at last undoes the session. What differs is named with its file system and seed. Ends with 1 if
anything did. As root; needs mkfs of each file system."""

import argparse
import contextlib
import json
import mmap
import os
import random
import subprocess
import sys
import tempfile
import time

FILE_SYSTEMS = {
    "xfs": (["mkfs.xfs", "-q", "-f"], ""),
    "xfs-1k": (["mkfs.xfs", "-q", "-f", "-b", "size=1024"], ""),
    "btrfs": (["mkfs.btrfs", "-q", "-f"], ""),
    "btrfs-zstd": (["mkfs.btrfs", "-q", "-f"], "compress-force=zstd"),
    "ext4": (["mkfs.ext4", "-q", "-F"], ""),
    "ext4-1k": (["mkfs.ext4", "-q", "-F", "-b", "1024"], ""),
}
NAMES = ["a", "b", "c"]
MIB = 1 << 20


def run(*words):
    done = subprocess.run(words, capture_output=True, timeout=120)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(words)}: {done.returncode} {done.stdout.decode()} {done.stderr.decode()}")
    return done.stdout


@contextlib.contextmanager
def file_system(name):
    """A new file system, mounted; yields where, and a directory for the home."""
    make, options = FILE_SYSTEMS[name]
    with tempfile.TemporaryDirectory(prefix="trumanfs-contents-") as base, \
            tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="trumanfs-contents-") as image:
        top, home = os.path.join(base, "disk"), os.path.join(base, "home")
        os.mkdir(top)
        os.mkdir(home)
        image.truncate(1 << 30)
        run(*make, image.name)
        run("mount", "-o", "loop" + ("," + options if options else ""), image.name, top)
        try:
            yield top, home
        finally:
            subprocess.run(["umount", "-l", home], stderr=subprocess.DEVNULL)
            for _ in range(50):
                if subprocess.run(["umount", top], stderr=subprocess.DEVNULL).returncode == 0:
                    break
                time.sleep(0.2)


class Round:
    """The files of one round, what they hold, and what they held after each step."""

    def __init__(self, chance, top, home, binary):
        self.chance, self.home, self.binary = chance, home, binary
        self.store = os.path.join(top, "store")
        os.mkdir(self.store)
        self.now = {}
        for name in NAMES:
            self.now[name] = bytearray(self.content(chance.randrange(MIB, 12 * MIB)))
            with open(os.path.join(self.store, name), "wb") as file:
                file.write(self.now[name])
                if chance.random() < 0.5:
                    os.fsync(file.fileno())
        self.start = {name: bytes(content) for name, content in self.now.items()}
        self.past = []
        self.last = 0

    def place(self, end, align):
        """An offset up to an end: often near the one before, where blocks have been split, and often aligned."""
        at = self.chance.randrange(end + 1)
        if self.chance.random() < 0.5:
            at = self.last + self.chance.randrange(-5000, 5000)
        if self.chance.random() < 0.5:
            at -= at % align
        self.last = max(0, min(at, end))
        return self.last

    def content(self, length):
        kind = self.chance.random()
        if kind < 0.2:
            return bytes(length)
        if kind < 0.5:
            return ((b"%032x" % self.chance.getrandbits(128)) * (length // 32 + 1))[:length]
        return self.chance.randbytes(length)

    def step(self):
        name = self.chance.choice(NAMES)
        act = self.chance.choice([self.overwrite] * 4 + [self.cut, self.map, self.punch, self.copy, self.append])
        act(name, os.path.join(self.home, name), self.now[name])
        records = json.loads(run(self.binary, "status", "--json", self.home))["records"]
        self.past.append((records, name, bytes(self.now[name])))
        if self.chance.random() < 0.5:
            time.sleep(self.chance.choice([0.05, 0.25, 0.5]))

    def overwrite(self, _, path, now):
        fd = os.open(path, self.chance.choice([os.O_WRONLY, os.O_RDWR]))
        for _ in range(self.chance.randrange(1, 6)):
            at = self.place(len(now), 4096)
            length = self.chance.choice(
                [1, 5, 1024, 4096, self.chance.randrange(1, 70_000), self.chance.randrange(1, 2_000_000)])
            same = bytes(now[at:at + length])
            data = same if self.chance.random() < 0.3 else self.content(length)
            os.pwrite(fd, data, at)
            now[at:at + len(data)] = data
        if self.chance.random() < 0.2:
            os.fsync(fd)
        os.close(fd)

    def cut(self, _, path, now):
        to = self.chance.choice([self.chance.randrange(len(now) + 1), len(now) + self.chance.randrange(1, 300_000),
                                 max(0, len(now) - self.chance.randrange(1, 5000))])
        os.truncate(path, to)
        del now[to:]
        now.extend(bytes(to - len(now)))

    def map(self, _, path, now):
        if len(now) <= 8192:
            return
        fd = os.open(path, os.O_RDWR)
        mapped = mmap.mmap(fd, len(now))
        early = self.chance.random() < 0.5
        if early:
            os.close(fd)
        for _ in range(3):
            at = self.place(len(now) - 10, 1024)
            mapped[at:at + 7] = now[at:at + 7] = b"mapped!"
        mapped.close()
        if not early:
            os.close(fd)

    def punch(self, _, path, now):
        if len(now) <= 20_000:
            return
        at, length = self.place(len(now) - 10_000, 1024), self.chance.choice([1024, 2048, self.chance.randrange(1, 10_000)])
        punched = subprocess.run(["fallocate", "-p", "-o", str(at), "-l", str(length), path], capture_output=True)
        if punched.returncode == 0:
            now[at:at + length] = bytes(length)

    def copy(self, name, path, _):
        source = self.chance.choice(NAMES)
        if source != name:
            run("cp", "--reflink=auto", os.path.join(self.home, source), path)
            self.now[name] = bytearray(self.now[source])

    def append(self, _, path, now):
        data = self.content(5000)
        with open(path, "ab") as file:
            file.write(data)
        now.extend(data)

    def differ(self, states):
        """Which past contents are not what they were."""
        for records, name, content in states:
            found = run(self.binary, "cat", self.store, "/" + name, "--at", str(records))
            if found != content:
                yield f"/{name} at {records}: {len(found)} bytes, and it had {len(content)}"


def one_round(name, seed, steps, binary):
    """Returns what differs."""
    chance = random.Random(f"{name} {seed}")
    with file_system(name) as (top, home):
        round_ = Round(chance, top, home, binary)
        options = chance.choice([[], [], ["--no-passthrough"], ["--durable"]])
        run(binary, "mount", *options, round_.store, home)
        for _ in range(steps):
            round_.step()
        wrong = []
        if chance.random() < 0.5:
            time.sleep(2)
            wrong += [f"mounted: {what}" for what in round_.differ(chance.sample(round_.past, min(20, steps)))]
        run(binary, "umount", home)
        wrong += round_.differ(round_.past)
        run(binary, "undo", round_.store, "--session", "last")
        for file, content in round_.start.items():
            with open(os.path.join(round_.store, file), "rb") as now:
                if now.read() != content:
                    wrong.append(f"/{file} after the undo")
        return [" ".join(options + [what]) for what in wrong]


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=5, help="on each file system")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--steps", type=int, default=60)
    options.add_argument("--fs", action="append", choices=FILE_SYSTEMS, help="may be given several times; all")
    options.add_argument("--binary", default="target/debug/trumanfs")
    options = options.parse_args()
    if os.geteuid() != 0:
        sys.exit("mounting a file system takes root")
    binary, bad, rounds = os.path.abspath(options.binary), 0, 0
    for seed in range(options.seed, options.seed + options.rounds):
        for name in options.fs or FILE_SYSTEMS:
            try:
                wrong = one_round(name, seed, options.steps, binary)
            except (AssertionError, OSError) as error:
                wrong = [str(error)]
            rounds, bad = rounds + 1, bad + bool(wrong)
            for what in wrong:
                print(f"{name}, seed {seed}: {what}", flush=True)
    print(f"{rounds} rounds, {bad} with a difference")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
