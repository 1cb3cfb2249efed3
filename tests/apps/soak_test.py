"""A crowd of clients that come, go, stall, reset and time out, for as long as one wants: every byte
is verified, every end is one that the contract allows, and nothing is left behind.

About 10 s in the suite; PINION_TEST_SCALE times that in a campaign. PINION_SEED repeats what the
clients choose, though not when it happens.
"""

import asyncio
import os
import random
import re
import threading
import time

import crowd
import support

SECONDS = 10
READ_TIMEOUT = WRITE_TIMEOUT = 2
PLACES = 40
REGULARS = 14
BURST = PLACES + PLACES // 2
SETTLED = re.compile(r" 0 connections ")
# Beside what comes from outside, a trouble is one of the server's.
HARMLESS = {"gave_way", "accept_pauses", "accept_dropped", "receive_starved", "receive_paused"}
HARMLESS |= {"receive_copied"}


class Server(support.Server):
    """A pinion-echo that is listened to while it runs."""

    def __init__(self, *arguments):
        super().__init__(
            *("--read-timeout", f"{READ_TIMEOUT}s", "--write-timeout", f"{WRITE_TIMEOUT}s"),
            *("--keepalive", "idle=1s,interval=200ms,probes=3"),
            *("--max-connections", str(PLACES), "--stats", "1", *arguments),
        )
        self.lines = []
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()
        self.samples = []  # (seconds since start, KiB) of anonymous memory
        self.begin = time.monotonic()
        self.base = self.descriptors()

    def _listen(self):
        for line in self.process.stdout:
            self.lines.append(line)

    def wait(self):
        self.process.wait(timeout=support.PATIENCE)
        self.listener.join(support.PATIENCE)
        self.output = "".join(self.lines)
        return self.process.returncode

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(re.search(r"RssAnon:\s+(\d+)", file.read()).group(1))

    def sample(self):
        self.samples.append((time.monotonic() - self.begin, self.memory()))

    def memory_at_ends(self):
        """The least KiB in the first and in the last fifth of the time after the warm-up."""
        end = self.samples[-1][0]
        warm = max(0.05 * end, 2)
        fifth = (end - warm) / 5
        first = min(kib for at, kib in self.samples if warm <= at <= warm + fifth)
        return first, min(kib for at, kib in self.samples if at >= end - fifth)


class Soak(support.TestCase):
    def test_nothing_is_left_of_a_crowd_with_one_lcore_and_with_two(self):
        seed = os.environ.get("PINION_SEED") or str(random.SystemRandom().randrange(1 << 32))
        print(f"PINION_SEED={seed}")
        lcores = min(2, len(os.sched_getaffinity(0)))
        with Server("--lcores", "1") as one, Server("--lcores", str(lcores)) as two:
            self.servers = {"1 lcore": one, f"{lcores} lcores": two}
            asyncio.run(self.soak(seed, SECONDS * support.scale()))
            for name, server in self.servers.items():
                with self.subTest(name):
                    self.check_end(name, server)

    async def soak(self, seed, seconds):
        for name, server in self.servers.items():
            server.crowd = crowd.Crowd(
                (server.host, server.port), f"{seed}/{name}", READ_TIMEOUT, WRITE_TIMEOUT
            )
        tasks = [asyncio.ensure_future(self.watch(seconds))]
        for server in self.servers.values():
            tasks += server.crowd.start(REGULARS, BURST)
        try:
            # The watch is the only one that ends well.
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def watch(self, seconds):
        """Lets the crowd pause now and then, and looks whether the servers are as they were in the
        beginning."""
        end = time.monotonic() + seconds
        while True:
            await self.sample(min(max(0.7 * SECONDS, seconds / 160), end - time.monotonic()))
            await asyncio.gather(*(server.crowd.pause() for server in self.servers.values()))
            for server in self.servers.values():
                await self.settle(server)
            self.report()
            if time.monotonic() >= end - 1:
                return
            for server in self.servers.values():
                server.crowd.open.set()

    async def sample(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await asyncio.sleep(1)
            for server in self.servers.values():
                server.sample()

    async def settle(self, server):
        """Waits for a server without clients to be without connections, and counts descriptors."""
        begin = len(server.lines)
        deadline = time.monotonic() + support.PATIENCE
        while not any(SETTLED.search(line) for line in server.lines[begin + 1 :]):
            self.assertLess(time.monotonic(), deadline, f"still open: {server.lines[-1]}")
            await asyncio.sleep(0.1)
        while (now := server.descriptors()) != server.base:
            self.assertLess(time.monotonic(), deadline, f"{now} descriptors, not {server.base}")
            await asyncio.sleep(0.1)

    def report(self):
        for name, server in self.servers.items():
            at, kib = server.samples[-1]
            support.progress(
                f"{at:.0f}s, {name}: {sum(server.crowd.kinds.values())} clients,"
                f" {server.crowd.verified >> 20} MiB verified, {kib} KiB,"
                f" {server.descriptors()} descriptors, {server.cpu_seconds():.1f} s of CPU"
            )

    def check_end(self, name, server):
        visited = server.crowd
        last = [server.connect() for _ in range(3)]
        for client in last:
            client.sendall(b"last")
            self.assertEqual(client.recv(4), b"last")
        code = server.stop()
        for client in last:
            with client:
                self.assertEqual(client.recv(1), b"")
        summary = server.output[server.output.find("served for") :]
        before, after = server.memory_at_ends()
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(visited.kinds.items()))
        for line in (
            f"{name}: {kinds}",
            f"{visited.verified} bytes verified, {visited.read_timeouts} read timeouts and"
            f" {visited.write_timeouts} write timeouts seen, {visited.gave_way} gave way",
            f"memory {before} KiB, {after} KiB in the end; {server.base} descriptors",
            summary,
        ):
            print(line)
            support.progress(line)
        self.assertEqual(code, 0)
        self.check_counts(server.crowd, summary, len(last))
        if os.environ.get("PINION_SANITIZE") == "none":
            self.assertLessEqual(after - before, min(512 * support.scale(), 2048))

    def check_counts(self, visited, summary, others):
        def count(pattern):
            found = re.search(pattern, summary)
            return int(found.group(1)) if found else 0

        self.assertEqual(set(visited.kinds), {kind.__name__ for kind in crowd.ALL_KINDS})
        self.assertEqual(count(r"(\d+) accepted"), visited.connected + others)
        self.assertIn(" 0 open, 0 closing", summary)
        self.assertGreaterEqual(count(r"timeouts +(\d+) read"), visited.read_timeouts)
        self.assertGreaterEqual(count(r", (\d+) write"), visited.write_timeouts)
        self.assertIn(", 0 keepalive", summary)
        self.assertGreaterEqual(count(r"(\d+) gave_way"), visited.gave_way)
        troubles = re.search(r"troubles +(.*)", summary).group(1)
        self.assertLessEqual(set(re.findall(r"\d+ (\w+)", troubles)), HARMLESS)


if __name__ == "__main__":
    support.main()
