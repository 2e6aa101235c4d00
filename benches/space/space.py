#!/usr/bin/env python3
"""What former contents take on the disk: a file changed a little and often, and one rewritten over and over.

    benches/space/space.py [--fs ext4] [NAME=BINARY ...]

Each case runs in a home of its own, over a file system of its own in a file in memory. Needs root. `kept` is what .trumanfs takes when it does
not change any more, `changing` how long the programs in the home took, `settling` how long after that it still changed.
"""

import argparse
import os
import random
import subprocess
import tempfile
import time


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def one_byte(path, times):
    for i in range(times):
        fd = os.open(path, os.O_RDWR)
        os.pwrite(fd, b"\0", i * 1777 % 900_000)
        os.close(fd)


def rewrite(path, times, share):
    with open(path, "rb") as file:
        content = bytearray(file.read())
    for i in range(times):
        for at in range(0, len(content), 1 << 20):
            if random.random() < share:
                content[at : at + (1 << 20)] = random.randbytes(min(1 << 20, len(content) - at))
        content[i] ^= 1
        with open(path, "wb") as file:
            file.write(content)


CASES = {
    "one byte of 900 KB, 500 opens": (900_000, lambda path: one_byte(path, 500)),
    "100 MB rewritten 20 times, a byte is another": (100_000_000, lambda path: rewrite(path, 20, 0)),
    "the same, a tenth of it is another": (100_000_000, lambda path: rewrite(path, 20, 0.1)),
    "the same, all of it is another": (100_000_000, lambda path: rewrite(path, 20, 1)),
}


def kept(store):
    used = 0
    for top, _, names in os.walk(os.path.join(store, ".trumanfs")):
        used += sum(os.lstat(os.path.join(top, name)).st_blocks * 512 for name in names)
    return used


def measure(binary, fs, size, change, room):
    random.seed(size)
    image, base = os.path.join(room, "image"), os.path.join(room, "base")
    with open(image, "wb") as file:
        file.truncate(4 << 30)
    run("mkfs." + fs, "-q", image)
    os.makedirs(base, exist_ok=True)
    run("mount", "-o", "loop", image, base)
    try:
        store, home = os.path.join(base, "store"), os.path.join(room, "home")
        os.makedirs(store)
        os.makedirs(home, exist_ok=True)
        with open(os.path.join(store, "f"), "wb") as file:
            file.write(random.randbytes(size))
        run(binary, "mount", store, home)
        try:
            start = time.monotonic()
            change(os.path.join(home, "f"))
            changed = last = time.monotonic()
            used = kept(store)
            while time.monotonic() - last < 2:
                time.sleep(0.1)
                now = kept(store)
                # The journal's reserve comes and goes.
                if abs(now - used) > 1 << 18:
                    last = time.monotonic()
                used = now
        finally:
            run(binary, "umount", home)
        return used, changed - start, last - changed
    finally:
        run("umount", base)
        os.remove(image)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fs", default="ext4")
    parser.add_argument("binaries", nargs="*", default=["trumanfs=target/release/trumanfs"])
    asked = parser.parse_args()
    print("| case | binary | kept | changing | settling |\n| --- | --- | ---: | ---: | ---: |")
    for case, (size, change) in CASES.items():
        for named in asked.binaries:
            name, binary = named.split("=", 1)
            with tempfile.TemporaryDirectory(dir="/dev/shm") as room:
                used, changing, settling = measure(binary, asked.fs, size, change, room)
            print(f"| {case} | {name} | {used / 1e6:.1f} MB | {changing:.2f} s | {settling:.1f} s |", flush=True)


if __name__ == "__main__":
    main()
