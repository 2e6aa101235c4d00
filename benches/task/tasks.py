#!/usr/bin/env python3
"""Measures file tasks through one `trumanfs task run -`: what one costs, and of what that is made.

    tasks.py [--count N] [--program FILE] [--on DIR]

Each row adds a part to the one before: a line that cannot be read is answered with a signature alone; a repeat has its lease verified and
its result looked up; a file that is absent takes a worker; a move an intent and a result besides, each on disk before the next step; a copy
its data, on disk as well; a removal its place in the vault, or in the trash of a home. DIR is where the executor's state and the plain base
lie (a directory in memory shows the cost without a disk's). See ../README.md.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "target/release/trumanfs"


class Host:
    def __init__(self, program, directory, base):
        self.program, self.directory, self.base = program, Path(directory), Path(base)
        self.number = 0
        entries = []
        for role in ["kernel", "executor"]:
            made = self.run("key", "new", "--role", role, "--out", str(self.directory / f"{role}.key"))
            entries.append(json.loads(made))
        (self.directory / "trust.json").write_text(json.dumps({"v": 1, "keys": entries}))
        lines = [f"audience = {json.dumps('bench')}", f"bases = [{json.dumps(str(self.base))}]", 'state_dir = "state"']
        lines += ['vault_dir = "vault"', 'key = "executor.key"', 'trust = "trust.json"', "max_lease_s = 86400"]
        self.config = self.directory / "task.toml"
        self.config.write_text("\n".join(lines) + "\n")
        command = [str(program), "task", "run", "-", "--config", str(self.config)]
        self.stream = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, *words):
        return subprocess.run([str(self.program), *words], check=True, capture_output=True, text=True).stdout

    def line(self, capability, *paths):
        self.number += 1
        names = ["source_path", "destination_path"]
        manifest = json.dumps({
            "task_id": f"t{self.number}", "capability_id": capability,
            "inputs": dict(zip(names, map(str, paths))), "constraints": {"reversible": True}, "provenance": {},
        })
        (self.directory / "m.json").write_text(manifest)
        lease = self.run(
            "lease", "issue", "--key", str(self.directory / "kernel.key"), "--manifest", str(self.directory / "m.json"),
            "--iss", "bench", "--aud", "bench", "--capability", capability, "--base", str(self.base), "--ttl", "3600",
        )
        return json.dumps({"manifest": manifest, "lease": json.loads(lease)}).encode() + b"\n"

    def ask(self, line):
        begun = time.perf_counter()
        self.stream.stdin.write(line)
        self.stream.stdin.flush()
        answer = self.stream.stdout.readline()
        assert answer, "the executor is gone"
        return (time.perf_counter() - begun) * 1000

    def end(self):
        self.stream.stdin.close()
        assert self.stream.wait(30) == 0
        report = json.loads(self.run("task", "log", "verify", "--json", "--config", str(self.config)))
        assert report["problems"] == [], report
        return report


def tell(name, times):
    times.sort()
    late = times[len(times) * 99 // 100]
    print(f"{name:34} {statistics.median(times):7.2f} ms, 99 of 100 within {late:7.2f} ms, {1000 / statistics.mean(times):6.0f} in a second")


def measure(name, host, count):
    for number in range(count):
        (host.base / f"f{number}").write_bytes(b"x" * 4096)
    print(f"{name}, {count} of each")
    tell("a line that cannot be read", [host.ask(b"no\n") for _ in range(count)])
    absent = [host.line("FILE_DELETE", host.base / "absent") for _ in range(count)]
    tell("a file that is absent", [host.ask(line) for line in absent])
    moves = [host.line("FILE_MOVE", host.base / f"f{n}", host.base / f"g{n}") for n in range(count)]
    tell("move", [host.ask(line) for line in moves])
    tell("a repeat", [host.ask(line) for line in moves])
    copies = [host.line("FILE_COPY", host.base / f"g{n}", host.base / f"h{n}") for n in range(count)]
    tell("copy of 4 KiB", [host.ask(line) for line in copies])
    removals = [host.line("FILE_DELETE", host.base / f"g{n}") for n in range(count)]
    tell("removal", [host.ask(line) for line in removals])
    report = host.end()
    assert report["successes"] == 3 * count, report
    print()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--program", default=PROGRAM)
    parser.add_argument("--on", default=None)
    arguments = parser.parse_args()
    directory = tempfile.mkdtemp(dir=arguments.on)
    try:
        plain = Path(directory, "plain")
        plain.mkdir()
        (plain / "base").mkdir()
        measure("a plain directory", Host(arguments.program, plain, plain / "base"), arguments.count)
        in_home = Path(directory, "in-home")
        for name in ["store", "home"]:
            (in_home / name).mkdir(parents=True)
        program = str(arguments.program)
        subprocess.run([program, "mount", str(in_home / "store"), str(in_home / "home")], check=True)
        try:
            measure("a home", Host(arguments.program, in_home, in_home / "home"), arguments.count)
        finally:
            subprocess.run([program, "umount", str(in_home / "home")], check=True)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
