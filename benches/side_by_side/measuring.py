"""The run of one workload in one candidate, and the rounds that they all take part in."""

import difflib
import os
import shutil
import subprocess
import tempfile
import threading
import time

from ground import MIB, Failure, progress, quiet

SETTLE = 0.03  # seconds for a daemon to finish what it owes (RELEASE, FORGET) before the next candidate runs


def run(candidate, workload, material, options, count_requests=False):
    """Runs one workload in one candidate. Returns seconds, or the requests by kind."""
    command = prepared(candidate, workload, material, options)
    if count_requests:
        return requests_of(candidate, command, options)
    time.sleep(SETTLE)
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=options.timeout,
                              env={**os.environ, **candidate.environment})
    except subprocess.TimeoutExpired:
        candidate.kill()
        raise Failure(f"no end within {options.timeout} s") from None
    if done.returncode != 0:
        raise Failure(done.stderr.strip()[-400:] or f"exit {done.returncode}")
    return int(done.stdout) / 1e9


def prepared(candidate, workload, material, options):
    """Does what comes before the timed command, and returns that command."""
    work = candidate.home / (workload.place or f"work-{workload.name}")
    work.mkdir(exist_ok=bool(workload.place))
    for command in workload.prepare:
        quiet([str(material.calls), "run", str(work), *told(command, candidate, workload, material)], timeout=options.timeout)
    if workload.command:
        return [str(material.calls), "run", str(work), *told(workload.command, candidate, workload, material)]
    seed = candidate.home / "seed"
    return [str(material.calls), workload.name, str(work), str(seed), str(workload.count), str(workload.megabytes * MIB)]


def told(command, candidate, workload, material):
    """A command with the places of this candidate in it."""
    places = {"tar": str(material.tar), "origin": str(material.origin), "project": str(material.project), "packages": str(material.packages), "count": str(workload.count),
              "seed": str(candidate.home / "seed"), "work": str(candidate.home / workload.place)}
    return [word.format(**places) for word in command]


def proof(candidate, workload, material, options):
    """What the workload's proof says, without the names of places."""
    if not workload.proof:
        return ""
    said = quiet(told(workload.proof, candidate, workload, material), cwd=candidate.home / (workload.place or f"work-{workload.name}"), timeout=options.timeout)
    return said.replace(str(candidate.home), "")


def unlike(expected, found):
    lines = difflib.unified_diff(expected.splitlines(), found.splitlines(), "native", "here", lineterm="", n=0)
    return " ".join(lines)[:400]


def requests_of(candidate, command, options):
    def before(_):
        time.sleep(0.1)
        # Asking for the status may cost requests too: what one question costs is taken off.
        cost = difference(candidate.counters(), first := candidate.counters())
        return cost, first

    def after(_):
        time.sleep(0.1)
        return candidate.counters()

    _, (cost, first), last = stepped(candidate, command, options, before, after)
    return difference(cost, difference(first, last))


def stepped(candidate, command, options, before, after):
    """Runs a command of calls.c and looks at what the timed part does. Returns its seconds and what `before` and `after` said;
    both are told the command's process id."""
    with tempfile.TemporaryFile("w+") as errors:
        helper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                                  env={**os.environ, "BENCH_STEP": "1"})
        ended_late = threading.Event()
        late = threading.Timer(options.timeout, lambda: (ended_late.set(), candidate.kill(), helper.kill()))
        late.start()
        try:
            expect(helper, "ready")
            first = before(helper.pid)
            answer(helper)
            expect(helper, "done")
            last = after(helper.pid)
            said, _ = helper.communicate("\n")
            if helper.returncode != 0:
                raise Failure(f"exit {helper.returncode}")
        except Failure as failure:
            if ended_late.is_set():
                raise Failure(f"no end within {options.timeout} s") from None
            errors.seek(0)
            raise Failure(errors.read().strip()[-400:] or str(failure)) from None
        finally:
            late.cancel()
            if helper.poll() is None:
                helper.kill()
                helper.wait()
    return int(said) / 1e9, first, last


def expect(helper, word):
    line = helper.stdout.readline().strip()
    if line != word:
        raise Failure(f"calls said {line!r} instead of {word!r}")


def answer(helper):
    helper.stdin.write("\n")
    helper.stdin.flush()


def difference(before, after):
    changed = {k: v - before.get(k, 0) for k, v in after.items()}
    return {k: v for k, v in changed.items() if v > 0}


class Round:
    """Fresh stores for all candidates, seeded, then mounted; torn down again whatever happens."""

    def __init__(self, tools, material, workloads, directory):
        self.tools, self.material, self.workloads, self.directory = tools, material, workloads, directory

    def __enter__(self):
        try:
            for tool in self.tools:
                seeds = tool.prepare(self.directory / tool.name) / "seed"
                seeds.mkdir()
                self.material.seed(seeds, self.workloads)
                tool.mount()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for tool in self.tools:
            tool.unmount()
        # A program that went on working for a moment may leave something behind: the file system goes in the end anyway.
        shutil.rmtree(self.directory, ignore_errors=True)


def measure(tools, workloads, material, options):
    seconds = {w.name: {t.name: [] for t in tools} for w in workloads}
    failures = {}
    for number in range(options.rounds):
        progress(f"round {number + 1} of {options.rounds}")
        with Round(tools, material, workloads, material.base / f"round-{number}"):
            for workload in workloads:
                progress(f"round {number + 1} of {options.rounds}: {workload.name}")
                turn = number % len(tools)
                spent, proofs = {}, {}
                for tool in tools[turn:] + tools[:turn]:
                    try:
                        spent[tool.name] = run(tool, workload, material, options)
                        proofs[tool.name] = proof(tool, workload, material, options)
                    except (Failure, OSError, subprocess.TimeoutExpired) as error:
                        failures.setdefault((workload.name, tool.name), str(error))
                        spent[tool.name] = None
                for tool in tools:
                    expected, found = proofs.get("native"), proofs.get(tool.name)
                    if None not in (expected, found) and found != expected:
                        failures.setdefault((workload.name, tool.name), "not the same work: " + unlike(expected, found))
                        spent[tool.name] = None
                    seconds[workload.name][tool.name].append(spent[tool.name])
    progress("")
    return seconds, failures
