# limit: lock | GIL|interpreter
import sys
import time
from concurrent.futures import ThreadPoolExecutor


def typeset(page):
    text = "".join(chr(97 + (i * page) % 26) for i in range(3000))
    return sum(text.count(c) for c in "etaoin")


def main():
    end = time.monotonic() + float(sys.argv[1])
    pages = 0
    with ThreadPoolExecutor(4) as pool:
        while time.monotonic() < end:
            for _ in pool.map(typeset, range(200)):
                pages += 1
    print(pages, "pages")


main()
