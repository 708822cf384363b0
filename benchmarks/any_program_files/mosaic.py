# limit: process,thread | ^paint$
import concurrent.futures as cf
import hashlib


def paint(cells):
    d = b"x"
    for _ in range(cells):
        d = hashlib.sha256(d * 20).digest()
    return d[0]


if __name__ == "__main__":
    with cf.ProcessPoolExecutor(2) as ex:
        total = 0
        for _ in range(45):
            total += sum(ex.map(paint, [4000, 4000, 4000, 60000]))
    print(total)
