"""One seed: a person and an agent in one tree, and what an operator does about it."""

import glob
import json
import os
import random
import re
import select
import shlex
import subprocess
import sys
import time

import choices
import deeds
import laws
from laws import AGENT, PERSON, VERB, Differs

LIMIT = 30
POLICY = """python3:
  description: "The agent of the trial."
  default_timeout: 60
  allow_script_paths: true
  flags: {"-c": true}
"""
OPTIONS = [[], [], [], ["--no-passthrough"], ["--xattr"]]
# What says that a verb could not: its request was met in none of the ways that it has.
CODES = {0, 1, 3, 4, 5, 6}


class Storm:
    def __init__(self, seed, binary, base, store, skip=(), tell=False):
        self.seed, self.binary, self.base, self.store, self.skip, self.tell = seed, binary, base, store, set(skip), tell
        self.home = os.path.join(base, "home")
        self.log, self.runs, self.failed = [], [], []
        self.agent, self.run_number, self.held = None, 0, None
        self.mounted = False
        self.recorder, self.before_undo, self.step = None, None, 0
        self.environment = dict(os.environ, HOME=base, XDG_RUNTIME_DIR=base + "/run", XDG_STATE_HOME=base + "/state")

    # The program

    def say(self, text):
        self.log.append(text)
        if self.tell:
            print(text, flush=True)

    def call(self, *words, codes=(0,), quiet=False):
        done = subprocess.run(
            [self.binary, *words], capture_output=True, timeout=LIMIT, cwd="/", env=self.environment,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        out, err = done.stdout, done.stderr.decode(errors="replace")
        if not quiet:
            shown = out.decode(errors="replace") + err
            self.say(f"$ trumanfs {self.words(words)}   # {done.returncode}\n" + indented(shown))
        if codes and done.returncode not in codes:
            raise Differs("system", f"trumanfs {self.words(words)}: exit {done.returncode}\n{out.decode(errors='replace')[-800:]}{err[-2000:]}")
        return done.returncode, out, err

    def words(self, words):
        return shlex.join(words).replace(self.store, "S").replace(self.home, "H")

    def point(self):
        if self.mounted:
            _, out, _ = self.call("status", self.home, "--json", quiet=True)
            status = json.loads(out)
            self.daemon(status["pid"])
            return f"{status['session']}:{status['records']}"
        _, out, _ = self.call("log", self.store, "--json", codes=(0, 1, 3, 6), quiet=True)
        lines = out.splitlines()
        return f"{json.loads(lines[-1])['session']}:{json.loads(lines[-1])['seq']}" if lines else "none"

    def daemon(self, pid):
        with open(os.path.join(self.base, "daemon"), "w", encoding="utf-8") as file:
            file.write(str(pid))

    # Steps

    def all(self):
        self.build()
        for self.step, kind in enumerate(choices.plan(self.seed)):
            if self.step in self.skip and kind not in ("mount", "umount"):
                continue
            self.draw = random.Random(f"{self.seed} {self.step}")
            getattr(self, "do_" + kind)()
        self.do_end()
        self.draw = random.Random(f"{self.seed} end")
        self.judge_past(6)
        self.do_umount()
        if self.failed:
            raise Differs("0 home", "the agent was told that what is there is not\n" + "\n".join(self.failed))

    def build(self):
        draw = random.Random(f"start {self.seed}")
        self.options = draw.choice(OPTIONS)
        self.way = draw.choice(["run"] * 11 + ["agent"] * 6 + ["program"] * 3)
        self.discards = draw.random() < 0.4
        for path, content in choices.start_tree(draw).items():
            at = os.path.join(self.store, path)
            if content is None:
                os.mkdir(at)
            else:
                deeds.write(at, content)
        with open(os.path.join(self.base, "policy.yaml"), "w", encoding="utf-8") as file:
            file.write(POLICY)
        self.recorder = laws.Recorder(laws.look(self.store), "none")
        for path, thing in sorted(self.recorder.now().items()):
            self.say(f"{path}: {laws.brief(thing)}")

    def do_mount(self):
        if self.way == "agent":
            return
        self.call("mount", self.store, self.home, *self.options)
        self.mounted = True
        self.note(None)

    def do_umount(self):
        if self.mounted:
            self.call("umount", self.home)
            self.mounted = False

    def do_remount(self):
        self.do_umount()
        self.do_mount()

    def note(self, who, run=None, held=()):
        self.recorder.note(laws.look(self.store), self.point(), who, run, held)

    def do_person(self):
        choice = choices.Choice(self.draw, f"P{self.step}n", self.recorder.now())
        deed = choice.deed(choices.PERSON_KINDS)
        os.chdir(self.store)
        failed = deeds.do(deed)
        os.chdir("/")
        self.before_undo = None
        self.say(f"{self.step} person: {told(deed)}{failed and '   FAILED ' + failed}")
        self.pause()
        self.note(PERSON)

    def pause(self):
        time.sleep(self.draw.choice([0, 0, 0, 0.01, 0.05, 0.3]))

    def do_run(self):
        if self.agent or not (self.mounted or self.way == "agent"):
            return
        with open(deeds.__file__, encoding="utf-8") as file:
            code = file.read() + "\nserve()\n"
        policy, python = os.path.join(self.base, "policy.yaml"), "/usr/bin/python3"
        words = {
            "run": [self.binary, "run", "--root", self.home, "--policy", policy, "--", "python3", "-c", code],
            "agent": [self.binary, "agent", "--store", self.store, "--net", "none", self.end(), "--", python, "-c", code],
            "program": [python, "-c", code],
        }[self.way]
        self.agent = subprocess.Popen(
            words, cwd=self.home if self.way == "program" else "/", env=self.environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.run_number += 1
        self.before_undo = None
        self.say(f"{self.step} run {self.run_number} begins: {self.way} {self.end() if self.way == 'agent' else ''}")
        self.hear()

    def hear(self):
        if not select.select([self.agent.stdout], [], [], LIMIT)[0]:
            raise Differs("system", "the agent does not answer")
        answer = self.agent.stdout.readline().decode().strip()
        if not answer:
            raise Differs("system", f"the agent has ended: {self.agent.stderr.read()[-2000:].decode(errors='replace')}")
        return answer

    def do_agent(self):
        if not self.agent:
            return
        choice = choices.Choice(self.draw, f"A{self.step}n", self.recorder.now())
        if self.held and self.draw.random() < 0.6:
            kind = self.draw.choice(["held_write", "held_write", "held_close"])
            deed = [kind, self.held] + ([choice.line().decode()] if kind == "held_write" else [])
        else:
            # What is held is written at its close, and is not seen if that is taken back at once.
            holds = not self.held and not (self.way == "agent" and self.discards)
            deed = choice.deed([kind for kind in choices.AGENT_KINDS if kind != "hold" or holds])
            if self.held and self.held in deed[1:3]:
                return  # Of a file that the home has open more than once, nobody finds who else wrote to it.
        self.tell_agent(deed)

    def tell_agent(self, deed):
        self.agent.stdin.write(json.dumps(deed).encode() + b"\n")
        self.agent.stdin.flush()
        failed = json.loads(self.hear())
        self.say(f"{self.step} agent: {told(deed)}{failed and '   FAILED ' + failed}")
        if re.search("No such file|Input/output", failed) and deed[1] in self.recorder.now():
            self.failed.append(f"{told(deed)}: {failed}")
        if deed[0] == "hold" and not failed:
            self.held = deed[1]
            self.await_mark(os.path.join(self.store, deed[1]))
        self.pause()
        tree = laws.look(self.store)
        held = list(laws.changed(self.recorder.now(), tree)) if deed[0].startswith("held") else []
        self.recorder.note(tree, self.point(), AGENT, self.run_number, held)
        if deed[0] == "held_close":
            self.held = None

    def await_mark(self, path):
        """Waits until the daemon has marked a file that is held, or would have by now."""
        wanted = f"fanotify ino:{os.stat(path).st_ino:x} "
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            for info in glob.glob("/proc/[0-9]*/fdinfo/*"):
                try:
                    with open(info, encoding="utf-8") as file:
                        if any(line.startswith(wanted) for line in file):
                            return
                except OSError:
                    pass
            time.sleep(0.1)

    def end(self):
        return "--discard" if self.discards else "--keep"

    def do_end(self):
        if not self.agent:
            return
        before, code, out, err = self.recorder.now(), *self.let_end()
        run = self.newest_run() if self.way != "program" else None
        if run and run not in [known for _, known in self.runs]:
            self.runs.append((self.run_number, run))
        self.say(f"{self.step} run {self.run_number} ends: {run}   # {code}\n" + indented(out + err))
        self.pause()
        after = laws.look(self.store)
        if self.way != "agent" or not self.discards:
            self.recorder.note(after, self.point(), AGENT, self.run_number, list(laws.changed(before, after)))
            return
        self.recorder.judge_persons(after)
        if code == 0 and "conflict" not in err:
            self.recorder.judge_run(self.run_number, after)
        self.recorder.note(after, self.point(), VERB, "discard")
        self.before_undo = before if code == 0 and "conflict" not in err else None

    def let_end(self):
        """Lets the agent end by itself. Returns its code, and what was said."""
        agent, self.agent, self.held = self.agent, None, None
        try:
            out, err = agent.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            agent.kill()
            raise
        return agent.returncode, out.decode(errors="replace"), err.decode(errors="replace")

    def newest_run(self):
        _, out, _ = self.call("log", self.store, "--json", "--op", "run", codes=(0, 1, 3), quiet=True)
        runs = [json.loads(text) for text in out.splitlines()]
        runs = [record["origin"]["run"] for record in runs if record["origin"]["kind"] != "undo"]
        return runs[-1] if runs else None

    # Verbs

    def do_undo(self):
        self.do_end()
        draw = self.draw.random()
        if self.runs and draw < 0.75:
            number, run = self.draw.choice(self.runs)
            verb = self.draw.choice(["undo --run", "undo --run", "reject"])
            words = ["undo", self.store, "--run", run] if verb != "reject" else ["reject", self.store, run]
            self.verb(words, lambda after: self.recorder.judge_run(number, after))
        else:
            self.verb(["undo", self.store, "--session", "last" if draw < 0.9 else "all"])

    def do_redo(self):
        self.do_end()
        before = self.before_undo
        code = self.verb(["redo", self.store])
        if code == 0 and before is not None:
            path = next(laws.changed_states(before, self.recorder.now()), None)
            if path:
                was, now = laws.brief(before.get(path)), laws.brief(self.recorder.now().get(path))
                raise Differs("3 redo", f"/{path} is not as before the undo\nit was: {was}\nit is: {now}")

    def do_verb(self):
        self.do_end()
        kind = self.draw.choice(["hunk", "hunk", "path", "restore", "restore_to", "force", "keep", "point", "accept", "undo", "redo"])
        if kind in ("hunk", "path", "force", "keep", "accept") and not self.runs:
            kind = "point"
        getattr(self, {"undo": "do_undo", "redo": "do_redo"}.get(kind, "verb_" + kind))()

    def any_run(self):
        return self.draw.choice(self.runs)

    def any_file(self):
        return self.draw.choice(sorted(path for path, thing in self.recorder.now().items() if thing.is_file) or ["a"])

    def verb_path(self):
        number, run = self.any_run()
        paths = sorted(path for moment in self.recorder.moments if moment.run == number for path in moment.all_paths)
        path = "/" + self.draw.choice(paths or ["a"])
        words = self.draw.choice([["undo", self.store, "--run", run, "--path", path], ["reject", self.store, run, path]])
        # A review shows what is missing at a path, and what stood there comes back.
        self.verb(words, back={path[1:]} if words[0] == "reject" else ())

    def verb_hunk(self):
        number, run = self.any_run()
        _, out, _ = self.call("review", self.store, "--run", run, "--patch", codes=(0, 1, 5), quiet=True)
        found = [(name, text) for name, text in named_hunks(out)]
        if not found:
            return
        path, hunk = self.draw.choice(found)
        self.verb(["reject", self.store, run, "/" + path, "--hunk", hunk])

    def verb_force(self):
        self.verb(["undo", self.store, "--run", self.any_run()[1], "--force"], force=True)

    def verb_keep(self):
        self.verb(["undo", self.store, "--run", self.any_run()[1], "--keep-both"])

    def verb_accept(self):
        self.verb(["accept", self.store, self.any_run()[1]], changes=False)

    def verb_point(self):
        points = [moment.point for moment in self.recorder.moments if moment.point != "none"]
        if points:
            self.verb(["undo", self.store, "--to", self.draw.choice(points)])

    def verb_restore(self):
        point, path = self.past()
        if point:
            wanted = self.recorder.candidates(path, point)
            # Its further names are names of what is restored.
            names = {path, *self.names_of(path)}
            code = self.verb(["restore", self.store, "/" + path, "--at", point], free=names)
            self.judge_restored(code, path, path, point, wanted)

    def verb_restore_to(self):
        point, path = self.past()
        if point:
            wanted, to = self.recorder.candidates(path, point), f"restored{self.step}"
            code = self.verb(["restore", self.store, "/" + path, "--at", point, "--to", "/" + to], free={to})
            self.judge_restored(code, path, to, point, wanted)

    def names_of(self, path):
        """All names of the file that is at a path now."""
        def inode(name):
            try:
                return os.lstat(os.path.join(self.store, name)).st_ino
            except OSError:
                return None

        own = inode(path)
        return [name for name in self.recorder.now() if own is not None and inode(name) == own]

    def judge_restored(self, code, path, to, point, wanted):
        thing = self.recorder.now().get(to)
        if code == 0 and thing and thing.is_file and thing.content not in [one and one.content for one in wanted]:
            raise Differs("2 restore", f"/{path} at {point}: restored {laws.brief(thing)}\nit was one of\n{told_all(wanted)}")

    def past(self):
        """A file that there was at a moment, and that moment's point."""
        moments = [moment for moment in self.recorder.moments if moment.point != "none"]
        moment = self.draw.choice(moments) if moments else None
        files = sorted(path for path, thing in moment.tree.items() if thing.is_file) if moment else []
        return (moment.point, self.draw.choice(files)) if files else (None, None)

    def verb(self, words, judge=None, force=False, free=(), back=(), changes=True):
        """Runs a verb and judges it by all laws."""
        before = self.recorder.now()
        code, out, err = self.call(*words, codes=CODES)
        after = laws.look(self.store)
        if code in (1, 3, 4, 6) or not changes:
            path = laws.same_exactly(before, after)
            if path:
                raise Differs("1 unchanged", f"exit {code} of {words[0]}, but /{path} has changed: {laws.brief(before.get(path))}\nis now {laws.brief(after.get(path))}")
        elif force:
            self.judge_kept(before, after)
        else:
            self.recorder.judge_persons(after, free, back)
        if code in (4, 5) and not re.search(r" /\S", out.decode(errors="replace") + err):
            raise Differs("1 named", f"exit {code} of {words[0]} names no path:\n{err}")
        if judge and code in (0, 1):
            judge(after)
        if free and code == 0:
            self.judge_kept(before, after)
        self.before_undo = before if words[0] in ("undo", "reject") and code == 0 and changes else None
        self.recorder.note(after, self.point(), VERB, f"{words[0]} {self.step}")
        if self.draw.random() < 0.5:
            self.judge_past(2)
        return code

    def judge_kept(self, before, after):
        """Contents that a verb was told to put away are somewhere still."""
        trash = [thing.content for thing in laws.look(os.path.join(self.store, ".trash")).values()] if os.path.isdir(self.store + "/.trash") else []
        here = {thing.content for thing in after.values()}
        for path, thing in before.items():
            if not thing.is_file or not thing.content or thing.content in here or thing.content in trash:
                continue
            code, out, err = self.call("cat", self.store, "/" + path, "--at", self.recorder.moments[-1].point, codes=None, quiet=True)
            paths = [path] + [now for now, other in after.items() if other.is_file]
            if out != thing.content and not any(self.has_version(at, thing.content) for at in paths):
                raise Differs("1 kept", f"/{path} was {laws.brief(thing)}\nand that is nowhere now; cat --at: {code} {out[:300]!r} {err}")

    def has_version(self, path, content):
        return any(self.version(path, point) == content for point in self.versions(path))

    def versions(self, path):
        _, out, _ = self.call("versions", self.store, "/" + path, "--json", codes=None, quiet=True)
        return [record["at"] for record in map(json.loads, out.splitlines()) if "at" in record]

    def version(self, path, point):
        return self.call("cat", self.store, "/" + path, "--at", point, codes=None, quiet=True)[1]

    # The second law

    def judge_past(self, count):
        for _ in range(count):
            point, path = self.past()
            if point:
                self.judge_cat(point, path)
        paths = sorted({path for moment in self.recorder.moments for path, thing in moment.tree.items() if thing.is_file})
        path = self.draw.choice(paths)
        # What lies between two steps, such as the middle of a save, was seen by nobody.
        points = {moment.point for moment in self.recorder.moments}
        for point in [point for point in self.versions(path) if point in points][:3]:
            self.judge_cat(point, path)
        self.judge_patches()

    def judge_cat(self, point, path):
        wanted = self.recorder.candidates(path, point)
        code, out, err = self.call("cat", self.store, "/" + path, "--at", point, codes=None, quiet=True)
        contents = [thing.content for thing in wanted if thing]
        if code == 0 and out not in contents:
            raise Differs("2 cat", f"/{path} at {point}: shown as {out[:800]!r}\nit was one of\n{told_all(wanted)}")
        if code not in (0, 1, 3, 4, 5, 6):
            raise Differs("system", f"cat /{path} --at {point}: exit {code} {err}")
        # What the person has removed since is named so.
        is_gone = "is not in the store any more" in err
        if code and None not in wanted and not is_gone and not self.recorder.is_persons(path):
            raise Differs("2 missing", f"/{path} at {point}, which only the home changed: exit {code} {err}\nit was one of\n{told_all(wanted)}")

    def judge_patches(self):
        words = [["review", self.store, "--patch"], ["diff", self.store, "last..now", "--patch"]]
        if self.runs:
            words += [["review", self.store, "--run", self.any_run()[1], "--patch"], ["diff", self.store, "--run", self.any_run()[1], "--patch"]]
        words = self.draw.choice(words)
        code, out, err = self.call(*words, codes=(0, 1, 3, 5, 6), quiet=True)
        contents = [content for content in self.recorder.contents if content]
        for name, found in laws.hunks(out):
            for old, new in found:
                for block in (old, new):
                    if not laws.stands_in(block, contents):
                        raise Differs("2 patch", f"{self.words(words)}: of {name.decode()}, these lines stood together in no file ever:\n{laws.show(block)}\n{indented(out.decode(errors='replace'))}")

    # Merges

    def do_merge(self):
        self.do_end()
        fork = self.store + ".fork"
        self.call("fork", self.store, fork, "--copy")
        choice = choices.Choice(self.draw, f"F{self.step}n", self.recorder.now())
        for _ in range(self.draw.choice([1, 2])):
            path, text = choice.file() if choice.files else "new", choice.line().decode().strip()
            lines = [f"echo '{text}' >> '{path}'", f"echo '{text}' > '{path}'", f"mv '{path}' m{self.step}", f"rm -f '{path}'"]
            drawn = self.draw.choice(lines)
            self.call("exec", "--root", fork, "--", drawn, codes=None)
            if drawn.startswith("mv"):
                self.recorder.moved_paths.add(path)
        self.recorder.fork(laws.look(fork))
        for _ in range(self.draw.choice([0, 1, 2])):
            self.do_person()
        self.verb(["merge", self.store, fork, *self.draw.choice([[], [], ["--keep-both"]])])


def named_hunks(patch):
    path = None
    for text in patch.decode(errors="replace").splitlines():
        found = re.match(r"diff --git a/(.*) b/(.*)$", text)
        if found:
            path = found[2]
        found = re.search(r"^@@ .* @@ hunk (\d+)", text)
        if found:
            yield path, found[1]


def indented(text):
    return "\n".join("    " + line for line in text.splitlines()[:60])


def told(deed):
    return " ".join(repr(word) if at > 1 or not isinstance(word, str) else word for at, word in enumerate(deed))[:700]


def told_all(things):
    seen = []
    for thing in things:
        text = laws.brief(thing)
        if text not in seen:
            seen.append(text)
    return "\n".join("    " + text for text in seen)
