#!/usr/bin/env python3
"""clang-tidy-19 over what a build folder compiles, as many at a time as there are cores.

usage: clang_tidy.py [--deep] BUILD_DIR [PATH_PREFIX…]

--deep adds the path-sensitive analyzer, which doubles the time. A file that passed is not looked at
again until it, a project header below it, its command or .clang-tidy changes (build/tidy-cache).
Ends with the count of files; exit code 1 when one has findings.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
import time

CLANG_TIDY = "clang-tidy-19"

class Includes:
    """The project files that a file includes, itself first."""

    def __init__(self, root):
        self.root = root
        self.folders = [
            os.path.join(folder, "include")
            for folder in ("lib", "timers", "eventloop", "net", "tests/support")
        ]
        self.memory = {}

    def direct(self, path):
        if path not in self.memory:
            with open(os.path.join(self.root, path), encoding="utf-8") as file:
                names = re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)', file.read(), re.MULTILINE)
            places = [os.path.dirname(path), *self.folders, ""]
            found = []
            for name in names:
                for place in places:
                    candidate = os.path.normpath(os.path.join(place, name))
                    if os.path.isfile(os.path.join(self.root, candidate)):
                        found.append(candidate)
                        break
            self.memory[path] = found
        return self.memory[path]

    def closure(self, path):
        seen, waiting = [], [path]
        while waiting:
            current = waiting.pop()
            if current not in seen:
                seen.append(current)
                waiting += self.direct(current)
        return [path, *sorted(seen[1:])]


def sources(root, build_dir, prefixes):
    """{path: compile command} of the tree's own files."""
    with open(os.path.join(build_dir, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    chosen = {}
    for entry in entries:
        full = os.path.realpath(os.path.join(entry["directory"], entry["file"]))
        path = os.path.relpath(full, root)
        if path.startswith(("..", "build/")) or not path.startswith(tuple(prefixes)):
            continue
        chosen.setdefault(path, entry["command"])
    return chosen


def configuration(root, path):
    """The text of every .clang-tidy above a file."""
    texts = []
    folder = os.path.dirname(path)
    while True:
        candidate = os.path.join(root, folder, ".clang-tidy")
        if os.path.exists(candidate):
            with open(candidate, encoding="utf-8") as file:
                texts.append(file.read())
        if not folder:
            return texts
        folder = os.path.dirname(folder)


def fingerprint(root, path, command, includes):
    digest = hashlib.sha256()
    for text in [command, *configuration(root, path)]:
        digest.update(text.encode())
    for part in includes.closure(path):
        with open(os.path.join(root, part), "rb") as file:
            digest.update(part.encode() + b"\0" + file.read())
    return digest.hexdigest()


def check(root, build_dir, options, path):
    begun = time.monotonic()
    done = subprocess.run(
        [CLANG_TIDY, "--quiet", "-p", build_dir, *options, path],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    findings = done.stdout.replace(root + "/", "").strip()
    if done.returncode != 0 and not findings:
        findings = done.stderr.strip()
    return findings if done.returncode != 0 else "", time.monotonic() - begun


def main():
    words = sys.argv[1:]
    deep = ["--checks=clang-analyzer-*"] if "--deep" in words else []
    words = [word for word in words if word != "--deep"]
    if not words:
        sys.exit(__doc__)
    build_dir = words[0]
    here = os.path.dirname(os.path.realpath(__file__))
    root = os.path.dirname(os.path.dirname(here))
    cache = os.path.join(root, "build", "tidy-cache")
    os.makedirs(cache, exist_ok=True)
    includes = Includes(root)
    chosen = sources(root, build_dir, words[1:] or [""])
    marks = {
        path: os.path.join(cache, fingerprint(root, path, f"{command} {deep}", includes))
        for path, command in chosen.items()
    }
    waiting = [path for path in chosen if not os.path.exists(marks[path])]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        running = {pool.submit(check, root, build_dir, deep, path): path for path in waiting}
        for number, future in enumerate(concurrent.futures.as_completed(running), 1):
            path = running[future]
            findings, seconds = future.result()
            print(f"[{number}/{len(waiting)}] {path} {seconds:.1f} s", flush=True)
            if findings:
                failed += 1
                print(findings, flush=True)
            else:
                with open(marks[path], "w", encoding="utf-8"):
                    pass
    unchanged = len(chosen) - len(waiting)
    print(f"clang-tidy: {len(chosen)} files, {unchanged} unchanged, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
