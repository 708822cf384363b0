from load import in_turn


def ask(number):
    route, height = f"/route/{number * 31}/{number * 7919}", f"/height/{number % 220}/{number % 97}"
    path = route if number % 150 == 0 else height
    return f"GET {path} HTTP/1.1\r\nHost: trails\r\n\r\n".encode()


def take(stream):
    size = 0
    while (head := stream.readline().strip()) != b"":
        if head.lower().startswith(b"content-length:"):
            size = int(head.split(b":")[1])
    stream.read(size)


in_turn(ask, 3, 0.004, take)
