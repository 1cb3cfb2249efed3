"""Wrong use of the programs: each is an error with its remedy, before anything has started."""

import os
import re
import resource
import socket
import subprocess
import tempfile

import support
from support import ECHO, LOAD, run


def limit_descriptors(soft, hard):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class WrongUse(support.TestCase):
    def test_unknown_flag(self):
        self.assert_error(
            run([ECHO, "--read-timout", "3s"]), 2,
            "unknown option --read-timout",
            "--read-timeout; pinion-echo --help lists all options")
        self.assert_error(
            run([LOAD, "--conections", "3"]), 2,
            "unknown option --conections",
            "--connections; pinion-load --help lists all options")

    def test_bad_duration(self):
        self.assert_error(
            run([ECHO, "--read-timeout", "30"]), 2,
            "--read-timeout 30: a duration needs a unit",
            "--read-timeout TIME, such as 250ms, 30s or 1m30s.*")
        self.assert_error(
            run([ECHO], {"PINION_WRITE_TIMEOUT": "soon"}), 2,
            "PINION_WRITE_TIMEOUT=soon: not a duration",
            "PINION_WRITE_TIMEOUT=TIME, such as .*")

    def test_value_out_of_range(self):
        self.assert_error(run([ECHO, "--lcores", "0"]), 2,
                          "--lcores 0: out of range", r"--lcores N, from 1 to \d+")
        self.assert_error(run([ECHO, "--keepalive", "idle=1ms"]), 2,
                          "--keepalive idle=1ms: idle is out of range", "--keepalive SPEC, .*")
        self.assert_error(run([ECHO, "--keepalive", "idel=60s"]), 2,
                          "--keepalive idel=60s: unknown part idel, did you mean idle",
                          "--keepalive SPEC, .*")
        self.assert_error(run([ECHO, "--idle", "sleepy"]), 2,
                          "--idle sleepy: .*", "--idle POLICY, spin, adaptive or park")
        self.assert_error(run([ECHO, "--submit-mode", "fast"]), 2,
                          "--submit-mode fast: no such mode",
                          "--submit-mode MODE, low-latency, throughput or adaptive")
        self.assert_error(run([ECHO], {"PINION_SUBMIT_MODE": "fast"}), 2,
                          "PINION_SUBMIT_MODE=fast: no such mode",
                          "PINION_SUBMIT_MODE=MODE, low-latency, throughput or adaptive")
        self.assert_error(run([ECHO], {"PINION_SUBMIT_BATCH": "0"}), 2,
                          "PINION_SUBMIT_BATCH=0: out of range",
                          "PINION_SUBMIT_BATCH=N, from 1 to 32768")
        self.assert_error(run([ECHO], {"PINION_SUBMIT_MAX_WAIT_US": "1000001"}), 2,
                          "PINION_SUBMIT_MAX_WAIT_US=1000001: out of range",
                          "PINION_SUBMIT_MAX_WAIT_US=N, from 0 to 1000000")
        self.assert_error(run([ECHO, "--clock", "sun"]), 2, "--clock sun: no such clock",
                          "--clock CLOCK, automatic, tsc, monotonic or metronome")

    def test_more_lcores_than_cpus(self):
        self.assert_error(run(["taskset", "-c", "0", ECHO, "--lcores", "2"]), 2,
                          "2 lcores asked for, 1 CPUs to run them on", "choose 1 to 1 lcores")

    def test_lcores_and_cpus_disagree(self):
        self.assert_error(run([ECHO, "--lcores", "2", "--cpus", "0"]), 2,
                          "--lcores 2 needs as many CPUs, --cpus names 1",
                          "--cpus LIST with one CPU for each lcore, or leave --lcores out")
        self.assert_error(run([LOAD, "--lcores", "1", "--cpus", "0-1"]), 2,
                          "--lcores 1 needs as many CPUs, --cpus names 2", ".+")
        self.assert_error(run([ECHO, "--cpus", "0-4095"]), 2,
                          "--cpus makes --lcores 4096: out of range",
                          "--lcores N, from 1 to 256")

    def test_a_value_that_is_missing(self):
        self.assert_error(run([ECHO, "--read-timeout"]), 2, "--read-timeout needs a value",
                          "--read-timeout TIME, such as 250ms, 30s or 1m30s, from 1ms, or none")
        self.assert_error(run([ECHO, "--config"]), 2, "--config needs a value", "--config FILE")

    def test_cpu_that_is_not_there(self):
        self.assert_error(run([ECHO, "--cpus", "4095"]), 2,
                          "this process may not use CPU 4095", r"choose from [\d,-]+.*")

    def test_config_file_with_an_unknown_key(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('# a comment\nlcores = 1\nread_timeout = "3s"\n')
            file.flush()
            self.assert_error(run([ECHO, "--config", file.name]), 2,
                              f"{file.name}:3: unknown setting read_timeout", "read-timeout = …")

    def test_config_file_with_a_wrong_type(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('\nlcores = "two"\n')
            file.flush()
            self.assert_error(run([ECHO, "--config", file.name]), 2,
                              f"{file.name}:2: lcores must be a whole number, this is text",
                              "lcores = 1")

    def assert_file_error(self, content, error, fix=".+"):
        with tempfile.NamedTemporaryFile(suffix=".toml") as file:
            file.write(content)
            file.flush()
            self.assert_error(run([ECHO, "--config", file.name]), 2,
                              error.replace("FILE", re.escape(file.name)), fix)

    def test_config_file_that_is_not_toml(self):
        form = "one setting a line, name = value, with text in quotes"
        for garbage in (b"[[[", b"[[.", b"[[=", b"[[#", b"[[+", b"[[\n", b"[[", b"[[]", b"[", b"[.",
                        b"[=", b"=", b".", b"stats", b"stats =", b"stats = ", b"stats = [", b"\xff",
                        b"stats = 1 2", b"\x00", b'listen = "a', b"stats = {", b"[[a.[b]]"):
            with self.subTest(garbage):
                self.assert_file_error(garbage, r"FILE:\d+(:\d+)?: .+", form)
                self.assert_file_error(b"lcores = 1\n\n  " + garbage,
                                       r"FILE:[34](:\d+)?: .+", form)
        self.assert_file_error(b"stats = 1\nlcores = 1\nstats = 2\n", r"FILE:3:\d+: .*", form)

    def test_config_file_with_tables_and_lists(self):
        self.assert_file_error(b"[listen]\nport = 1\n",
                               "FILE:1: listen must be text in quotes, this is a table")
        self.assert_file_error(b"[server]\nstats = 1\n", "FILE:1: unknown setting server")
        self.assert_file_error(b"a.b = 1\n", "FILE:1: unknown setting a")
        self.assert_file_error(b"stats = [1]\n",
                               "FILE:1: stats must be a whole number, this is an array")
        self.assert_file_error(b"stats = 1.5\n", "FILE:1: stats must be a whole number, .*fraction")
        self.assert_file_error(b"stats = -1\n", "FILE:1: stats = -1: not a whole number")
        self.assert_file_error(b"stats = 9223372036854775808\n", r"FILE:1:\d+: .+")
        self.assert_file_error(b"read-timeout = 30\n",
                               "FILE:1: read-timeout must be text in quotes.*")

    def test_config_file_that_is_no_file(self):
        remedy = "--config or PINION_CONFIG, a file that exists and that this user may read"
        self.assert_error(run([ECHO, "--config", "/"]), 2,
                          "can't read the settings file /: Is a directory", remedy)
        self.assert_error(run([ECHO, "--config", ""]), 2,
                          "can't read the settings file '': .*", remedy)
        self.assert_error(run([ECHO, "--config", "/dev/zero"]), 2,
                          "the settings file /dev/zero is larger than 64 KiB", ".+")

    def test_what_is_shown_does_nothing_to_a_terminal(self):
        self.assert_error(run([ECHO, "--listen", "a'b"]), 2, r"--listen 'a'\\''b': .*", ".+")
        for text in ("\x1b[31m", "a\nfix: b", "\x7f\x08", "\u009b31m"):
            with self.subTest(text):
                for done in (run([ECHO, "--listen", text]), run([ECHO, text]),
                             run([ECHO, "--" + text]), run([ECHO], {"PINION_LISTEN": text}),
                             run([ECHO, "--config", text])):
                    self.assert_error(done, 2, ".+", ".+")
                    self.assertFalse([c for c in done.stderr.replace("\n", "")
                                      if ord(c) < 32 or 127 <= ord(c) < 160], done.stderr)

    def test_a_switch_and_its_values(self):
        self.assert_error(run([LOAD, "--reconnect=maybe"]), 2,
                          "--reconnect maybe: neither true nor false",
                          "--reconnect=true, or --reconnect=false")
        self.assert_error(run([LOAD], {"PINION_RECONNECT": "maybe"}), 2,
                          "PINION_RECONNECT=maybe: neither true nor false",
                          "PINION_RECONNECT=true, or PINION_RECONNECT=false")

    def test_config_file_that_is_not_there(self):
        self.assert_error(run([ECHO, "--config", "/nowhere/echo.toml"]), 2,
                          "can't read the settings file /nowhere/echo.toml: .*No such file.*",
                          "--config or PINION_CONFIG, a file that exists and .*")

    def test_bad_address(self):
        self.assert_error(run([ECHO, "--listen", "localhost"]), 2,
                          "--listen localhost: .*", "--listen ADDR:PORT, such as 127.0.0.1:7007.*")
        self.assert_error(run([ECHO, "--listen", "127.0.0.1:70000"]), 2,
                          "--listen 127.0.0.1:70000: .*", "--listen ADDR:PORT, such as .*")

    def test_addresses_that_no_socket_takes(self):
        for program, option in ((ECHO, "--listen"), (LOAD, "--connect")):
            self.assert_error(run([program, option, "[fe80::1]:7"]), 2,
                              rf"{option} '\[fe80::1\]:7': a link-local address needs .*", ".+")
            self.assert_error(run([program, option, "[::ffff:127.0.0.1]:7"]), 2,
                              rf"{option} \S+: an IPv4 address in IPv6 form.*", ".+")
            for address in ("224.0.0.1", "255.255.255.255", "[ff02::1]"):
                self.assert_error(run([program, option, address + ":7"]), 2,
                                  rf"{option} \S+: TCP has no multicast.*", f"{option} .*")
        self.assert_error(run([LOAD, "--connect", "127.0.0.1:0"]), 2,
                          "--connect 127.0.0.1:0: port 0 can't be connected to",
                          "--connect ADDR:PORT, .*")

    def test_fewer_connections_than_lcores(self):
        self.assert_error(run([ECHO, "--lcores", "2", "--max-connections", "1"]), 2,
                          "--max-connections 1 is less than one for each of 2 lcores",
                          "--max-connections 2, or fewer lcores")

    def test_address_of_another_host(self):
        self.assert_error(run([ECHO, "--listen", "192.0.2.1:7007"]), 1,
                          ".*192.0.2.1.*", ".+")

    def test_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            self.assert_error(run([ECHO, "--listen", f"127.0.0.1:{port}"]), 1,
                              f".*127.0.0.1:{port}.*", ".+")

    def test_port_in_use_by_another_pinion_echo(self):
        with support.Server() as server:
            for lcores in ("1", "2"):
                self.assert_error(run([ECHO, "--listen", server.address, "--lcores", lcores]), 1,
                                  f".*{server.address}.*", ".+")
            with server.connect() as connection:
                connection.sendall(b"still here")
                self.assertEqual(support.receive_exactly(connection, 10), b"still here")

    def test_privileged_port_as_non_root(self):
        with tempfile.TemporaryDirectory() as directory:
            program, environment = support.copy_for_everyone(directory)
            user = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            if os.geteuid() != 0:
                user = {}
            done = run([program, "--listen", "127.0.0.1:80"], environment, **user)
            self.assert_error(done, 1, ".*127.0.0.1:80.*", ".+")

    def test_too_few_descriptors(self):
        done = run([ECHO, "--max-connections", "10000"],
                   preexec_fn=limit_descriptors(1024, 1024))
        self.assert_error(
            done, 1,
            r"10000 connections \(--max-connections\) need 10036 file descriptors, this process "
            "may have 1024",
            r"a higher hard limit \(as root: ulimit -n 10036; docker --ulimit nofile=10036; "
            r"systemd LimitNOFILE=10036\), or at most 988 with --max-connections")
        done = run([LOAD, "--connections", "10", "--silent", "3000"],
                   preexec_fn=limit_descriptors(1024, 1024))
        self.assert_error(
            done, 1,
            r"3010 connections \(--connections and --silent together\) need 3046 file .*",
            ".*, or at most 988 with --connections and --silent together")

    def test_soft_limit_is_raised(self):
        with support.Server("--max-connections", "2000",
                            preexec_fn=limit_descriptors(256, 4096)) as server:
            limits = open(f"/proc/{server.process.pid}/limits").read()
            self.assertRegex(limits, r"Max open files\s+2036\s+4096")
            self.assertEqual(server.stop(), 0)

    def test_io_uring_blocked(self):
        for program in (ECHO, LOAD):
            done = run([support.WITHOUT_IO_URING, program])
            self.assert_error(done, 1, ".*io_uring.*", ".+")

    def test_nothing_was_bound_when_an_error_is_shown(self):
        port = support.free_port()
        run([support.WITHOUT_IO_URING, ECHO, "--listen", f"127.0.0.1:{port}"])
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)

    def test_load_contradictions(self):
        self.assert_error(run([LOAD, "--rate", "10", "--think", "1s"]), 2,
                          "--rate and --think exclude each other.*", ".+")
        self.assert_error(run([LOAD, "--connections", "0"]), 2,
                          "there is nothing to do.*", "--connections 50")
        self.assert_error(run([LOAD, "--json", "/nowhere/results.json"]), 1,
                          "can't write /nowhere/results.json: .*", ".+")


class HelpAndVersion(support.TestCase):
    def test_version(self):
        for program, name in ((ECHO, "pinion-echo"), (LOAD, "pinion-load")):
            for flag in ("--version", "-V"):
                done = run([program, flag])
                self.assertEqual(done.returncode, 0)
                self.assertRegex(done.stdout, rf"^{name} \d+\.\d+\.\d+\n$")

    def test_help_names_defaults_and_units_in_eighty_columns(self):
        for program in (ECHO, LOAD):
            for flag in ("--help", "-h"):
                done = run([program, flag])
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)
        echo = run([ECHO, "--help"]).stdout
        for part in ("--listen ADDR:PORT", "127.0.0.1:7007", "--read-timeout TIME", "default 30s",
                     "idle=60s,interval=10s,probes=3", "--max-connections N", "10000",
                     "--drain-timeout TIME", "--config FILE", "--print-config"):
            self.assertIn(part, echo)

    def test_help_needs_no_io_uring(self):
        self.assertEqual(run([support.WITHOUT_IO_URING, ECHO, "--help"]).returncode, 0)

    def test_output_that_nobody_reads_is_no_crash(self):
        process = subprocess.Popen([ECHO, "--help"], stdout=subprocess.PIPE)
        process.stdout.close()
        self.assertIn(process.wait(support.PATIENCE), (0, -13))


if __name__ == "__main__":
    support.main()
