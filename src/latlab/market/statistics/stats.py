"""Statistics per symbol and of all symbols: rates, inter-arrival and processing times."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from latlab._core.market import Pipeline
from latlab.errors import InputError, MissingExtraError, UnavailableError, UsageError
from latlab.formats.trusted import make_own_folder
from latlab.market.books.passes import refuse, run, tell_census
from latlab.market.files.output import create, unwritable
from latlab.market.statistics.day_parts import read_part, write_part
from latlab.market.wire.source import source_of

if TYPE_CHECKING:
    from latlab.model.market import Census

AGGREGATE = "__aggregate__"
_CONNECT_S = 5
_RATE = {"min": 0.0, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "p999": 0.999}
_RATE |= {"p9999": 0.9999, "max": 1.0}
_ARRIVAL = {"min": 0.0, "p0001": 0.0001, "p001": 0.001, "p01": 0.01, "p05": 0.05, "p10": 0.1, "p25": 0.25}
_ARRIVAL |= {"p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "max": 1.0}
_PROCESSING = {"min": 0.0, "p10": 0.1} | {k: v for k, v in _RATE.items() if k != "min"}
GROUPS = (
    ("RatePerSec", _RATE),
    ("RatePerMSec", _RATE),
    ("RatePerUSec", _RATE),
    ("Arrival", _ARRIVAL),
    ("Processing", _PROCESSING),
)
COLUMNS = ("Name", "NSamples", *(q + group for group, quantiles in GROUPS for q in quantiles))


@dataclass
class Distribution:
    """Weights by bin: exact below 256, then 128 bins an octave; mergeable without loss.

    Args:
        bins: weights.
        least: the smallest value seen.
        greatest: the largest.
    """

    bins: npt.NDArray[np.unsignedinteger[Any]]
    least: int
    greatest: int

    def quantile(self, q: float) -> int:
        """The nearest rank's bin's upper bound, within what was seen; 0 when nothing was."""
        ends = np.cumsum(self.bins)
        if not len(ends) or ends[-1] == 0:
            return self.greatest if q >= 1 else 0
        if q <= 0:
            return self.least
        if q >= 1:
            return self.greatest  # it may have held for no time
        rank = max(1, min(int(ends[-1]), -int(-q * float(ends[-1]) // 1)))
        value = upper_bounds(int(np.searchsorted(ends, rank)))
        return int(min(max(value, self.least), self.greatest))

    def merge(self, other: Distribution) -> Distribution:
        """Both together."""
        if not other.bins.any() or not self.bins.any():
            one, bare = (self, other) if self.bins.any() else (other, self)
            return Distribution(one.bins, one.least, max(one.greatest, bare.greatest))
        bins = np.zeros(max(len(self.bins), len(other.bins)), np.uint64)
        bins[: len(self.bins)] += self.bins
        bins[: len(other.bins)] += other.bins
        return Distribution(bins, min(self.least, other.least), max(self.greatest, other.greatest))

    def scaled(self, factor: float) -> Distribution:
        """With every value multiplied, for the change from ticks to ns."""
        used = np.flatnonzero(self.bins)
        if not len(used):
            return self
        values = np.array([upper_bounds(int(i)) for i in used]) * factor
        places = np.array([_bin_of(int(v)) for v in values])
        bins = np.zeros(int(places.max()) + 1, np.uint64)
        np.add.at(bins, places, self.bins[used])
        return Distribution(bins, int(self.least * factor), int(self.greatest * factor))


def upper_bounds(index: int) -> int:
    """The largest value of a bin."""
    if index < 256:
        return index
    shift, place = divmod(index - 256, 128)
    return ((place + 129) << (shift + 1)) - 1


def _bin_of(value: int) -> int:
    if value < 256:
        return value
    shift = value.bit_length() - 8
    return 256 + (shift - 1) * 128 + (value >> shift) - 128


@dataclass
class SymbolStatistics:
    """One symbol's events.

    Args:
        samples: how many.
        distributions: in the order of `GROUPS`: events in the trailing second, millisecond and microsecond
            weighted by time, inter-arrival times in ns, processing times in ns.
    """

    samples: int
    distributions: tuple[Distribution, ...]

    def merge(self, other: SymbolStatistics) -> SymbolStatistics:
        """Two days together: histograms are added, nothing is averaged."""
        pairs = zip(self.distributions, other.distributions, strict=True)
        return SymbolStatistics(self.samples + other.samples, tuple(a.merge(b) for a, b in pairs))

    def row(self) -> list[int]:
        """The numbers of the columns behind Name."""
        row = [self.samples]
        for (_, quantiles), distribution in zip(GROUPS, self.distributions, strict=True):
            row += [distribution.quantile(q) for q in quantiles.values()]
        return row


Statistics = dict[str, SymbolStatistics]


def stats(
    path: str | PathLike[str], *, over: str = "inside", lenient: bool = False
) -> tuple[Statistics, Census]:
    """Statistics of one input.

    The rate at an instant is the number of events in the trailing window that ends there; its quantiles are
    weighted by time, between the first and the last event of the symbol.

    Args:
        path: as for `census`.
        over: ``"inside"``: changes of the inside; ``"messages"``: all messages.
        lenient: skip malformed messages.

    Returns:
        By symbol, and of all under ``__aggregate__``; and the input's census.

    Raises:
        InputError: the input is bad.
    """
    if over not in ("inside", "messages"):
        raise UsageError(f"over must be inside or messages, not '{over}'")
    source = source_of(path)
    pipeline = Pipeline.stats(source.framing, lenient, "ladder", over == "messages")
    found = run(source, pipeline, lenient)
    refuse(source, found, lenient)
    if pipeline.former_symbols():
        raise InputError(source.path, "holds several days", remedy="statistics are of one day a file")
    names = {number: name.decode("latin-1") for number, name in pipeline.symbols().items()}
    names[-1] = AGGREGATE
    ns_per_tick = pipeline.ns_per_tick()
    result: Statistics = {}
    for number, (samples, *raw) in cast("dict[int, Any]", pipeline.statistics()).items():
        # As narrow as they come: a day has 8,000 symbols of some thousand bins each.
        made = [Distribution(bins, least, greatest) for bins, least, greatest in raw]
        made[-1] = made[-1].scaled(ns_per_tick)
        one = SymbolStatistics(samples, tuple(made))
        name = names.get(number, f"#{number}")
        result[name] = result[name].merge(one) if name in result else one
    return result, found


def merge(days: list[Statistics]) -> Statistics:
    """Several days together, symbol by symbol."""
    result: Statistics = {}
    for day in days:
        for name, one in day.items():
            result[name] = result[name].merge(one) if name in result else one
    return result


def stats_csv(statistics: Statistics) -> str:
    """As CSV, by name, the aggregate last."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name in sorted(statistics, key=lambda name: (name == AGGREGATE, name)):
        writer.writerow([name, *statistics[name].row()])
    return text.getvalue()


