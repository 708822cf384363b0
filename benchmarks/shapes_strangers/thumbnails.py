# limits: shrink
import hashlib
import multiprocessing as mp
import time


def shrink(pictures, thumbs):
    for picture in iter(pictures.get, None):
        digest = picture
        for _ in range(1500):
            digest = hashlib.sha256(digest).digest()
        thumbs.put(digest)
        time.sleep(0.004)


def store(thumbs):
    kept = []
    for digest in iter(thumbs.get, None):
        kept = [*kept[-9:], digest]


def main():
    ctx = mp.get_context("spawn")
    pictures, thumbs = ctx.Queue(30), ctx.Queue(30)
    workers = [ctx.Process(target=shrink, args=(pictures, thumbs)) for _ in range(2)]
    keeper = ctx.Process(target=store, args=(thumbs,))
    for p in (*workers, keeper):
        p.start()
    end = time.monotonic() + 4.5
    while time.monotonic() < end:
        pictures.put(b"raw" * 1000)
    for _ in workers:
        pictures.put(None)
    for p in workers:
        p.join()
    thumbs.put(None)
    keeper.join()


if __name__ == "__main__":
    main()
