from load import in_turn


def ask(number):
    return b"round %d all quiet\n" % number


in_turn(ask, 4, 0.006)
