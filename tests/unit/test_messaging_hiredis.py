"""The native client of Redis: what it is told, what it promises, and what is said without hiredis."""

from __future__ import annotations

import ctypes.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from tests.files.plugin_headers import compiles

from latlab.errors import UnavailableError, UsageError
from latlab.messaging import check, every_transport, missing
from latlab.messaging.running.ways import clients
from latlab.model.messaging.results import Settings


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without hiredis."""
    monkeypatch.setattr(ctypes.util, "find_library", lambda _name: None)
    clients.library.cache_clear()
    yield
    clients.library.cache_clear()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "library", lambda _name: "libhiredis.so.1")


@pytest.mark.usefixtures("without")
def test_without_hiredis_one_line_tells_what_to_install_and_which_client_needs_none() -> None:
    assert missing(every_transport()["hiredis-stream"]) == "apt install libhiredis-dev"
    with pytest.raises(UnavailableError) as caught:
        check(Settings("hiredis-stream", server="here:1"))
    said = f"{caught.value}; {caught.value.remedy}"
    assert "libhiredis is not installed; run: apt install libhiredis-dev" in said
    assert "redis-stream, the Python client" in said


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"driver": {"pipeline": "0"}}, "whole number from 1 on"),
        ({"driver": {"connection": "2"}}, "did you mean 'connections'"),
        ({"driver": {"maxlen": "2"}}, "no driver option 'maxlen'"),
        ({"tls": True}, "takes no --tls; it takes user, password"),
        ({"server": "auto", "password": "sesame"}, "asks for no password.*--server"),
        ({"senders": 2}, "joins one sender and one receiver"),
        ({"topology": "direct"}, "can't run as direct"),
        ({"size": 17 << 20}, "at most"),
    ],
)
def test_what_the_native_client_does_not_take_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        check(Settings(**{"transport": "hiredis-list", "server": "here:1", **given}))
    assert re.search(message, f"{caught.value}; {caught.value.remedy}")


@pytest.mark.parametrize("more", [{"faults": {"drop": 3}}, {"stalls": ((1, 5),)}, {"broker_delay_ns": 5}])
def test_nothing_is_planted_in_a_server_behind_the_native_client(more: dict[str, Any]) -> None:
    settings, facts = Settings("hiredis-list", **more), every_transport()["hiredis-list"]
    with pytest.raises(UsageError, match="no planted"), clients.served(settings, facts):
        pass


@pytest.mark.usefixtures("installed")
def test_messages_may_overtake_each_other_on_several_connections_alone() -> None:
    for connections, ordered in (("1", True), ("2", False)):
        settings = Settings("hiredis-list", server="here:1", driver={"connections": connections})
        assert check(settings)[1].ordered is ordered


def test_a_pipeline_is_handed_over_together_where_no_rate_says_when() -> None:
    facts = every_transport()["hiredis-list"]
    fast = Settings("hiredis-list", driver={"pipeline": "16"})
    assert clients.batched(fast, facts).batch == 16
    assert clients.batched(fast.with_(batch=4), facts).batch == 4
    assert clients.batched(fast.with_(load="rate", rate_hz=10.0), facts).batch == 1
    assert clients.batched(fast.with_(topology="pingpong"), facts).batch == 1
    assert clients.batched(Settings("tcp"), every_transport()["tcp"]).batch == 1


@pytest.mark.usefixtures("installed")
def test_the_plug_in_is_told_everything_in_words_that_cannot_be_mistaken_for_others() -> None:
    settings = Settings("hiredis-stream", user="me", password="a&b=c%?é", driver={"ack": "yes"})
    client = clients.Client(settings, every_transport()["hiredis-stream"], ("::1", 7), server=object())
    told = {name: values[0] for name, values in parse_qs(client.options()).items()}
    assert (told["user"], told["password"], told["ack"]) == ("me", "a&b=c%?é", "yes")
    assert (told["host"], told["port"], told["kind"], told["db"]) == ("::1", "7", "stream", "0")
    assert (told["library"], told["prefetch"]) == ("libhiredis.so.1", "100")
    assert client.path.is_file()


def test_the_layouts_of_replies_and_connections_are_those_of_the_installed_header(tmp_path: Path) -> None:
    pairs: list[tuple[str, str, tuple[str, ...]]] = [
        ("Reply", "redisReply", ("type", "len", "str", "elements", "element"))
    ]
    pairs += [("Context", "redisContext", ("err", "errstr", "fd", "flags"))]
    checks = [
        f"static_assert(offsetof({theirs}, {member}) == offsetof(latlab::hiredis::AGE{ours}, {member}));"
        for ours, theirs, members in pairs
        for member in members
    ]
    program = (
        "#include <cstddef>\n#include <hiredis/hiredis.h>\n#include <hiredis_library.hpp>\n"
        "#if HIREDIS_MAJOR >= 1\n#define AGE(x) New##x\n#else\n#define AGE(x) Old##x\n#endif\n"
        + "\n".join(re.sub(r"AGE(\w+)", r"AGE(\1)", check) for check in checks)
    )
    compiles(program, "hiredis/hiredis.h", "libhiredis-dev", tmp_path)
