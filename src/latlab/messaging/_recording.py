"""A messaging run as a recording, and back."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from latlab.errors import InputError
from latlab.formats.columns import Columns
from latlab.formats.recording import RecordingWriter, make_empty_folder, open_recording
from latlab.model.messaging.results import SECRETS, Facts, Measurement, PartUse, Settings, Side, Throttled
from latlab.system.environment import capture

KIND = "messaging"
_CHUNK = 1_000_000


@contextlib.contextmanager
def reserved(paths: Iterable[str | os.PathLike[str]]) -> Iterator[None]:
    """Folders that are there for recordings before anything is measured; those left empty go again.

    Raises:
        UsageError: when one holds something already, or can't be made.
    """
    made: list[Path] = []
    try:
        for path in paths:
            make_empty_folder(Path(path))
            made.append(Path(path))
        yield
    finally:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()


def save_run(
    path: str | os.PathLike[str], m: Measurement, *, result: Mapping[str, Any], command: str | None = None
) -> None:
    """Write a measurement: the series `messages` (n, sent, received, due), both sides' samples, the result.

    Raises:
        UsageError: when the folder holds something already.
    """
    s = m.settings
    repeat = _without_secrets(sys.argv) if command is None else command
    with RecordingWriter(
        path, KIND, parameters=s.to_json(), environment=capture(), seed=s.seed, command=repeat
    ) as writer:
        about = asdict(m)
        for name in (
            "sent_ns",
            "received_ns",
            "intended_ns",
            "kernel_ns",
            "confirmed_ns",
            "deliveries_ns",
            "sender_samples",
            "receiver_samples",
        ):
            about.pop(name)
        writer.put("measurement", {"schema": 1, **about, "settings": s.to_json()})
        writer.put("result", dict(result))
        for start in range(0, s.total, _CHUNK):
            part = slice(start, start + _CHUNK)
            columns: dict[str, Any] = {
                "n": np.arange(start, min(start + _CHUNK, s.total)) - s.warmup,
                "sent_ns": m.sent_ns[part],
                "received_ns": m.received_ns[part],
            }
            if m.intended_ns is not None:
                columns["intended_ns"] = m.intended_ns[part]
            if m.kernel_ns is not None:
                columns["kernel_ns"] = m.kernel_ns[part]
            if m.confirmed_ns is not None:
                columns["confirmed_ns"] = m.confirmed_ns[part]
            for group, delivered in enumerate(m.deliveries_ns):
                columns[f"group_{group}_ns"] = delivered[part]
            writer.append("messages", columns)
        writer.append("sender", _columns(m.sender_samples, ("message", "at_ns", "cpu_ns")))
        names = ("message", "at_ns", "cpu_ns", "broker_stay_ns", "broker_cpu_ns")
        writer.append("receiver", _columns(m.receiver_samples, names))


def _without_secrets(words: Sequence[str]) -> str:
    """A command line without the passwords and tokens in it."""
    found, hide = [Path(word).name for word in words[:1]], False
    for word in words[1:]:
        name, equals, _ = word.partition("=")
        secret = name in [f"--{one}" for one in SECRETS]
        found.append("…" if hide else f"{name}=…" if secret and equals else word)
        hide = secret and not equals
    return shlex.join(found)


def _columns(samples: npt.NDArray[np.int64], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: np.ascontiguousarray(samples[:, i]) for i, name in enumerate(names)}


def load_run(path: str | os.PathLike[str]) -> Measurement:
    """Read a recording back.

    Raises:
        InputError: when it is none, of something else, or damaged.
    """
    recording = open_recording(path)
    if recording.kind != KIND:
        raise InputError(
            path, f"is a recording of {recording.kind}", remedy="give one of 'latlab messaging run -o'"
        )
    try:
        about = recording.document("measurement")
        settings = Settings.from_json(about["settings"])
        messages = recording.series("messages")
        sender = _stack(recording.series("sender"))
        receiver = _stack(recording.series("receiver"))
        network = about["network_bytes"]
        return Measurement(
            settings=settings,
            facts=Facts.from_json(about["facts"]),
            sent_ns=messages["sent_ns"],
            received_ns=messages["received_ns"],
            intended_ns=messages.get("intended_ns"),
            kernel_ns=messages.get("kernel_ns"),
            confirmed_ns=messages.get("confirmed_ns"),
            deliveries_ns=tuple(
                messages[f"group_{group}_ns"]
                for group in range(settings.groups if settings.groups > 1 else 0)
            ),
            senders=tuple(Side(**side) for side in about.get("senders", ())),
            receivers=tuple(Side(**side) for side in about.get("receivers", ())),
            sender=Side(**about["sender"]),
            receiver=Side(**about["receiver"]),
            sender_samples=sender,
            receiver_samples=receiver,
            broker_cpu_ns=about["broker_cpu_ns"],
            process_cpu_ns=about["process_cpu_ns"],
            foreign_cpu_ns=about["foreign_cpu_ns"],
            elapsed_ns=about["elapsed_ns"],
            network_bytes=None if network is None else (network[0], network[1]),
            ticks_hz=about["ticks_hz"],
            harness_ns=tuple(about["harness_ns"]),
            bytes_per_message=about["bytes_per_message"],
            locked=about["locked"],
            wait=about["wait"],
            partial=about["partial"],
            counters={
                name: tuple((n, at, value) for n, at, value in readings)
                for name, readings in about.get("counters", {}).items()
            },
            idle=about.get("idle", {}),
            stalls_ns=tuple((n, a, b) for n, a, b in about.get("stalls_ns", ())),
            parts={name: PartUse(**part) for name, part in about.get("parts", {}).items()},
            looks={name: tuple(values) for name, values in about.get("looks", {}).items()},
            throttled=tuple(Throttled(**one) for one in about.get("throttled", ())),
            stolen_ns=about.get("stolen_ns", 0),
            cpus=about.get("cpus", 0),
            notes=tuple(about["notes"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(path, f"is not a whole messaging run ({error})") from None


def _stack(table: Columns) -> npt.NDArray[np.int64]:
    return np.stack(list(table.values()), axis=1).astype(np.int64)
