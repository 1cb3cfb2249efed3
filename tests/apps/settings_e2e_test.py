"""Where the programs' settings come from: flag, environment, file, default."""

import os
import tempfile
import tomllib

import support
from support import ECHO, LOAD, run


class Settings(support.TestCase):
    def printed(self, *arguments, program=ECHO, environment=None):
        """--print-config as text and as a table."""
        done = run([program, "--print-config", *arguments], environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout, tomllib.loads(done.stdout)

    def sources(self, text):
        result = {}
        for line in text.splitlines()[1:]:
            name, rest = line.split(" = ", 1)
            result[name] = rest.rsplit("  # ", 1)[1]
        return result

    def test_defaults(self):
        text, table = self.printed()
        self.assertEqual(table, {
            "listen": "127.0.0.1:7007",
            "port": "none",
            "ip": "none",
            "gateway": "none",
            "trust-partial-checksums": False,
            "memory": "small",
            "lcores": 1,
            "cpus": "auto",
            "share-cpus": False,
            "idle": "adaptive",
            "submit-mode": "adaptive",
            "submit-batch": 32,
            "submit-max-wait-us": 50,
            "clock": "automatic",
            "read-timeout": "30s",
            "write-timeout": "10s",
            "keepalive": "idle=60s,interval=10s,probes=3",
            "max-connections": 10000,
            "stats": 1,
            "drain-timeout": "5s",
        })
        self.assertEqual(set(self.sources(text).values()), {"default"})

    def test_blanks_between_the_parts_of_keepalive(self):
        table = self.printed("--keepalive", "idle=30s, interval=5s,  probes=2")[1]
        self.assertEqual(table["keepalive"], "idle=30s,interval=5s,probes=2")

    def test_order_of_sources(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "echo.toml")
            with open(path, "w") as file:
                file.write('lcores = 2\nread-timeout = "2s"\nwrite-timeout = "2s"\n')
            text, table = self.printed(
                "--config", path, "--read-timeout", "4s",
                environment={"PINION_READ_TIMEOUT": "3s", "PINION_WRITE_TIMEOUT": "3s"})
        self.assertEqual(table["read-timeout"], "4s")
        self.assertEqual(table["write-timeout"], "3s")
        self.assertEqual(table["lcores"], 2)
        self.assertEqual(table["drain-timeout"], "5s")
        sources = self.sources(text)
        self.assertEqual(sources["read-timeout"], "flag")
        self.assertEqual(sources["write-timeout"], "environment PINION_WRITE_TIMEOUT")
        self.assertEqual(sources["lcores"], f"file {path}:1")
        self.assertEqual(sources["drain-timeout"], "default")

    def test_as_many_lcores_as_cpus_are_named(self):
        for program in (ECHO, support.LOAD):
            text, table = self.printed("--cpus", "0,2-3", program=program)
            self.assertEqual(table["lcores"], 3)
            self.assertEqual(self.sources(text)["lcores"], "cpus")
            text, table = self.printed("--cpus", "auto", program=program)
            self.assertEqual(table["lcores"], 1)

    def test_the_submission_policy_comes_from_anywhere(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('submit-max-wait-us = 70\nsubmit-batch = 5\nsubmit-mode = "adaptive"\n')
            file.flush()
            for program in (ECHO, LOAD):
                text, table = self.printed(
                    "--config", file.name, "--submit-mode", "low-latency", program=program,
                    environment={"PINION_SUBMIT_MODE": "throughput", "PINION_SUBMIT_BATCH": "9"})
                self.assertEqual(
                    [table[f"submit-{name}"] for name in ("mode", "batch", "max-wait-us")],
                    ["low-latency", 9, 70])
                sources = self.sources(text)
                self.assertEqual(sources["submit-mode"], "flag")
                self.assertEqual(sources["submit-batch"], "environment PINION_SUBMIT_BATCH")
                self.assertEqual(sources["submit-max-wait-us"], f"file {file.name}:1")

    def test_environment_names_a_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write("stats = 7\n")
            file.flush()
            _, table = self.printed(environment={"PINION_CONFIG": file.name})
        self.assertEqual(table["stats"], 7)

    def test_printed_settings_read_back_the_same(self):
        for program, arguments in (
            (ECHO, ["--listen", "[::1]:1234", "--read-timeout", "none", "--keepalive", "none",
                    "--idle", "park", "--max-connections", "77"]),
            (LOAD, ["--seed", "18446744073709551615", "--rate", "1"]),
            (LOAD, ["--seed", "9223372036854775807", "--json", "a\tb\x1b.json"]),
            (LOAD, ["--size", "4KiB", "--reconnect", "--think", "1m30s", "--json", 'a "b".json']),
        ):
            text, table = self.printed(*arguments, program=program)
            with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
                file.write(text)
                file.flush()
                _, again = self.printed("--config", file.name, program=program)
            self.assertEqual(table, again)

    def test_a_file_with_an_odd_name(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "a\nb\x1b c.toml")
            with open(path, "w") as file:
                file.write("stats = 7\n")
            text, table = self.printed("--config", path)
        self.assertEqual(table["stats"], 7)
        self.assertEqual(len(text.splitlines()), 1 + len(table))
        self.assertNotIn("\x1b", text)

    def test_files_as_editors_write_them(self):
        for content in (b"\xef\xbb\xbfstats = 7\n", b"# a\r\nstats = 7\r\n", b"stats=7", b""):
            with tempfile.NamedTemporaryFile(suffix=".toml") as file:
                file.write(content)
                file.flush()
                _, table = self.printed("--config", file.name)
            self.assertEqual(table["stats"], 7 if content else 1)

    def test_a_file_through_a_pipe(self):
        reader, writer = os.pipe()
        os.write(writer, b"stats = 7\n")
        os.close(writer)
        done = run([ECHO, "--print-config", "--config", f"/dev/fd/{reader}"], pass_fds=(reader,))
        os.close(reader)
        self.assertEqual(tomllib.loads(done.stdout)["stats"], 7)

    def test_sample_file_holds_the_defaults(self):
        sample = os.environ["PINION_ECHO_SAMPLE"]
        _, with_sample = self.printed("--config", sample)
        _, defaults = self.printed()
        self.assertEqual(with_sample, defaults)
        with open(sample, "rb") as file:
            self.assertEqual(set(tomllib.load(file)), set(defaults))


if __name__ == "__main__":
    support.main()
