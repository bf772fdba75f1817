"""A line between devices and their server that counts every byte, and may be a slow one.

    python benchmarks/slow_line.py SERVER_PORT [BYTES_PER_SECOND]

Prints the port at which it listens. When its input ends it prints what it carried: a list of (time, whether up, bytes).
Each connection has a line of its own, with the given rate in each direction; bytes count when they are through. What is
counted is what TCP carries, TLS included; the headers of TCP and IP are not.
"""

import asyncio
import json
import os
import sys
import time

AT_ONCE, AT_ONCE_SLOWLY = 1 << 16, 256  # bytes: a slow line gives them out piece by piece
HOST = "127.0.0.1"

Carried = list[tuple[float, bool, int]]


async def carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, up: bool, rate: float | None, carried: Carried
) -> None:
    """One direction of one connection, until either end hangs up."""
    clock, free = asyncio.get_running_loop().time, 0.0  # from when the line is free
    try:
        while data := await reader.read(AT_ONCE if rate is None else AT_ONCE_SLOWLY):
            if rate is not None:
                free = max(free, clock()) + len(data) / rate
                await asyncio.sleep(free - clock())
            carried.append((time.time(), up, len(data)))
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass  # whoever hung up has told the other end by it
    finally:
        writer.close()


async def main(server: int, rate: float | None) -> None:
    carried: Carried = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            back, forth = await asyncio.open_connection(HOST, server)
        except ConnectionError:  # the server is gone
            writer.close()
            return
        up, down = carry(reader, forth, True, rate, carried), carry(back, writer, False, rate, carried)
        await asyncio.gather(up, down)

    async with await asyncio.start_server(connected, HOST, 0, backlog=1024) as listening:
        print(listening.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        print(json.dumps(carried), flush=True)
        os._exit(0)  # lines that are still open end with it, without a word


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else None))
