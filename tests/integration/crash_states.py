"""Possible states of a disk after a crash, from a record of a program's calls on its files
(tests/testing/record_files.c).

A file keeps what was written before its last fsync, and of the writes since then any. A folder keeps the names from before
its last fsync, and of the changes since then any. That is all that POSIX promises; most file systems keep more."""

import random
from pathlib import Path


class Node:
    """A file or a folder, under whatever names."""

    def __init__(self, is_folder):
        self.is_folder = is_folder
        self.entries = {}  # durable: name -> Node
        self.live = {}  # as programs see it
        self.content = bytearray()  # durable


class Change:
    """Something that is not durable yet."""

    def __init__(self, node, act):
        self.node = node  # node whose fsync makes it durable
        self.act = act  # (entries of node -> dict, content of node -> bytearray)


class Volume:
    """Replays a record. `states` are those that a crash may leave at any moment."""

    def __init__(self, root):
        self.root = str(root)
        self.top = self._load(Path(root))
        self.pending = []  # changes, in order
        self.number = 0  # number of changes so far
        self.applied = frozenset()

    def _load(self, path):
        node = Node(path.is_dir())
        if node.is_folder:
            node.entries = {entry.name: self._load(entry) for entry in path.iterdir()}
            node.live = dict(node.entries)
        else:
            node.content = bytearray(path.read_bytes())
        return node

    def _place(self, path):
        """The folder of a path, and its name there."""
        parts = path[len(self.root):].strip("/").split("/")
        folder = self.top
        for part in parts[:-1]:
            folder = folder.live[part]
        return folder, parts[-1]

    def _node(self, path):
        if path.rstrip("/") == self.root:
            return self.top
        folder, name = self._place(path)
        return folder.live.get(name)

    def _change(self, node, act):
        self.number += 1
        self.pending.append((self.number, Change(node, act)))

    def _add(self, path, node):
        folder, name = self._place(path)
        folder.live[name] = node
        self._change(folder, lambda state: state.entries(folder).__setitem__(name, node))

    def _remove(self, path):
        folder, name = self._place(path)
        folder.live.pop(name, None)
        self._change(folder, lambda state: state.entries(folder).pop(name, None))

    def _move(self, old, new):
        old_folder, old_name = self._place(old)
        folder, name = self._place(new)
        node = old_folder.live.pop(old_name)
        folder.live[name] = node

        def act(state):
            state.entries(old_folder).pop(old_name, None)
            state.entries(folder)[name] = node

        self._change(folder, act)

    def apply(self, line, data):
        """One line of the record. `data`: reads the bytes of writes, one after the other."""
        what, path, *more = line
        if what in ("create", "mkdir"):
            self._add(path, Node(what == "mkdir"))
        elif what == "write":
            offset, size = int(more[0]), int(more[1])
            written = data.read(size)
            node = self._node(path)
            if node is not None:
                self._change(node, lambda state: state.write(node, offset, written))
        elif what in ("resize", "truncate"):
            size = int(more[0]) if more else 0
            node = self._node(path)
            if node is not None:
                self._change(node, lambda state: state.resize(node, size))
        elif what == "rename":
            self._move(path, more[0])
        elif what == "link":
            self._add(more[0], self._node(path))
        elif what == "remove":
            self._remove(path)
        elif what == "sync":
            self._sync(self._node(path))

    def _sync(self, node):
        durable = State(self)
        kept = []
        for number, change in self.pending:
            if change.node is node:
                change.act(durable)
            else:
                kept.append((number, change))
        self.applied |= {number for number, _ in self.pending} - {number for number, _ in kept}
        self.pending = kept
        durable.keep()

    def states(self, chooser, some=4):
        """Sets of changes that the disk may have now, each with its State."""
        numbers = [number for number, _ in self.pending]
        choices = [set(), set(numbers)]
        for number in numbers:
            choices += [{number}, set(numbers) - {number}]
        choices += [{number for number in numbers if chooser.random() < 0.5} for _ in range(some)]
        for choice in choices:
            yield self.applied | choice, choice

    def state(self, choice):
        state = State(self)
        for number, change in self.pending:
            if number in choice:
                change.act(state)
        return state


class State:
    """Contents of a disk: those of the volume that are durable, with changes."""

    def __init__(self, volume):
        self.volume = volume
        self._entries = {}
        self._content = {}

    def entries(self, node):
        return self._entries.setdefault(node, dict(node.entries))

    def content(self, node):
        return self._content.setdefault(node, bytearray(node.content))

    def resize(self, node, size):
        content = self.content(node)
        del content[size:]
        content.extend(bytes(size - len(content)))

    def write(self, node, offset, written):
        if len(self.content(node)) < offset:
            self.resize(node, offset)  # a hole
        self.content(node)[offset:offset + len(written)] = written

    def keep(self):
        """Makes the state the durable one."""
        for node, entries in self._entries.items():
            node.entries = entries
        for node, content in self._content.items():
            node.content = content

    def write_to(self, path, node=None):
        """Makes the files, below `path`, which must not exist."""
        node = node or self.volume.top
        if node.is_folder:
            path.mkdir()
            for name, child in self._entries.get(node, node.entries).items():
                self.write_to(path / name, child)
        else:
            path.write_bytes(self._content.get(node, node.content))


def crash_states(root, lines, data_file, seed, left_out=()):
    """Possible states of a disk when the machine crashes at any moment of a record: functions that write one to a path,
    without repetitions, in a random order. `root`: the durable state before. `left_out`: numbers of lines to treat as
    not done."""
    chooser = random.Random(seed)
    found = {}
    volume = Volume(root)
    snapshots = []
    with open(data_file, "rb") as data:
        for number, line in enumerate(lines):
            if number not in left_out:
                volume.apply(line, data)
            for key, choice in volume.states(chooser):
                if key not in found:
                    found[key] = len(snapshots)
                    snapshots.append((number, choice))
    chooser.shuffle(snapshots)
    for moment, choice in snapshots:
        yield moment, choice


def write_state(root, lines, data_file, moment, choice, path, left_out=()):
    """One of crash_states, as files below `path`."""
    volume = Volume(root)
    with open(data_file, "rb") as data:
        for number, line in enumerate(lines[:moment + 1]):
            if number not in left_out:
                volume.apply(line, data)
    volume.state(choice).write_to(path)
