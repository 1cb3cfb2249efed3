"""The programs when nobody reads what they print: no lcore, no signal and no end waits for that."""

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time

import support
from support import ECHO, LOAD

# What ends at once must not take as long as this, what hangs lasts longer.
PROMPT = 20


@contextlib.contextmanager
def full_pipe():
    """The two ends of a pipe that is full, and nobody reads."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writer, False)
    fill(writer)
    os.set_blocking(writer, True)
    try:
        yield reader, writer
    finally:
        os.close(reader)
        os.close(writer)


def fill(writer):
    try:
        while True:
            os.write(writer, b"x")
    except BlockingIOError:
        pass


@contextlib.contextmanager
def running(arguments, **streams):
    process = subprocess.Popen(arguments, env=support.clean_environment(), **streams)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def connect(port):
    """Connects as soon as somebody listens."""
    deadline = time.monotonic() + support.PATIENCE
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=PROMPT)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


class Echo(support.TestCase):
    def server(self, port, *arguments, **streams):
        command = [ECHO, "--listen", f"127.0.0.1:{port}", *arguments]
        return running(command, **{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL,
                                   **streams})

    def assert_echoes(self, connection):
        connection.sendall(b"there?")
        self.assertEqual(support.receive_exactly(connection, 6), b"there?")

    def test_serves_and_drains_with_a_full_pipe(self):
        for stream in ("stdout", "stderr"):
            with self.subTest(stream), full_pipe() as (_, pipe):
                port = support.free_port()
                with self.server(port, **{stream: pipe}) as process, connect(port) as connection:
                    self.assert_echoes(connection)
                    time.sleep(1.5)  # A line of statistics or two, that nobody takes.
                    self.assert_echoes(connection)
                    process.send_signal(signal.SIGTERM)
                    self.assertEqual(connection.recv(1), b"")
                    self.assertEqual(process.wait(PROMPT), 0)

    def test_a_pipe_that_fills_while_it_serves(self):
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        port = support.free_port()
        with self.server(port, stdout=writer) as process, connect(port) as connection:
            self.assert_echoes(connection)
            with open(f"/proc/{process.pid}/fd/1", "wb", buffering=0,
                      opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as same:
                fill(same.fileno())
            time.sleep(1.5)
            self.assert_echoes(connection)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(PROMPT), 0)
        os.close(reader)
        os.close(writer)

    def test_the_drain_timeout_and_the_second_signal_hold_with_full_pipes(self):
        for timeout, signals, code in (("500ms", 1, 0), ("50s", 2, 128 + signal.SIGTERM)):
            with self.subTest(timeout), full_pipe() as (_, pipe):
                port = support.free_port()
                arguments = ("--drain-timeout", timeout, "--write-timeout", "none")
                with self.server(port, *arguments, stdout=pipe, stderr=pipe) as process:
                    with connect(port) as stuck:
                        stuck.settimeout(1)
                        with self.assertRaises(TimeoutError):
                            while True:
                                stuck.sendall(b"x" * 65536)
                        for _ in range(signals):
                            process.send_signal(signal.SIGTERM)
                            time.sleep(0.3)
                        self.assertEqual(process.wait(PROMPT), code)

    def test_a_slow_reader_gets_every_line(self):
        with full_pipe() as (reader, pipe):
            port = support.free_port()
            with self.server(port, "--stats", "0", stdout=pipe) as process:
                connect(port).close()
                process.send_signal(signal.SIGTERM)
                taken = b""
                while process.poll() is None or select_ready(reader):
                    time.sleep(0.2)
                    taken += os.read(reader, 256) if select_ready(reader) else b""
                self.assertEqual(process.returncode, 0)
        text = taken.decode().lstrip("x")
        self.assertRegex(text, r"^pinion-echo \S+: listening on ")
        self.assertRegex(text, r"(?m)^served for ")
        self.assertRegex(text, r"(?m)^timeouts ")

    def test_output_to_a_full_device_ends_nothing(self):
        with open("/dev/full", "w") as device:
            port = support.free_port()
            with self.server(port, stdout=device, stderr=device) as process:
                with connect(port) as connection:
                    self.assert_echoes(connection)
                    process.send_signal(signal.SIGTERM)
                    self.assertEqual(process.wait(PROMPT), 0)


def select_ready(fd):
    import select
    return bool(select.select([fd], [], [], 0)[0])


class Load(support.TestCase):
    ARGUMENTS = ("--connections", "3", "--duration", "1500ms", "--warmup", "0s", "--think", "10ms")

    def test_the_run_and_its_results_are_not_lost(self):
        with support.Server() as server, tempfile.TemporaryDirectory() as directory:
            for stream in ("stdout", "stderr"):
                with self.subTest(stream), full_pipe() as (_, pipe):
                    path = os.path.join(directory, stream)
                    other = "stderr" if stream == "stdout" else "stdout"
                    command = [LOAD, "--connect", server.address, "--json", path, *self.ARGUMENTS]
                    with running(command, **{stream: pipe, other: subprocess.PIPE}) as process:
                        shown = getattr(process, other).read().decode()
                        self.assertEqual(process.wait(PROMPT), 0, shown)
                        getattr(process, other).close()
                    with open(path) as file:
                        self.assertGreater(json.load(file)["requests_answered"], 0)
                    if other == "stdout":
                        self.assertRegex(shown, r"(?m)^verified +every byte of ")

    def test_results_that_nobody_takes_are_an_error(self):
        with support.Server() as server, full_pipe() as (_, pipe), open("/dev/full", "w") as device:
            for file, why in ((pipe, "Connection timed out"),
                              (device.fileno(), "No space left on device")):
                command = [LOAD, "--connect", server.address, "--json", f"/dev/fd/{file}",
                           *self.ARGUMENTS]
                with running(command, pass_fds=(file,), stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE) as process:
                    output, errors = process.communicate(timeout=PROMPT)
                self.assertEqual(process.returncode, 1)
                self.assertRegex(output.decode(), r"(?m)^verified +every byte of ")
                self.assertRegex(errors.decode(),
                                 rf"(?m)^error: can't write /dev/fd/{file}: {why}\nfix: ")

    def test_an_error_is_told_though_nobody_reads_the_summary(self):
        with full_pipe() as (_, pipe):
            command = [LOAD, "--connect", f"127.0.0.1:{support.free_port()}", *self.ARGUMENTS]
            with running(command, stdout=pipe, stderr=subprocess.PIPE) as process:
                shown = process.stderr.read().decode()
                self.assertEqual(process.wait(PROMPT), 1)
                process.stderr.close()
            self.assertRegex(shown, r"(?m)^error: no request was answered by ")

    def test_an_interruption_ends_it(self):
        with support.Server() as server, full_pipe() as (_, pipe):
            command = [LOAD, "--connect", server.address, "--duration", "1h"]
            with running(command, stdout=pipe, stderr=pipe) as process:
                time.sleep(1.5)
                process.send_signal(signal.SIGINT)
                self.assertEqual(process.wait(PROMPT), 0)


class Answers(support.TestCase):
    def test_a_stream_that_does_not_block_gets_all_of_it(self):
        with support.Server() as server:
            run = [LOAD, "--connect", server.address, "--duration", "200ms", "--warmup", "0s"]
            for command, end in ((run, r"verified .*"), ([ECHO, "--help"], r".* the defaults?\.")):
                with self.subTest(command), full_pipe() as (reader, pipe):
                    os.set_blocking(pipe, False)
                    with running(command, stdout=pipe, stderr=subprocess.DEVNULL) as process:
                        time.sleep(0.5)  # It meets the full pipe.
                        taken = b""
                        while process.poll() is None or select_ready(reader):
                            taken += os.read(reader, 4096) if select_ready(reader) else b""
                        self.assertEqual(process.returncode, 0)
                    text = taken.decode().lstrip("x")
                    self.assertRegex(text, rf"^pinion-\w+ \d[^\0]*\n{end}\n$")

    def test_what_cannot_be_written_is_an_error(self):
        for arguments in (["--help"], ["--version"], ["--print-config"]):
            for program in (ECHO, LOAD):
                with open("/dev/full", "w") as device:
                    done = subprocess.run(
                        [program, *arguments], env=support.clean_environment(), stdout=device,
                        stderr=subprocess.PIPE, text=True, timeout=support.PATIENCE)
                self.assertEqual(done.returncode, 1)
                self.assertRegex(
                    done.stderr,
                    r"^error: can't write to standard output: No space left on device\nfix: .+\n$")


if __name__ == "__main__":
    support.main()
