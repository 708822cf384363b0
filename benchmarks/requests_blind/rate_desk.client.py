from load import in_turn


def ask(number):
    return [b"eur/usd\n", b"gbp/jpy\n", b"chf/nok\n"][number % 3]


in_turn(ask, 4, 0.005)
