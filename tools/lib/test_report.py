#!/usr/bin/env python3
"""Counts what `meson test` ran, in test cases.

usage: test_report.py BUILD_DIR ALLOWED_SKIPS

Reads what test_select.py chose (BUILD_DIR/selected) and what Meson logged of it
(meson-logs/{together,alone}.json). GoogleTest and TAP programs count each of their cases, any other
program is one case. A program that ended badly although none of its cases failed (a crash, a
time-out, a sanitizer's report at exit), or that did not run, counts as one failed case.

Prints the reasons of skips, the failed cases, what TAP programs say of theirs, and as the last
line the count. With CI=true a skip whose reason no line of ALLOWED_SKIPS (regular expressions; #
begins a comment) matches has failed. Exit code 1 when a case failed or none ran.
"""

import json
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

GOOD_RESULTS = {"OK", "EXPECTEDFAIL", "SKIP"}
MOST_DETAILS = 20


class Case:
    def __init__(self, program, name, outcome, reason=""):
        self.program, self.name, self.outcome, self.reason = program, name, outcome, reason
        self.details = []  # of a failure, lines


def gtest_reason(skipped):
    """GoogleTest's message is "file:line\\nreason"."""
    lines = (skipped.get("message") or skipped.text or "").strip().splitlines()
    if len(lines) > 1 and re.match(r"^\S+:\d+$", lines[0]):
        lines = lines[1:]
    return " ".join(line.strip() for line in lines) or "no reason given"


def read_gtest_cases(program, path):
    cases = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if case.get("status") == "notrun":
            continue
        name = f"{case.get('classname')}.{case.get('name')}"
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            cases.append(Case(program, name, "failed"))
        elif skipped is not None:
            cases.append(Case(program, name, "skipped", gtest_reason(skipped)))
        else:
            cases.append(Case(program, name, "passed"))
    return cases


def read_gtest_output(program, output):
    """The cases of a program that died before it wrote its XML: the last one begun has failed."""
    outcomes = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}
    cases = []
    begun = None
    for line in output.splitlines():
        match = re.match(r"^\[\s*(RUN|OK|FAILED|SKIPPED)\s*\] ([^\s,]+)", line)
        if not match:
            continue
        word, name = match.groups()
        if word == "RUN":
            begun = name
        elif name == begun:
            cases.append(Case(program, name, outcomes[word], "no reason given"))
            begun = None
    if begun:
        cases.append(Case(program, f"{begun} (the program died in it)", "failed"))
    return cases


def read_tap_cases(program, output):
    """The comments of a program in which a case failed are the details of its first failure."""
    cases = []
    comments = []
    for line in output.splitlines():
        match = re.match(r"^(not )?ok\b\s*\d*\s*-?\s*([^#]*)(?:#\s*(skip)\S*\s*(.*))?", line, re.I)
        if not match:
            if line.startswith("# "):
                comments.append(line[2:])
            continue
        bad, name, skip, reason = match.groups()
        outcome = "failed" if bad else "skipped" if skip else "passed"
        cases.append(Case(program, name.strip(), outcome, reason or ""))
    for case in cases:
        if case.outcome == "failed":
            case.details = comments[:MOST_DETAILS]
            break
    return cases


def read_program(build_dir, record, protocols):
    """The cases of one program, from its line in Meson's JSON log."""
    program = record["name"].split(" / ")[-1].split(":")[-1]
    protocol = protocols.get(program, "exitcode")
    output = record.get("stdout") or ""
    cases = []
    if protocol == "gtest":
        xml_path = os.path.join(build_dir, program + ".xml")
        try:
            if os.path.getmtime(xml_path) < record["starttime"] - 1:
                raise FileNotFoundError  # left by an earlier run
            cases = read_gtest_cases(program, xml_path)
        except (FileNotFoundError, ElementTree.ParseError):
            cases = read_gtest_output(program, output)
    elif protocol == "tap":
        cases = read_tap_cases(program, output)
    if record["result"] not in GOOD_RESULTS and not any(c.outcome == "failed" for c in cases):
        cases.append(Case(program, f"({record['result'].lower()})", "failed"))
    if not cases and protocol == "gtest":
        cases.append(Case(program, "(no test case in it)", "failed"))
    if not cases:
        words = (output + (record.get("stderr") or "")).strip().splitlines()
        outcome = "skipped" if record["result"] == "SKIP" else "passed"
        cases.append(Case(program, "", outcome, words[-1] if words else "no reason given"))
    return cases


def load_protocols(build_dir):
    with open(os.path.join(build_dir, "meson-info", "intro-tests.json"), encoding="utf-8") as file:
        return {test["name"]: test["protocol"] for test in json.load(file)}


def load_cases(build_dir):
    protocols = load_protocols(build_dir)
    with open(os.path.join(build_dir, "selected"), encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    missing = {name for kind, name in rows if kind in ("together", "alone")}
    cases = []
    for part in ("together", "alone"):
        path = os.path.join(build_dir, "meson-logs", part + ".json")
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            for line in file:
                program_cases = read_program(build_dir, json.loads(line), protocols)
                missing -= {case.program for case in program_cases}
                cases += program_cases
    return cases + [Case(name, "(did not run)", "failed") for name in sorted(missing)]


def load_allowed(path):
    with open(path, encoding="utf-8") as file:
        lines = (line.split("#")[0].strip() for line in file)
        return [re.compile(line) for line in lines if line]


def refuse_unforeseen_skips(cases, allowed):
    for case in cases:
        if case.outcome == "skipped" and not any(e.search(case.reason) for e in allowed):
            case.outcome = "failed"
            case.name += f" (skipped, but CI is meant to have it: {case.reason})"


def print_skips(cases):
    by_reason = {}
    for case in cases:
        if case.outcome == "skipped":
            by_reason.setdefault(case.reason, []).append(f"{case.program} {case.name}".strip())
    for reason, names in sorted(by_reason.items()):
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        print(f"skipped: {reason}: {', '.join(names[:3])}{more}")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build_dir, allowed_path = sys.argv[1:]
    cases = load_cases(build_dir)
    if os.environ.get("CI") == "true":
        refuse_unforeseen_skips(cases, load_allowed(allowed_path))
    print()
    print_skips(cases)
    for case in cases:
        if case.outcome == "failed":
            print("\n  ".join([f"failed: {case.program} {case.name}", *case.details]))
    count = {outcome: 0 for outcome in ("passed", "failed", "skipped")}
    for case in cases:
        count[case.outcome] += 1
    print(", ".join(f"{number} {outcome}" for outcome, number in count.items()))
    return 1 if count["failed"] or not count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
