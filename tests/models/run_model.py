#!/usr/bin/env python3
"""Verifies a model of a protocol with spin: every order in which the threads' steps may come.

usage: run_model.py MODEL.pml [CASE…]

A model is the protocol's steps in Promela, one read or write of what threads share each, and what
must never be. The comment at its top says what is checked, what is assumed about memory order and
why the code makes that true, and in lines of its own

    verify: SENDERS=2 POSTS=1       a size; "-f" or other words with a dash are options for pan
    campaign: SENDERS=3 POSTS=1     a size that takes a minute and gigabytes: searched when
                                    PINION_TEST_SCALE is 10 or more, and for faults
    fault: NO_SECOND_LOOK  text     a fault that `#ifdef FAULT_NO_SECOND_LOOK` plants
    fault: NO_SECOND_LOOK in 2      the same, to be found in the second of the sizes, the campaigns'
                                    last; without "in" they are searched one after the other

A TAP test for each: in every size the whole state space is searched, without an error; every fault
is found in one of the sizes; every step is taken in one of them, in one of the places where it is
inlined, so that none of the model is idle talk; and no planted fault is missing from the list. A
formula (`ltl name { … }`) is a search more. Steps that models share stand in a file that they
include. A size should take seconds: a million states or two.

An error comes with the steps that lead to it. By hand, with more:
    spin -DSENDERS=2 … -a MODEL.pml && gcc -O1 -DSAFETY -o pan pan.c && ./pan -m100000
    spin -DSENDERS=2 … -t -p -g -l MODEL.pml
"""

import collections
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import tap

DEPTH = 100_000
LARGE = int(os.environ.get("PINION_TEST_SCALE", "1")) >= 10
MEMORY_MIB = 8192 if LARGE else 2048
SECONDS = 300
TRAIL_LINES = 60
# What pan says when it hasn't looked everywhere.
CUT_SHORT = re.compile(r"max search depth too small|not completed|out of memory|MEMLIM|itstate")
FAULT = re.compile(r"\bFAULT_(\w+)")


class Model:
    def __init__(self, path):
        self.path = pathlib.Path(path).resolve()
        self.text = self.path.read_text(encoding="utf-8")
        header = self.text.split("*/")[0]
        self.sizes = re.findall(r"^ \* verify: *(.*)$", header, re.MULTILINE)
        self.large = re.findall(r"^ \* campaign: *(.*)$", header, re.MULTILINE)
        self.formulas = re.findall(r"^ltl (\w+)", self.text, re.MULTILINE)
        found = re.findall(r"^ \* fault: *(\w+)(?: in (\d+))?", header, re.MULTILINE)
        sizes = self.sizes + self.large
        self.faults = {name: [sizes[int(at) - 1]] if at else sizes for name, at in found}

    def included(self):
        """The files that the model consists of."""
        names = re.findall(r'^#include "(.*)"', self.text, re.MULTILINE)
        return [self.path, *(self.path.parent / name for name in names)]

    def search(self, size, fault=None):
        """What pan prints of the assertions and deadlocks, then of each formula: behind what breaks
        or settles a formula pan looks no further. Of an error the last steps that lead to it."""
        words = size.split()
        options = [word for word in words if word.startswith("-")]
        defines = [f"-D{word}" for word in words if word not in options]
        defines += [f"-DFAULT_{fault}"] if fault else []
        searches = [(["-DSAFETY", "-DNOCLAIM"], [])]
        searches += [([], ["-a", "-N", name]) for name in self.formulas]
        with tempfile.TemporaryDirectory() as folder:
            run = functools.partial(run_in, folder)
            run("spin", *defines, "-a", self.path)
            for compiled, asked in searches:
                run("gcc", "-O1", "-w", *compiled, f"-DMEMLIM={MEMORY_MIB}", "-o", "pan", "pan.c")
                report = run("./pan", "-d", check=False)
                report += run("./pan", f"-m{DEPTH}", "-w22", *asked, *options, check=False)
                if (pathlib.Path(folder) / f"{self.path.name}.trail").exists():
                    steps = run("spin", *defines, "-t", "-p", "-g", "-l", self.path, check=False)
                    report += "\n".join(steps.splitlines()[-TRAIL_LINES:])
                yield report


def run_in(folder, *command, check=True):
    done = subprocess.run(
        command, cwd=folder, check=False, capture_output=True, text=True, timeout=SECONDS
    )
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def errors_in(report):
    """How many errors, and the first one; None when pan hasn't come to its end."""
    count = re.search(r"\berrors: (\d+)", report)
    first = re.search(r"^pan:1: (.*)", report, re.MULTILINE)
    return count and int(count.group(1)), first.group(1) if first else ""


def states_in(report):
    return re.search(r"(\d+) states, stored", report).group(1)


def unreached_in(report):
    """The steps that were never taken, but for ends of processes that have none, and formulas. Of
    one that is inlined in several places, all of them: pan tells first where each step stands."""
    taken = re.findall(r"^\t(.*\.pml:\d+), state \d+, \"(.*)\"$", report, re.MULTILINE)
    places = re.findall(r"^\tstate .*\] (.*\.pml:\d+) => (.*)$", report, re.MULTILINE)
    total = collections.Counter(places)
    return {
        f"{where}: {step}"
        for (where, step), count in collections.Counter(taken).items()
        if step != "-end-" and count >= total[where, step]
    }


def make_cases(model):
    """A class whose tests are the promises of `model`."""
    searched = {}

    def reports_of(size):
        if size not in searched:
            searched[size] = list(model.search(size))
        return searched[size]

    def verify(self, size):
        for report in reports_of(size):
            self.assertEqual(errors_in(report), (0, ""), report)
            self.assertIsNone(CUT_SHORT.search(report), report)
            print(f"{size}: {states_in(report)} states")

    def find(self, fault):
        for size in model.faults[fault]:
            for report in model.search(size, fault):
                count, first = errors_in(report)
                self.assertIsNone(CUT_SHORT.search(first), report)
                if count:
                    print(f"{fault}: {first}")
                    return
        self.fail(f"FAULT_{fault} goes unnoticed")

    class Cases(unittest.TestCase):
        def setUp(self):
            if shutil.which("spin") is None:
                self.skipTest("no spin")

        def test_every_step_is_taken(self):
            never = set.intersection(*(unreached_in(reports_of(size)[0]) for size in model.sizes))
            self.assertEqual(never, set())

        def test_every_planted_fault_is_listed(self):
            """Those of an included file in one of the models beside this one."""
            listed = {fault for path in model.path.parent.glob("*.pml")
                      for fault in Model(path).faults}  # fmt: skip
            planted = {fault for path in model.included()
                       for fault in FAULT.findall(path.read_text(encoding="utf-8"))}  # fmt: skip
            self.assertEqual(planted - listed, set())
            self.assertTrue(model.faults)

    for size in model.sizes + (model.large if LARGE else []):
        setattr(Cases, f"test_holds {size}", lambda self, size=size: verify(self, size))
    for fault in model.faults:
        setattr(Cases, f"test_finds {fault}", lambda self, fault=fault: find(self, fault))
    Cases.__qualname__ = model.path.stem
    return Cases


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    cases = make_cases(Model(sys.argv.pop(1)))
    tap.main()
