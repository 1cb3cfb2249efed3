"""pinion-echo as a client with plain sockets sees it."""

import os
import random
import re
import select
import socket
import threading
import time

import support


class Echo(support.TestCase):
    def test_first_line_says_what_it_does_and_why(self):
        with support.Server("--idle", "park") as server:
            self.assertRegex(
                server.first_line,
                r"^pinion-echo \d+\.\d+\.\d+: listening on 127\.0\.0\.1:\d+, "
                r"backend kernel sockets over io_uring, 1 lcore \(default\) on CPU \d+ "
                r"\(default\), "
                r"idle policy park .*flag.*\n$")
            self.assertNotEqual(server.port, 0)
            self.assertEqual(server.stop(), 0)
            self.assertRegex(server.errors, r"^\S+ info +SIGTERM: draining.*\n$")
        cpu = min(os.sched_getaffinity(0))
        with support.Server("--cpus", str(cpu)) as server:
            self.assertIn(f", 1 lcore (cpus) on CPU {cpu} (flag), ", server.first_line)

    def test_bytes_come_back_unchanged(self):
        data = random.Random(1).randbytes(1 << 20)
        with support.Server() as server, server.connect() as connection:
            for size in (1, 64, 4095, 4096, 4097, 65536):
                connection.sendall(data[:size])
                self.assertEqual(support.receive_exactly(connection, size), data[:size])

    def test_a_megabyte_sent_while_reading(self):
        data = random.Random(2).randbytes(8 << 20)
        with support.Server() as server, server.connect() as connection:
            sender = threading.Thread(target=connection.sendall, args=(data,))
            sender.start()
            self.assertEqual(support.receive_exactly(connection, len(data)), data)
            sender.join()

    def test_half_close_still_gets_every_answer(self):
        data = random.Random(3).randbytes(200_000)
        with support.Server() as server, server.connect() as connection:
            sender = threading.Thread(
                target=lambda: (connection.sendall(data), connection.shutdown(socket.SHUT_WR)))
            sender.start()
            self.assertEqual(support.receive_until_end(connection), data)
            sender.join()

    def test_ipv6(self):
        if not os.path.exists("/proc/net/if_inet6"):
            self.skipTest("no IPv6")
        with support.Server(listen="[::1]:0") as server, server.connect() as connection:
            connection.sendall(b"six")
            self.assertEqual(support.receive_exactly(connection, 3), b"six")
            self.assertIn("[::1]:", server.first_line)

    def test_many_connections_on_two_lcores(self):
        arguments = ["--lcores", "2"] if len(os.sched_getaffinity(0)) > 1 else []
        with support.Server(*arguments) as server:
            connections = [server.connect() for _ in range(100)]
            for number, connection in enumerate(connections):
                connection.sendall(b"%04d" % number)
            for number, connection in enumerate(connections):
                self.assertEqual(support.receive_exactly(connection, 4), b"%04d" % number)
                connection.close()
            self.assertEqual(server.stop(), 0)
            self.assertRegex(server.output, r"(?m)^connections +100 accepted")

    def test_a_reset_by_a_client_harms_nobody(self):
        with support.Server() as server, server.connect() as bystander:
            for _ in range(20):
                connection = server.connect()
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                connection.sendall(b"x" * 100)
                connection.close()
            bystander.sendall(b"fine")
            self.assertEqual(support.receive_exactly(bystander, 4), b"fine")
            self.assertEqual(server.stop(), 0)

    def test_summary_is_exact(self):
        with support.Server("--stats", "0", "--read-timeout", "300ms") as server:
            with server.connect() as connection:
                for _ in range(10):
                    connection.sendall(b"x" * 64)
                    support.receive_exactly(connection, 64)
            with server.connect() as silent:
                self.assertEqual(silent.recv(1), b"")
            self.assertEqual(server.stop(), 0)
        self.assertRegex(server.output, r"(?m)^connections +2 accepted")
        self.assertRegex(server.output, r"(?m)^requests +10, 640 bytes in, 640 bytes out")
        self.assertRegex(server.output, r"(?m)^timeouts +1 read, 0 write, 0 keepalive")
        self.assertRegex(server.output, r"(?m)^troubles +none$")

    def test_a_line_a_second(self):
        with support.Server("--stats", "1") as server, server.connect():
            time.sleep(3.5)
            self.assertEqual(server.stop(), 0)
        lines = [line for line in server.output.splitlines() if "requests/s" in line]
        self.assertIn(len(lines), (2, 3, 4, 5), server.output)
        self.assertRegex(
            lines[1],
            r"^ *\d+s +1 connection +0 requests/s +timeouts read 0 write 0 keepalive 0 +"
            r"busy +[\d.]+% idle +[\d.]+% parked +[\d.]+% +timers late p50 \S+ p99 \S+$")

    def test_no_timer_was_late_when_none_fired(self):
        with support.Server("--stats", "1") as server:
            line = server.process.stdout.readline()
            self.assertRegex(line, r" requests/s .* timers late p50 - p99 -$")
            self.assertEqual(server.stop(), 0)

    def test_the_limit_of_connections_is_that_of_all_lcores_together(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("one CPU only")
        with support.Server("--lcores", "2", "--max-connections", "3") as server:
            connections = [server.connect() for _ in range(30)]
            for connection in connections:
                connection.sendall(b"in")
            # Of 30 connections each lcore has some: both serve as many as they may.
            served = set()
            deadline = time.monotonic() + support.PATIENCE
            while len(served) < 3 and time.monotonic() < deadline:
                served |= set(select.select(connections, [], [], 1)[0])
            time.sleep(0.5)
            served |= set(select.select(connections, [], [], 0)[0])
            self.assertEqual(len(served), 3)
            for connection in connections:
                connection.close()
            self.assertEqual(server.stop(), 0)

    def test_the_limit_of_connections_makes_later_ones_wait(self):
        with support.Server("--max-connections", "2") as server:
            first, second = server.connect(), server.connect()
            for connection in (first, second):
                connection.sendall(b"in")
                self.assertEqual(support.receive_exactly(connection, 2), b"in")
            third = server.connect(timeout=1.5)
            third.sendall(b"waiting")
            with self.assertRaises(TimeoutError):
                third.recv(1)
            first.close()
            third.settimeout(support.PATIENCE)
            self.assertEqual(support.receive_exactly(third, 7), b"waiting")
            second.close()
            third.close()
            self.assertEqual(server.stop(), 0)
        self.assertRegex(server.output, r"(?m)^ *\d+s .* timers late p50 \S+ p99 \S+  full \d+$")
        self.assertRegex(server.output, r"(?m)^troubles +\d+ accept_pauses$")
        self.assertRegex(server.output, r"(?m)^connections +3 accepted, 0 open, 0 closing$")
        self.assertRegex(server.output, r"(?m)^buffers +\d+ free, \d+ at the least$")


if __name__ == "__main__":
    support.main()
