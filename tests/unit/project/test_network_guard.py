"""The guard of tests/conftest.py itself."""

import socket

import pytest


def test_a_unit_test_cannot_look_up_a_name() -> None:
    with pytest.raises(pytest.fail.Exception, match="must not use the network"):
        socket.create_connection(("localhost", 9))


def test_a_unit_test_cannot_connect() -> None:
    with socket.socket() as plain, pytest.raises(pytest.fail.Exception, match="must not use the network"):
        plain.connect(("127.0.0.1", 9))
