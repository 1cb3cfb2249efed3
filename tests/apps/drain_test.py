"""What SIGTERM and SIGINT do to a pinion-echo under load."""

import os
import signal
import socket
import threading
import time

import support


class Talker:
    """A client that sends and verifies until the server ends the connection."""

    def __init__(self, server, number):
        self.connection = server.connect()
        self.sent = 0
        self.received = bytearray()
        self.number = number
        self.answers = 0
        self.problem = None
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            while True:
                message = b"%d/%d;" % (self.number, self.answers)
                self.connection.sendall(message)
                answer = support.receive_exactly(self.connection, len(message))
                if answer != message:
                    # The end may cut an answer off only if the request came too late.
                    if not message.startswith(answer):
                        self.problem = f"{answer!r} for {message!r}"
                    return
                self.answers += 1
        except (ConnectionResetError, BrokenPipeError):
            return
        except Exception as error:
            self.problem = repr(error)


class Drain(support.TestCase):
    def test_answers_under_load_are_whole_and_the_end_is_prompt(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with support.Server("--drain-timeout", "20s") as server:
                talkers = [Talker(server, number) for number in range(20)]
                for talker in talkers:
                    talker.thread.start()
                time.sleep(0.5)
                server.signal(number)
                self.assertEqual(server.wait(), 0)
                for talker in talkers:
                    talker.thread.join(support.PATIENCE)
                    self.assertIsNone(talker.problem)
                    self.assertGreater(talker.answers, 0)
                self.assertLess(server.seconds_to_end, 15)

    def test_what_was_answered_arrives_whole(self):
        # The client reads nothing until the server has ended: all that it answered is still there.
        with support.Server() as server:
            clients = []
            for _ in range(20):
                connection = server.connect()
                connection.sendall(b"request " * 512)
                clients.append(connection)
            for connection in clients:
                # The first byte is there: so the server has received, and answers the rest.
                self.assertEqual(connection.recv(1, socket.MSG_PEEK), b"r")
            time.sleep(0.5)
            server.signal()
            self.assertEqual(server.wait(), 0)
            for connection in clients:
                self.assertEqual(support.receive_until_end(connection), b"request " * 512)
                connection.close()

    def test_idle_connections_end_at_once(self):
        with support.Server("--drain-timeout", "30s") as server:
            connections = [server.connect() for _ in range(10)]
            for connection in connections:
                connection.sendall(b"x")
                connection.recv(1)
            server.signal()
            for connection in connections:
                self.assertEqual(connection.recv(1), b"")
                connection.close()
            self.assertEqual(server.wait(), 0)
            self.assertLess(server.seconds_to_end, 15)

    def test_a_connection_that_does_not_finish_is_reset_at_the_drain_timeout(self):
        with support.Server("--drain-timeout", "1s", "--write-timeout", "none") as server:
            stuck = server.connect()
            stuck.setblocking(False)
            deadline = time.monotonic() + 2
            while time.monotonic() < deadline:
                try:
                    stuck.send(b"x" * 65536)
                except BlockingIOError:
                    time.sleep(0.02)
            begin = time.monotonic()
            server.signal()
            self.assertEqual(server.wait(), 0)
            self.assertGreaterEqual(time.monotonic() - begin, 0.9)
            self.assertLess(time.monotonic() - begin, 20)
            stuck.setblocking(True)
            stuck.settimeout(support.PATIENCE)
            with self.assertRaises(ConnectionResetError):
                while stuck.recv(1 << 20):
                    pass

    def test_no_new_connection_is_taken_while_draining(self):
        with support.Server("--drain-timeout", "3s", "--write-timeout", "none") as server:
            stuck = server.connect()
            stuck.settimeout(1)
            try:
                while True:
                    stuck.sendall(b"x" * 65536)
            except TimeoutError:
                pass
            server.signal()
            time.sleep(0.5)
            with self.assertRaises(OSError):
                with server.connect(timeout=5) as late:
                    late.sendall(b"x")
                    if late.recv(1) == b"":
                        raise ConnectionRefusedError
            stuck.close()
            self.assertEqual(server.wait(), 0)

    def test_a_second_signal_ends_it_at_once(self):
        with support.Server("--drain-timeout", "50s", "--write-timeout", "none") as server:
            stuck = server.connect()
            stuck.settimeout(1)
            try:
                while True:
                    stuck.sendall(b"x" * 65536)
            except TimeoutError:
                pass
            server.signal()
            time.sleep(0.5)
            self.assertIsNone(server.process.poll())
            server.signal()
            server.wait()
            self.assertLess(server.seconds_to_end, 20)
            stuck.close()

    def test_statistics_of_an_lcore_that_ended_before_another(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("one CPU only")
        # The connection keeps its lcore for the 2 s that a close waits; the other has none.
        with support.Server("--lcores", "2", "--stats", "1") as server, server.connect() as last:
            last.sendall(b"in")
            self.assertEqual(support.receive_exactly(last, 2), b"in")
            server.signal()
            self.assertEqual(server.wait(), 0)
            self.assertRegex(server.output, r"(?m)^connections +1 accepted")

    def test_a_signal_right_after_the_first_line(self):
        for _ in range(5):
            with support.Server() as server:
                server.signal()
                self.assertEqual(server.wait(), 0)
                self.assertLess(server.seconds_to_end, 20)


if __name__ == "__main__":
    support.main()
