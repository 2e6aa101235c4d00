#!/usr/bin/env python3
"""Times lines of a shell: `bash -c`, trumanfs's bundled shell (one process for each line, and in a process that stays), just-bash and bashkit.

The two others are installed by their names from npm and PyPI into a temporary directory; one that cannot be is left out, with
the reason. Each runs the same lines in an equal directory on the same file system. just-bash works on the real directory
(ReadWriteFs); bashkit's Python package gets the files copied into its own memory, for it has no way to a real directory.
Times are medians in microseconds.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent

LINES = [
    ("true", "true"),
    ("echo", "echo hello world"),
    ("echo >", "echo hello > out.txt"),
    ("cat", "cat src/f1.txt"),
    ("head", "head -5 src/f1.txt"),
    ("wc", "wc -l src/f1.txt"),
    ("grep", "grep -n line src/f1.txt"),
    ("ls", "ls src"),
    ("ls -l", "ls -l src"),
    ("find", "find src -name '*.txt'"),
    ("glob", "echo src/*.txt"),
    ("pipe", "cat src/f1.txt | grep line | wc -l"),
    ("mkdir, rm -r", "mkdir d && rm -r d"),
    ("cp, mv, rm", "cp src/f1.txt c && mv c e && rm e"),
    ("grep -rn, 5,000 files", "grep -rn 'value_77 = compute(5' tree"),
    ("find, 5,000 files", "find tree -name 'f4*.rs'"),
]


def fill(top):
    """Makes the files that the lines work on."""
    (top / "src").mkdir()
    for n in range(20):
        text = "".join(f"line {line} of file {n}\n" for line in range(50))
        (top / f"src/f{n}.txt").write_text(text)
    for d in range(100):
        (top / f"tree/d{d}").mkdir(parents=True)
        for n in range(50):
            text = "".join(f"    let value_{line} = compute({d}, {n}); // what is done\n" for line in range(120))
            (top / f"tree/d{d}/f{n}.rs").write_text(text)


def median(act, seconds):
    """Runs `act` for so long. Returns the median of its times in microseconds; None where it fails."""
    times, end = [], time.monotonic() + seconds
    while not times or time.monotonic() < end:
        start = time.perf_counter()
        if not act():
            return None
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def with_processes(command, top, seconds):
    """Times one process for each line."""

    def run(line):
        done = subprocess.run([*command, line], cwd=top, capture_output=True, env={**os.environ, "LC_ALL": "C"})
        return done.returncode == 0

    return {name: median(lambda line=line: run(line), seconds) for name, line in LINES}


def with_just_bash(top, seconds, work):
    """Times just-bash in one node process."""
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", work, "just-bash"], check=True)
    shutil.copy(HERE / "peers.mjs", work)
    lines = json.dumps([[name, line, seconds] for name, line in LINES])
    done = subprocess.run(["node", work / "peers.mjs", top], input=lines, text=True, capture_output=True, check=True)
    return json.loads(done.stdout)


BASHKIT = """
import json, sys, statistics, time
from pathlib import Path
from bashkit import Bash
top, lines = Path(sys.argv[1]), json.load(sys.stdin)
bash = Bash()
for path in sorted(top.rglob("*")):
    inside = "/home/agent/" + str(path.relative_to(top))
    if path.is_dir():
        bash.mkdir(inside, True)
    else:
        bash.write_file(inside, path.read_text())
bash.execute_sync("cd /home/agent")
found = {}
for name, line, seconds in lines:
    times, end, failed = [], time.monotonic() + seconds, False
    # It takes a thousand calls and no more.
    while not failed and (not times or time.monotonic() < end and len(times) < 60):
        start = time.perf_counter()
        failed = bash.execute_sync(line).exit_code != 0
        times.append(time.perf_counter() - start)
    found[name] = None if failed else statistics.median(times) * 1e6
print(json.dumps(found))
"""


def with_bashkit(top, seconds, work):
    """Times bashkit in one Python process."""
    subprocess.run([sys.executable, "-m", "venv", work / "venv"], check=True)
    python = work / "venv/bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "bashkit"], check=True)
    lines = json.dumps([[name, line, seconds] for name, line in LINES])
    done = subprocess.run([python, "-c", BASHKIT, top], input=lines, text=True, capture_output=True, check=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trumanfs", default=HERE.parents[1] / "target/release/trumanfs", type=Path, help="the program")
    parser.add_argument("--seconds", default=1.0, type=float, help="how long each line is repeated")
    parser.add_argument("--base", help="where the directories are made")
    parser.add_argument("--json", help="write the figures here, too")
    parser.add_argument("--ours", action="store_true", help="leave just-bash and bashkit out: nothing is installed")
    args = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory(dir=args.base) as base:
        base = Path(base)

        def place(name):
            top = base / name
            top.mkdir()
            fill(top)
            return top

        tops = {name: place(name) for name in ("bash", "exec", "just-bash", "bashkit")}
        found["bash -c"] = with_processes(["bash", "-c"], tops["bash"], args.seconds)
        command = [args.trumanfs, "exec", "--root", tops["exec"], "--max-lines", "0", "--max-bytes", "0", "--"]
        found["trumanfs exec"] = with_processes(command, tops["exec"], args.seconds)
        others = () if args.ours else (("just-bash", with_just_bash), ("bashkit", with_bashkit))
        for name, act in others:
            work = base / f"{name}-work"
            work.mkdir()
            try:
                found[name] = act(tops[name], args.seconds, work)
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"{name}: left out: {error}", file=sys.stderr)
    columns = list(found)
    print("| line | " + " | ".join(columns) + " |")
    print("| --- |" + " ---: |" * len(columns))
    for name, _ in LINES:
        cells = (found[column].get(name) for column in columns)
        shown = ("fails" if cell is None else f"{cell:,.0f}" for cell in cells)
        print(f"| {name} | " + " | ".join(shown) + " |")
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
