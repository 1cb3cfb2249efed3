#!/usr/bin/env python3
"""What tests/support/tap.py prints of a unittest program."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "support"))
import tap

HEAD = f"""
import os, sys, unittest
sys.path.insert(0, {str(TOP / "tests" / "support")!r})
import tap
class T(unittest.TestCase):
"""
END = "\ntap.main()\n"


class Tap(unittest.TestCase):
    def run_program(self, body):
        """(exit code, lines on stdout, stderr) of a program with one class T."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "program.py"
            path.write_text(HEAD + body + END, encoding="utf-8")
            command = [sys.executable, path]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines(), done.stderr

    def test_each_case_is_counted(self):
        code, lines, errors = self.run_program(
            "  def test_a(self): pass\n"
            "  def test_b(self): self.fail('why #1')\n"
            "  def test_c(self): raise OSError('broken')\n"
        )
        self.assertEqual(code, 1)
        self.assertEqual(
            lines, ["ok 1 - T.test_a", "not ok 2 - T.test_b", "not ok 3 - T.test_c", "1..3"]
        )
        self.assertIn("AssertionError: why #1", errors)
        self.assertIn("OSError: broken", errors)

    def test_a_skip_keeps_its_reason(self):
        code, lines, _ = self.run_program("  def test_a(self): self.skipTest('no  IPv6')\n")
        self.assertEqual((code, lines), (0, ["ok 1 - T.test_a # SKIP no IPv6", "1..1"]))

    def test_a_class_that_skips_or_fails_is_one_case(self):
        set_up = "  @classmethod\n  def setUpClass(cls): raise {}\n  def test_a(self): pass\n"
        code, lines, _ = self.run_program(set_up.format("unittest.SkipTest('no veth')"))
        self.assertEqual((code, lines[-1]), (0, "1..1"))
        self.assertRegex(lines[0], r"^ok 1 .* # SKIP no veth$")
        code, lines, _ = self.run_program(set_up.format("OSError"))
        self.assertEqual((code, lines[-1]), (1, "1..1"))
        self.assertRegex(lines[0], r"^not ok 1 ")

    def test_parts_that_fail_are_named(self):
        code, lines, _ = self.run_program(
            "  def test_a(self):\n"
            "    for i in range(3):\n"
            "      with self.subTest(i=i): self.assertNotEqual(i, 1)\n"
        )
        self.assertEqual((code, lines), (1, ["not ok 1 - T.test_a (i=1)", "1..1"]))

    def test_what_tests_print_is_not_taken_for_a_result(self):
        code, lines, errors = self.run_program(
            "  def test_a(self):\n    print('ok 7 - said')\n    os.system('echo ok 8 - shouted')\n"
        )
        self.assertEqual((code, lines), (0, ["ok 1 - T.test_a", "1..1"]))
        self.assertIn("said", errors)
        self.assertIn("shouted", errors)


if __name__ == "__main__":
    tap.main()
