from load import in_turn


def ask(number):
    return b"entry %d by clerk %d\n" % (number, number % 7)


in_turn(ask, 4, 0.002)
