#!/usr/bin/env python3
"""Measures lines that `trumanfs serve mcp` runs in a real bash, and tries what many of them leave behind.

    lines.py [--program FILE] [--rounds N] [--sessions N] [--soak SECONDS [--pause SECONDS]] [--seed N]

Speed: each line in turn in an open session of the server, and in a plain bash that is open, too: the difference is what the
sandbox, the home, the run and the protocol cost. Then the first line of new sessions, and the opening and closing of many. With
`--soak`: random lines, edits, cancels and kills by four sessions at once, with a copy of each one's files before half of
the runs, which are undone and compared with it. See ../README.md.
"""

import argparse
import json
import os
import queue
import random
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "target/release/trumanfs"

LINES = {
    "true": "true",
    "echo": "echo hello",
    "ls": "ls",
    "append": "echo x >> log",
    "loop": "for i in 1 2 3 4 5 6 7 8; do [ $i -gt 4 ] && echo $i; done",
    "pipe": "cat file* | sort | uniq -c",
    "sed": "sed -i s/x/y/ file1; sed -i s/y/x/ file1",
    "python": "python3 -c 'print(1)'",
    "1 KB": "cat > big <<'E'\n" + "line of text\n" * 80 + "E",
    "10 KB": "cat > big <<'E'\n" + "line of text\n" * 800 + "E",
}


class Server:
    """A server, which several threads may ask."""

    def __init__(self, program, root, *more):
        words = [str(program), "serve", "mcp", "--root", root, "--shell", "bash", *more]
        # Without the toolchains of whoever runs this: both find the same programs.
        env = dict(os.environ, HOME="/nonexistent", PATH="/usr/local/bin:/usr/bin:/bin")
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        self.lock = threading.Lock()
        self.number = 0
        self.waiting = {}
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            with self.lock:
                waiting = self.waiting.pop(message.get("id"), None)
            if waiting:
                waiting.put(message)
        with self.lock:
            for waiting in self.waiting.values():
                waiting.put(None)

    def send(self, method, params):
        params = dict(params)
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        answer = queue.Queue()
        with self.lock:
            self.number += 1
            self.waiting[self.number] = answer
            request = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            return self.number, answer

    def call(self, tool, **arguments):
        _, answer = self.send("tools/call", {"name": tool, "arguments": arguments})
        message = answer.get(timeout=120)
        assert message is not None, "the server has ended"
        assert "result" in message, message
        return message["result"]

    def cancel(self, number):
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
        with self.lock:
            self.process.stdin.write(json.dumps(note).encode() + b"\n")
            self.process.stdin.flush()
            return self.waiting.pop(number, None)

    def status(self, field):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith(field))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0


