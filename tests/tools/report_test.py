#!/usr/bin/env python3
"""What tools/lib/test_report.py counts, on logs as Meson and GoogleTest write them."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "support"))
import tap

REPORT = TOP / "tools" / "lib" / "test_report.py"


class Report(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.build = pathlib.Path(scratch.name)
        for folder in ("meson-info", "meson-logs", "lib"):
            (self.build / folder).mkdir()
        self.protocols = {}
        self.records = []
        self.selected = []

    def ran(self, name, protocol, result="OK", stdout="", stderr="", start=0.0):
        self.protocols[name] = protocol
        self.selected.append(name)
        self.records.append(
            {"name": f"pinion:x / {name}", "result": result, "stdout": stdout, "stderr": stderr,
             "starttime": start}
        )  # fmt: skip

    def wrote_xml(self, name, cases):
        body = "".join(
            f'<testcase classname="S" name="{case}">{inside}</testcase>' for case, inside in cases
        )
        xml = f'<testsuites><testsuite name="S">{body}</testsuite></testsuites>'
        (self.build / f"{name}.xml").write_text(xml, encoding="utf-8")

    def report(self, ci="", allowed=""):
        tests = [{"name": name, "protocol": protocol} for name, protocol in self.protocols.items()]
        (self.build / "meson-info" / "intro-tests.json").write_text(json.dumps(tests))
        (self.build / "selected").write_text("".join(f"together\t{n}\n" for n in self.selected))
        log = "".join(json.dumps(record) + "\n" for record in self.records)
        (self.build / "meson-logs" / "together.json").write_text(log)
        (self.build / "allowed").write_text(allowed)
        done = subprocess.run(
            [sys.executable, REPORT, self.build, self.build / "allowed"],
            env={**os.environ, "CI": ci}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout.strip().splitlines()

    def test_counts_cases_and_gives_reasons_of_skips(self):
        self.ran("lib/a", "gtest")
        skipped = '<skipped message="f.cc:3&#xA;no tap"/>'
        self.wrote_xml("lib/a", [("Holds", ""), ("Waits", skipped)])
        code, lines = self.report()
        self.assertEqual((code, lines[-1]), (0, "1 passed, 0 failed, 1 skipped"))
        self.assertIn("skipped: no tap: lib/a S.Waits", lines)

    def test_a_skip_in_ci_fails_unless_it_is_allowed(self):
        self.ran("lib/a", "exitcode")
        self.ran("lib/b", "exitcode", result="SKIP", stdout="no hugepages\n")
        self.assertEqual(self.report(ci="true")[1][-1], "1 passed, 1 failed, 0 skipped")
        code, lines = self.report(ci="true", allowed="# why\nno hugepages\n")
        self.assertEqual((code, lines[-1]), (0, "1 passed, 0 failed, 1 skipped"))

    def test_says_why_a_tap_case_failed(self):
        printed = "1..2\nok 1 - names\nnot ok 2 - width\n# f.cc:3: 101 columns\n"
        self.ran("tools/a", "tap", result="FAIL", stdout=printed)
        code, lines = self.report()
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertEqual(lines[-3:-1], ["failed: tools/a width", "  f.cc:3: 101 columns"])

    def test_names_the_case_in_which_a_program_died(self):
        printed = "[ RUN      ] S.A\n[       OK ] S.A (0 ms)\n[ RUN      ] S.B\n"
        self.ran("lib/a", "gtest", result="FAIL", stdout=printed)
        code, lines = self.report()
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertIn("failed: lib/a S.B (the program died in it)", lines)

    def test_a_bad_exit_after_good_cases_is_a_failure(self):
        self.ran("lib/a", "gtest", result="FAIL")
        self.wrote_xml("lib/a", [("Holds", "")])
        self.assertEqual(self.report()[1][-1], "1 passed, 1 failed, 0 skipped")

    def test_ignores_what_an_earlier_run_left(self):
        self.ran("lib/a", "gtest", start=4e9)
        self.wrote_xml("lib/a", [("Holds", "")])
        self.assertEqual(self.report()[1][-1], "0 passed, 1 failed, 0 skipped")

    def test_a_program_that_did_not_run_has_failed(self):
        self.ran("lib/a", "exitcode")
        self.selected.append("lib/gone")
        self.assertEqual(self.report()[1][-1], "1 passed, 1 failed, 0 skipped")

    def test_counts_tap(self):
        printed = "1..3\nok 1 - a\nnot ok 2 - b\nok 3 # SKIP no c\n"
        self.ran("t", "tap", result="FAIL", stdout=printed)
        self.assertEqual(self.report()[1][-1], "1 passed, 1 failed, 1 skipped")

    def test_nothing_at_all_is_no_success(self):
        self.assertEqual(self.report(), (1, ["0 passed, 0 failed, 0 skipped"]))


if __name__ == "__main__":
    tap.main()
