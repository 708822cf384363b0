from desk import serve


def answer(number, line):
    return b"ok " + line


serve(answer)
