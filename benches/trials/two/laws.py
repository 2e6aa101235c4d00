"""The recorder: what the tree was after each step, who put which line where, and the laws that it can judge by that."""

import os
import re
import stat

PERSON, AGENT, VERB = "person", "agent", "verb"
# Names in the store's top directory that are the program's own.
OWN = {".trumanfs", ".trash"}


class Differs(Exception):
    """A law that does not hold: its name, and what shows it."""

    def __init__(self, law, text):
        super().__init__(f"law {law}: {text}")
        self.law = law


class Thing:
    """One name of the tree."""

    def __init__(self, path):
        found = os.lstat(path)
        self.inode, self.mode, self.mtime, self.links = found.st_ino, found.st_mode, found.st_mtime_ns, found.st_nlink
        self.changed = found.st_ctime_ns
        self.is_file = stat.S_ISREG(found.st_mode)
        self.content, self.extended = None, {}
        if self.is_file:
            with open(path, "rb") as file:
                self.content = file.read()
        try:
            names = [name for name in os.listxattr(path, follow_symlinks=False) if name.startswith("user.")]
            self.extended = {name: os.getxattr(path, name, follow_symlinks=False) for name in names}
        except OSError:
            pass

    def state(self):
        return (self.mode, self.content, sorted(self.extended.items()))

    def lines(self):
        return [line for line in self.content.split(b"\n") if line] if self.content else []


def look(store):
    """Everything below a store, by its path without the first slash."""
    tree = {}
    for top, directories, files in os.walk(store):
        if top == store:
            directories[:] = [name for name in directories if name not in OWN]
        for name in directories + files:
            path = os.path.join(top, name)
            tree[os.path.relpath(path, store)] = Thing(path)
    return tree


def changed(before, after):
    """The paths at which two trees differ, a thing that another one replaced included."""
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old is None or new is None or old.inode != new.inode or old.state() != new.state():
            yield path


class Moment:
    """The tree after a step, who did that, and the newest record then."""

    def __init__(self, tree, point, who, run, paths, held):
        self.tree, self.point, self.who, self.run = tree, point, who, run
        self.all_paths, self.paths, self.held = paths, paths - set(held), set(held)


