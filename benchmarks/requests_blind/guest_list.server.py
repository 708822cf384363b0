import asyncio
import sys


class Guest:
    def __init__(self, name, host=None):
        self.name = name
        self.host = host
        self.companions = []


class Party:
    def __init__(self):
        self.guests = []
        self.tables = {}
        self.seated = 0
        for n in range(60_000):
            guest = Guest(f"guest-{n}", self.guests[-1] if self.guests else None)
            guest.companions.append(guest)
            self.guests.append(guest)

    def seat(self, who):
        table = [Guest(f"{who}-{k}") for k in range(60)]
        for left, right in zip(table, table[1:] + table[:1], strict=True):
            left.companions.append(right)
        self.seated += 1
        self.tables[self.seated % 500] = table
        return len(table)


async def main():
    party = Party()

    async def door(reader, writer):
        while line := await reader.readline():
            seats = party.seat(line.decode().strip())
            writer.write(b"%d seats\n" % seats)
            await writer.drain()

    server = await asyncio.start_server(door, "127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 7409)
    await server.serve_forever()


asyncio.run(main())
