import sqlite3
import threading

from desk import serve

lock = threading.Lock()
base = sqlite3.connect("till.db", check_same_thread=False)
base.execute("pragma synchronous=full")
base.execute("create table if not exists sale (n integer, what text)")
base.commit()


def answer(number, line):
    if number % 200 == 0:
        with lock:
            book_sale(number)
    return b"ok " + line


def book_sale(number):
    base.executemany("insert into sale values (?, ?)", [(number, "x" * 20000)] * 300)
    base.commit()


serve(answer)