class Recorder:
    """All moments, and what is known of now: of each line at each path, and of each mode and missing name, whose it is.
    An owner is a pair of PERSON, AGENT or VERB and a run, or "copy" for a person's copy of a line."""

    def __init__(self, tree, point):
        self.owners = {path: dict.fromkeys(thing.lines(), (None, None)) for path, thing in tree.items()}
        self.modes, self.gone, self.made, self.run_of_line = {}, {}, {}, {}
        self.lines, self.contents = set(), set()
        self.person_inodes, self.other_inodes, self.moved_inodes = set(), set(), set()
        self.moved_paths, self.touched_inodes = set(), set()
        self.moved_directories = []
        self.person_paths, self.other_paths = set(), set()
        self.moments = []
        self.add(tree, point, None, None, set(), ())

    def now(self):
        return self.moments[-1].tree

    def add(self, tree, point, who, run, paths, held):
        for thing in tree.values():
            self.lines.update(thing.lines())
            self.contents.add(thing.content)
        self.moments.append(Moment(tree, point, who, run, paths, held))

    def note(self, tree, point, who, run=None, held=()):
        """Takes a step down. `held`: paths at which a file that is open changes without a record of its own."""
        before = self.now()
        if who == PERSON:
            touched = [path for path in tree if path in before and before[path].changed != tree[path].changed]
            self.person_paths.update(path for path in touched if tree[path].is_file)
            self.touched_inodes.update(tree[path].inode for path in touched if tree[path].is_file)
        paths = set(changed(before, tree))
        owners = {path: lines for path, lines in self.owners.items() if path not in paths}
        for path in paths:
            old, new = before.get(path), tree.get(path)
            inodes = {thing.inode for thing in (old, new) if thing}
            (self.person_inodes if who == PERSON else self.other_inodes).update(inodes)
            (self.person_paths if who == PERSON else self.other_paths).add(path)
            if new is None:
                there = {thing.inode for thing in tree.values()}
                self.gone[path] = (who, old.inode if old.inode in there else None)
                self.modes.pop(path, None)
                continue
            self.gone.pop(path, None)
            if old is None:
                self.made[path] = who
            moved_from = source_of(path, before, tree)
            source = moved_from or linked_to(path, before, tree)
            if old is None and source and before[source].mode == new.mode:
                self.modes[path] = self.modes.get(source)
            elif old is None or old.mode != new.mode:
                self.modes[path] = who
            if moved_from and who == PERSON and not new.is_file:
                self.moved_directories.append((len(self.moments), moved_from, path))
            if moved_from and who != PERSON:
                self.moved_inodes.add(new.inode)
                self.moved_paths.update((moved_from, path))
            if moved_from in self.moved_paths and went_with_directory(path, moved_from, before, tree):
                # What is saved anew there goes back with the agent's move, as it did before the directory was moved.
                self.moved_paths.add(path)
                self.other_paths.add(path)
            owners[path] = {line: self.owner(line, path, source, who, run) for line in new.lines()}
            is_link = old is None and source and not moved_from
            is_cut = old and old.links > 1 and old.inode != new.inode
            if who == PERSON and (moved_from or is_link or is_cut):
                # A link, a save that cuts one, a backup, a move: what a run wrote is in a file of the person's, which a
                # verb may leave or mend.
                self.disown(owners[path], AGENT)
            if who == AGENT and is_link:
                # As with a copy: what an earlier run wrote is there by this one.
                mine = [line for line, (owner, _) in owners[path].items() if owner == AGENT]
                owners[path].update(dict.fromkeys(mine, (AGENT, run)))
            if who != PERSON and is_link:
                # A further name that the person did not give goes with the run; the person's lines are at the person's.
                self.disown(owners[path], PERSON)
        self.owners = owners
        self.add(tree, point, who, run, paths, held)

    def disown(self, owners, who):
        lines = [line for line, (owner, _) in owners.items() if owner == who]
        owners.update(dict.fromkeys(lines, (None, None)))

    def owner(self, line, path, source, who, run):
        for known in (path, source):
            if line in self.owners.get(known, ()):
                return self.owners[known][line]
        if who == PERSON:
            return (PERSON, "copy" if line in self.lines else "write")
        if who == AGENT:
            self.run_of_line.setdefault(line, run)
        return (who, run)

    def fork(self, tree):
        """What a fork has changed is no more the person's in what a merge brings: only what comes after that."""
        for path in changed_states(self.now(), tree):
            self.owners[path] = dict.fromkeys(self.owners.get(path, ()), (None, None))
            self.modes.pop(path, None)
            self.gone.pop(path, None)
            self.other_paths.add(path)
            if path not in tree:
                self.moved_paths.add(path)
            if path in self.now():
                self.other_inodes.add(self.now()[path].inode)
        for thing in tree.values():
            self.lines.update(thing.lines())
            self.contents.add(thing.content)

    # What may be shown as past

    def candidates(self, path, point):
        """What a path may be said to have held at a point, `None` for nothing. A directory that a person moved later goes by
        its present name at all points, since no record has the move: so what was at its former name is the path's."""
        former, last = path, max(number for number, moment in enumerate(self.moments) if moment.point == point)
        for number, source, to in reversed(self.moved_directories):
            if number > last and former.startswith(to + "/"):
                former = source + former[len(to) :]
        return [thing for name in {path, former} for thing in self.held_at(name, point)]

    def held_at(self, path, point):
        """All that a path held from the last change by the home before a point to the next one after it, since a person's
        change has a place between records only."""
        at = [number for number, moment in enumerate(self.moments) if moment.point == point]
        first, last = at[0], at[-1]
        there = {self.moments[number].tree[path].inode for number in at if path in self.moments[number].tree}
        while first > 0 and not self.is_border(first, path, there):
            first -= 1
        while last + 1 < len(self.moments) and not self.is_border(last + 1, path, there):
            last += 1
        things = [self.moments[number].tree.get(path) for number in range(first, last + 1)]
        # A person may have moved it in between as well.
        for number in range(first, last + 1):
            things += [thing for thing in self.moments[number].tree.values() if thing.inode in there]
        inodes = {thing.inode for thing in things if thing}
        # What a program writes through a descriptor that it has for long has no record of its own.
        for moment in self.moments:
            things += [thing for path, thing in moment.tree.items() if path in moment.held and thing.inode in inodes]
        names = {name for moment in self.moments for name, thing in moment.tree.items() if thing.inode in inodes}
        for number in at:
            tree = self.moments[number].tree
            things += [thing for name, thing in tree.items() if thing.inode in inodes or name in names]
        return things

    def is_border(self, number, path, inodes):
        """Whether a home or a verb changed a path, or a file by its inode, in a step."""
        moment = self.moments[number]
        tree = moment.tree
        is_it = lambda at: at == path or (at in tree and tree[at].inode in inodes)
        return moment.who != PERSON and any(is_it(at) for at in moment.paths)

    def is_persons(self, path):
        """Whether a person ever did something to a path, to what is there, or above it."""
        above = path
        while above:
            inodes = self.inodes_of(above)
            if above in self.person_paths or inodes & self.person_inodes or inodes & self.touched_inodes:
                return True
            above = os.path.dirname(above)
        return False

    def inodes_of(self, path):
        return {moment.tree[path].inode for moment in self.moments if path in moment.tree}

    # The first law

    def persons_lines(self, path):
        return [line for line in self.now()[path].lines() if self.owners[path][line][0] == PERSON]

    def judge_persons(self, after, free=(), back=()):
        """What the person did last is there after a verb. `free`: paths that the verb was told to put back, of `back` what
        a run did there."""
        before = self.now()
        everywhere = {line for thing in after.values() for line in thing.lines()}
        by_inode = {thing.inode: thing for thing in after.values()}
        for path, thing in before.items():
            if path in free:
                continue
            new = after.get(path)
            lines = self.persons_lines(path) if thing.is_file else []
            if new is None and thing.inode in by_inode and self.made.get(path) != PERSON:
                continue  # One of the names of a file, or a name that it has no more; no person gave it that.
            moved = self.was_moved(path)
            if lines and (new is None or moved):
                lost = [line for line in lines if line not in everywhere]
                if lost or not moved:
                    raise Differs("1 lost", f"/{path}: {show(lost or lines)}")
            elif lines:
                kept = [line for line in new.lines() if line in set(lines)]
                if kept != lines:
                    raise Differs("1 lost", f"/{path} had of the person:\n{show(lines)}\nand has:\n{show(kept)}")
            if new and not moved and self.modes.get(path) == PERSON and new.mode != thing.mode:
                raise Differs("1 mode", f"/{path}: {oct(thing.mode)} became {oct(new.mode)}")
            self.judge_untouched(path, thing, new)
        for path, (who, inode) in self.gone.items():
            if who != PERSON or path not in after or path in free or path in back:
                continue
            # What had been moved away from there before may come back to a name that is free. What had been there before
            # a run may come back, if what the run put there went away from where the person had moved it.
            if not source_of(path, before, after) and (inode is None or inode in by_inode):
                raise Differs("1 removed", f"/{path} is back, which the person removed or moved away")
        for path, new in after.items():
            made_up = [line for line in new.lines() if line not in self.lines]
            if made_up:
                raise Differs("1 made up", f"/{path} has lines that nobody wrote:\n{show(made_up)}")

    def was_moved(self, path):
        """Whether an agent moved a thing from or to a path, or a directory above it, so that what a person wrote there goes
        with it, also when an undo and a redo move it again."""
        while path:
            if path in self.moved_paths or self.now()[path].inode in self.moved_inodes:
                return True
            path = os.path.dirname(path)
        return False

    def judge_untouched(self, path, thing, new):
        # A further name shows what is done to the file at another one of its names.
        names = [name for name, other in self.now().items() if other.inode == thing.inode]
        if thing.inode in self.other_inodes or any(self.is_others(name) for name in names):
            return
        if new is None or new.state() != thing.state():
            raise Differs("1 untouched", f"/{path}, which no agent ever touched, is not as it was")

    def is_others(self, path):
        """Whether an agent or a verb ever did something to a path, or above it."""
        while path:
            if path in self.other_paths:
                return True
            path = os.path.dirname(path)
        return False

    # The third law

    def judge_run(self, run, after):
        """All of a run is taken back: none of its lines stands, and what only it touched is as before it."""
        for path, thing in after.items():
            for line in thing.lines():
                owner = self.owners.get(path, {}).get(line)
                if self.run_of_line.get(line) == run and owner == (AGENT, run):
                    raise Differs("3 stands", f"/{path} still has {line!r} of run {run}")
        numbers = [number for number, moment in enumerate(self.moments) if moment.run == run]
        if not numbers:
            return
        first = numbers[0]
        alien, alien_inodes = set(), set()
        for moment in self.moments[first:]:
            if moment.run != run:
                alien |= moment.all_paths
                alien_inodes |= {moment.tree[path].inode for path in moment.all_paths if path in moment.tree}
        for path in set().union(*(self.moments[number].all_paths for number in numbers)):
            if any(is_near(path, other) for other in alien):
                continue
            old, new = self.moments[first - 1].tree.get(path), after.get(path)
            inodes = {thing.inode for moment in self.moments[first - 1 :] for thing in [moment.tree.get(path)] if thing}
            if inodes & self.person_inodes or (new and new.inode in self.person_inodes):
                continue
            if new and new.inode in alien_inodes:
                continue  # Others changed it where the run had moved it.
            if (old is None) != (new is None) or (old and old.state() != new.state()):
                raise Differs("3 not back", f"/{path}, which only run {run} touched: was {brief(old)}, is {brief(new)}")


