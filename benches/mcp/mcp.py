#!/usr/bin/env python3
"""Measures a running `trumanfs serve mcp`: how long a call takes, and whether memory stays where it was.

    mcp.py [--seconds N] [--program FILE] [--seed N]

A call of `bash` with `ls` first, in a store of 20 files; then random calls of all tools for so long, with the server's resident memory
looked at every second. See ../README.md.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "target/release/trumanfs"


TOOLS = (
    "bash,write_file,read_text_file,edit_file,list_directory,grep,search_files,copy_file,move_file,remove,history,undo"
)


class Server:
    def __init__(self, program, root):
        words = [str(program), "serve", "mcp", "--root", root, "--shell", "bundled", "--tools", TOOLS]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.number = 0
        client = {"name": "bench", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})

    def ask(self, method, params):
        self.number += 1
        request = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert answer.get("id") == self.number, answer
        return answer

    def call(self, tool, **arguments):
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def memory(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(30) == 0


def milliseconds(act, rounds):
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        act()
        times.append((time.perf_counter() - begun) * 1000)
    times.sort()
    return statistics.median(times), times[len(times) * 99 // 100]


def anything(server, choice):
    """One call, of which some fail."""
    path = f"d{choice.randrange(4)}/f{choice.randrange(30)}"
    other = f"d{choice.randrange(4)}/g{choice.randrange(30)}"
    calls = [
        lambda: server.call("bash", command=f"echo {choice.random()} >> log; ls d0 | wc -l; cat nothing"),
        lambda: server.call("bash", command=f"cd d{choice.randrange(4)}; X={choice.random()}; cd .."),
        lambda: server.call("write_file", path=path, content="line\n" * choice.randrange(2000)),
        lambda: server.call("read_text_file", path=path, tail=5),
        lambda: server.call("edit_file", path=path, old_string="line\n", new_string="other\n", replace_all=True),
        lambda: server.call("list_directory", path="d0"),
        lambda: server.call("grep", pattern="o.h", path="d1"),
        lambda: server.call("search_files", pattern="f1*"),
        lambda: server.call("copy_file", source=path, destination=other),
        lambda: server.call("move_file", source=other, destination=path + "x"),
        lambda: server.call("remove", path=choice.choice([path, other, path + "x"])),
        lambda: server.call("history", limit=3),
        lambda: server.call("undo"),
        lambda: server.call("bash", command="while"),
        lambda: server.ask("tools/list", {}),
        lambda: server.ask("resources/list", {}),
    ]
    weights = [4, 4, 8, 8, 4, 4, 2, 2, 4, 4, 4, 1, 1, 2, 1, 1]
    choice.choices(calls, weights)[0]()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--program", default=PROGRAM)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="trumanfs-mcp-", dir="/dev/shm")
    root = os.path.join(directory, "store")
    os.mkdir(root)
    for number in range(20):
        Path(root, f"file{number}").write_text("x\n")
    server = Server(args.program, root)
    try:
        for name, act in [
            ("bash: ls", lambda: server.call("bash", command="ls")),
            ("list_directory", lambda: server.call("list_directory")),
            ("read_text_file", lambda: server.call("read_text_file", path="file1")),
            ("write_file", lambda: server.call("write_file", path="new", content="x\n")),
            ("ping", lambda: server.ask("ping", {})),
        ]:
            milliseconds(act, 100)
            median, most = milliseconds(act, 1000)
            print(f"{name:16} {median:6.2f} ms, 99 of 100 within {most:.2f} ms")
        server.call("bash", command="mkdir d0 d1 d2 d3")
        choice = random.Random(args.seed)
        begun = looked = time.time()
        calls, seen = 0, []
        while time.time() - begun < args.seconds:
            anything(server, choice)
            calls += 1
            if time.time() - looked >= 1:
                looked = time.time()
                seen.append(server.memory())
        fifth = max(1, len(seen) // 5)
        parts = [statistics.median(seen[at : at + fifth]) for at in range(0, fifth * 5, fifth) if seen[at : at + fifth]]
        print(f"{calls} random calls in {args.seconds:.0f} s; resident memory by fifths of that: {[round(part) for part in parts]} KiB")
    finally:
        server.end()
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
