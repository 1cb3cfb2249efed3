"""The programs on SIGUSR1: they report on their lcores and go on, whatever they are doing."""

import fcntl
import os
import re
import signal
import socket
import subprocess
import time

import support
from support import ECHO, LOAD


def wait_until(condition):
    deadline = time.monotonic() + support.PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("it didn't come about")
        time.sleep(0.01)


def holds_report_signal(pid):
    """Whether the main thread has SIGUSR1 blocked."""
    with open(f"/proc/{pid}/status") as status:
        blocked = next(line for line in status if line.startswith("SigBlk:"))
    return int(blocked.split()[1], 16) >> (signal.SIGUSR1 - 1) & 1 == 1


class Report(support.TestCase):
    def test_echo_reports_on_each_lcore_and_serves_on(self):
        with support.Server("--lcores", "2", "--share-cpus") as server, \
                server.connect() as connection:
            connection.sendall(b"before")
            self.assertEqual(support.receive_exactly(connection, 6), b"before")
            server.signal(signal.SIGUSR1)
            errors = ""
            while errors.count("buffers_lowest") < 2:
                errors += server.process.stderr.readline()
            connection.sendall(b"after")
            self.assertEqual(support.receive_exactly(connection, 5), b"after")
            self.assertEqual(server.stop(), 0)
        for lcore in (0, 1):
            self.assertRegex(errors, rf"(?m)^\S+ info  lcore {lcore} on CPU \d+$")
            self.assertRegex(errors, rf"(?m)^\S+ info  lcore {lcore} on CPU \d+: the program$")
        for line in (r"turns +\d+; busy [\d.]+% idle [\d.]+% parked [\d.]+% of \S+",
                     r"overlong +\d+ turns",
                     r"parks +\d+, \d+ failed, \d+ dozes; woken by \d+ timers, \d+ completions, "
                     r"\d+ messages, \d+ signals",
                     r"spins +\d+ preempted, given up \d+ times",
                     r"messages +\d+, \d+ doorbells",
                     r"tasks +2 live, [23] spawned, 0 refused, \d+ resumptions",
                     r"timers +\d+ armed, \d+ fired in \d+ turns, late p50 \S+ p99 \S+ max \S+",
                     r"wheel +\d+ armed, .* steps back",
                     r"ring +\d+ enters, \d+ submitted, \d+ completions, \d+ overflows, "
                     r"\d+ in flight",
                     r"requests 1",
                     r"transport accepted 1, open 1, bytes_in 6, bytes_out 6, buffers_free \d+, "
                     r"buffers_lowest \d+"):
            self.assertRegex(errors, rf"(?m)^  {line}$")

    def test_a_metronome_is_reported_on_once(self):
        with support.Server("--clock", "metronome", "--idle", "park") as server, \
                server.connect() as connection:
            connection.sendall(b"before")
            self.assertEqual(support.receive_exactly(connection, 6), b"before")
            server.signal(signal.SIGUSR1)
            errors = ""
            while "buffers_lowest" not in errors:
                errors += server.process.stderr.readline()
            self.assertEqual(server.stop(), 0)
        lines = re.findall(r"(?m)^\S+ info  metronome: \d+ beats, \d+ late, \d+ us apart at most, "
                           r"\d+ us of late; \d+ pauses, 0 rings$", errors)
        self.assertEqual(len(lines), 1, errors)

    def test_load_reports_and_goes_on(self):
        with support.Server() as server:
            command = [LOAD, "--connect", server.address, "--duration", "2s", "--warmup", "0s"]
            with subprocess.Popen(command, env=support.clean_environment(), text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                self.assertRegex(process.stdout.readline(), r"^pinion-load ")
                process.send_signal(signal.SIGUSR1)
                output, errors = process.communicate(timeout=support.PATIENCE)
            self.assertEqual(process.returncode, 0, errors)
            self.assertRegex(output, r"(?m)^verified +every byte of ")
            self.assertRegex(errors, r"(?m)^\S+ info  lcore 0 on CPU \d+$")
            self.assertRegex(errors, r"(?m)^  transport .*buffers_free \d+, ")

    def test_a_report_that_nobody_takes_holds_up_nobody(self):
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        os.write(writer, b"x" * 4096)
        port = support.free_port()
        process = subprocess.Popen([ECHO, "--listen", f"127.0.0.1:{port}"], stderr=writer,
                                   stdout=subprocess.PIPE, env=support.clean_environment())
        try:
            process.stdout.readline()
            with socket.create_connection(("127.0.0.1", port), support.PATIENCE) as connection:
                for _ in range(20):
                    process.send_signal(signal.SIGUSR1)
                    connection.sendall(b"there?")
                    self.assertEqual(support.receive_exactly(connection, 6), b"there?")
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=support.PATIENCE)
            self.assertEqual(process.returncode, 0)
        finally:
            process.kill()
            process.wait()
            os.close(reader)
            os.close(writer)

    def test_the_signal_is_harmless_where_no_lcore_runs(self):
        for program in (ECHO, LOAD):
            reader, writer = os.pipe()
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
            os.write(writer, b"x" * 4096)
            # It waits for the reader of the pipe.
            process = subprocess.Popen([program, "--help"], stdout=writer,
                                       env=support.clean_environment())
            os.close(writer)
            wait_until(lambda pid=process.pid: holds_report_signal(pid))
            process.send_signal(signal.SIGUSR1)
            with open(reader, "rb") as rest:
                self.assertIn(b"--idle", rest.read())
            self.assertEqual(process.wait(support.PATIENCE), 0)

    def test_a_signal_from_before_the_start_is_acted_on(self):
        def signal_itself():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
            os.kill(os.getpid(), signal.SIGUSR1)

        with support.Server(preexec_fn=signal_itself) as server:
            self.assertRegex(server.process.stderr.readline(), r"^\S+ info +lcore 0 on CPU \d+$")
            self.assertEqual(server.stop(), 0)


class SharedCpus(support.TestCase):
    def test_more_lcores_than_cpus_serve(self):
        cpu = str(min(os.sched_getaffinity(0)))
        with support.Server("--lcores", "3", "--cpus", cpu, "--share-cpus") as server:
            self.assertIn(f" 3 lcores (flag) on CPU {cpu},{cpu},{cpu} (flag), ", server.first_line)
            connections = [server.connect() for _ in range(20)]
            for connection in connections:
                connection.sendall(b"in")
                self.assertEqual(support.receive_exactly(connection, 2), b"in")
                connection.close()
            self.assertEqual(server.stop(), 0)
        self.assertRegex(server.errors, rf"(?m)warn  3 lcores share CPU {cpu}: ")
        self.assertEqual(server.errors.count("share CPU"), 1)

    def test_lcores_that_never_sleep_share_none(self):
        cpu = str(min(os.sched_getaffinity(0)))
        self.assert_error(
            support.run([ECHO, "--lcores", "2", "--cpus", cpu, "--share-cpus", "--idle", "spin"]),
            2, f"lcores that never sleep would take CPU {cpu} from each other",
            "idle policy park or adaptive, or a CPU for each lcore")


if __name__ == "__main__":
    support.main()
