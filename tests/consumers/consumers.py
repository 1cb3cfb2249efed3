#!/usr/bin/env python3
"""Installs Pinion as the documents say, and builds and runs programs outside the tree against it.

usage: consumers.py SOURCE_DIR

Every shell line, CMakeLists.txt, meson.build and program is the one in README.md or docs/start.md,
run as it stands there: in a copy of the tree, with a home folder of its own. Prints a TAP test for
each promise.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PUBLIC_FOLDERS = ("lib", "timers", "eventloop", "net")


class Skip(Exception):
    """A named thing is missing."""


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def section(text, title):
    """What stands below a heading, up to the next one."""
    return re.search(rf"^#+ {title}\n(.*?)(?=^#|\Z)", text, re.DOTALL | re.MULTILINE).group(1)


class Consumers:
    def __init__(self, source, scratch):
        self.scratch = scratch
        self.here = source / "tests" / "consumers"
        self.tree = scratch / "pinion"
        unwanted = shutil.ignore_patterns("build", ".git", "__pycache__")
        shutil.copytree(source, self.tree, ignore=unwanted)
        self.readme = (source / "README.md").read_text(encoding="utf-8")
        self.start = (source / "docs" / "start.md").read_text(encoding="utf-8")
        self.prefix = scratch / "home" / ".local"
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("CXX", "DESTDIR", "PKG_CONFIG_PATH", "LD_LIBRARY_PATH")
        }
        self.environment["HOME"] = str(scratch / "home")
        # A developer's compiler cache is worth minutes here.
        self.environment.setdefault("CCACHE_DIR", os.path.expanduser("~/.cache/ccache"))
        self.exports = ""
        self.compile_line = ""

    def run(self, *command, cwd=None, timeout=1800):
        """Runs a command; a bad exit code is an error with its output."""
        done = subprocess.run(
            [str(word) for word in command],
            cwd=cwd or self.scratch,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode != 0:
            text = (done.stdout + done.stderr)[-3000:]
            raise RuntimeError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{text}")
        return done.stdout

    def shell(self, lines, cwd, **options):
        return self.run("bash", "-euc", self.exports + lines, cwd=cwd, **options)

    def install(self):
        """For one user: what all the others build on."""
        install, compile_line = blocks(section(self.start, "For one user, without root"), "sh")
        self.shell(install, self.tree)
        self.exports = "".join(
            line + "\n" for line in install.splitlines() if line.startswith("export ")
        )
        self.compile_line = compile_line

    def compile(self, name, code):
        """Builds server.cc, in a folder of its own, with the documented line."""
        folder = self.scratch / name
        folder.mkdir()
        (folder / "server.cc").write_text(code, encoding="utf-8")
        self.shell(self.compile_line, folder)
        return folder / "a.out"

    def flags(self, what):
        return self.shell(f"pkg-config {what} pinion", self.scratch).split()

    def outside(self):
        return (self.here / "outside.cc").read_text(encoding="utf-8")

    def library(self):
        return self.prefix / "lib" / "libpinion.so"

    def check_plain_compiler(self):
        assert self.run(self.compile("outside", self.outside())) == "ok\n"

    def check_for_everybody_goes_where_linker_and_pkg_config_look(self):
        if not os.path.exists("/etc/debian_version"):
            raise Skip("not Debian")
        lines, compile_line = blocks(section(self.start, "For everybody on this machine"), "sh")
        set_up, build, install, linker = lines.splitlines()
        assert build == "meson compile -C build/release", build
        assert install == "sudo meson install -C build/release", install
        assert linker == "sudo ldconfig", linker
        assert compile_line.strip() in self.compile_line, compile_line
        self.shell(set_up, self.tree)
        build_dir = self.tree / "build" / "release"
        places = json.loads(self.run("meson", "introspect", "--installed", build_dir)).values()
        (pc_file,) = (place for place in places if place.endswith("/pinion.pc"))
        (folder,) = {os.path.dirname(place) for place in places if "/libpinion.so" in place}
        searched = self.run("pkg-config", "--variable=pc_path", "pkg-config").strip().split(":")
        assert os.path.dirname(pc_file) in searched, (pc_file, searched)
        # It names each folder that it looks into, and complains of one that isn't there yet.
        looked_into = self.shell("/sbin/ldconfig -v -N -X 2>&1 || true", self.scratch)
        assert re.search(rf"(^|\s){folder}:", looked_into, re.MULTILINE), (folder, looked_into)

    def check_readme_installs_the_same_way(self):
        (lines,) = (text for text in blocks(self.readme, "sh") if "meson setup" in text)
        commands = [part.strip() for line in lines.splitlines() for part in line.split("&&")]
        expected = "\n".join(blocks(section(self.start, "For everybody on this machine"), "sh"))
        assert commands == [line for line in expected.splitlines() if line], commands

    def check_cmake(self):
        project = self.scratch / "cmake"
        project.mkdir()
        (text,) = blocks(self.start, "cmake")
        (project / "CMakeLists.txt").write_text(text, encoding="utf-8")
        (project / "server.cc").write_text(self.outside(), encoding="utf-8")
        self.shell("cmake -S . -B build && cmake --build build", project)
        assert self.run(project / "build" / "server") == "ok\n"

    def meson_project(self, name):
        project = self.scratch / name
        project.mkdir()
        (text,) = blocks(self.start, "meson")
        (project / "meson.build").write_text(text, encoding="utf-8")
        (project / "server.cc").write_text(self.outside(), encoding="utf-8")
        return project

    def check_meson(self):
        project = self.meson_project("installed")
        self.shell("meson setup build && ninja -C build server", project)
        assert self.run(project / "build" / "server") == "ok\n"

    def check_meson_subproject(self):
        # Both dependencies of one project, so that the library is built once; forced, since it is
        # also installed.
        project = self.meson_project("subproject")
        (project / "subprojects").mkdir()
        (project / "subprojects" / "pinion").symlink_to(self.tree)
        self.add_c_program(project)
        only = "--force-fallback-for=pinion,pinion-stack --buildtype=plain"
        self.shell(f"meson setup build {only} && ninja -C build server two_stacks", project)
        assert self.run(project / "build" / "server") == "ok\n"
        assert self.run(project / "build" / "two_stacks") == "ok\n"

    def add_c_program(self, project):
        shutil.copy(self.here / "two_stacks.c", project)
        with open(project / "meson.build", "a", encoding="utf-8") as text:
            text.write(
                "add_languages('c')\n"
                "stack = dependency('pinion-stack', fallback: 'pinion')\n"
                "executable('two_stacks', 'two_stacks.c', dependencies: stack,\n"
                "  override_options: 'c_std=gnu11')\n"
            )

    def compile_c(self, name, code):
        """Builds a C program with the line of the header."""
        folder = self.scratch / name
        folder.mkdir()
        (folder / "example.c").write_text(code, encoding="utf-8")
        header = (self.prefix / "include" / "pinion_stack.h").read_text(encoding="utf-8")
        line = re.search(r"^/// `cc (.*)`\.$", header, re.MULTILINE).group(1)
        strict = "cc -std=c11 -Wall -Wextra -Wpedantic -Wstrict-prototypes -Werror"
        self.shell(f'{strict} {line} -Wl,-rpath,"$HOME/.local/lib"', folder)
        return folder / "a.out"

    def check_c_program(self):
        code = (self.here / "two_stacks.c").read_text(encoding="utf-8")
        program = self.compile_c("two_stacks", code)
        assert self.run(program) == "ok\n"
        needed = self.run("readelf", "-d", program)
        assert "[libpinion_stack.so.0]" in needed and "stdc++" not in needed, needed

    def check_the_example_in_the_c_header(self):
        header = (self.prefix / "include" / "pinion_stack.h").read_text(encoding="utf-8")
        comment = header[header.index("/// A whole program") : header.index("#ifdef __cplusplus")]
        code = "\n".join(re.findall(r"^///(?:     (.*))?$", comment, re.MULTILINE))
        assert self.run(self.compile_c("example", code)) == "5 bytes: hello\n"

    def check_c_meson(self):
        project = self.scratch / "c_installed"
        project.mkdir()
        (project / "meson.build").write_text("project('two_stacks')\n", encoding="utf-8")
        self.add_c_program(project)
        self.shell("meson setup build && ninja -C build two_stacks", project)
        assert self.run(project / "build" / "two_stacks") == "ok\n"

    def check_readme_program(self):
        program = self.compile("readme", blocks(self.readme, "cpp")[0])
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        last_cpu = str(max(os.sched_getaffinity(0)))
        server = subprocess.Popen(
            ["taskset", "-c", last_cpu, program, f"127.0.0.1:{port}"], env=self.environment
        )
        try:
            with connect(port) as connection:
                connection.sendall(b"hello")
                assert connection.recv(5, socket.MSG_WAITALL) == b"hello"
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=20) == 0
        finally:
            server.kill()
            server.wait()
        wrong = subprocess.run(
            [program, "nowhere"], env=self.environment, capture_output=True, text=True, check=False
        )
        assert wrong.returncode == 1, wrong
        assert re.match(r"^error: .*\nfix: .*\n$", wrong.stderr), wrong

    def check_each_header_alone(self):
        include = self.prefix / "include"
        headers = sorted(include.rglob("*.h"))
        assert len(headers) > 20, headers
        flags = self.flags("--cflags")
        for header in headers:
            name = header.relative_to(include)
            source = self.scratch / "alone.cc"
            source.write_text(f"#include <{name}>\n#include <{name}>\n")
            self.run(
                "g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic",
                "-Werror", *flags, source,
            )  # fmt: skip

    def check_installed_files(self):
        """Nothing but public headers goes to include/, and all of them; what the documents say
        goes elsewhere."""
        for folder in PUBLIC_FOLDERS:
            public = self.tree / folder / "include" / "pinion" / folder
            there = self.prefix / "include" / "pinion" / folder
            ours, installed = (
                {str(path.relative_to(top)) for path in top.rglob("*") if path.is_file()}
                for top in (public, there)
            )
            assert ours == installed, ours ^ installed
        for path in ("lib/pkgconfig/pinion.pc", "lib/pkgconfig/pinion-stack.pc",
                     "include/pinion_stack.h", "lib/libpinion_stack.so.0",
                     "etc/pinion/pinion-echo.toml",
                     "share/man/man1/pinion-echo.1", "share/man/man1/pinion-load.1",
                     "share/doc/pinion/start.md", "share/doc/pinion/stream.md"):  # fmt: skip
            assert (self.prefix / path).is_file(), path

    def check_programs(self):
        programs = {path.name: path for path in (self.prefix / "bin").iterdir()}
        assert set(programs) == {"pinion-echo", "pinion-load"}, programs
        version = self.flags("--modversion")[0]
        for name, path in programs.items():
            assert self.run(path, "--version") == f"{name} {version}\n", path
            assert self.run(path, "--help").startswith(name), path

    def check_symbols(self):
        """The library exports its own names alone, each with its version."""
        major, minor, _ = self.flags("--modversion")[0].split(".")
        version = f"{major}.{minor}" if major == "0" else major
        lines = self.run("nm", "-DC", "--defined-only", self.library()).splitlines()
        names = [line.split(maxsplit=2)[2] for line in lines]
        mark = re.compile(r"^((vtable|typeinfo|typeinfo name|VTT|guard variable) for |"
                          rf"(non-virtual|virtual) thunk to )?pinion::.*@@PINION_{version}$|"
                          rf"^PINION_{version}(@@PINION_{version})?$")  # fmt: skip
        foreign = [name for name in names if not mark.match(name)]
        assert not foreign, foreign
        assert sum("pinion::" in name for name in names) > 50, names
        dynamic = self.run("readelf", "-d", self.library())
        assert f"Library soname: [libpinion.so.{version}]" in dynamic, dynamic

    def check_a_release_has_the_assertions_and_not_the_costly_checks(self):
        library = self.library().read_bytes()
        facts = {"ASSERT": set(), "DCHECK": set()}
        for folder in PUBLIC_FOLDERS:
            for path in (self.tree / folder).rglob("*.cc"):
                text = path.read_text(encoding="utf-8")
                for kind, fact in re.findall(r"PINION_(ASSERT|DCHECK)\((.+)\);$", text, re.M):
                    facts[kind].add(fact.encode() + b"\0")
        assert facts["DCHECK"] and sum(fact in library for fact in facts["ASSERT"]) > 10
        left = [fact for fact in facts["DCHECK"] - facts["ASSERT"] if b"\0" + fact in library]
        assert not left, left

    def check_the_installed_tree_can_be_moved(self):
        moved = self.scratch / "moved to" / "elsewhere"
        shutil.copytree(self.prefix, moved, symlinks=True)
        self.prefix.rename(self.scratch / "hidden")
        self.environment["PKG_CONFIG_PATH"] = str(moved / "lib" / "pkgconfig")
        assert str(moved) in self.run("pkg-config", "--variable=prefix", "pinion").replace("\\", "")
        self.run(moved / "bin" / "pinion-echo", "--version")


def connect(port):
    """Connects to a server that is about to listen."""
    give_up = time.monotonic() + 20
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=20)
        except ConnectionRefusedError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.05)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    checks = [name for name in vars(Consumers) if name.startswith("check_")]
    print(f"1..{len(checks)}")
    with tempfile.TemporaryDirectory(prefix="pinion-consumers-") as scratch:
        consumers = Consumers(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(scratch).resolve())
        consumers.install()
        for number, name in enumerate(checks, 1):
            title = name.removeprefix("check_").replace("_", " ")
            try:
                getattr(consumers, name)()
                print(f"ok {number} - {title}", flush=True)
            except Skip as reason:
                print(f"ok {number} - {title} # SKIP {reason}", flush=True)
            except Exception as error:  # Whatever it is, the other promises are looked at.
                print(f"not ok {number} - {title}")
                for line in f"{type(error).__name__}: {error}".splitlines():
                    print(f"# {line}", flush=True)


if __name__ == "__main__":
    main()
