# limit: process | census|count_town|ForkPoolWorker|worker
from mapped import map_until_over


def count_town(people):
    n = 0
    for p in range(people):
        n += p % 3 == 1
    return n


if __name__ == "__main__":
    map_until_over(count_town, [2_000_000, 20_000, 30_000, 10_000, 25_000])
