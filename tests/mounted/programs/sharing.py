"""Several processes on one file, in the working directory. usage: sharing.py locks|mmap|inotify|sockets"""

import ctypes
import errno
import fcntl
import mmap
import multiprocessing
import os
import select
import socket
import struct
import sys
import threading

PROCESSES = 4
ROUNDS = 200


def locked_increments(path, number):
    with open(path, "r+b", buffering=0) as file:
        for _ in range(ROUNDS):
            fcntl.lockf(file, fcntl.LOCK_EX, 8, 0)
            file.seek(0)
            (value,) = struct.unpack("q", file.read(8))
            file.seek(0)
            file.write(struct.pack("q", value + 1))
            fcntl.lockf(file, fcntl.LOCK_UN, 8, 0)


def run_all(target, path):
    processes = [multiprocessing.Process(target=target, args=(path, n)) for n in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * PROCESSES, processes


def locks():
    with open("counter", "wb") as file:
        file.write(bytes(8))
    run_all(locked_increments, "counter")
    with open("counter", "rb") as file:
        assert struct.unpack("q", file.read())[0] == PROCESSES * ROUNDS
    # A range that another process has locked is refused, the one beside it is not.
    with open("counter", "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, 10, 100)
        child = os.fork()
        if child == 0:
            with open("counter", "r+b") as other:
                try:
                    fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 105)
                    os._exit(1)
                except OSError as error:
                    if error.errno not in (errno.EAGAIN, errno.EACCES):
                        os._exit(2)
                fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 110)
                who = fcntl.fcntl(other, fcntl.F_GETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 100, 1, 0))
                os._exit(0 if struct.unpack("hhqqi4x", who)[4] == os.getppid() else 3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def mapped_increments(path, number):
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        for _ in range(ROUNDS):
            # Each has a counter of its own in the same page, and all of them share another one under a lock.
            at = 64 * (number + 1)
            mapping[at : at + 8] = struct.pack("q", struct.unpack("q", mapping[at : at + 8])[0] + 1)
            fcntl.flock(file, fcntl.LOCK_EX)
            mapping[0:8] = struct.pack("q", struct.unpack("q", mapping[0:8])[0] + 1)
            fcntl.flock(file, fcntl.LOCK_UN)
        mapping.flush()


def shared_mapping():
    size = 1 << 20
    with open("mapped", "wb") as file:
        file.truncate(size)
    run_all(mapped_increments, "mapped")
    with open("mapped", "rb") as file:
        content = file.read()
    assert len(content) == size
    assert struct.unpack_from("q", content, 0)[0] == PROCESSES * ROUNDS
    for number in range(PROCESSES):
        assert struct.unpack_from("q", content, 64 * (number + 1))[0] == ROUNDS
    # What one process maps, another sees at once, and what write(2) writes shows in the mapping.
    with open("mapped", "r+b", buffering=0) as file, mmap.mmap(file.fileno(), 0) as mapping:
        child = os.fork()
        if child == 0:
            with open("mapped", "r+b", buffering=0) as other:
                os.pwrite(other.fileno(), b"written", 500_000)
                with mmap.mmap(other.fileno(), 0) as theirs:
                    theirs[600_000:600_006] = b"mapped"
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert mapping[500_000:500_007] == b"written"
        assert mapping[600_000:600_006] == b"mapped"
        assert os.pread(file.fileno(), 6, 600_000) == b"mapped"
        # Removed while mapped: it lives on, and in the trash lies the whole of it.
        os.unlink("mapped")
        mapping[0:5] = b"after"
        mapping.flush()
        assert os.pread(file.fileno(), 5, 0) == b"after"


def inotify():
    libc = ctypes.CDLL(None, use_errno=True)
    watcher = libc.inotify_init1(os.O_CLOEXEC)
    os.mkdir("watched")
    assert libc.inotify_add_watch(watcher, b"watched", 0xFFF) >= 0
    with open("watched/new", "w") as file:
        file.write("x")
    os.rename("watched/new", "watched/renamed")
    os.chmod("watched/renamed", 0o600)
    os.mkdir("watched/dir")
    os.unlink("watched/renamed")
    os.rmdir("watched/dir")
    # In this order, with others between them.
    expected = [(0x100, "new"), (0x2, "new"), (0x8, "new"), (0x40, "new"), (0x80, "renamed"), (0x4, "renamed")]
    expected += [(0x100, "dir"), (0x200, "renamed"), (0x200, "dir")]
    seen = []
    while select.select([watcher], [], [], 1 if len(seen) < len(expected) else 0.1)[0]:
        data = os.read(watcher, 1 << 16)
        while data:
            _, mask, _, length = struct.unpack_from("iIII", data)
            name = data[16 : 16 + length].split(b"\0")[0].decode()
            seen.append((mask & 0xFFF, name))
            data = data[16 + length :]
    rest = iter(seen)
    missing = [event for event in expected if event not in rest]
    assert not missing, f"missing {missing} in {seen}"


def sockets():
    def echo(server):
        connection, _ = server.accept()
        connection.sendall(connection.recv(100).upper())
        connection.close()

    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        server.listen()
        thread = threading.Thread(target=echo, args=(server,))
        thread.start()
        child = os.fork()
        if child == 0:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect("socket")
                client.sendall(b"hello")
                os._exit(0 if client.recv(100) == b"HELLO" else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        thread.join()
    try:
        socket.socket(socket.AF_UNIX).connect("socket")
        raise AssertionError("nobody listens")
    except ConnectionRefusedError:
        pass
    try:
        socket.socket(socket.AF_UNIX).bind("socket")
        raise AssertionError("the name is taken")
    except OSError as error:
        assert error.errno == errno.EADDRINUSE
    os.unlink("socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.bind("datagrams")
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"d", "datagrams")
        assert one.recv(10) == b"d"


if __name__ == "__main__":
    {"locks": locks, "mmap": shared_mapping, "inotify": inotify, "sockets": sockets}[sys.argv[1]]()
    print("ok")
