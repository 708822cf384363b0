from load import at_rate


def send(lines, number, rng):
    number += 1
    lines[number % len(lines)].send(b"card-%d\n" % number)
    if number % 250 == 0:
        for line in lines:
            number += 1
            line.send(b"card-%d\n" % number)
    return number


at_rate(send, 40, 250, seed=2)
