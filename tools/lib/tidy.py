#!/usr/bin/env python3
"""The checks on the text of the tree that need no build.

usage: tidy.py [--tap] [--list] [CHECK…]

Without --tap prints "file:line: what is wrong" and ends with the number of findings; with it, one
TAP test a check. Exit code 1 when there was a finding, 2 for an unknown check. The checks that want
a build (clang-tidy) are in clang_tidy.py.
"""

import ast
import glob
import json
import os
import re
import subprocess
import sys

MAX_COLUMNS = 100
MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 800

# Who may include whom, beside itself.
MAY_INCLUDE = {
    "lib": set(),
    "timers": {"lib"},
    "eventloop": {"lib", "timers"},
    "net": {"lib", "timers", "eventloop"},
    "apps": {"lib", "timers", "eventloop", "net"},
}
# Where a foreign library's headers are confined to.
CONFINED = [
    (re.compile(r"^rte_"), ("net/device/dpdk", "tests/bench/"), "DPDK"),
    (re.compile(r"^liburing"), ("net/kernel/", "eventloop/", "tests/"), "liburing"),
    (re.compile(r"^CLI/|^toml"), ("apps/", "tests/apps/"), "CLI11 and toml++"),
    (re.compile(r"^g(test|mock)/"), ("tests/",), "GoogleTest"),
]
# Time is an argument below the loop; these are the only files that read a clock.
CLOCK = re.compile(r"\b(clock_gettime|gettimeofday|(steady|system|high_resolution)_clock::now)\b")
CLOCK_READERS = re.compile(
    r"^(timers/(.*/)?\w*time_source\w*\.(cc|h)$|lib/log\.cc$|eventloop/|apps/|tests/)"
)
# What fuzz targets read: bytes, though some look like text.
BYTES = "tests/fuzz/corpus/"
# Spelled in halves, so that this file passes its own check.
UNFINISHED = re.compile(
    r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b|\bnot (yet )?implement" r"ed\b"
    r"|\bfor n" r"ow\b(?!\()|\bwork in prog" r"ress\b|(//|#|<!--).*\bplace" r"holder\b",
    re.IGNORECASE,
)
SPELLED_RIGHT = "deques,idel,inout"  # one is a typing error that a test makes on purpose
CONTROL = re.compile(
    r"^(if|for|while|switch|else|do|try|catch|return|namespace|class|struct|enum|union|extern|"
    r"case|default|co_return|co_await|co_yield|requires|static_assert|concept)\b"
)


class Tree:
    """The files of the checkout, read once."""

    def __init__(self, root):
        self.root = root
        self.texts = {}
        for path in self._list():
            if path.startswith(BYTES):
                continue
            full = os.path.join(root, path)
            if os.path.islink(full) or not os.path.isfile(full):
                continue
            with open(full, "rb") as file:
                raw = file.read()
            if b"\0" not in raw:
                self.texts[path] = raw.decode("utf-8", errors="replace")

    def _list(self):
        git = ["git", "-C", self.root, "ls-files", "-co", "--exclude-standard"]
        try:
            listed = subprocess.run(git, capture_output=True, text=True, check=True).stdout
            return sorted(set(listed.splitlines()))
        except (OSError, subprocess.CalledProcessError):  # an unpacked archive
            paths = []
            for folder, folders, names in os.walk(self.root):
                folders[:] = [name for name in folders if name not in (".git", "build")]
                paths += [os.path.relpath(os.path.join(folder, name), self.root) for name in names]
            return sorted(paths)

    def select(self, *endings):
        return {path: text for path, text in self.texts.items() if path.endswith(endings)}

    def cpp(self):
        return self.select(".cc", ".h")

    def scripts(self, word):
        """Files whose first line names this interpreter, or that declare its dialect."""
        first = re.compile(rf"^#(!.*\b{word}\d?\b| shellcheck shell={word})")
        return {path: text for path, text in self.texts.items() if first.match(text)}

    def sources(self):
        return {
            **self.cpp(),
            **self.select(".py", "meson.build"),
            **self.scripts("bash"),
            **self.scripts("python"),
        }


