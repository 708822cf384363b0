from load import in_turn


def ask(number):
    return b"family-%d\n" % (number % 9999)


in_turn(ask, 1, 0.001)
