from load import in_turn


def ask(number):
    return b"page %d\n" % number


in_turn(ask, 4, 0.004)