def write_stats(statistics: Statistics, output: str | PathLike[str]) -> None:
    """Write `stats_csv` to a file.

    Raises:
        InputError: it can't be written.
    """
    try:
        with create(Path(output)) as file:
            file.write(stats_csv(statistics).encode())
    except OSError as error:
        raise unwritable(output, error) from error


def stats_archive(
    folder: str | PathLike[str],
    parts: str | PathLike[str],
    *,
    over: str = "inside",
    lenient: bool = False,
    scheduler: str | None = None,
    notice: Callable[[str], None] = lambda text: None,
    tell: Callable[[Path, Census], None] | None = None,
) -> Statistics:
    """Statistics of every file of a folder together: one task a file, resumable.

    Args:
        folder: of days.
        parts: a folder for each file's histograms; a file that has not changed since its part was written is
            not read again.
        scheduler: the address of a Dask scheduler; ``"local"`` starts a cluster; None runs in this process.
        notice: is told of each finished file.
        tell: is given each file and its census, those of an earlier run too; without it damage is a
            `DamagedInputWarning`.

    Raises:
        InputError: a file is bad (the parts of the others stay), or the folder is empty.
        MissingExtraError: Dask is asked for and not installed.
    """
    files = sorted(path for path in Path(folder).iterdir() if path.is_file() and path.name[0] != ".")
    if not files:
        raise InputError(folder, "holds no files")
    make_own_folder(parts)
    targets = {file: Path(parts) / f"{file.name}.{over}.part" for file in files}
    missing = [file for file in files if _part(file, targets[file], lenient) is None]
    if scheduler is None:
        for file in missing:
            _archive_task(file, targets[file], over, lenient)
            notice(file.name)
    else:
        _with_dask(missing, targets, over, lenient, scheduler, notice)
    days = []
    for file in files:
        part = _part(file, targets[file], lenient)
        if part is None:
            raise InputError(file, "changed while it was read", remedy="give it again")
        found, census = part
        days.append(found)
        if tell is not None:
            tell(file, census)
        else:
            tell_census(census, None)
    return merge(days)


def _state(file: Path, lenient: bool) -> tuple[int, int, bool]:
    """What a part was made of: a file that has changed since, or is read otherwise, is read anew."""
    now = file.stat()
    return now.st_size, now.st_mtime_ns, lenient


def _part(file: Path, target: Path, lenient: bool) -> tuple[Statistics, Census] | None:
    """The histograms and the census of a file as it is now, where an earlier task left them."""
    state = _state(file, lenient)
    kept = read_part(target)
    if kept is None or kept[0] != list(state):
        return None
    census, found = kept[1], {}
    for name, samples, distributions in kept[2]:
        found[name] = SymbolStatistics(samples, tuple(Distribution(*one) for one in distributions))
    return found, census


def _archive_task(file: Path, target: Path, over: str, lenient: bool) -> str:
    state = _state(file, lenient)
    found, census = stats(file, over=over, lenient=lenient)
    write_part(
        target,
        list(state),
        census,
        [
            (name, one.samples, [(of.bins, of.least, of.greatest) for of in one.distributions])
            for name, one in found.items()
        ],
    )
    return file.name


def _with_dask(
    files: list[Path],
    targets: dict[Path, Path],
    over: str,
    lenient: bool,
    scheduler: str,
    notice: Callable[[str], None],
) -> None:
    try:
        # Untyped in part, whether installed or not.
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise MissingExtraError("distributed", "cluster") from error
    cluster = distributed.LocalCluster(dashboard_address="127.0.0.1:0") if scheduler == "local" else None
    try:
        try:
            client = distributed.Client(cluster or scheduler, set_as_default=False, timeout=_CONNECT_S)
        except (OSError, ValueError) as error:
            raise UnavailableError(f"no Dask scheduler answers at {scheduler}: is it running?") from error
        with client:
            futures = [client.submit(_archive_task, f, targets[f], over, lenient, pure=False) for f in files]
            for future in distributed.as_completed(futures, loop=client.loop):
                notice(future.result())
    finally:
        if cluster is not None:
            cluster.close()
