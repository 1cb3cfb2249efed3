"""pinion-load against good and bad servers."""

import os
import socket
import struct
import time

import support
from support import FakeServer, load

SHORT = ("--duration", "500ms", "--warmup", "100ms")


def echo(connection):
    while data := connection.recv(65536):
        connection.sendall(data)


class Load(support.TestCase):
    def test_closed_loop(self):
        with support.Server() as server:
            done, results = load(server.address, "--connections", "10", *SHORT)
            self.assertEqual(done.returncode, 0, done)
            self.assertRegex(done.stdout.splitlines()[0],
                             r"^pinion-load \d+\.\d+\.\d+: 10 connections to 127.0.0.1:\d+, "
                             r"requests of 64 bytes, closed loop, 500ms after 100ms of warm-up, ")
            self.assertGreater(results["requests_measured"], 0)
            self.assertEqual(results["requests_sent"], results["requests_answered"])
            self.assertEqual(results["connections_opened"], 10)
            self.assertEqual(results["mismatches"], 0)
            latency = results["latency_ns"]
            self.assertLessEqual(latency["p50"], latency["p99"])
            self.assertLessEqual(latency["p99.9"], latency["max"])
            self.assertGreater(latency["min"], 0)
            self.assertRegex(done.stdout, r"(?m)^requests +[\d,]+ answered in 500ms: [\d,]+/s")
            self.assertRegex(done.stdout, r"(?m)^latency +p50 \S+ +p90 \S+ +p99 \S+ +p99.9 ")
            self.assertRegex(done.stdout, r"(?m)^errors +none$")
            self.assertRegex(done.stdout, r"(?m)^verified +every byte of [\d,]+ answers$")
            self.assertEqual(server.stop(), 0)

    def test_open_loop_sends_what_was_asked_for(self):
        with support.Server() as server:
            done, results = load(server.address, "--connections", "7", "--rate", "1000",
                                 "--duration", "2s", "--warmup", "200ms")
            self.assertEqual(done.returncode, 0, done)
            self.assertEqual(results["requests_measured"] + results["requests_never_sent"], 2000)
            self.assertEqual(results["requests_never_sent"], 0)
            self.assertEqual(results["requests_unanswered"], 0)

    def test_open_loop_counts_latency_from_when_a_request_was_due(self):
        # A server that stalls once for a second: of 100 requests a second, about 100 wait for it,
        # half a second on average, although only one of them was on its way when it began.
        def stall(connection):
            time.sleep(1)
            echo(connection)

        with FakeServer(stall) as server:
            done, results = load(server.address, "--connections", "1", "--rate", "100",
                                 "--duration", "2s", "--warmup", "0s")
            self.assertEqual(done.returncode, 0, done)
            self.assertGreater(results["requests_measured"], 180)
            self.assertGreater(results["latency_ns"]["max"], 800e6)
            self.assertGreater(results["latency_ns"]["mean"], 150e6)

    def test_sizes(self):
        with support.Server() as server:
            for size in ("1", "4097", "64KiB", "1MiB"):
                done, results = load(server.address, "--connections", "3", "--size", size, *SHORT)
                self.assertEqual(done.returncode, 0, done)
                self.assertEqual(results["requests_sent"], results["requests_answered"])

    def test_wrong_bytes_are_found(self):
        def corrupt(connection):
            seen = 0
            while data := bytearray(connection.recv(65536)):
                if seen <= 1000 < seen + len(data):
                    data[1000 - seen] ^= 1
                seen += len(data)
                connection.sendall(data)

        with FakeServer(corrupt) as server:
            done, results = load(server.address, "--connections", "1", *SHORT)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(results["mismatches"], 1)
            # Byte 1000 is the 40th of request 15, when requests have 64 bytes.
            self.assertRegex(done.stdout,
                             r"(?m)^WRONG BYTES +on 1 connection; first: "
                             r"connection 0, request 15, byte 40: 0x.. instead of 0x..$")

    def test_answers_of_another_connection_are_found(self):
        first = []

        def mix(connection):
            data = connection.recv(65536)
            first.append(data)
            connection.sendall(first[0])
            echo(connection)

        with FakeServer(mix) as server:
            done, results = load(server.address, "--connections", "2", *SHORT)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(results["mismatches"], 1)

    def test_surplus_bytes_are_found(self):
        def more(connection):
            data = connection.recv(65536)
            connection.sendall(data + b"!")
            echo(connection)

        with FakeServer(more) as server:
            done, results = load(server.address, "--connections", "1", "--think", "100ms", *SHORT)
            self.assertEqual(done.returncode, 1)
            self.assertIn("more than was sent", done.stdout)

    def test_early_close_is_counted_and_not_a_success(self):
        def close(connection):
            connection.recv(10)

        with FakeServer(close) as server:
            done, results = load(server.address, "--connections", "5", *SHORT)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(results["requests_answered"], 0)
            self.assertEqual(results["requests_unanswered"], 5)
            ended = results["connections_closed_by_server"]
            ended += sum(results["request_errors"].values())
            self.assertEqual(ended, 5)

    def test_resets_are_counted(self):
        def reset(connection):
            echoed = connection.recv(64)
            connection.sendall(echoed)
            connection.recv(64)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

        with FakeServer(reset) as server:
            done, results = load(server.address, "--connections", "3", *SHORT)
            self.assertEqual(done.returncode, 1, done)
            self.assertTrue(results["ended_early"])
            self.assertEqual(results["request_errors"], {"reset": 3})
            self.assertEqual(results["requests_answered"], 3)

    def test_no_answer_in_time(self):
        def silence(connection):
            while connection.recv(65536):
                pass

        with FakeServer(silence) as server:
            done, results = load(server.address, "--connections", "2", "--timeout", "300ms", *SHORT)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(results["request_errors"], {"read_timeout": 2})

    def test_nobody_listens(self):
        done, results = load(f"127.0.0.1:{support.free_port()}", "--connections", "3", *SHORT)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(results["connect_errors"], {"refused": 3})
        self.assertIn("3 connect: refused", done.stdout)
        self.assertRegex(done.stderr,
                         r"(?m)^error: no request was answered by .*: 3 connect: refused$")
        self.assertRegex(done.stderr, r"(?m)^fix: start a server there: pinion-echo --listen ")

    def test_silent_connections_are_closed_by_the_read_timeout(self):
        with support.Server("--read-timeout", "300ms") as server:
            done, results = load(server.address, "--connections", "2", "--silent", "5",
                                 "--duration", "2s", "--warmup", "0s")
            self.assertEqual(done.returncode, 0, done)
            self.assertEqual(results["silent_opened"], 5)
            self.assertEqual(results["silent_closed_by_server"], 5)
            self.assertRegex(done.stdout, r"(?m)^silent +5 opened, 5 closed by the server after ")
            self.assertEqual(server.stop(), 0)
            self.assertRegex(server.output, r"(?m)^timeouts +5 read, ")

    def test_thinking_longer_than_the_read_timeout(self):
        with support.Server("--read-timeout", "200ms") as server:
            arguments = ("--connections", "3", "--think", "10s", "--duration", "1500ms",
                         "--warmup", "0s")
            done, results = load(server.address, *arguments)
            self.assertEqual(done.returncode, 1, done)
            self.assertRegex(done.stderr, r"(?m)^error: the run ended early, no connection was "
                                          r"left \S+ after the start: 3 closed by the server$")
            self.assertEqual(results["connections_closed_by_server"], 3)
            self.assertEqual(results["requests_answered"], 3)
            done, results = load(server.address, "--reconnect", *arguments)
            self.assertEqual(done.returncode, 0, done)
            self.assertFalse(results["ended_early"])
            self.assertGreater(results["connections_opened"], 3)
            self.assertEqual(results["requests_answered"], results["requests_sent"])

    def test_a_terminal_gets_a_progress_bar_and_a_file_gets_lines(self):
        with support.Server() as server:
            arguments = [support.LOAD, "--connect", server.address, "--duration", "2s",
                         "--warmup", "0s", "--connections", "2"]
            terminal, other_side = os.openpty()
            process = support.subprocess.Popen(
                arguments, env=support.clean_environment(), stdout=support.subprocess.PIPE,
                stderr=other_side, text=True)
            os.close(other_side)
            shown = b""
            try:
                while piece := os.read(terminal, 4096):
                    shown += piece
            except OSError:
                pass  # The other side is closed.
            output, _ = process.communicate(timeout=support.PATIENCE)
            os.close(terminal)
            self.assertEqual(process.returncode, 0)
            self.assertRegex(shown, rb"\r\[=+ *\] +[\d.]+s of 2.0s +[\d,]+ requests/s")
            self.assertTrue(shown.endswith(b"\r\x1b[K"))
            self.assertNotIn("\r", output)

            done = support.run(arguments)
            self.assertRegex(done.stderr, r"(?m)^ *[\d.]+s of 2.0s +[\d,]+ requests/s +2 open$")
            self.assertNotIn("\r", done.stderr)

    def test_the_time_begins_when_every_connection_is_open(self):
        with support.Server() as server:
            arguments = ("--connections", "20", "--warmup", "0s")
            done, results = load(server.address, "--rate", "500", "--duration", "1s", *arguments)
            self.assertEqual(done.returncode, 0, done)
            self.assertEqual(results["requests_never_sent"], 0)
            self.assertEqual(results["requests_measured"], 500)
            done, results = load(server.address, "--duration", "1ms", *arguments)
            self.assertEqual(done.returncode, 0, done)
            self.assertEqual(results["connections_opened"], 20)

    def test_a_server_that_trickles_does_not_hold_the_run(self):
        def trickle(connection):
            for byte in iter(lambda: connection.recv(1), b""):
                connection.sendall(byte)
                time.sleep(0.2)

        with FakeServer(trickle) as server:
            for mode in (("--rate", "4"), ()):
                begin = time.monotonic()
                done, results = load(server.address, "--connections", "2", "--size", "1KiB",
                                     "--timeout", "1s", "--duration", "1s", "--warmup", "0s", *mode)
                self.assertLess(time.monotonic() - begin, 30)
                self.assertEqual(done.returncode, 1)
                self.assertEqual(results["request_errors"], {"deadline_exceeded": 2})
                self.assertEqual(results["requests_unanswered"], results["requests_sent"])
                self.assertRegex(done.stdout, r"(?m)^errors +2 deadline exceeded, \d+ unanswered")
                self.assertRegex(done.stdout, r"(?m)^verified +nothing")

    def test_hints_fit_what_happened(self):
        def close(connection):
            connection.recv(10)

        with FakeServer(close) as server:
            done, _ = load(server.address, "--connections", "2", "--reconnect", *SHORT)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr,
                             r"(?m)^fix: see why the server at \S+ ends its connections$")
        # A queue that is full, and nobody accepts: connecting gets no answer.
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            waiting = [socket.socket() for _ in range(3)]
            for connection in waiting:
                connection.setblocking(False)
                connection.connect_ex(listener.getsockname())
            done, results = load("127.0.0.1:%d" % listener.getsockname()[1], "--connections", "2",
                                 "--timeout", "100ms", *SHORT)
            for connection in waiting:
                connection.close()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(results["connect_errors"], {"connect_timeout": 2})
        self.assertRegex(done.stderr, r"(?m)^fix: check the address, the way there \(ip route get ")

    def test_wrong_bytes_on_a_silent_connection_are_told(self):
        def greet(connection):
            connection.sendall(b"welcome")
            connection.recv(1)

        with FakeServer(greet) as server:
            done, results = load(server.address, "--connections", "0", "--silent", "2", *SHORT)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(results["mismatches"], 2)
            self.assertRegex(done.stdout, r"(?m)^WRONG BYTES +on 2 connections; first: connection "
                                          r"\d, request 0, byte 0: more than was sent$")
            self.assertRegex(done.stderr, r"(?m)^error: wrong bytes .*\nfix: ")

    def interrupted(self, server, *arguments, number=support.signal.SIGINT):
        """Interrupts a run after two seconds: its exit code, output, errors and JSON."""
        with support.tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "results.json")
            process = support.subprocess.Popen(
                [support.LOAD, "--connect", server.address, "--duration", "1h", "--warmup", "0s",
                 "--json", path, *arguments],
                env=support.clean_environment(), stdout=support.subprocess.PIPE,
                stderr=support.subprocess.PIPE, text=True)
            process.stdout.readline()
            time.sleep(2)
            process.send_signal(number)
            output, errors = process.communicate(timeout=support.PATIENCE)
            with open(path) as file:
                return process.returncode, output, errors, support.json.load(file)

    def test_interrupted_at_a_rate_only_what_was_due_is_missing(self):
        with support.Server() as server:
            code, output, _, results = self.interrupted(
                server, "--rate", "100", "--connections", "10", number=support.signal.SIGTERM)
            self.assertEqual(code, 0)
            self.assertEqual(results["requests_never_sent"], 0)
            # One request every 10 ms, up to the interruption and none after.
            self.assertAlmostEqual(results["requests_sent"], results["measured_seconds"] * 100,
                                   delta=1.5)
            self.assertEqual(results["requests_answered"] + results["requests_unanswered"],
                             results["requests_sent"])
            self.assertRegex(output, r"(?m)^requests +\d+ answered in \d+\.\d+s: ")

        def stand_still(connection):
            while connection.recv(65536):
                pass

        # Nobody answers: what was due was sent, and counts as unanswered.
        with FakeServer(stand_still) as server:
            code, _, errors, results = self.interrupted(server, "--rate", "100", "--timeout", "1h")
            self.assertEqual(code, 1)
            self.assertEqual(results["requests_never_sent"], 0)
            self.assertEqual(results["requests_unanswered"], results["requests_sent"])
            self.assertRegex(errors, r"(?m)^error: no request was answered by \S+: interrupted$")

    def test_a_calm_rate_opens_no_connection_twice(self):
        # Most connections have nothing left to send long before the end.
        with support.Server() as server:
            for reconnect in ((), ("--reconnect",)):
                done, results = load(server.address, "--connections", "20", "--rate", "5",
                                     "--duration", "2s", "--warmup", "0s", *reconnect)
                self.assertEqual(done.returncode, 0, done)
                self.assertFalse(results["ended_early"])
                self.assertEqual(results["connections_opened"], 20)
                self.assertEqual(results["connections_closed_by_server"], 0)
                self.assertEqual(results["requests_measured"], 10)

    def test_a_run_whose_server_goes_away_ended_early(self):
        def leave(connection):
            end = time.monotonic() + 1
            while time.monotonic() < end and (data := connection.recv(65536)):
                connection.sendall(data)

        arguments = ("--connections", "10", "--duration", "30s", "--warmup", "0s")
        for mode in (("--rate", "200"), ("--think", "1ms")):
            with self.subTest(mode), FakeServer(leave) as server:
                done, results = load(server.address, *arguments, *mode)
                self.assertEqual(done.returncode, 1, done)
                self.assertTrue(results["ended_early"])
                self.assertFalse(results["interrupted"])
                self.assertEqual(results["duration_seconds"], 30)
                self.assertLess(results["measured_seconds"], 25)
                self.assertAlmostEqual(
                    results["requests_per_second"],
                    results["requests_measured"] / results["measured_seconds"], delta=0.1)
                self.assertRegex(done.stdout,
                                 r"(?m)^ended early: no connection was left \S+ after the start$")
                self.assertRegex(done.stderr, r"(?m)^error: the run ended early, no connection was")

    def test_a_run_without_a_connection_takes_no_time(self):
        done, results = load(f"127.0.0.1:{support.free_port()}", "--rate", "10", *SHORT)
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(results["measured_seconds"], 0)
        self.assertRegex(done.stdout, r"(?m)^ended early: no connection could be opened$")
        self.assertRegex(done.stdout, r"(?m)^requests +none measured: ")

    def test_silent_connections_come_back_as_speaking_ones_do(self):
        with support.Server() as server:
            address = server.address
        # Nobody listens when they begin; a server comes later.
        process = support.subprocess.Popen(
            [support.LOAD, "--connect", address, "--connections", "1", "--silent", "5",
             "--reconnect", "--duration", "20s"],
            env=support.clean_environment(), stdout=support.subprocess.PIPE,
            stderr=support.subprocess.PIPE, text=True)
        self.assertRegex(process.stdout.readline(), "^pinion-load ")
        self.assertRegex(process.stderr.readline(), " 0 open")
        with support.Server(listen=address):
            for line in process.stderr:
                if " 6 open" in line:
                    break
            process.send_signal(support.signal.SIGINT)
            output, _ = process.communicate(timeout=support.PATIENCE)
        self.assertEqual(process.returncode, 0)
        self.assertRegex(output, r"(?m)^silent +5 opened, ")
        self.assertRegex(output, r"(?m)^errors +\d+ connect: refused")

    def test_interrupted_silent_connections_are_no_errors(self):
        with support.Server() as server:
            code, output, _, results = self.interrupted(server, "--connections", "0",
                                                        "--silent", "5")
            self.assertEqual(code, 0)
            self.assertEqual(results["request_errors"], {})
            self.assertEqual(results["connect_errors"], {})
            self.assertRegex(output, r"(?m)^errors +none$")

    def test_interrupted_run_reports(self):
        with support.Server() as server:
            process = support.subprocess.Popen(
                [support.LOAD, "--connect", server.address, "--duration", "1h"],
                env=support.clean_environment(), stdout=support.subprocess.PIPE,
                stderr=support.subprocess.PIPE, text=True)
            time.sleep(2)
            process.send_signal(support.signal.SIGINT)
            output, _ = process.communicate(timeout=support.PATIENCE)
            self.assertEqual(process.returncode, 0)
            self.assertIn("interrupted", output)
            self.assertRegex(output, r"(?m)^verified +every byte")


if __name__ == "__main__":
    support.main()
