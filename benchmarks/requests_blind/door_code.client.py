from load import in_turn


def ask(number):
    return b"%06d\n" % (number * 7919 % 1000000)


in_turn(ask, 4, 0.004)
