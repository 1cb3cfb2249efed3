#!/usr/bin/env python3
"""Which tests tools/lib/test_select.py chooses, and what it wants built for them."""

import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "support"))
import tap

SELECT = TOP / "tools" / "lib" / "test_select.py"
GTEST = """#!/bin/sh
case "$*" in *"=Wheel."* | *"=*") printf 'Wheel.\\n  Fires\\n  Waits  # GetParam() = 1\\n' ;; esac
"""


def write_program(path, text):
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


class Select(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="with blank ")
        self.addCleanup(scratch.cleanup)
        self.build = pathlib.Path(scratch.name).resolve()
        write_program(self.build / "wheel_test", GTEST)
        write_program(self.build / "meson", '#!/bin/sh\ncat "$3/intro$2"\n')
        wheel = str(self.build / "wheel_test")
        tests = [
            self.described("timers/wheel", [wheel], ["pinion:timers"], "gtest", ["wheel@exe"]),
            self.described("apps/echo", ["python3"], ["pinion:apps", "pinion:realtime"], "tap", []),
            self.described("foreign", ["x"], ["other:timers"], "exitcode", []),
        ]
        targets = [{"id": "wheel@exe", "filename": [wheel]}, {"id": "x@exe", "filename": ["/x"]}]
        (self.build / "intro--tests").write_text(json.dumps(tests))
        (self.build / "intro--targets").write_text(json.dumps(targets))

    def described(self, name, command, suites, protocol, depends):
        return {"name": name, "cmd": command, "suite": suites, "protocol": protocol, "env": {},
                "depends": depends}  # fmt: skip

    def select(self, *names):
        done = subprocess.run(
            [sys.executable, SELECT, self.build, *names],
            env={**os.environ, "PATH": f"{self.build}:{os.environ['PATH']}"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()

    def test_without_a_name_all_of_our_own(self):
        expected = ["together\ttimers/wheel", "alone\tapps/echo", "target\twheel_test"]
        self.assertEqual(self.select(), (0, expected, []))

    def test_a_suite_and_a_program(self):
        wheel = ["together\ttimers/wheel", "target\twheel_test"]
        self.assertEqual(self.select("timers")[1], wheel)
        self.assertEqual(self.select("timers/wheel")[1], wheel)
        self.assertEqual(self.select("realtime")[1], ["alone\tapps/echo"])

    def test_cases_by_their_filter(self):
        expected = ["filter\tWheel.*", "together\ttimers/wheel", "target\twheel_test"]
        self.assertEqual(self.select("Wheel.*")[1], expected)

    def test_an_unknown_name_gets_the_nearest(self):
        code, lines, errors = self.select("timrs")
        self.assertEqual((code, lines), (2, []))
        self.assertEqual(errors[0], "error: no suite, test or test case is called 'timrs'")
        self.assertRegex(errors[1], r"^fix: did you mean .*\btimers\b")


if __name__ == "__main__":
    tap.main()
