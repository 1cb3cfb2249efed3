"""Timeouts of pinion-echo in real time, and what an idle server costs."""

import socket
import time

import support


class Timeouts(support.TestCase):
    def send_until_it_ends(self, connection):
        connection.settimeout(support.PATIENCE)
        with self.assertRaises(OSError):
            while True:
                connection.sendall(b"x" * 65536)

    def test_a_silent_connection_is_closed_by_its_read_timeout(self):
        with support.Server("--read-timeout", "500ms") as server, server.connect() as connection:
            begin = time.monotonic()
            self.assertEqual(connection.recv(1), b"")
            waited = time.monotonic() - begin
            self.assertGreaterEqual(waited, 0.45)
            self.assertLess(waited, 10)
            self.assertEqual(server.stop(), 0)
            self.assertRegex(server.output, r"(?m)^timeouts +1 read, 0 write, 0 keepalive")

    def test_a_talking_connection_is_not(self):
        with support.Server("--read-timeout", "1s") as server, server.connect() as connection:
            for _ in range(15):
                time.sleep(0.1)
                connection.sendall(b"x")
                self.assertEqual(connection.recv(1), b"x")

    def test_a_client_that_does_not_read_is_ended_by_the_write_timeout(self):
        with support.Server("--write-timeout", "500ms") as server, server.connect() as connection:
            self.send_until_it_ends(connection)
            self.assertEqual(server.stop(), 0)
            self.assertRegex(server.output, r"(?m)^timeouts +0 read, 1 write, 0 keepalive")

    def test_keepalive_leaves_a_client_alone_that_has_no_room_but_answers(self):
        with support.Server("--keepalive", "idle=1s,interval=100ms,probes=1",
                            "--write-timeout", "6s", "--drain-timeout", "1s") as server:
            with server.connect() as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                self.send_until_it_ends(connection)
            self.assertEqual(server.stop(), 0)
            self.assertRegex(server.output, r"(?m)^timeouts +0 read, 1 write, 0 keepalive")

    def test_no_timeout_means_none(self):
        with support.Server("--read-timeout", "none", "--keepalive", "none") as server:
            with server.connect() as connection:
                time.sleep(1.5)
                connection.sendall(b"x")
                self.assertEqual(connection.recv(1), b"x")

    def test_an_idle_server_uses_no_cpu(self):
        with support.Server("--stats", "0", "--max-connections", "1100") as server:
            connections = [server.connect() for _ in range(1000)]
            time.sleep(1)
            before = server.cpu_seconds()
            begin = time.monotonic()
            time.sleep(10)
            share = (server.cpu_seconds() - before) / (time.monotonic() - begin)
            # /proc counts in hundredths of a second: one count in 10 s is 0.1 %.
            self.assertLessEqual(share, 0.0021)
            for connection in connections:
                connection.close()
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    support.main()
