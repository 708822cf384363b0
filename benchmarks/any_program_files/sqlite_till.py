# limit: disk | fsync|fdatasync|commit|sqlite|ring_up|disk|write
"""A till: each sale is a transaction in a database file, made by one of two queues of customers."""

import queue
import shutil
import sqlite3
import sys
import tempfile
import threading
import time


def ring_up(database: sqlite3.Connection, sale: tuple) -> None:
    with database:
        database.execute("INSERT INTO sales VALUES (?, ?, ?)", sale)
        database.execute("UPDATE stock SET amount = amount - 1 WHERE item = ?", (sale[1],))


def customers(line: queue.Queue, first: int, stop: threading.Event) -> None:
    number = first
    while not stop.is_set():
        basket = sum((number * k) % 89 for k in range(60))
        try:
            line.put((number, number % 50, basket), timeout=0.2)
        except queue.Full:
            continue
        number += 2


def main(seconds: float) -> None:
    folder = tempfile.mkdtemp(dir="/var/tmp")
    database = sqlite3.connect(f"{folder}/till.db")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE sales (number INTEGER PRIMARY KEY, item INTEGER, basket INTEGER)")
    database.execute("CREATE TABLE stock (item INTEGER PRIMARY KEY, amount INTEGER)")
    database.executemany("INSERT INTO stock VALUES (?, 1000000)", [(item,) for item in range(50)])
    database.commit()
    line, stop = queue.Queue(30), threading.Event()
    crowd = [
        threading.Thread(target=customers, args=(line, k, stop), name=f"customers-{k}") for k in range(2)
    ]
    for one in crowd:
        one.start()
    end = time.monotonic() + seconds
    sales = 0
    try:
        while time.monotonic() < end:
            ring_up(database, line.get())
            sales += 1
    finally:
        stop.set()
        for one in crowd:
            one.join()
        database.close()
        shutil.rmtree(folder)
    print(sales, "sales")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 5)
