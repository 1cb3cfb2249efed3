#!/usr/bin/env python3
"""Counts the instructions that pinion's echo server spends on a request, with its three timeouts
and without, and compares them and the difference with the limits beside this file.

usage: echo_gate.py PROGRAM [--limits FILE]

PROGRAM is echo_server_pinion, which runs under callgrind and sleeps when it has nothing to do. A
round is one request on each connection. The server stands still while the requests are sent, so
that it finds them together however busy the machine is, and it sleeps again before the next round.
The figure is the slope: the instructions of many rounds less those of few, over the requests in
between. request_N is a request's with N connections, of which timers_N is what the timeouts add.
With one connection every request ends a sleep, and what the loop does now and then by the clock
shows: that figure wavers by 50, the one of 64 connections by 10.

What Pinion promises is 150 at most for the timeouts; the other limits are about a tenth above what
is measured, so that more of it can't land unseen.

Exit code: 0 within the limits, 1 over a limit, 2 wrong use or no valgrind.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from gate import fail

REQUEST = bytes(range(64))
FEW, MANY = 4, 44
ROUNDS_OF_ONE = 25  # of one connection's requests, for each round of many connections
PATIENCE = 60  # seconds
IO_URING_ENTER = "426"  # the system call's number, the same on x86-64 and arm64


def wait_until(what: str, done) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > end:
            sys.exit(f"error: the server {what} for {PATIENCE} s")
        time.sleep(0.0002)


class Server:
    """The program under callgrind, in a with block; after it `instructions` is known. It ends by
    itself when its last connection has: valgrind hands a signal on only when the thread that waits
    in io_uring_enter() comes back."""

    def __init__(self, program: pathlib.Path, out: pathlib.Path, timers: bool):
        self.out = out
        cpu = max(os.sched_getaffinity(0))
        command = ["valgrind", "--tool=callgrind", "--quiet", f"--callgrind-out-file={out}"]
        command += [str(program), "--cpu", str(cpu)] + ["--once"]
        command += ["--timers"] * timers
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.instructions = 0

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, kind, *_) -> None:
        if kind is not None:
            self.process.kill()
        try:
            errors = self.process.communicate(timeout=PATIENCE)[1]
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        if kind is None:
            if self.process.returncode != 0:
                fail(f"the server failed under valgrind:\n{errors}", "run it without valgrind")
            self.instructions = int(re.search(r"^totals: (\d+)", self.out.read_text(), re.M)[1])

    def connect(self, connections: int) -> list[socket.socket]:
        line = self.process.stdout.readline()
        if not line.strip().isdigit():
            fail(f"no port from the server, but '{line.strip()}'", "run it without valgrind")
        address = ("127.0.0.1", int(line))
        return [socket.create_connection(address, PATIENCE) for _ in range(connections)]

    def sleeps(self) -> bool:
        """Whether a thread of it waits in its io_uring."""
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            if (task / "syscall").read_text().split()[0] == IO_URING_ENTER:
                return True
        return False

    def stop(self) -> None:
        wait_until("did not sleep", self.sleeps)
        self.process.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            sys.exit("error: the server ended")

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)


def receive(connection: socket.socket) -> None:
    reply = b""
    while len(reply) < len(REQUEST):
        piece = connection.recv(len(REQUEST))
        if not piece:
            sys.exit("error: the server closed a connection")
        reply += piece
    if reply != REQUEST:
        sys.exit("error: the server answered something else")


def instructions(program: pathlib.Path, connections: int, rounds: int, timers: bool) -> int:
    with tempfile.TemporaryDirectory() as folder:
        with Server(program, pathlib.Path(folder) / "out", timers) as server:
            sockets = server.connect(connections)
            for _ in range(rounds):
                server.stop()
                for connection in sockets:
                    connection.sendall(REQUEST)
                server.go_on()
                for connection in sockets:
                    receive(connection)
            wait_until("did not sleep", server.sleeps)
            for connection in sockets:
                connection.close()
        return server.instructions


def per_request(program: pathlib.Path, connections: int, timers: bool) -> float:
    scale = ROUNDS_OF_ONE if connections == 1 else 1
    few = instructions(program, connections, FEW * scale, timers)
    many = instructions(program, connections, MANY * scale, timers)
    return (many - few) / ((MANY - FEW) * scale * connections)


def main() -> int:
    parser = argparse.ArgumentParser(description="instructions of pinion's echo server")
    parser.add_argument("program", type=pathlib.Path)
    here = pathlib.Path(__file__).resolve().parent
    parser.add_argument("--limits", type=pathlib.Path, default=here / "echo_gate_limits.json")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        fail("valgrind not found", "apt-get install valgrind")
    if not arguments.program.is_file():
        fail(f"{arguments.program} not found", "tools/dev build bench")
    limits = json.loads(arguments.limits.read_text())
    over = 0
    print(f"{'figure':<14} {'instructions':>12} {'limit':>6}")
    for connections in (1, 64):
        bare = per_request(arguments.program, connections, False)
        timers = per_request(arguments.program, connections, True)
        figures = {f"request_{connections}": timers, f"timers_{connections}": timers - bare}
        for name, figure in figures.items():
            limit = limits[name]
            over += figure > limit
            print(f"{name:<14} {figure:>12.1f} {limit:>6}{'  OVER' if figure > limit else ''}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
