from load import in_turn


def ask(number):
    return b"HOLD %d\n" % (number * 37 % 2000)


in_turn(ask, 8, 0.006)