def run_tool(tree, command, paths):
    """Runs a checker over files; its lines of output are the findings."""
    if not paths:
        return []
    try:
        done = subprocess.run(
            command + sorted(paths), cwd=tree.root, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return [f"{command[0]} is not installed; fix: tools/dev tidy installs it"]
    if done.returncode == 0:
        return []
    lines = (done.stdout + done.stderr).splitlines()
    return [line for line in lines if line.strip()] or [f"{command[0]} failed"]


def check_format(tree):
    """clang-format-19 leaves every C++ file as it is"""
    command = ["clang-format-19", "--dry-run", "--Werror", "--ferror-limit=1"]
    lines = run_tool(tree, command, tree.cpp())
    return [line for line in lines if ": error:" in line or "not installed" in line]


def check_width(tree):
    """no line is wider than 100 columns"""
    for path, text in tree.sources().items():
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > MAX_COLUMNS and "http" not in line:
                yield f"{path}:{number}: {len(line)} columns, {MAX_COLUMNS} allowed"


def check_whitespace(tree):
    """no tabs, no blanks at a line's end, one newline at the file's end"""
    for path, text in tree.texts.items():
        if path.endswith((".pcap", ".pcapng", ".svg", ".json", ".dict")) or not text:
            continue
        if not text.endswith("\n") or text.endswith("\n\n"):
            yield f"{path}: must end with exactly one newline"
        for number, line in enumerate(text.split("\n"), 1):
            if line != line.rstrip():
                yield f"{path}:{number}: blanks at the end"
            if "\t" in line:
                yield f"{path}:{number}: a tab"


def check_file_length(tree):
    """no file is longer than 800 lines"""
    for path, text in {**tree.sources(), **tree.select(".md")}.items():
        count = text.count("\n")
        if count > MAX_FILE_LINES:
            yield f"{path}: {count} lines, {MAX_FILE_LINES} allowed"


def blank_out(text):
    """C++ text with comments and literals replaced by blanks, lines kept."""
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|^[ ]*#(?:[^\n]*\\\n)*[^\n]*",
        re.DOTALL | re.MULTILINE,
    )
    return token.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def cpp_functions(text):
    """(first line, last line) of every function; a lambda is part of the function around it."""
    text = blank_out(text)
    functions = []
    stack = []  # for each open brace: the header's first line if it opens a function, else None
    begin, line = 0, 1
    for position, mark in enumerate(text):
        if mark == "\n":
            line += 1
        elif mark == "{":
            raw = text[begin:position]
            header = raw.strip()
            is_function = (
                ")" in header
                and not CONTROL.match(re.sub(r"^(template\s*<.*>|\[\[.*?\]\])\s*", "", header))
                and not re.search(r"(=|\(|,)\s*$", header)
                and not any(stack)
            )
            stack.append(line - raw.lstrip().count("\n") if is_function else None)
            begin = position + 1
        elif mark == "}":
            first = stack.pop() if stack else None
            if first is not None:
                functions.append((first, line))
            begin = position + 1
        elif mark == ";":
            begin = position + 1
    return functions


def bash_functions(text):
    begun = None
    for number, line in enumerate(text.split("\n"), 1):
        if re.match(r"^\w+\(\) \{", line):
            begun = number
        elif line == "}" and begun:
            yield begun, number
            begun = None


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno


def check_function_length(tree):
    """no function is longer than 60 lines"""
    finders = [
        (tree.cpp(), cpp_functions),
        (tree.scripts("bash"), bash_functions),
        (tree.scripts("python"), python_functions),
    ]
    for texts, find in finders:
        for path, text in texts.items():
            for first, last in find(text):
                if last - first + 1 > MAX_FUNCTION_LINES:
                    yield f"{path}:{first}: {last - first + 1} lines, {MAX_FUNCTION_LINES} allowed"


