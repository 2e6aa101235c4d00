"""Moves money between accounts in one process, while others check that none is ever lost; then kills a writer in the middle.

usage: sqlite.py delete|truncate|persist|wal|wal-mmap   (in the directory that is to be tested)
"""

import multiprocessing
import os
import random
import signal
import sqlite3
import sys
import time

ACCOUNTS = 200
TOTAL = ACCOUNTS * 100


def connect(path, mode):
    db = sqlite3.connect(path, timeout=30, isolation_level=None)
    db.execute(f"pragma journal_mode={mode.removesuffix('-mmap')}")
    db.execute("pragma synchronous=normal")
    if mode.endswith("-mmap"):
        db.execute("pragma mmap_size=67108864")
    return db


def write(path, mode, count, seed):
    rng = random.Random(seed)
    db = connect(path, mode)
    for n in range(count):
        db.execute("begin immediate")
        for _ in range(5):
            giver, taker = rng.sample(range(ACCOUNTS), 2)
            amount = rng.randrange(50)
            db.execute("update account set money = money - ? where id = ?", (amount, giver))
            db.execute("update account set money = money + ? where id = ?", (amount, taker))
        db.execute("insert into history(text) values (?)", ("x" * rng.randrange(3000),))
        db.execute("rollback" if n % 7 == 0 else "commit")
    db.close()


def read(path, mode, stop, seen):
    db = connect(path, mode)
    reads = 0
    while not stop.is_set() or reads == 0:
        (total,) = db.execute("select sum(money) from account").fetchone()
        if total != TOTAL:
            sys.exit(f"a reader saw {total} instead of {TOTAL}")
        reads += 1
        time.sleep(0.001)
    seen.value = reads
    db.close()


def check(path, mode):
    db = connect(path, mode)
    (verdict,) = db.execute("pragma integrity_check").fetchone()
    (total,) = db.execute("select sum(money) from account").fetchone()
    db.close()
    if (verdict, total) != ("ok", TOTAL):
        sys.exit(f"{mode}: integrity {verdict}, total {total}")


def main():
    mode = sys.argv[1]
    path = f"bank-{mode}.db"
    db = connect(path, mode)
    db.execute("create table account(id integer primary key, money integer)")
    db.execute("create table history(id integer primary key, text text)")
    db.execute("begin")
    db.executemany("insert into account values (?, 100)", [(n,) for n in range(ACCOUNTS)])
    db.execute("commit")
    db.close()

    stop = multiprocessing.Event()
    counts = [multiprocessing.Value("i", 0) for _ in range(2)]
    readers = [multiprocessing.Process(target=read, args=(path, mode, stop, seen)) for seen in counts]
    writers = [multiprocessing.Process(target=write, args=(path, mode, 150, seed)) for seed in (1, 2)]
    for process in readers + writers:
        process.start()
    for writer in writers:
        writer.join(60)
    stop.set()
    for reader in readers:
        reader.join(60)
    if any(process.exitcode != 0 for process in readers + writers):
        sys.exit(f"{mode}: exit codes {[process.exitcode for process in readers + writers]}")
    check(path, mode)

    for seed in range(3):
        victim = multiprocessing.Process(target=write, args=(path, mode, 100_000, seed))
        victim.start()
        time.sleep(0.15)
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        check(path, mode)
    print(f"{mode}: integrity ok, {sum(seen.value for seen in counts)} reads")


if __name__ == "__main__":
    main()
