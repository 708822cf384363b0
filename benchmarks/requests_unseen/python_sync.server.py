import os

from desk import serve

journal, page = os.open("journal", os.O_CREAT | os.O_WRONLY), os.urandom(4_000_000)


def answer(number, line):
    if number % 250 == 0:
        store_entry()
    return b"ok " + line


def store_entry():
    os.pwrite(journal, page, 0)
    os.fsync(journal)


serve(answer)
