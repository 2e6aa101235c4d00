#!/usr/bin/env python3
"""Small transactions in a SQLite database, with SQLite's own defaults. Part of side_by_side.py, which times it as a program.

    transactions.py make FILE MEGABYTES
    transactions.py wal|delete FILE COUNT    COUNT transactions, each of which changes one row, in this journal mode
    transactions.py check FILE               is the database in order, and what is in it?
"""

import os
import sqlite3
import sys

ROW = 1000


def make(connection, megabytes):
    connection.execute("CREATE TABLE entry (id INTEGER PRIMARY KEY, number INTEGER, text TEXT)")
    # Content that no file system can make smaller.
    rows = ((number, 0, os.urandom(ROW // 2).hex()) for number in range(megabytes * (1 << 20) // ROW))
    with connection:
        connection.executemany("INSERT INTO entry VALUES (?, ?, ?)", rows)


def change(connection, mode, count):
    (reached,) = connection.execute(f"PRAGMA journal_mode={mode}").fetchone()
    if reached != mode:
        sys.exit(f"transactions: the journal mode is {reached} instead of {mode}")
    (rows,) = connection.execute("SELECT max(id) + 1 FROM entry").fetchone()
    number = 1
    for turn in range(count):
        number = number * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        connection.execute("UPDATE entry SET number = ? WHERE id = ?", (turn + 1, (number >> 33) % rows))


def check(connection):
    print(connection.execute("PRAGMA integrity_check").fetchone()[0])
    print(*connection.execute("SELECT count(*), sum(number), max(number) FROM entry").fetchone())


def main():
    task, file, *amount = sys.argv[1:]
    connection = sqlite3.connect(file, isolation_level=None)  # every statement is a transaction
    if task == "make":
        make(connection, int(amount[0]))
    elif task == "check":
        check(connection)
    else:
        change(connection, task, int(amount[0]))
    connection.close()


main()
