# limits: aggregate
import multiprocessing as mp
import time


def work(todo, done):
    for n in iter(todo.get, None):
        time.sleep(0.004)
        done.put(n)
        todo.task_done()


def aggregate(done):
    seen = {}
    for n in iter(done.get, None):
        seen[n] = seen.get(n, 0) + 1
        time.sleep(0.003)


def main():
    todo, done = mp.JoinableQueue(24), mp.Queue(24)
    for _ in range(3):
        mp.Process(target=work, args=(todo, done), daemon=True).start()
    mp.Process(target=aggregate, args=(done,), daemon=True).start()
    end, n = time.time() + 4, 0
    while time.time() < end:
        todo.put(n)
        n += 1


if __name__ == "__main__":
    main()
