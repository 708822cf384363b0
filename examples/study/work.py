"""The component under study: what the application spends most of its time in."""


def score(n: int) -> int:
    total = 0
    for i in range(n):
        total += i * i
    return total