def source_of(path, before, after):
    """Where a thing that is new at a path was before, if it is there no more."""
    new, old = after.get(path), before.get(path)
    if new is None or (old and old.inode == new.inode):
        return None
    for other, thing in before.items():
        if thing.inode == new.inode and (other not in after or after[other].inode != new.inode):
            return other
    return None


def went_with_directory(path, source, before, after):
    """Whether a thing has another path because a directory above it has."""
    old, new = (os.path.dirname(name) for name in (source, path))
    return old != new and old in before and new in after and before[old].inode == after[new].inode


def linked_to(path, before, after):
    """Of a new further name of a file: a name that it had before."""
    inode = after[path].inode
    return next((other for other, thing in before.items() if thing.inode == inode and other != path), None)


def is_near(path, other):
    return path == other or path.startswith(other + "/") or other.startswith(path + "/")


def same_exactly(before, after):
    """Names a path at which a verb that changed nothing changed something, times of files included."""
    for path in changed(before, after):
        return path
    for path, thing in before.items():
        if thing.is_file and thing.mtime != after[path].mtime:
            return path + " (its time)"
    return None


def brief(thing):
    if thing is None:
        return "absent"
    if thing.content is None:
        return f"a directory ({oct(thing.mode)})"
    return f"{oct(thing.mode)} {len(thing.content)} bytes {thing.content[:400]!r} {thing.extended or ''}"


def show(lines):
    return "\n".join(f"    {line!r}" for line in lines[:20])


# Patches

HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def hunks(patch):
    """The files of a patch, each with its hunks as a pair of old and new lines."""
    files, old, new = [], None, None
    for line in patch.split(b"\n"):
        if line.startswith(b"diff --git "):
            files.append((line, []))
            old = None
        elif line.startswith(b"@@"):
            old, new = [], []
            files[-1][1].append((old, new))
        elif old is not None and line[:1] in (b" ", b"-", b"+"):
            if line[:1] != b"+":
                old.append(line[1:])
            if line[:1] != b"-":
                new.append(line[1:])
        elif old is not None and not line.startswith(b"\\"):
            old = None
    return files


def stands_in(block, contents):
    """Whether lines stand together in one of some contents."""
    wanted = b"\n" + b"\n".join(block) + b"\n"
    return not block or any(wanted in b"\n" + content + b"\n" for content in contents)


def changed_states(before, after):
    """The paths whose content, mode or existence differs."""
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if (old is None) != (new is None) or (old and old.state() != new.state()):
            yield path
