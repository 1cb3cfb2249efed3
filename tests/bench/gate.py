#!/usr/bin/env python3
"""Counts the instructions of the wheel's hot operations, of maybe_yield() and of the TCP/IP stack's
segments under callgrind and compares them with the limits beside this file, so that a slower wheel
or stack can't land unseen. A limit is about a tenth above what is measured; raising one past 80
(insert), 24 (cancel), 36 (extend), 24 (empty_advance) or 8 (maybe_yield) breaks what Pinion
promises. What the stack promises is judged beside lwIP, by `tools/dev bench stack`.

usage: gate.py PROGRAM [--limits FILE] [--keep FILE]

PROGRAM is bench_gate, which runs each operation in a function gate_NAME and the same loop around
nothing in gate_NAME_loop. The figure is the difference of their inclusive instruction counts over
the number of operations, which the program prints: nothing else is subtracted. The counts do not
depend on the machine's load or its clock.

Exit code: 0 within the limits, 1 over a limit, 2 wrong use or no valgrind.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


def fail(what: str, fix: str) -> None:
    print(f"error: {what}\nfix: {fix}", file=sys.stderr)
    sys.exit(2)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="instruction counts of the wheel's hot operations")
    parser.add_argument("program", type=pathlib.Path)
    here = pathlib.Path(__file__).resolve().parent
    parser.add_argument("--limits", type=pathlib.Path, default=here / "gate_limits.json")
    parser.add_argument("--keep", type=pathlib.Path, help="keep callgrind's output in this file")
    return parser.parse_args()


def run_callgrind(program: pathlib.Path, out: pathlib.Path) -> dict[str, int]:
    """Runs the program with collection on inside gate_* only; returns the operation counts."""
    command = [
        "valgrind",
        "--tool=callgrind",
        f"--callgrind-out-file={out}",
        "--collect-atstart=no",
        "--toggle-collect=gate_*",
        "--quiet",
        str(program),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(f"{program} failed under valgrind:\n{done.stderr}", f"{program}")
    words = [line.split() for line in done.stdout.splitlines()]
    return {name: int(count) for name, count in words}


def inclusive_counts(out: pathlib.Path) -> dict[str, int]:
    """The inclusive instruction count of each function gate_*.

    A function into which others are inlined has a line for each source file; the one that holds it
    all is the largest.
    """
    command = ["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--auto=no", str(out)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    line = re.compile(r"^\s*([\d,]+)(?: \([^)]*\))?\s+\S*:(gate_\w+)")
    counts: dict[str, int] = {}
    for match in filter(None, map(line.match, text.splitlines())):
        count = int(match[1].replace(",", ""))
        counts[match[2]] = max(count, counts.get(match[2], 0))
    return counts


def main() -> int:
    arguments = parse_arguments()
    for tool in ("valgrind", "callgrind_annotate"):
        if shutil.which(tool) is None:
            fail(f"{tool} not found", "apt-get install valgrind")
    if not arguments.program.is_file():
        fail(f"{arguments.program} not found", "tools/dev build bench")
    limits = json.loads(arguments.limits.read_text())
    with tempfile.TemporaryDirectory() as folder:
        out = arguments.keep or pathlib.Path(folder) / "callgrind.out"
        operations = run_callgrind(arguments.program, out)
        counts = inclusive_counts(out)
    over = 0
    print(f"{'operation':<14} {'instructions':>12} {'limit':>6}")
    for name, limit in limits.items():
        whole, loop = counts.get(f"gate_{name}"), counts.get(f"gate_{name}_loop")
        if whole is None or loop is None or name not in operations:
            fail(f"callgrind saw no gate_{name}", "build bench_gate with symbols (-g)")
        figure = (whole - loop) / operations[name]
        over += figure > limit
        print(f"{name:<14} {figure:>12.1f} {limit:>6}{'  OVER' if figure > limit else ''}")
    if over:
        print(f"\n{over} over the limit; see where: gate.py {arguments.program} --keep FILE, then")
        print("callgrind_annotate --auto=yes FILE")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
