"""What is done next: a deed or a verb's words, drawn from what the tree is now."""

import os
import random

import deeds

WORDS = ["alpha", "bravo", "delta", "gamma", "omega", "sigma", "theta", "kappa"]


def start_tree(draw):
    """Directories (no content) and files of a new store."""
    tree = {"d": None, "d/e": None}
    for path in ["a", "b", "d/c", "d/e/g"]:
        count = draw.choice([1, 3, 8, 12])
        tree[path] = b"".join(line("S", draw, number) for number in range(count))
    if draw.random() < 0.15:
        tree["a"] = tree["a"][:-1]
    if draw.random() < 0.5:
        tree["bin"] = b"".join(b"\0" + line("S", draw, number) for number in range(6))
    if draw.random() < 0.25:
        tree["big"] = b"".join(line("S", draw, number) for number in range(4000))
    return tree


def line(tag, draw, number, length=None):
    """A line that nobody else writes, without its end if it has a length."""
    text = f"{tag}{number}.{draw.randrange(36 ** 6):x} "
    while len(text) < (length or draw.randrange(10, 50)):
        text += draw.choice(WORDS) + " "
    return text[:length].ljust(length, "x").encode() if length else text.strip().encode() + b"\n"


class Choice:
    """One step's draws. `tag` begins each line that it makes, `files` and `directories` are what there is."""

    def __init__(self, draw, tag, tree):
        self.draw, self.tag, self.tree = draw, tag, tree
        self.files = sorted(path for path, thing in tree.items() if thing.is_file)
        self.directories = sorted(path for path, thing in tree.items() if not thing.is_file)
        self.count = 0

    def line(self, length=None):
        self.count += 1
        return line(self.tag, self.draw, self.count, length)

    def file(self):
        """One of few files most times, so that two meet."""
        often = [path for path in self.files if path in ("a", "d/c")]
        return self.draw.choice(often if often and self.draw.random() < 0.6 else self.files)

    def new_name(self):
        top = self.draw.choice(["", *self.directories])
        return os.path.join(top, f"n{self.draw.randrange(12)}")

    def edited(self, content):
        """As one edit in an editor leaves a content: lines put in, taken out, changed."""
        parts = content.split(b"\n")
        end = parts.pop()
        lines = [part + b"\n" for part in parts] + ([end + b"\n"] if end else [])
        for _ in range(self.draw.choice([1, 1, 2])):
            at = self.draw.randrange(len(lines) + 1)
            kind = self.draw.choice(["insert", "insert", "change", "remove", "first"])
            if kind == "insert" or at == len(lines):
                lines.insert(at, self.line())
            elif kind == "change":
                lines[at] = self.line()
            elif kind == "remove":
                del lines[at]
            else:
                lines[0] = self.line()
        return b"".join(lines)

    def same_length(self, content):
        """A line of a content that another one of its length takes the place of, and where; or a byte of it."""
        if not content.strip(b"\n"):
            return None
        starts = [0] + [at + 1 for at, byte in enumerate(content) if byte == 10]
        starts = [at for at in starts if at < len(content) and content[at] != 10]
        at = self.draw.choice(starts)
        end = content.find(b"\n", at)
        length = (len(content) if end < 0 else end) - at
        if self.draw.random() < 0.4:
            return bytes([self.draw.choice(b"QWERTYZ")]), at + self.draw.randrange(length)
        return self.line(length), at

    # Deeds

    def deed(self, kinds):
        """A deed of one of some kinds that this tree allows."""
        for _ in range(20):
            kind = self.draw.choice(kinds)
            found = self.deed_of(kind)
            if found:
                return found
        return ["create", self.new_name() + self.tag, self.line().decode()]

    def deed_of(self, kind):
        text = lambda content: content.decode("latin-1")
        if kind in ("create", "mkdir"):
            path = self.new_name()
            if path in self.tree:
                return None
            return [kind, path] if kind == "mkdir" else [kind, path, text(self.line() + self.line())]
        if kind in ("mvdir", "rmtree"):
            if not self.directories:
                return None
            path, to = self.draw.choice(self.directories), self.new_name()
            if kind == "rmtree":
                return [kind, path]
            return None if to in self.tree or to.startswith(path + "/") else ["mv", path, to]
        if not self.files:
            return None
        path = self.file()
        content = self.tree[path].content
        if kind in deeds.SAVES:
            return [kind, path, text(self.edited(content))]
        if kind == "rewrite":
            return ["truncate_write", path, text(b"".join(self.line() for _ in range(self.draw.choice([0, 1, 4]))))]
        if kind == "append":
            return [kind, path, text(self.line())]
        if kind in ("patch", "mapped"):
            found = self.same_length(content)
            return found and [kind, path, text(found[0]), found[1]]
        if kind == "sed":
            words = content.split()
            old = self.draw.choice(words).decode("latin-1") if words else ""
            return [kind, path, old, self.line(12).decode().replace(" ", "_")] if old.isalpha() else None
        if kind == "cut":
            return [kind, path, self.draw.choice([0, content.rfind(b"\n", 0, max(0, len(content) - 1)) + 1])]
        return self.deed_on_name(kind, path)

    def deed_on_name(self, kind, path):
        if kind == "chmod":
            return [kind, path, self.draw.choice([0o600, 0o644, 0o755, 0o664])]
        if kind == "utimes":
            return [kind, path, self.draw.randrange(10**9)]
        if kind == "xattr":
            return [kind, path, self.tag]
        if kind == "rm":
            return [kind, path]
        if kind == "replace":
            other = self.draw.choice(self.files)
            return None if other == path else ["mv", other, path]
        if kind == "hold":
            return [kind, path, self.draw.choice([os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND])]
        to = self.new_name()
        return None if to in self.tree else [kind, path, to]


PERSON_KINDS = [*deeds.SAVES] * 3 + ["append"] * 3 + [
    "patch", "mapped", "sed", "sed", "rewrite", "cut", "chmod", "utimes", "xattr", "link", "mv", "mv", "mvdir", "rm", "rm",
    "rmtree", "cp", "reflink", "create", "create", "mkdir", "replace",
]  # fmt: skip
AGENT_KINDS = ["append"] * 5 + [*deeds.SAVES] + [
    "patch", "patch", "mapped", "sed", "rewrite", "rewrite", "cut", "chmod", "link", "mv", "mvdir", "rm", "rmtree", "cp",
    "create", "create", "mkdir", "replace", "hold", "hold",
]  # fmt: skip


def plan(seed):
    """The kinds of a seed's steps, in order."""
    draw = random.Random(f"plan {seed}")
    steps = ["person"] * draw.choice([0, 0, 1]) + ["mount"] + ["person"] * draw.choice([0, 0, 1])
    for _ in range(draw.choice([1, 1, 1, 2])):
        steps += ["run", "agent"]
        for _ in range(draw.choice([0, 1, 2, 4])):
            steps.append(draw.choice(["agent", "agent", "agent", "person"]))
        steps += ["end"] + ["person"] * draw.choice([0, 1, 1, 2])
        if draw.random() < 0.2:
            steps.append("remount")
        if draw.random() < 0.3:
            steps.append("verb")
    if draw.random() < 0.25:
        steps.append("umount")
    if draw.random() < 0.12:
        steps.append("merge")
    steps.append("undo")
    for _ in range(draw.choice([0, 1, 2, 3])):
        steps.append(draw.choice(["person", "verb", "redo", "verb"]))
    return steps
