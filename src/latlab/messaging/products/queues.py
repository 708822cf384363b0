"""Transports between two processes alone, by the Python loop: multiprocessing.Queue and nng."""

from __future__ import annotations

import base64
import fcntl
import os
import pickle
import queue
import threading
import time
from typing import Any, ClassVar

from latlab.messaging.products.product import DIRECT, LOOK_S, describe, module, unique_name
from latlab.messaging.running.transport import TransportClosed
from latlab.model.messaging.results import Settings


class ProcessQueue:
    """multiprocessing.Queue, whose writer has a thread of its own."""

    facts: ClassVar = describe(
        "mp-queue", "multiprocessing.Queue", "application, after Queue.get", extra=None, topologies=DIRECT
    )

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """Make the queue, and pickle it as multiprocessing does for a process that it spawns."""
        import multiprocessing
        from multiprocessing import reduction

        made = multiprocessing.get_context("spawn").Queue(0 if settings.buffer_bytes is None else 1)

        class Spawning:
            DupFd = module("multiprocessing.popen_spawn_posix")._DupFd
            fds: ClassVar[list[int]] = []

            def duplicate_for_child(self, fd: int) -> int:
                self.fds.append(fd)
                return fd

        context = module("multiprocessing.context")
        spawning = Spawning()
        spawning.fds.clear()
        context.set_spawning_popen(spawning)
        try:
            packed = reduction.ForkingPickler.dumps(made)
        finally:
            context.set_spawning_popen(None)
        name = base64.b64encode(packed).decode()
        _KEPT[name] = made  # its semaphores go when it does
        alive = os.memfd_create("latlab-mp-queue")
        return {"queue": name, "alive": alive, "fds": [*spawning.fds, alive]}

    @classmethod
    def clean_up(cls, where: dict[str, Any]) -> None:
        """Let the queue go."""
        os.close(where["alive"])
        _KEPT.pop(where["queue"]).close()

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Unpack the queue; the receiver holds a lock that ends with its process.

        The queue's pipe never tells its writer that the reader has gone, since both ends have it open.
        """
        self._role, self._alive = role, where["alive"]
        self._queue = pickle.loads(base64.b64decode(where["queue"]))
        if role == "receiver":
            fcntl.lockf(self._alive, fcntl.LOCK_EX)
        # Within one process a lock is always granted, and tells nothing.
        self._watches = role == "sender" and not self._granted()
        self._next_look = time.monotonic() + LOOK_S

    def _granted(self) -> bool:
        try:
            fcntl.lockf(self._alive, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:  # the receiver has it
            return False
        return True

    def _alone(self) -> bool:
        return self._watches and self._granted()

    def send(self, message: memoryview) -> None:
        """Hand a copy to the queue's thread; it is looked for the receiver from time to time."""
        if time.monotonic() >= self._next_look:
            if self._alone():
                raise TransportClosed("the receiver has gone")
            self._next_look = time.monotonic() + LOOK_S
        self._queue.put(bytes(message))

    def receive(self, timeout_s: float) -> bytes | None:
        """The next message."""
        try:
            return bytes(self._queue.get(timeout=timeout_s))
        except queue.Empty:
            return None

    def close(self) -> None:
        """Wait until the thread has written everything, or nobody is there who would read it."""
        self._queue.close()
        if self._role != "sender":
            return
        waiting = threading.Thread(target=self._queue.join_thread, daemon=True)
        waiting.start()
        while waiting.is_alive() and not self._alone():
            waiting.join(LOOK_S)
        if waiting.is_alive():
            self._queue.cancel_join_thread()


_KEPT: dict[str, Any] = {}


class Nng:
    """nng PUSH/PULL over abstract sockets."""

    facts: ClassVar = describe("nng", "nng PUSH/PULL over abstract sockets", "application, after recv",
                             package="pynng", topologies=DIRECT, max_bytes=1 << 20)  # fmt: skip

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """An address that no file stands for."""
        return {"address": f"abstract://{unique_name()}"}

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """The receiver listens, the sender dials."""
        pynng = self._nng = module("pynng")
        if role == "receiver":
            self._socket = pynng.Pull0(listen=where["address"])
            self._timeout_s: float | None = None
        else:
            self._socket = pynng.Push0(send_timeout=10_000)
            self._socket.dial(where["address"], block=True)

    def send(self, message: memoryview) -> None:
        """Send a copy."""
        try:
            self._socket.send(bytes(message))
        except self._nng.NNGException as error:
            raise TransportClosed(str(error)) from None

    def receive(self, timeout_s: float) -> bytes | None:
        """The next message."""
        if timeout_s != self._timeout_s:
            self._socket.recv_timeout = round(timeout_s * 1000)
            self._timeout_s = timeout_s
        try:
            return bytes(self._socket.recv())
        except self._nng.Timeout:
            return None

    def close(self) -> None:
        """Leave libnng's thread the time to send what it holds."""
        time.sleep(0.1)
        self._socket.close()
