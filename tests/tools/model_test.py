#!/usr/bin/env python3
"""That tests/models/run_model.py believes a model only for what spin has looked at."""

import contextlib
import importlib.util
import io
import pathlib
import shutil
import sys
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "support"))
import tap

SPEC = importlib.util.spec_from_file_location("run_model", TOP / "tests/models/run_model.py")
run_model = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(run_model)

COUNTS = """/* Counts.
 *
 * verify: STEPS=3
 * fault: TOO_FAR  one step more
 */
int count;
active proctype counter() {
  do
  :: count < STEPS -> count++; assert(count <= STEPS)
  :: else -> break
  od;
#ifdef FAULT_TOO_FAR
  count++;
#endif
  assert(count == STEPS)
}
"""


class RunModel(unittest.TestCase):
    def setUp(self):
        if shutil.which("spin") is None:
            self.skipTest("no spin")

    def failed(self, text):
        """The cases that fail for a model with this text."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "counts.pml"
            path.write_text(text, encoding="utf-8")
            cases = run_model.make_cases(run_model.Model(path))
            suite = unittest.defaultTestLoader.loadTestsFromTestCase(cases)
            result = unittest.TestResult()
            with contextlib.redirect_stdout(io.StringIO()):
                suite.run(result)
        self.assertEqual(result.testsRun, 4)
        bad = result.failures + result.errors
        return sorted(test.id().rpartition(".")[2].removeprefix("test_") for test, _ in bad)

    def changed(self, old, new):
        self.assertIn(old, COUNTS)
        return self.failed(COUNTS.replace(old, new))

    def test_a_good_model_holds(self):
        self.assertEqual(self.failed(COUNTS), [])

    def test_an_error_is_one(self):
        self.assertEqual(self.changed("assert(count == STEPS)", "assert(count == 2)"),
                         ["holds STEPS=3"])  # fmt: skip

    def test_a_search_that_is_cut_short_does_not_hold(self):
        self.assertIn("holds STEPS=200000", self.changed("STEPS=3", "STEPS=200000"))

    def test_a_process_that_stands_for_ever_is_an_error(self):
        self.assertIn("holds STEPS=3", self.changed("  :: else -> break\n", ""))

    def test_a_cycle_is_an_error_where_a_formula_forbids_it(self):
        formula = "}\nltl ends { <> (count == 3) }\n"
        self.assertEqual(self.failed(COUNTS.rstrip()[:-1] + formula), [])
        loops = COUNTS.replace("count++; assert(count <= STEPS)", "count = 1 - count")
        self.assertIn("holds STEPS=3", self.failed(loops.rstrip()[:-1] + formula))

    def test_a_fault_that_does_no_harm_goes_unnoticed(self):
        self.assertEqual(self.changed("  count++;\n", "  count = count;\n"), ["finds TOO_FAR"])

    def test_a_fault_that_is_planted_and_not_listed(self):
        self.assertEqual(self.changed("#endif", "#endif\n#ifdef FAULT_OTHER\n#endif"),
                         ["every_planted_fault_is_listed"])  # fmt: skip

    def test_a_step_that_is_never_taken(self):
        step = "  :: count > STEPS -> count = 0\n  :: else"
        self.assertEqual(self.changed("  :: else", step), ["every_step_is_taken"])

    def test_a_model_that_spin_refuses(self):
        self.assertIn("holds STEPS=3", self.changed("int count;", ""))


if __name__ == "__main__":
    tap.main()
