import asyncio
import hashlib
import sys


class Gate(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
        self.rest = b""

    def data_received(self, data):
        self.rest += data
        *lines, self.rest = self.rest.split(b"\n")
        for card in lines:
            self.transport.write(self.admit(card))

    def admit(self, card):
        digest = card
        for _ in range(400):
            digest = hashlib.sha1(digest).digest()
        return b"open %s\n" % digest.hex()[:8].encode()


async def main():
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Gate, "127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 7407)
    await server.serve_forever()


asyncio.run(main())
