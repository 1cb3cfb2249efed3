#!/usr/bin/env python3
"""Builds and runs programs outside the tree against an installed Pinion.

usage: consumers.py SOURCE_DIR BUILD_DIR CXX

Installs BUILD_DIR into a temporary prefix and prints a TAP test for each way to use what is there:
pkg-config with the plain compiler, CMake, a Meson subproject, the program in README.md, each header
alone, the symbols that the library exports, the installed programs.
"""

import glob
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time


class Consumers:
    def __init__(self, source, build, compiler, scratch):
        self.source, self.build, self.compiler = source, build, compiler
        self.here = source / "tests" / "consumers"
        self.scratch = scratch
        self.prefix = scratch / "installed" / "usr"
        self.library_dir = None
        self.environment = dict(os.environ)

    def run(self, *command, cwd=None, timeout=300):
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

    def install(self):
        self.run(
            "meson", "install", "-C", self.build, "--no-rebuild", "--quiet",
            "--destdir", self.scratch / "destdir",
        )  # fmt: skip
        (pc_file,) = (self.scratch / "destdir").rglob("pinion.pc")
        # Moved as a whole, which a relocatable .pc file has to bear.
        prefix = pc_file.parent
        while not (prefix / "include").is_dir():
            prefix = prefix.parent
        self.prefix.parent.mkdir()
        prefix.rename(self.prefix)
        (library,) = self.prefix.rglob("libpinion.so")
        self.library_dir = library.parent
        self.environment["PKG_CONFIG_PATH"] = str(self.library_dir / "pkgconfig")
        self.environment["LD_LIBRARY_PATH"] = str(self.library_dir)

    def flags(self, what):
        return self.run("pkg-config", what, "pinion").split()

    def compile(self, program, source):
        self.run(
            self.compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-o", program, source,
            *self.flags("--cflags"), *self.flags("--libs"),
        )  # fmt: skip
        return program

    def check_pkg_config(self):
        program = self.compile(self.scratch / "outside", self.here / "outside.cc")
        assert self.run(program) == "ok\n"

    def check_cmake(self):
        build = self.scratch / "cmake"
        compiler = f"-DCMAKE_CXX_COMPILER={self.compiler}"
        self.run("cmake", "-S", self.here / "cmake", "-B", build, compiler)
        self.run("cmake", "--build", build)
        assert self.run(build / "outside") == "ok\n"

    def check_meson_subproject(self):
        project = self.scratch / "subproject"
        (project / "subprojects").mkdir(parents=True)
        (project / "subprojects" / "pinion").symlink_to(self.source)
        for path in (self.here / "meson" / "meson.build", self.here / "outside.cc"):
            (project / path.name).write_text(path.read_text())
        environment = dict(self.environment)
        del self.environment["PKG_CONFIG_PATH"], self.environment["LD_LIBRARY_PATH"]
        try:
            self.run("meson", "setup", "build", "--force-fallback-for=pinion", cwd=project)
            self.run("ninja", "-C", "build", "outside", cwd=project, timeout=900)
            assert self.run(project / "build" / "outside") == "ok\n"
        finally:
            self.environment = environment

    def check_readme_program(self):
        text = (self.source / "README.md").read_text(encoding="utf-8")
        code = re.search(r"```cpp\n(.*?)```", text, re.DOTALL).group(1)
        path = self.scratch / "readme.cc"
        path.write_text(code, encoding="utf-8")
        program = self.compile(self.scratch / "readme", path)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = subprocess.Popen([program, f"127.0.0.1:{port}"], env=self.environment)
        try:
            with connect(port) as connection:
                connection.sendall(b"hello")
                assert connection.recv(5, socket.MSG_WAITALL) == b"hello"
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=20) == 0
        finally:
            server.kill()
            server.wait()

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
                self.compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic",
                "-Werror", *flags, source,
            )  # fmt: skip

    def check_installed_files(self):
        """Nothing but public headers goes to include/, and all of them."""
        for folder in ("lib", "timers", "eventloop", "net"):
            public = self.source / folder / "include" / "pinion" / folder
            ours = {str(path.relative_to(public)) for path in public.rglob("*") if path.is_file()}
            installed_dir = self.prefix / "include" / "pinion" / folder
            there = {
                str(path.relative_to(installed_dir))
                for path in installed_dir.rglob("*")
                if path.is_file()
            }
            assert ours == there, ours ^ there

    def check_symbols(self):
        """The library exports its own names alone, each with its version."""
        library = self.library_dir / "libpinion.so"
        lines = self.run("nm", "-DC", "--defined-only", library).splitlines()
        names = [line.split(maxsplit=2)[2] for line in lines]
        mark = re.compile(r"^((vtable|typeinfo|typeinfo name|VTT|guard variable) for |"
                          r"(non-virtual|virtual) thunk to )?pinion::|^PINION_\d+$")  # fmt: skip
        foreign = [name for name in names if not mark.match(name)]
        assert not foreign, foreign
        assert sum("pinion::" in name for name in names) > 50, names
        dynamic = self.run("readelf", "-d", library)
        assert "Library soname: [libpinion.so.0]" in dynamic, dynamic

    def check_programs(self):
        for program in glob.glob(str(self.prefix / "bin" / "pinion-*")):
            assert re.match(r"^pinion-\w+ \d+\.\d+\.\d+", self.run(program, "--version")), program
            self.run(program, "--help")


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
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    checks = [name for name in vars(Consumers) if name.startswith("check_")]
    print(f"1..{len(checks)}")
    with tempfile.TemporaryDirectory(prefix="pinion-consumers-") as scratch:
        source, build = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
        consumers = Consumers(source, build, sys.argv[3], pathlib.Path(scratch))
        consumers.install()
        for number, name in enumerate(checks, 1):
            title = name.removeprefix("check_").replace("_", " ")
            try:
                getattr(consumers, name)()
                print(f"ok {number} - {title}", flush=True)
            except (AssertionError, OSError, RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"not ok {number} - {title}")
                for line in f"{type(error).__name__}: {error}".splitlines():
                    print(f"# {line}", flush=True)


if __name__ == "__main__":
    main()
