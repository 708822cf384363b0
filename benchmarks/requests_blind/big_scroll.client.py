from load import in_turn


def command(*parts):
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


def ask(number):
    if number % 150 == 0:
        return command(b"GET", b"map:whole")
    if number % 20 == 0:
        return command(b"SET", b"note:%d" % (number % 1000), b"amended %d" % number)
    return command(b"GET", b"note:%d" % (number % 1000))


def take(stream):
    head = stream.readline()
    if head[:1] == b"$" and head != b"$-1\r\n":
        left = int(head[1:]) + 2
        while left:
            left -= len(stream.read(min(left, 1 << 20)))


in_turn(ask, 3, 0.004, take)
