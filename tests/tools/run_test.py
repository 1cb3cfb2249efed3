#!/usr/bin/env python3
"""tools/run, tools/dev and tools/lib/common.sh in a tree of their own, whose compiler, packages and
programs are stand-ins: what they call, from where, and what they say when it fails."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "support"))
import tap

# Each notes its arguments in calls; ninja puts the stand-in of a program where it was asked for.
STAND_INS = {
    "meson": """
case "$1" in
  setup) mkdir -p "$2"; : >"$2/build.ninja" ;;
  introspect) cat "$STAND_INS/targets" ;;
esac""",
    "ninja": """
dir="$2"; shift 2
[ -z "$NINJA_FAILS" ] || exit 1
for target in "$@"; do
  [ -f "$STAND_INS/$(basename "$target")" ] || continue
  mkdir -p "$(dirname "$dir/$target")"
  cp "$STAND_INS/$(basename "$target")" "$dir/$target"
done""",
    "pinion-echo": """
[ -z "$ECHO_FAILS" ] || { echo "$ECHO_FAILS"; exit 1; }
echo "standing in $PWD"
[ "$1" = --listen ] || exit 0
trap 'echo "served for 1s"; echo "timeouts     20 read, 0 write"; exit 0' TERM
echo "pinion-echo 0.1.0: listening on ${2%:0}:4242, backend none"
while sleep 0.05; do :; done""",
    "pinion-load": "",
    "bench_timers": 'echo "standing in $PWD"',
    "dpkg-query": 'for package in "$@"; do [ -n "$MISSING" ] || echo "$package installed"; done',
    "apt-get": '[ "$3" != update ] || exit "${UPDATE_FAILS:-0}"',
    "id": 'echo "${FAKE_ID:-0}"',
}


class Tools(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="with blank ")
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name).resolve()
        self.tree = self.scratch / "a tree"
        shutil.copytree(TOP / "tools", self.tree / "tools")
        self.write_default("'werror=true'")
        (self.tree / "meson_options.txt").write_text("", encoding="utf-8")
        self.bin = self.scratch / "bin"
        self.bin.mkdir()
        for name, body in STAND_INS.items():
            path = self.bin / name
            path.write_text(f'#!/bin/sh\necho "{name} $*" >>"$STAND_INS/calls"\n{body}\n')
            path.chmod(0o755)
        for tool in ("awk", "basename", "bash", "cat", "cksum", "cp", "cut", "dirname", "echo",
                     "env", "find", "grep", "mkdir", "python3", "readlink", "rm", "sed", "setsid",
                     "sh", "sleep", "tail", "xargs"):  # fmt: skip
            (self.bin / tool).symlink_to(shutil.which(tool))
        targets = [
            {"name": f"pinion-{name}", "type": "executable",
             "defined_in": str(self.tree / "apps" / name / "meson.build"),
             "filename": [f"build/gcc/apps/{name}/pinion-{name}"]}
            for name in ("echo", "load")
        ]  # fmt: skip
        targets.append({
            "name": "bench_timers", "type": "executable",
            "defined_in": str(self.tree / "tests" / "bench" / "meson.build"),
            "filename": ["build/bench/tests/bench/bench_timers"],
        })  # fmt: skip
        (self.bin / "targets").write_text(json.dumps(targets))

    def write_default(self, default):
        text = f"project('x',\n  default_options: [\n    {default},\n  ],\n)\n"
        (self.tree / "meson.build").write_text(text, encoding="utf-8")

    def run_tool(self, name, *arguments, **environment):
        (self.bin / "calls").write_text("")
        done = subprocess.run(
            [self.tree / "tools" / name, *arguments],
            cwd=self.scratch,
            env={"PATH": str(self.bin), "STAND_INS": str(self.bin), **environment},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return done

    def calls(self, program):
        lines = (self.bin / "calls").read_text(encoding="utf-8").splitlines()
        return [line.removeprefix(program + " ") for line in lines if line.startswith(program)]

    def test_a_program_runs_where_the_user_stands(self):
        for name in ("echo", "pinion-echo"):
            done = self.run_tool("run", name, "--config", "my own.toml")
            self.assertEqual((done.returncode, done.stdout), (0, f"standing in {self.scratch}\n"))
            self.assertEqual(self.calls("pinion-echo"), ["--config my own.toml"])

    def test_an_unknown_program_gets_the_names(self):
        for name in ("ehco", ""):
            done = self.run_tool("run", name)
            self.assertEqual(done.returncode, 2)
            error, fix = done.stderr.splitlines()
            self.assertEqual(error, f"error: there is no program '{name}'")
            self.assertEqual(fix, "fix: one of: pinion-echo pinion-load")

    def test_the_demonstration_is_on_the_promised_port(self):
        done = self.run_tool("run")
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(self.calls("pinion-echo")[0], "^--listen 127.0.0.1:7007 ")
        self.assertIn("20 connections closed by their read timeout", done.stdout)

    def test_the_load_goes_where_the_server_listens(self):
        done = self.run_tool("run", "--listen", "127.0.0.1:0")
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(self.calls("pinion-load")[0], "^--connect 127.0.0.1:4242 ")

    def test_without_io_uring_nothing_is_built(self):
        python = self.bin / "python3"
        python.unlink()
        python.write_text('#!/bin/sh\ncase "$*" in *io_uring.py) exit 1 ;; esac\n'
                          f'exec {shutil.which("python3")} "$@"\n')  # fmt: skip
        python.chmod(0o755)
        done = self.run_tool("run")
        self.assertEqual((done.returncode, self.calls("ninja")), (1, []))
        self.assertRegex(done.stderr, "^error: io_uring is refused here, .*\nfix: docker run ")

    def test_a_port_in_use_has_a_remedy(self):
        fails = "error: cannot listen on 127.0.0.1:7007: the port is in use"
        done = self.run_tool("run", ECHO_FAILS=fails)
        self.assertEqual(done.returncode, 1)
        lines = done.stderr.splitlines()[-2:]
        self.assertEqual(lines[0], fails)
        self.assertRegex(lines[1], "^fix: tools/run --listen 127.0.0.1:0")

    def test_other_failures_of_the_server_are_shown(self):
        done = self.run_tool("run", ECHO_FAILS="error: io_uring is blocked")
        self.assertEqual((done.returncode, done.stderr.splitlines()[-1]),
                         (1, "error: io_uring is blocked"))  # fmt: skip

    def test_new_defaults_reach_a_folder_and_leave_its_results(self):
        self.run_tool("run", "echo")
        self.assertEqual(len(self.calls("meson setup")), 1)
        result = self.tree / "build" / "gcc" / "timers.json"
        result.write_text("{}")
        self.run_tool("run", "echo")
        self.assertEqual(self.calls("meson setup"), [])
        self.write_default("'werror=false'")
        (self.tree / "build" / "gcc" / "stale").mkdir()
        self.run_tool("run", "echo")
        self.assertEqual(len(self.calls("meson setup")), 1)
        self.assertTrue(result.exists())
        self.assertFalse((self.tree / "build" / "gcc" / "stale").exists())

    def test_a_folder_set_up_by_hand_keeps_its_options(self):
        folder = self.tree / "build" / "gcc"
        folder.mkdir(parents=True)
        (folder / "build.ninja").write_text("")
        self.run_tool("run", "echo")
        self.assertEqual(self.calls("meson setup"), [])

    def test_a_bench_writes_where_the_user_stands(self):
        done = self.run_tool("dev", "bench", "timers", "--json", "r.json")
        self.assertEqual((done.returncode, done.stdout), (0, f"standing in {self.scratch}\n"))
        self.assertEqual(self.calls("bench_timers"), ["--json r.json"])

    def test_the_gate_configures_benches_with_all_their_peers(self):
        self.run_tool("dev", "bench", "gate", MISSING="yes")
        packages = self.calls("apt-get")[-1].split()
        for package in ("libboost-dev", "libdpdk-dev", "libuv1-dev", "valgrind"):
            self.assertIn(package, packages)

    def test_a_sanitizer_build_that_fails_leaves_the_other_to_run(self):
        done = self.run_tool("dev", "asan", NINJA_FAILS="yes")
        self.assertEqual(done.returncode, 1)
        tried = [call.split()[1] for call in self.calls("ninja")]
        self.assertEqual(tried, ["build/asan-gcc", "build/asan-clang"])
        self.assertEqual(done.stderr.count("error: "), 2)

    def test_packages_are_installed_even_when_a_source_fails(self):
        done = self.run_tool("run", "echo", MISSING="yes", UPDATE_FAILS="100")
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(self.calls("apt-get")[-1], r"install -y .*\bdpkg-dev\b")

    def test_packages_without_root_and_sudo(self):
        done = self.run_tool("run", "echo", MISSING="yes", FAKE_ID="1000")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(
            done.stderr,
            "^error: packages are missing, and this is neither root nor is there sudo\n"
            "fix: as root: apt-get install .*g",
        )
        done = self.run_tool("run", "echo", MISSING="yes", FAKE_ID="1000", PINION_NO_INSTALL="1")
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(self.calls("apt-get"), [])


if __name__ == "__main__":
    tap.main()
