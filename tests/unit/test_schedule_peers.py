"""Connections whose other end is a server on this machine."""

from latlab.schedule.sockets import local_peers

SERVERS = {6379: "redis-server", 5432: "postgres"}


def test_a_connection_to_a_server_on_this_machine_has_its_name() -> None:
    objects = {1: "tcp 127.0.0.1:40112 - 127.0.0.1:6379", 2: "tcp [::1]:5432 - [::1]:51111"}
    assert local_peers(objects, SERVERS) == {1: "redis-server", 2: "postgres"}


def test_the_same_port_of_another_machine_is_another_server() -> None:
    assert local_peers({1: "tcp 10.0.0.5:40112 - 10.0.0.9:6379", 2: "pipe:[7]"}, SERVERS) == {}
