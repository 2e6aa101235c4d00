#!/usr/bin/env python3
"""Random destructive occupants, then an undo: is the tree what it was, by content, mode, owner, time and links?

    benches/trials/undo/storms.py [--rounds N] [--seed N] [--count N] [--binary PATH]

Each round makes a store with the same tree, mounts it with or without `--symlinks inside`, `--xattr` and passthrough, lets
`occupant.py` loose in it, undoes by `--session` or `--program`, while it is mounted or after, and compares. A round that
differs is named with its seed, and its store is left for looking at. Ends with 1 where any did."""

import argparse
import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def run(*words, codes=(0,), **more):
    done = subprocess.run(words, capture_output=True, timeout=120, **more)
    if done.returncode not in codes:
        raise AssertionError(f"{' '.join(words)}: {done.returncode} {done.stdout.decode()} {done.stderr.decode()}")
    return done


def build(store):
    """The tree that every round begins with."""
    os.makedirs(os.path.join(store, "a/deep/er"))
    os.makedirs(os.path.join(store, "p/q"))
    os.makedirs(os.path.join(store, "empty"))
    names = ["f0", "f1", "f2", "a/x", "a/deep/y", "a/deep/er/z", "p/q/" + "n" * 255, "p/script"]
    for n, name in enumerate(names):
        with open(os.path.join(store, name), "wb") as file:
            file.write((b"%d original\n" % n) * (1 + 3000 * (n % 3)))
    with open(os.path.join(store, "sparse"), "wb") as file:
        file.seek(1 << 20)
        file.write(b"end")
    os.link(os.path.join(store, "f2"), os.path.join(store, "a/hard"))
    os.symlink("../f0", os.path.join(store, "a/up"))
    os.symlink("../../f1", os.path.join(store, "a/deep/up"))
    os.symlink("f0", os.path.join(store, "plain"))
    os.symlink("/etc/passwd", os.path.join(store, "out"))
    os.mkfifo(os.path.join(store, "p/fifo"))
    os.chmod(os.path.join(store, "p/script"), 0o4755)
    os.chmod(os.path.join(store, "empty"), 0o500)
    for n, (top, dirs, files) in enumerate(os.walk(store, topdown=False)):
        for name in files + dirs:
            path = os.path.join(top, name)
            os.utime(path, ns=(0, 10**18 + n * 1001), follow_symlinks=False)
    os.utime(store, ns=(0, 10**18))


def look(store):
    """What a store holds, as far as an undo restores it. Directories are opened one below the other: no path is too long."""
    seen, inodes = {}, {}

    def walk(fd, path):
        for name in sorted(os.listdir(fd)):
            at = f"{path}/{name}"
            if at in ("/.trumanfs", "/.trash"):
                continue
            meta = os.stat(name, dir_fd=fd, follow_symlinks=False)
            same = inodes.setdefault(meta.st_ino, at)
            content = None
            if stat.S_ISLNK(meta.st_mode):
                content = os.readlink(name, dir_fd=fd)
            elif stat.S_ISREG(meta.st_mode):
                with os.fdopen(os.open(name, os.O_RDONLY, dir_fd=fd), "rb") as file:
                    labels = {key: os.getxattr(file.fileno(), key) for key in os.listxattr(file.fileno())}
                    content = (file.read(), labels)
            seen[at] = (meta.st_mode, meta.st_uid, meta.st_gid, meta.st_mtime_ns, same, content)
            if stat.S_ISDIR(meta.st_mode):
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
                try:
                    walk(inner, at)
                finally:
                    os.close(inner)

    fd = os.open(store, os.O_RDONLY)
    try:
        walk(fd, "")
    finally:
        os.close(fd)
    return seen


def tell(before, after):
    lines = []
    for path in sorted(set(before) | set(after)):
        one, two = before.get(path), after.get(path)
        if one != two:
            lines.append(f"    {path[:200]!r}: {str(one)[:160]} became {str(two)[:160]}")
    return "\n".join(lines[:20])


def one_round(binary, seed, count, base):
    """Returns what is wrong after a round, if anything is."""
    draw = random.Random(seed)
    store, home = os.path.join(base, "store"), os.path.join(base, "home")
    os.makedirs(store)
    os.makedirs(home)
    build(store)
    options = draw.choice([[], ["--symlinks", "inside"], ["--symlinks", "inside"]])
    options = options + draw.choice([[], ["--xattr"]]) + draw.choice([[], ["--no-passthrough"]])
    by = draw.choice([["--session", "last"], ["--program", "python3"]])
    mounted = draw.random() < 0.5
    before = look(store)
    run(binary, "mount", store, home, *options)
    try:
        occupant = [sys.executable, os.path.join(HERE, "occupant.py"), str(seed), str(count)]
        environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
        run(*occupant, cwd=home, env=environment)
        if by[0] == "--program":
            # By its name: on a busy machine the path of a program is not known for all that it did.
            name = run(sys.executable, "-c", "print(open('/proc/self/comm').read().strip())")
            by = [by[0], name.stdout.decode().strip()]
        if not mounted:
            run(binary, "umount", home)
        # Nothing to do is no failure where the occupant came to nothing.
        undone = run(binary, "undo", store, *by, codes=(0, 1, 3))
        again = run(binary, "undo", store, *by, codes=(0, 1, 3))
    finally:
        if os.path.ismount(home):
            run(binary, "umount", home)
    after = look(store)
    if before != after:
        words = f"{' '.join(options)} {' '.join(by)} {'mounted' if mounted else 'unmounted'}"
        return f"{words}\n{undone.stderr.decode()}{again.stderr.decode()}{tell(before, after)}"
    checked = run(binary, "fsck", store, codes=(0, 1, 5))
    return None if checked.returncode == 0 else "fsck: " + checked.stdout.decode()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--count", type=int, default=60, help="what each occupant tries")
    parser.add_argument("--binary", default=os.path.join(HERE, "../../../target/release/trumanfs"))
    args = parser.parse_args()
    wrong = 0
    for seed in range(args.seed, args.seed + args.rounds):
        base = tempfile.mkdtemp(prefix="trumanfs-storm-")
        try:
            problem = one_round(args.binary, seed, args.count, base)
        except (AssertionError, subprocess.TimeoutExpired, OSError) as error:
            problem = str(error)
        if problem:
            wrong += 1
            print(f"seed {seed} ({base}): {problem}", flush=True)
        else:
            shutil.rmtree(base)
    print(f"{args.rounds} rounds from seed {args.seed}, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