def includes(text):
    """(line number, bracket, path) of each include."""
    for match in re.finditer(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', text, re.MULTILINE):
        yield text.count("\n", 0, match.start()) + 1, match.group(1), match.group(2)


def check_include_direction(tree):
    """includes go lib <- timers <- eventloop <- net <- apps; foreign headers stay confined"""
    for path, text in tree.cpp().items():
        folder = path.split("/")[0]
        for number, bracket, name in includes(text):
            where = f"{path}:{number}"
            for pattern, places, library in CONFINED:
                if pattern.search(name) and not path.startswith(places):
                    yield f"{where}: {library} is confined to {', '.join(places)}"
            part = name.split("/")
            target = part[1] if part[0] == "pinion" and len(part) > 2 else None
            if folder in MAY_INCLUDE and target and target != folder:
                if target not in MAY_INCLUDE[folder]:
                    yield f"{where}: {folder}/ may not include {target}/"
            if bracket == '"' and "/include/" in path:
                yield f"{where}: a public header includes by <pinion/…>, never by a private path"


def check_clock(tree):
    """nothing below the loop reads a clock: time is an argument"""
    for path, text in tree.cpp().items():
        if CLOCK_READERS.match(path):
            continue
        for number, line in enumerate(blank_out(text).split("\n"), 1):
            if CLOCK.search(line):
                yield f"{path}:{number}: takes `now` as an argument, or belongs to a time source"


def built_sources(tree):
    """What the build folders that are there compile."""
    paths = set()
    for commands in glob.glob(os.path.join(tree.root, "build", "*", "compile_commands.json")):
        with open(commands, encoding="utf-8") as file:
            for entry in json.load(file):
                full = os.path.realpath(os.path.join(entry["directory"], entry["file"]))
                paths.add(os.path.relpath(full, tree.root))
    return paths


def check_dead_files(tree):
    """every source is built, every header is included"""
    builds = tree.select("meson.build")
    built = built_sources(tree)
    included = set()
    for path, text in tree.cpp().items():
        for _, _, name in includes(text):
            included.add((path, os.path.basename(name)))
    for path in tree.cpp():
        name = os.path.basename(path)
        if path.endswith(".h"):
            if not any(base == name and by != path for by, base in included):
                yield f"{path}: no file includes it"
        elif not path.startswith("tests/consumers/"):
            if path in built:
                continue
            # Not of this build: named whole, or by its stem in a list that a loop turns into files.
            stem = re.sub(r"(_test|_fuzz)?\.cc$", "", name)
            named = re.compile(rf"['/]{re.escape(stem)}(_test|_fuzz)?(\.cc)?'")
            above = [build for build in builds if path.startswith(os.path.dirname(build))]
            if not any(named.search(builds[build]) for build in above):
                yield f"{path}: no meson.build names it"


def check_headers(tree):
    """every header has its guard; public ones open with what they are"""
    for path, text in tree.select(".h").items():
        if "#pragma once" not in text:
            yield f"{path}:1: lacks #pragma once"
        if "/include/" in path and path.split("/")[0] in MAY_INCLUDE and "///" not in text:
            yield f"{path}:1: says nothing of what it is, who owns what, what it costs"


def check_headings(tree):
    """what continues under a heading of a header's comment is aligned with it"""
    entry = re.compile(r"^\s*///( [A-Z][\w .]{0,10}: {2,}|\s{12,})\S")
    torn_off = re.compile(r"^\s*/// [a-z(]")
    for path, text in tree.cpp().items():
        lines = text.split("\n")
        for number, (before, line) in enumerate(zip(lines, lines[1:]), 2):
            if entry.match(before) and torn_off.match(line):
                yield f"{path}:{number}: torn from the heading above: {line.strip()}"


def check_spelling(tree):
    """codespell finds nothing"""
    paths = [path for path in tree.texts if not path.endswith((".svg", ".dict", ".json", ".1"))]
    return run_tool(tree, ["codespell", "-L", SPELLED_RIGHT], paths)


def check_shell(tree):
    """shellcheck finds nothing"""
    return run_tool(tree, ["shellcheck", "-x", "-f", "gcc"], tree.scripts("bash"))


def check_unfinished(tree):
    """no mark of unfinished work"""
    for path, text in tree.texts.items():
        for number, line in enumerate(text.split("\n"), 1):
            if UNFINISHED.search(line):
                yield f"{path}:{number}: unfinished: {line.strip()}"


def check_links(tree):
    """every relative link in the documents leads somewhere; every decision is listed"""
    decisions = "docs/decisions/README.md"
    for path in tree.texts:
        if path.startswith("docs/decisions/") and path != decisions:
            if f"]({os.path.basename(path)})" not in tree.texts.get(decisions, ""):
                yield f"{path}: {decisions} does not list it"
    for path, text in tree.select(".md").items():
        for match in re.finditer(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            target = match.group(1)
            if re.match(r"^[a-z]+:", target):
                continue
            if not os.path.exists(os.path.join(tree.root, os.path.dirname(path), target)):
                number = text.count("\n", 0, match.start()) + 1
                yield f"{path}:{number}: {target} does not exist"


def literals(tree):
    """The text of programs and tools, its string literals joined, as one string."""
    programs = {path: text for path, text in tree.cpp().items() if not path.startswith("tests/")}
    tools = {**tree.scripts("bash"), **tree.scripts("python")}
    texts = [*programs.values(), *(text for path, text in tools.items() if "tests/" not in path)]
    return re.sub(r'"\s*\n\s*"', "", "\n".join(texts))


def check_quoted_errors(tree):
    """every error that docs/troubleshooting.md quotes is one that the sources print"""
    path = "docs/troubleshooting.md"
    said = None
    heading = ""
    for number, line in enumerate(tree.texts.get(path, "").split("\n"), 1):
        heading = line if line.startswith("| error") else heading if line.startswith("|") else ""
        if not heading or line == heading:
            continue
        said = said or literals(tree)
        for quoted in re.findall(r"`([^`]+)`", line.split("|")[1]):
            for part in (part.strip() for part in re.split(r"[…']", quoted)):
                # Names of values are printed with blanks for underscores.
                if part.strip(":()") and part not in said and part.replace(" ", "_") not in said:
                    yield f"{path}:{number}: nothing prints `{part}`"


def check_named_tests(tree):
    """every test that docs/tcp-conformance.md names as file:test is in a file of that name"""
    path = "docs/tcp-conformance.md"
    named = re.compile(r"`([a-z0-9_]+):([A-Z]\w+)`")
    test = re.compile(r"^TEST(?:_[FP])?\(\w+,\s*(\w+)\)", re.MULTILINE)
    there = set()
    for file, text in tree.select("_test.cc").items():
        there |= {(os.path.basename(file)[: -len("_test.cc")], name) for name in test.findall(text)}
    for number, line in enumerate(tree.texts.get(path, "").split("\n"), 1):
        for match in named.finditer(line):
            if match.groups() not in there:
                yield f"{path}:{number}: there is no test {match.group(0)}"


CHECKS = {
    name[len("check_") :].replace("_", "-"): function
    for name, function in list(globals().items())
    if name.startswith("check_")
}


def report_tap(results):
    print(f"1..{len(results)}")
    for number, (name, findings) in enumerate(results, 1):
        print(f"{'not ok' if findings else 'ok'} {number} - {name}")
        for finding in findings:
            print(f"# {finding}")


def report_text(results):
    for name, findings in results:
        for finding in findings:
            print(f"{finding} [{name}]")
    total = sum(len(findings) for _, findings in results)
    print(f"tidy: {len(results)} checks, {total} findings")


def main():
    arguments = sys.argv[1:]
    options = {word for word in arguments if word.startswith("-")}
    names = [word for word in arguments if not word.startswith("-")] or list(CHECKS)
    unknown = [name for name in names if name not in CHECKS] + list(options - {"--tap", "--list"})
    if unknown:
        print(f"error: unknown check or option {unknown[0]}", file=sys.stderr)
        print(f"fix: one of {', '.join(CHECKS)}", file=sys.stderr)
        return 2
    if "--list" in options:
        for name, function in CHECKS.items():
            print(f"{name:18} {function.__doc__}")
        return 0
    here = os.path.dirname(os.path.realpath(__file__))
    tree = Tree(os.path.dirname(os.path.dirname(here)))
    results = [(name, list(CHECKS[name](tree))) for name in names]
    (report_tap if "--tap" in options else report_text)(results)
    return 1 if any(findings for _, findings in results) else 0


if __name__ == "__main__":
    sys.exit(main())
