"""A random crowd of clients of an echo server, who know what docs/stream.md lets them meet.

A client verifies every byte of its echo. When the server ends a connection, the client judges
whether it had a reason to: silence for the read timeout, deafness for the write timeout, the
client's own end. A reset without any of these is counted: no more of them may come than the server
itself says it made give way.
"""

import asyncio
import collections
import contextlib
import random
import socket
import struct
import time

# Whatever a client waits for; with all places taken it may be a while until it is accepted.
PATIENCE = 60
LARGEST = 256 << 10
# No divisor of sizes that programs like, so that a piece in a wrong place doesn't look right.
PERIOD = 1_000_003
NOISE = random.Random(7).randbytes(PERIOD) * 2


class Ended(Exception):
    """The connection is over, and may be."""


class Client:
    """One connection, and what both sides did on it."""

    def __init__(self, crowd, rng, small_window=False):
        self.crowd = crowd
        self.rng = rng
        self.loop = asyncio.get_running_loop()
        self.socket = socket.socket()
        self.socket.setblocking(False)
        if small_window:  # So that little is enough to keep the server from sending.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
        self.offset = rng.randrange(PERIOD)
        self.offered = 0  # Bytes that were handed to the kernel, or are being.
        self.received = 0
        self.finished = False  # FIN follows what was offered.
        self.over = False
        self.before_silence = None  # Offered before it was silent for the read timeout.
        self.was_deaf = False  # For the write timeout.
        self.spoke = self.listened = 0  # When it last sent, and received.

    async def connect(self):
        self.spoke = self.listened = time.monotonic()
        await self.loop.sock_connect(self.socket, self.crowd.address)
        self.crowd.connected += 1

    def noise(self, position, count):
        begin = (self.offset + position) % PERIOD
        return NOISE[begin : begin + count]

    def look_at_clock(self):
        """Before each step: has it been silent, or deaf, for so long that it may be ended?"""
        now = time.monotonic()
        if now - self.spoke >= self.crowd.read_timeout and self.before_silence is None:
            self.before_silence = self.offered
        if self.received < self.offered and now - self.listened >= self.crowd.write_timeout:
            self.was_deaf = True
        return now

    async def send(self, count):
        while count > 0:
            size = min(count, 65536)
            self.spoke = self.look_at_clock()
            piece = self.noise(self.offered, size)
            self.offered += size
            count -= size
            try:
                await self.loop.sock_sendall(self.socket, piece)
            except ConnectionError:
                self.judge(reset=True)

    def finish(self):
        self.finished = True
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.judge(reset=True)

    async def receive(self, end, size=65536):
        """Takes and verifies the echo up to position `end`."""
        while self.received < end:
            try:
                data = await self.loop.sock_recv(self.socket, min(size, end - self.received))
            except ConnectionError:
                self.judge(reset=True)
            now = self.look_at_clock()
            if not data:
                self.judge(reset=False)
            if data != self.noise(self.received, len(data)):
                raise AssertionError(f"wrong bytes at {self.received} of {self.offered}")
            self.listened = now
            self.received += len(data)
            self.crowd.verified += len(data)

    def judge(self, reset):
        """The server has ended the connection: for a reason that the contract knows?"""
        self.look_at_clock()
        kept_quiet = self.before_silence is not None
        if not self.over:
            self.over = True
            if reset:
                crossed = kept_quiet and self.offered > self.before_silence
                if not crossed and not self.was_deaf:
                    self.crowd.gave_way += 1
            elif self.finished:
                self.expect(self.received == self.offered)
            else:
                self.expect(kept_quiet and self.received >= self.before_silence)
        raise Ended

    def expect(self, fact):
        if not fact:
            raise AssertionError(
                f"ended after {self.received} of {self.offered} bytes,"
                f" {time.monotonic() - self.spoke:.3f} s after the last was sent"
            )

    @contextlib.asynccontextmanager
    async def sending(self, count):
        """Sends beside what the body does, since a payload and its echo together fit nowhere."""
        task = asyncio.ensure_future(self.send(count))
        try:
            yield
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def exchange(self, count):
        """Sends, and takes the whole echo."""
        end = self.offered + count
        if count <= 16384:
            await self.send(count)
            await self.receive(end)
            return
        async with self.sending(count):
            await self.receive(end)

    async def part(self):
        """Says that no more comes, and meets the end of the echo."""
        self.finish()
        await self.receive(self.offered)
        await self.meet_end()

    async def meet_end(self):
        """Waits until the server ends the connection, which it is expected to do."""
        try:
            await self.receive(self.received + 1)
        except Ended:
            return
        raise AssertionError("a byte more than was sent")

    def reset_when_closed(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def size(self, largest=LARGEST):
        """As many small ones as large ones."""
        return min(int(2 ** self.rng.uniform(0, largest.bit_length())), largest)


# What clients do. Each ends with its socket closed by its caller, unless it did that itself.


async def talks(client):
    for _ in range(client.rng.randint(1, 6)):
        await client.exchange(client.size())
    if client.rng.random() < 0.7:
        await client.part()


async def talks_after_pauses(client):
    for _ in range(2):
        await client.exchange(client.size(4096))
        await asyncio.sleep(client.rng.uniform(0.5, 0.8) * client.crowd.read_timeout)
    await client.exchange(client.size(4096))


async def half_closes(client):
    count = client.size()
    async with client.sending(count):
        await client.receive(min(count, client.size()))
    await client.part()


async def reads_late(client):
    async with client.sending(LARGEST):
        await asyncio.sleep(client.rng.uniform(0.1, 0.6) * client.crowd.write_timeout)
        await client.receive(LARGEST)
    await client.part()


async def reads_slowly(client):
    count = client.rng.randint(16384, 65536)
    async with client.sending(count):
        while client.received < count:
            await client.receive(min(client.received + 4096, count), 4096)
            await asyncio.sleep(0.03)


async def trickles(client):
    for _ in range(client.rng.randint(5, 25)):
        await client.exchange(client.rng.randint(1, 8))
        await asyncio.sleep(client.rng.uniform(0.02, 0.2))
    await client.part()


async def falls_silent(client):
    """In the middle of a payload, or before its first byte."""
    if client.rng.random() < 0.8:
        await client.exchange(client.size(65536))
    await client.meet_end()
    waited = time.monotonic() - client.spoke
    if not client.was_deaf and client.before_silence is None:
        return  # It was made to give way, which is counted.
    # Never early; and late by no more than what a busy machine takes.
    if not client.crowd.read_timeout <= waited < client.crowd.read_timeout + PATIENCE / 2:
        raise AssertionError(f"timed out after {waited:.3f} s")
    client.crowd.read_timeouts += 1
    if client.rng.random() < 0.3:  # Too late: the server discards it.
        try:
            client.socket.send(b"late" * 100)
            await asyncio.sleep(0.1)
        except OSError:
            pass


async def never_reads(client):
    """Sends until the server resets the connection, its write timed out."""
    begin = time.monotonic()
    half_closes_at = client.rng.choice((1 << 20, 64 << 20))
    while not client.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        try:
            while client.offered < half_closes_at:
                client.offered += client.socket.send(client.noise(client.offered, 65536))
                client.spoke = time.monotonic()
            if not client.finished:
                client.finish()
        except BlockingIOError:
            pass
        except ConnectionError:
            break
        client.look_at_clock()
        if time.monotonic() - begin > PATIENCE / 2:
            raise AssertionError("the write did not time out")
        await asyncio.sleep(0.05)
    if client.was_deaf:
        client.crowd.write_timeouts += 1
    client.judge(reset=True)


async def resets(client):
    """Anywhere in an exchange."""
    count = client.size()
    client.reset_when_closed()
    async with client.sending(count):
        await client.receive(client.rng.randint(0, count))
        raise Ended


async def leaves_unread(client):
    """The kernel makes a reset of a close with data unread."""
    await client.send(client.size(32768))
    await asyncio.sleep(client.rng.choice((0, 0.01, 0.1)))


async def leaves_at_once(client):
    if client.rng.random() < 0.5:
        client.reset_when_closed()


async def holds_a_place(client):
    await client.exchange(client.size(16384))
    await asyncio.sleep(client.rng.uniform(0, 0.5))
    await client.part()


KINDS = {
    talks: 30,
    talks_after_pauses: 6,
    half_closes: 12,
    reads_late: 6,
    reads_slowly: 5,
    trickles: 5,
    falls_silent: 8,
    never_reads: 3,
    resets: 12,
    leaves_unread: 8,
    leaves_at_once: 8,
}
ALL_KINDS = [*KINDS, holds_a_place]


class Crowd:
    """The clients of one server."""

    def __init__(self, address, seed, read_timeout, write_timeout):
        self.address = address
        self.seed = seed
        self.read_timeout = read_timeout
        self.write_timeout = write_timeout
        self.kinds = collections.Counter()
        self.connected = self.verified = self.present = 0
        self.read_timeouts = self.write_timeouts = self.gave_way = 0
        self.open = asyncio.Event()
        self.open.set()

    def start(self, regulars, burst):
        """So many at a time, and every few seconds a burst. Returns the tasks, which go on until
        they are cancelled."""
        walks = [self.walk(number) for number in range(regulars)] + [self.burst(burst)]
        return [asyncio.ensure_future(walk) for walk in walks]

    async def pause(self):
        """Lets nobody in, and waits until everybody has left."""
        self.open.clear()
        async with asyncio.timeout(2 * PATIENCE):
            while self.present > 0:
                await asyncio.sleep(0.05)

    async def walk(self, number):
        rng = random.Random(f"{self.seed}/{number}")
        kind = list(KINDS)[number % len(KINDS)]  # So that each comes soon.
        while True:
            await asyncio.sleep(rng.expovariate(4))
            await self.open.wait()
            await self.visit(kind, rng)
            kind = rng.choices(list(KINDS), list(KINDS.values()))[0]

    async def burst(self, size):
        rng = random.Random(f"{self.seed}/burst")
        while True:
            await asyncio.sleep(rng.uniform(1, 5))
            await self.open.wait()
            rngs = [random.Random(rng.random()) for _ in range(size)]
            await asyncio.gather(*(self.visit(holds_a_place, each) for each in rngs))

    async def visit(self, kind, rng):
        self.present += 1
        client = Client(self, rng, small_window=kind is never_reads)
        try:
            async with asyncio.timeout(PATIENCE):
                await client.connect()
                await kind(client)
        except Ended:
            pass
        except Exception as error:
            raise AssertionError(f"a client that {kind.__name__.replace('_', ' ')}") from error
        finally:
            client.socket.close()
            self.present -= 1
        self.kinds[kind.__name__] += 1
