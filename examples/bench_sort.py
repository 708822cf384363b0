"""Two ways to keep a list sorted: sort it after each arrival, or insert where the newcomer belongs."""

import bisect
import random

report = {
    "context": "A list of prices that must be in order whenever somebody looks.",
    "problem": "Keeping the list in order as prices arrive.",
    "why": "It is done for each message, and a message must be dealt with before the next one comes.",
    "weakness": "Both move memory: a long list makes either slow, and the order of arrival decides "
    "which is slower.",
}


class _Prices:
    parameters = {"size": [1000]}  # noqa: RUF012 - read, never written

    counts_operations = True  # run() returns them

    def __init__(self, size: int = 1000, seed: int = 1) -> None:
        draw = random.Random(seed)
        self.arriving = [draw.random() for _ in range(size)]

    def set_up(self) -> None:
        self.prices: list[float] = []


class Sorted(_Prices):
    def run(self) -> int:
        for price in self.arriving:
            self.prices.append(price)
            self.prices.sort()
        return len(self.arriving)


class Inserted(_Prices):
    def run(self) -> int:
        for price in self.arriving:
            bisect.insort(self.prices, price)
        return len(self.arriving)
