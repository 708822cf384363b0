"""Options of a transport's client (durability, confirms, prefetch, QoS), as the transport declares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from latlab.errors import UsageError
from latlab.words import nearest

__all__ = ["DriverOption", "checked_driver"]


@dataclass(frozen=True, slots=True)
class DriverOption:
    """One option of a client.

    Attributes:
        name: what `--driver NAME=VALUE` takes.
        help: a line.
        default: as text.
        choices: the words that it takes; empty for a whole number.
        least: of a number.
    """

    name: str
    help: str
    default: str
    choices: tuple[str, ...] = ()
    least: int = 0

    def check(self, text: str) -> str:
        """The value, as the transport takes it.

        Raises:
            UsageError: for one that it doesn't take.
        """
        if self.choices:
            if text not in self.choices:
                raise UsageError(f"--driver {self.name}={text}", remedy=f"it is {' or '.join(self.choices)}")
            return text
        if not text.isdigit() or int(text) < self.least:
            raise UsageError(
                f"--driver {self.name}={text}", remedy=f"it is a whole number from {self.least} on"
            )
        return text


def checked_driver(name: str, options: Sequence[DriverOption], given: Mapping[str, str]) -> dict[str, str]:
    """Every option of a transport's client, as given or by default.

    Raises:
        UsageError: for one that the transport lacks, or a value that it doesn't take.
    """
    known = {option.name: option for option in options}
    for key in given:
        if key not in known:
            have = f"it has {', '.join(known)}" if known else "it has none"
            remedy = f"{nearest(key, known)} {have}".lstrip()
            raise UsageError(f"{name} has no driver option '{key}'", remedy=remedy)
    return {key: option.check(str(given.get(key, option.default))) for key, option in known.items()}
