"""What the end-to-end tests of the programs share: starting them, and talking to them.

The programs' paths come from the environment: PINION_ECHO, PINION_LOAD, PINION_WITHOUT_IO_URING,
PINION_ALLOCATION_COUNTER_LIBRARY. Every port is chosen by the kernel.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "support"))
import tap

ECHO = os.environ.get("PINION_ECHO", "")
LOAD = os.environ.get("PINION_LOAD", "")
WITHOUT_IO_URING = os.environ.get("PINION_WITHOUT_IO_URING", "")
ALLOCATION_COUNTER = os.environ.get("PINION_ALLOCATION_COUNTER_LIBRARY", "")

# Far above what anything takes, even on a busy machine under a sanitizer.
PATIENCE = 60


def clean_environment(extra=None):
    """The environment without settings of the programs, so that a test says all of them."""
    keep = ("PINION_TEST_SCALE",)
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PINION_") or name in keep
    }
    environment.update(extra or {})
    return environment


def scale():
    return int(os.environ.get("PINION_TEST_SCALE", "1"))


def progress(line):
    """Tells whoever waits for a campaign how far it is; a test's own output is shown at its end."""
    path = os.environ.get("PINION_TEST_PROGRESS")
    if path:
        with open(path, "a") as file:
            print(line, file=file)


def run(arguments, environment=None, **options):
    """Runs a program to its end and returns its CompletedProcess, with text output."""
    return subprocess.run(
        arguments,
        env=clean_environment(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        **options,
    )


class Server:
    """A running pinion-echo, as a context manager; it is killed at the end if it still runs."""

    def __init__(self, *arguments, listen="127.0.0.1:0", environment=None, program=(), **options):
        command = [*program, ECHO, "--listen", listen, *arguments]
        self.process = subprocess.Popen(
            command,
            env=clean_environment(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        self.first_line = self.process.stdout.readline()
        found = re.search(r"listening on (\S+):(\d+)", self.first_line)
        if not found:
            self.process.kill()
            raise AssertionError(f"no first line: {self.first_line!r} {self.process.communicate()}")
        self.host = found.group(1).strip("[]")
        self.port = int(found.group(2))
        self.address = f"{found.group(1)}:{self.port}"
        self.output = None
        self.errors = None
        self.seconds_to_end = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def connect(self, timeout=PATIENCE):
        return socket.create_connection((self.host, self.port), timeout=timeout)

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def wait(self):
        """Waits for the end and returns the exit code; output and errors are kept."""
        begin = time.monotonic()
        self.output, self.errors = self.process.communicate(timeout=PATIENCE)
        self.seconds_to_end = time.monotonic() - begin
        return self.process.returncode

    def stop(self):
        """Drains it and returns the exit code."""
        self.signal()
        return self.wait()

    def cpu_seconds(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class FakeServer:
    """A listening socket whose every connection is handed to `serve(connection)` on a thread."""

    def __init__(self, serve):
        self.serve = serve
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._guarded, args=(connection,), daemon=True).start()

    def _guarded(self, connection):
        with connection:
            try:
                self.serve(connection)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def load(address, *arguments, environment=None):
    """Runs pinion-load; returns (CompletedProcess, its JSON results)."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "results.json")
        done = run([LOAD, "--connect", address, "--json", path, *arguments], environment)
        results = None
        if os.path.exists(path):
            with open(path) as file:
                text = file.read()
            results = json.loads(text) if text else None
        return done, results


def receive_exactly(connection, count):
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(min(65536, count - len(data)))
        if not piece:
            break
        data += piece
    return bytes(data)


def receive_until_end(connection):
    data = bytearray()
    while piece := connection.recv(65536):
        data += piece
    return bytes(data)


def free_port():
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def copy_for_everyone(directory):
    """Copies pinion-echo and its libraries to where every user may run it; returns its path and the
    environment that it needs."""
    os.chmod(directory, 0o755)
    shutil.copy(ECHO, directory)
    # The build tree finds them beside the programs' folder, installed ones elsewhere.
    linked = run(["ldd", ECHO]).stdout
    for name, where in re.findall(r"(libpinion\S*\.so\S*) => (\S+)", linked):
        shutil.copy(where, os.path.join(directory, name))
    path = os.path.join(directory, os.path.basename(ECHO))
    os.chmod(path, 0o755)
    return path, {"LD_LIBRARY_PATH": directory}


class TestCase(unittest.TestCase):
    maxDiff = None

    def assert_error(self, done, code, error, fix):
        """`done` ended with `code`, said nothing on stdout, and these two lines on stderr (regular
        expressions)."""
        self.assertEqual(done.returncode, code, done)
        self.assertEqual(done.stdout, "", done)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 2, done.stderr)
        self.assertRegex(lines[0], "^error: " + error + "$")
        self.assertRegex(lines[1], "^fix: " + fix + "$")


def main():
    tap.main()
