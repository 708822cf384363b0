"""The Python function of the calibration, and the empty one of the overhead."""


class Function:
    def __init__(self) -> None:
        self.words = [f"{(i * 7919) % 1009}" for i in range(100)]

    def run(self) -> None:
        sorted(self.words)


class Empty:
    def run(self) -> None:
        pass
