# limits: work
import multiprocessing as mp
import time


def work(n):
    time.sleep(0.005)
    return n


if __name__ == "__main__":
    with mp.Pool(2) as p:
        end = time.time() + 4
        for _x in p.imap_unordered(work, range(10**6)):
            time.sleep(0.0005)
            if time.time() > end:
                break
