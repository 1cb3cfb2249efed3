"""unittest, reported as TAP: each case with its outcome, each skip with its reason.

    if __name__ == "__main__":
        tap.main()

stdout holds TAP alone: whatever a test or a program that it starts prints there goes to stderr.
Arguments are unittest's: names of classes and cases choose among them.
"""

import os
import sys
import traceback
import unittest


class Result(unittest.TestResult):
    def __init__(self, out):
        super().__init__()
        self.out = out
        self.reported = 0

    def _report(self, good, test, directive="", error=None):
        self.reported += 1
        name = " ".join(test.id().removeprefix("__main__.").replace("#", "").split())
        verdict = "ok" if good else "not ok"
        print(f"{verdict} {self.reported} - {name}{directive}", file=self.out, flush=True)
        if error:  # to stderr, which Meson shows of a program with a failure
            print(f"{name}:", "".join(error), sep="\n", file=sys.stderr, flush=True)

    def _report_bad(self, test, error):
        self._report(False, test, error=traceback.format_exception(*error))

    def addSuccess(self, test):
        super().addSuccess(test)
        self._report(True, test)

    def addError(self, test, err):
        super().addError(test, err)
        self._report_bad(test, err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._report_bad(test, err)

    def addSubTest(self, test, subtest, err):
        """Only a part that failed is a case of its own; those that pass are their test's."""
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._report_bad(subtest, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._report(True, test, f" # SKIP {' '.join(reason.split())}")

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self._report(True, test)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._report(False, test, error=["passes, though it is marked as an expected failure"])


class Runner:
    def __init__(self, out):
        self.out = out

    def run(self, tests):
        result = Result(self.out)
        tests(result)
        print(f"1..{result.reported}", file=self.out, flush=True)
        return result


def main():
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    unittest.main(testRunner=Runner(out))