class PlainBash:
    """An open bash that runs lines as the server has its own do, without anything around it."""

    def __init__(self, directory):
        words = ["bash", "--noprofile", "--norc", "-s"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
        self.process = subprocess.Popen(words, cwd=directory, env=env, bufsize=0, **pipes)

    def line(self, line):
        quoted = line.replace("'", "'\\''")
        text = f"builtin eval '{quoted}' </dev/null\nbuiltin printf '\\0'\n"
        self.process.stdin.write(text.encode())
        while not os.read(self.process.stdout.fileno(), 1 << 16).endswith(b"\0"):
            pass

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def milliseconds(act):
    begun = time.perf_counter()
    act()
    return (time.perf_counter() - begun) * 1000


def speed(server, root, rounds):
    plain_root = root + "-plain"
    shutil.copytree(root, plain_root)
    plain = PlainBash(plain_root)
    session = server.call("bash", command="true")["structuredContent"]["session"]
    print("| line | server | plain bash | more |\n| --- | ---: | ---: | ---: |")
    for name, line in LINES.items():
        pairs = []
        for number in range(rounds):
            times = {}
            for which in ("server", "plain") if number % 2 else ("plain", "server"):
                if which == "plain":
                    times[which] = milliseconds(lambda: plain.line(line))
                else:
                    times[which] = milliseconds(lambda: server.call("bash", command=line, session=session))
            pairs.append((times["server"], times["plain"]))
        ours, theirs = (statistics.median(column) for column in zip(*pairs))
        more = statistics.median(one - other for one, other in pairs)
        print(f"| {name} | {ours:.2f} ms | {theirs:.2f} ms | {more:.2f} ms |")
    plain.end()
    firsts = sorted(milliseconds(lambda: server.call("bash", command="true")) for _ in range(rounds))
    print(f"first line of a session: {statistics.median(firsts):.2f} ms, 9 of 10 within {firsts[len(firsts) * 9 // 10]:.2f} ms")


def leftovers(prefix):
    """What sessions could leave: sandboxes, mounts, directories of pipes."""
    processes = subprocess.run(["pgrep", "-fc", prefix], capture_output=True, text=True).stdout.strip()
    mounts = sum(prefix in line for line in open("/proc/self/mountinfo"))
    pipes = len([name for name in os.listdir(tempfile.gettempdir()) if name.startswith("trumanfs-shell-")])
    return f"{processes} processes, {mounts} mounts, {pipes} directories of pipes"


def sessions(server, count, root):
    before = (server.descriptors(), server.status("VmRSS:"), server.status("Threads:"))
    for number in range(count):
        told = server.call("bash", command=f"x={number}; echo $x; sleep 1000 & sleep 1000 >/dev/null &")
        assert told["structuredContent"]["stdout"] == f"{number}\n", told
        session = told["structuredContent"]["session"]
        if number % 2:
            server.call("bash", command="exit", session=session)
    for number in range(64):
        server.call("bash", command="exit")
    time.sleep(1)
    after = (server.descriptors(), server.status("VmRSS:"), server.status("Threads:"))
    names = ("descriptors", "KiB resident", "threads")
    changes = ", ".join(f"{name} {was} -> {now}" for name, was, now in zip(names, before, after))
    print(f"{count} sessions opened and closed: {changes}")


class Occupant(threading.Thread):
    """A session with a directory of its own, in which everything can be compared."""

    def __init__(self, server, root, number, end, seed, pause):
        super().__init__()
        self.server, self.end, self.pause = server, end, pause
        self.choice = random.Random(seed * 100 + number)
        self.directory = os.path.join(root, f"s{number}")
        self.session = None
        self.counts = {}
        self.problems = []

    def tree(self):
        found = {}
        for top, directories, files in os.walk(self.directory):
            for name in directories + files:
                path = os.path.join(top, name)
                stat = os.lstat(path)
                content = open(path, "rb").read() if os.path.isfile(path) and not os.path.islink(path) else None
                found[path] = (oct(stat.st_mode), content)
        return found

    def line(self):
        choice = self.choice
        name, other = (f"f{choice.randrange(12)}" for _ in range(2))
        return choice.choice(
            [
                f"echo {choice.random()} >> {name}",
                f"cat > {name} <<'E'\n" + "text\n" * choice.randrange(300) + "E",
                f"for i in 1 2 3; do echo $i > {name}.$i; done",
                f"mv {name} {other} 2>/dev/null; cp {other} {name} 2>/dev/null; true",
                f"rm -rf {name}* d{choice.randrange(3)}",
                f"mkdir -p d{choice.randrange(3)}/e; echo {choice.random()} > d0/e/x 2>/dev/null; true",
                f"sed -i 's/t/T/;s/[0-9]/#/' {name} 2>/dev/null; true",
                f"python3 - <<'E'\nfor i in range(5): open('{name}%d' % i, 'w').write('x' * i * 1000)\nE",
                f"chmod 6{choice.randrange(8)}4 {name} 2>/dev/null; ln -sf {other} l{choice.randrange(3)}; true",
                f"tar cf a.tar f* 2>/dev/null; rm -f {other}; tar xf a.tar 2>/dev/null; true",
                f"truncate -s {choice.randrange(20000)} {name}; dd if=/dev/zero of={name} bs=100 count=3 conv=notrunc 2>/dev/null",
                f"x={choice.random()}; f() {{ echo $x; }}; f > {name}",
                f"ls | wc -l; grep -c t {name}; nosuch",
                "set -e; false; echo not here",
                f"echo {choice.random()} > {name}; exit 3",
                f"echo {choice.random()} > {name}; kill -9 $$",
                f"echo {choice.random()} > {name}; sleep 5; echo late > {name}",
            ]
        )

    def step(self):
        choice = self.choice
        time.sleep(choice.random() * self.pause)
        before = self.tree()
        kind = choice.choices(["line", "edit", "write", "cancel"], [10, 2, 2, 1])[0]
        self.counts[kind] = self.counts.get(kind, 0) + 1
        name = f"{os.path.basename(self.directory)}/f{choice.randrange(12)}"
        cd = f"cd {self.directory} || exit 9; "
        if kind == "line":
            told = self.call("bash", command=cd + self.line(), timeout=choice.choice([1, 60]))
        elif kind == "edit":
            told = self.call("edit_file", path=self.rooted(name), old_string="t", new_string="edited", replace_all=True)
        elif kind == "write":
            told = self.call("write_file", path=self.rooted(name), content="written\n" * choice.randrange(100))
        else:
            arguments = {"command": cd + f"echo cancelled > f1; sleep {choice.random()}; {self.line()}"}
            if self.session:
                arguments["session"] = self.session
            number, _ = self.server.send("tools/call", {"name": "bash", "arguments": arguments})
            time.sleep(choice.random() / 4)
            self.server.cancel(number)
            # The session's next line waits for the end of this one.
            self.call("bash", command="true")
            return
        run = told["structuredContent"].get("run")
        # What a tool for files has written is not said again.
        changed = told["structuredContent"].get("changed", bool(run) and not told.get("isError"))
        after = self.tree()
        if not changed and after != before:
            self.problems.append(f"not told as changed: {json.dumps(told)[:300]}")
        if run and changed and choice.random() < 0.5:
            undone = self.call("undo", run=run)
            self.counts["undo"] = self.counts.get("undo", 0) + 1
            if undone.get("isError"):
                self.problems.append(f"undo of {json.dumps(told)[:300]}: {undone}")
            elif self.tree() != before:
                self.problems.append(f"undo of {json.dumps(told)[:300]} is not exact")

    def rooted(self, name):
        return os.path.join(os.path.dirname(self.directory), name)

    def call(self, tool, **arguments):
        if self.session:
            arguments["session"] = self.session
        told = self.server.call(tool, **arguments)
        self.session = told["structuredContent"].get("session", self.session)
        return told

    def run(self):
        try:
            while time.time() < self.end and len(self.problems) < 5:
                self.step()
        except Exception as error:  # The main thread says it.
            self.problems.append(repr(error))


def soak(server, root, seconds, seed, pause):
    end = time.time() + seconds
    occupants = []
    for number in range(4):
        os.mkdir(os.path.join(root, f"s{number}"))
        occupants.append(Occupant(server, root, number, end, seed, pause))
    for occupant in occupants:
        occupant.start()
    seen = []
    while any(occupant.is_alive() for occupant in occupants):
        time.sleep(1)
        seen.append((server.status("VmRSS:"), server.descriptors(), server.status("Threads:")))
    fifth = max(1, len(seen) // 5)
    for name, column in zip(("KiB resident", "descriptors", "threads"), zip(*seen)):
        parts = [round(statistics.median(column[at : at + fifth])) for at in range(0, fifth * 5, fifth) if column[at : at + fifth]]
        print(f"{name} by fifths of {seconds:.0f} s: {parts}")
    counts = {}
    for occupant in occupants:
        for kind, count in occupant.counts.items():
            counts[kind] = counts.get(kind, 0) + count
        for problem in occupant.problems:
            print(f"PROBLEM: {problem}")
    print("calls:", ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    return any(occupant.problems for occupant in occupants)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=PROGRAM)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--soak", type=float, default=0)
    parser.add_argument("--pause", type=float, default=0, help="the longest pause before a call of --soak, in seconds")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="trumanfs-lines-", dir="/var/tmp")
    root = os.path.join(directory, "store")
    os.mkdir(root)
    for number in range(20):
        Path(root, f"file{number}").write_text("x\n" * number)
    failed = False
    server = Server(args.program, root)
    try:
        if args.rounds:
            speed(server, root, args.rounds)
        if args.sessions:
            sessions(server, args.sessions, root)
        if args.soak:
            failed = soak(server, root, args.soak, args.seed, args.pause)
    finally:
        server.end()
        print("left at the end:", leftovers(root))
        checked = subprocess.run([str(args.program), "fsck", root], capture_output=True, text=True)
        print(f"fsck: {checked.returncode}", checked.stdout.strip().splitlines()[-1:], checked.stderr.strip())
        shutil.rmtree(directory)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
