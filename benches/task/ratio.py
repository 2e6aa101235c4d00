#!/usr/bin/env python3
"""Measures moves through `trumanfs task run -` beside a script that does the least: intent, hash, rename, signature, four fsyncs.

    ratio.py [--count N] [--rounds N] [--on DIR] [--program NAME=FILE]...

Programs and script take turns, round by round, so what else the machine does meets all of them; a ratio is that of one round. Each is
measured with requests one upon the other, and with a pause before each, as of a planner that thinks. CPU is that of the executor and its
workers. Needs PyNaCl (tests/store/get_pynacl), which the script signs with.
"""

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from nacl.signing import SigningKey
from tasks import PROGRAM, Host

TICKS = os.sysconf("SC_CLK_TCK")


class Script:
    """The least that a task is made of, in this process."""

    def __init__(self, directory):
        self.base = Path(directory, "base")
        self.base.mkdir(parents=True)
        self.log = os.open(Path(directory, "log.jsonl"), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self.key, self.prev = SigningKey.generate(), "0" * 64

    def note(self, line):
        os.write(self.log, json.dumps(line).encode() + b"\n")
        os.fdatasync(self.log)

    def sync(self):
        directory = os.open(self.base, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(directory)
        os.close(directory)

    def move(self, source, destination):
        with open(source, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        self.note({"kind": "INTENT", "source": str(source), "destination": str(destination), "sha256": digest})
        os.rename(source, destination)
        self.sync()
        self.sync()
        payload = json.dumps({"status": "SUCCESS", "source": str(source), "sha256": digest, "prev": self.prev}).encode()
        self.prev = hashlib.sha256(payload).hexdigest()
        self.note({"kind": "RESULT", "payload": payload.decode(), "sig": self.key.sign(payload).signature.hex()})

    def prepare(self, names):
        return [(self.base / a, self.base / b) for a, b in names]

    def ask(self, pair):
        begun = time.perf_counter()
        self.move(*pair)
        return (time.perf_counter() - begun) * 1000

    def cpu(self):
        return time.process_time() * 1000


class Executor(Host):
    def prepare(self, names):
        return [self.line("FILE_MOVE", self.base / a, self.base / b) for a, b in names]

    def cpu(self):
        """Milliseconds of the executor and of the workers that have ended."""
        fields = Path(f"/proc/{self.stream.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(int(field) for field in fields[11:15]) * 1000 / TICKS


def measure(subject, number, count, pause):
    names = [(f"f{number}-{n}", f"g{number}-{n}") for n in range(count)]
    for name, _ in names:
        (subject.base / name).write_bytes(b"x" * 4096)
    requests = subject.prepare(names)
    os.sync()
    begun, times = subject.cpu(), []
    for request in requests:
        time.sleep(pause)
        times.append(subject.ask(request))
    return statistics.median(times), (subject.cpu() - begun) / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--on", default=None)
    parser.add_argument("--program", action="append", default=[])
    arguments = parser.parse_args()
    programs = dict(program.split("=", 1) for program in arguments.program) or {"trumanfs": str(PROGRAM)}
    directory = tempfile.mkdtemp(dir=arguments.on)
    try:
        subjects = {"script": Script(Path(directory, "script"))}
        for name, program in programs.items():
            (Path(directory, name) / "base").mkdir(parents=True)
            subjects[name] = Executor(program, Path(directory, name), Path(directory, name) / "base")
        for what, pause in [("one upon the other", 0), ("5 ms before each", 0.005)]:
            found = {name: [] for name in subjects}
            for number in range(arguments.rounds):
                for name, subject in subjects.items():
                    found[name].append(measure(subject, f"{pause}-{number}", arguments.count, pause))
            print(f"{what}: medians of {arguments.rounds} rounds of {arguments.count}")
            for name, rounds in found.items():
                latency, cpu = (statistics.median(column) for column in zip(*rounds))
                ratios = [round[0] / least[0] for round, least in zip(rounds, found["script"])]
                cpus = [round[1] / least[1] for round, least in zip(rounds, found["script"])]
                print(f"{name:12} {latency:6.2f} ms ({statistics.median(ratios):5.2f}), {cpu:5.2f} ms of CPU ({statistics.median(cpus):5.2f})")
        for name in programs:
            report = subjects[name].end()
            assert report["successes"] == 2 * arguments.rounds * arguments.count, report
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
