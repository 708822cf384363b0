"""Where one message ends and the next begins on a connection, and what kind of request each is. Pure."""

from latlab.requests.framing.message import Framing, Message, UnparsedError
from latlab.requests.framing.recognise import candidates
from latlab.requests.framing.stream import Cut, Stream

__all__ = ["Cut", "Framing", "Message", "Stream", "UnparsedError", "candidates"]
