from load import in_turn


def ask(number):
    return b"%d\n" % (number * 131 % 10000)


in_turn(ask, 3, 0.004)
