from load import at_rate


def send(lines, number, rng):
    number += 1
    lines[rng.randrange(len(lines))].send(b"%d\n" % number)
    return number


at_rate(send, 16, 1200, seed=3)
