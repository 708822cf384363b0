"""The date of a session, so that times of day become times."""

from __future__ import annotations

import re
from datetime import date, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from latlab.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

ZONE = "America/New_York"  # in which the times of NASDAQ's and Cboe's feeds are times of day
# As NASDAQ names its files: 20190130.BX_ITCH_50, 01302019.NASDAQ_ITCH50, S081321-v50.txt; and as most do.
_NAMES = (
    (r"(?<!\d)(\d{4})-(\d\d)-(\d\d)(?!\d)", (1, 2, 3)),
    (r"(?<!\d)((?:19|20)\d\d)(\d\d)(\d\d)(?!\d)", (1, 2, 3)),
    (r"(?<!\d)(\d\d)(\d\d)(20\d\d)(?!\d)", (3, 1, 2)),
    (r"(?<![\dA-Za-z])S(\d\d)(\d\d)(\d\d)(?=-)", (3, 1, 2)),
)


def date_of(path: str | PathLike[str], given: str | date | None = None) -> date | None:
    """The session's date: the given one, or what the file's name says; None when it says none.

    Raises:
        UsageError: what is given is not a date.
    """
    if isinstance(given, date):
        return given
    if given is not None:
        try:
            return date.fromisoformat(given)
        except ValueError:
            raise UsageError(f"a date is YYYY-MM-DD, not '{given}'") from None
    for pattern, (year, month, day) in _NAMES:
        if found := re.search(pattern, Path(path).name):
            try:
                number = int(found[year])
                return date(number if number > 99 else 2000 + number, int(found[month]), int(found[day]))
            except ValueError:
                continue
    return None


def midnight_ns(day: date) -> int:
    """The beginning of a session's day in ns since 1970, UTC.

    Raises:
        UnavailableError: the machine has no table of time zones.
    """
    try:
        zone = ZoneInfo(ZONE)
    except ZoneInfoNotFoundError as error:
        raise UnavailableError(
            f"the time zone {ZONE} is not known on this machine", remedy="run: pip install tzdata"
        ) from error
    return int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()) * 1_000_000_000


def with_time(table: pa.Table, day: date | None, rows: int | None = None) -> pa.Table:
    """A column `time` before the others, in New York, where a date is known.

    Args:
        rows: how many of the first are of that day; the time of the others is not known. None: all.
    """
    if day is None or "ts_ns" not in table.column_names:
        return table
    import pyarrow as pa
    import pyarrow.compute as pc

    ns = pc.add(table["ts_ns"].cast(pa.int64()), midnight_ns(day))
    if rows is not None and rows < table.num_rows:
        ns = pc.if_else(np.arange(table.num_rows) < rows, ns, pa.scalar(None, pa.int64()))
    return table.add_column(0, "time", ns.cast(pa.timestamp("ns", tz=ZONE)))
