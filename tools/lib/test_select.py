#!/usr/bin/env python3
"""Which tests does a name mean?

usage: test_select.py BUILD_DIR [NAME]

NAME is a suite, a test program, or a GoogleTest filter; without it, all tests. Prints one line per
test program, "together<TAB>name" or "alone<TAB>name" (those of the suite `realtime`, which want the
machine for themselves), after "filter<TAB>pattern" where test cases were named, and one line per
file that ninja has to make for them, "target<TAB>file below BUILD_DIR". Exit code 2, with the
nearest names, when there is no such test.
"""

import difflib
import json
import os
import subprocess
import sys


def introspect(what, build_dir):
    command = ["meson", "introspect", what, build_dir]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def load_tests(build_dir):
    tests = introspect("--tests", build_dir)
    for test in tests:
        test["suites"] = {suite.split(":")[-1] for suite in test["suite"]}
    return [test for test in tests if any(s.split(":")[0] == "pinion" for s in test["suite"])]


def gtest_cases(test, pattern="*"):
    """The test cases of one program that a GoogleTest filter matches, as Suite.Name."""
    if test["protocol"] != "gtest" or not os.access(test["cmd"][0], os.X_OK):
        return []
    environment = {**os.environ, **test["env"]}
    listing = subprocess.run(
        test["cmd"] + ["--gtest_list_tests", f"--gtest_filter={pattern}"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    ).stdout
    cases = []
    suite = ""
    for line in listing.splitlines():
        word = line.split("#")[0].rstrip()
        if not line.startswith(" ") and word.endswith("."):
            suite = word
        elif line.startswith("  "):
            cases.append(suite + word.strip())
    return cases


def select(tests, name):
    """Returns (chosen tests, GoogleTest filter or None)."""
    chosen = [test for test in tests if name in test["suites"] or name == test["name"]]
    if chosen:
        return chosen, None
    pattern = name if any(mark in name for mark in ".*?:") else f"{name}.*:*.{name}:*.{name}/*"
    return [test for test in tests if gtest_cases(test, pattern)], pattern


def nearest(tests, name):
    known = {test["name"] for test in tests}
    for test in tests:
        known |= test["suites"]
        for case in gtest_cases(test):
            known |= {case, *case.split(".")}
    folded = {word.lower(): word for word in known}
    close = difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.4)
    return [folded[word] for word in close]


def needed_files(build_dir, tests):
    needed = {target for test in tests for target in test["depends"]}
    for target in introspect("--targets", build_dir) if needed else []:
        if target["id"] in needed:
            for file in target["filename"]:
                yield os.path.relpath(file, os.path.realpath(build_dir))


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    tests = load_tests(sys.argv[1])
    chosen, pattern = tests, None
    if len(sys.argv) == 3:
        name = sys.argv[2]
        chosen, pattern = select(tests, name)
        if not chosen:
            print(f"error: no suite, test or test case is called '{name}'", file=sys.stderr)
            suites = sorted(set().union(*(test["suites"] for test in tests)))
            hint = nearest(tests, name) or suites
            print(f"fix: did you mean {', '.join(hint)}?", file=sys.stderr)
            return 2
    if pattern:
        print(f"filter\t{pattern}")
    for test in chosen:
        print(f"{'alone' if 'realtime' in test['suites'] else 'together'}\t{test['name']}")
    for file in needed_files(sys.argv[1], chosen):
        print(f"target\t{file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
