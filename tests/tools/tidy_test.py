#!/usr/bin/env python3
"""That tools/lib/tidy.py finds what it is there for, and leaves good text alone."""

import importlib.util
import pathlib
import sys
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "support"))
import tap

SPEC = importlib.util.spec_from_file_location("tidy", TOP / "tools" / "lib" / "tidy.py")
tidy = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tidy)


class Texts(tidy.Tree):
    """A tree that is not on disk."""

    def __init__(self, **texts):
        self.root = str(TOP)
        self.texts = {name.replace("__", "/").replace("_h", ".h").replace("_cc", ".cc"): text
                      for name, text in texts.items()}  # fmt: skip


class Tidy(unittest.TestCase):
    def findings(self, check, **texts):
        return list(tidy.CHECKS[check](Texts(**texts)))

    def test_width_counts_characters(self):
        self.assertFalse(self.findings("width", lib__a_h="é" * 100 + "\n"))
        self.assertTrue(self.findings("width", lib__a_h="e" * 101 + "\n"))

    def test_finds_long_functions_behind_any_signature(self):
        body = "  step();\n" * 60
        for head in (
            "void f() {", "auto f(int a,\n       int b) -> int {", "template <class T>\nT g() {",
            "TEST(A, B) {", "X::X(int a)\n    : a_(a) {", "class A {\n void f() const noexcept {",
        ):  # fmt: skip
            text = head + "\n" + body + "}\n"
            self.assertTrue(self.findings("function-length", lib__a_cc=text), head)

    def test_leaves_long_classes_and_tables_alone(self):
        lines = "  int member = 1;  // { not a brace\n" * 80
        for head in ("namespace x {", "class A final : public B<int()> {", "enum class E {",
                     "constexpr T kTable[] = {"):  # fmt: skip
            text = head + "\n" + lines + "};\n"
            self.assertFalse(self.findings("function-length", lib__a_cc=text), head)

    def test_finds_long_functions_of_scripts(self):
        shell = "#!/usr/bin/env bash\nf() {\n" + "  step\n" * 60 + "}\n"
        python = "#!/usr/bin/env python3\ndef f():\n" + "    step()\n" * 60
        self.assertTrue(self.findings("function-length", tools__a=shell))
        self.assertTrue(self.findings("function-length", tools__b=python))

    def test_finds_blanks_tabs_and_ends(self):
        for text in ("a \n", "a\tb\n", "a", "a\n\n"):
            self.assertTrue(self.findings("whitespace", lib__a_h=text), repr(text))
        self.assertFalse(self.findings("whitespace", lib__a_h="a\n"))

    def test_finds_long_files(self):
        self.assertTrue(self.findings("file-length", lib__a_h="a\n" * 801))
        self.assertFalse(self.findings("file-length", lib__a_h="a\n" * 800))

    def test_headers_guard_and_explain_themselves(self):
        guarded, told = "#pragma once\n", "#pragma once\n/// What it is.\n"
        public = "lib__include__pinion__lib__a_h"
        self.assertTrue(self.findings("headers", lib__a_h=""))
        self.assertFalse(self.findings("headers", lib__a_h=guarded))
        self.assertTrue(self.findings("headers", **{public: guarded}))
        self.assertFalse(self.findings("headers", **{public: told}))

    def test_headings_of_headers_stay_whole(self):
        for lines, good in (
            (["/// Cost:       a turn allocates nothing but", "///             tasks."], True),
            (["/// Cost:       a turn allocates", "/// but", "///             tasks."], False),
            (["///             it is never full, or", "/// empty."], False),
            (["/// Assertions: one fact each, on in", "/// release too."], True),
        ):  # fmt: skip
            text = "\n".join(lines) + "\n"
            self.assertEqual(not self.findings("headings", lib__a_h=text), good, text)

    def test_links_lead_somewhere_and_decisions_are_listed(self):
        self.assertTrue(self.findings("links", **{"docs__a.md": "[a](gone.md)\n"}))
        self.assertFalse(self.findings("links", **{"docs__a.md": "[a](start.md#versions)\n"}))
        index = {"docs__decisions__README.md": "- [Why](README.md)\n"}
        self.assertTrue(self.findings("links", **index, **{"docs__decisions__new.md": "# New\n"}))

    def test_includes_go_one_way(self):
        ways = (("lib", "timers", False), ("net", "timers", True), ("eventloop", "net", False),
                ("apps", "net", True))  # fmt: skip
        for folder, target, good in ways:
            text = {f"{folder}__a_cc": f"#include <pinion/{target}/x.h>\n"}
            found = self.findings("include-direction", **text)
            self.assertEqual(not found, good, (folder, target))

    def test_foreign_headers_stay_where_they_belong(self):
        dpdk, uring = "#include <rte_timer.h>\n", "#include <liburing.h>\n"
        self.assertTrue(self.findings("include-direction", timers__a_cc=dpdk))
        self.assertTrue(self.findings("include-direction", lib__a_h=uring))
        self.assertFalse(self.findings("include-direction", eventloop__a_cc=uring))

    def test_clocks_are_read_by_time_sources_alone(self):
        text = "auto t = std::chrono::steady_clock::now();\n"
        self.assertTrue(self.findings("clock", timers__wheel_cc=text))
        self.assertFalse(self.findings("clock", timers__wheel_cc="// " + text))
        self.assertFalse(self.findings("clock", eventloop__a_cc=text))

    def test_finds_dead_files(self):
        texts = {"lib__a_cc": "", "lib__meson.build": "files('b.cc')\n", "lib__c_h": ""}
        self.assertEqual(len(self.findings("dead-files", **texts)), 2)
        texts["lib__a_cc"] = '#include "c.h"\n'
        texts["lib__meson.build"] = "files('a.cc')\n"
        self.assertFalse(self.findings("dead-files", **texts))

    def test_quoted_errors_are_printed_by_somebody(self):
        code = 'fail(x, fmt::format("need {} "\n     "lcores, {} there", a, b));\n'
        page = "| error | remedy |\n| --- | --- |\n| `{}` | `fewer` |\n"
        for quoted, good in (
            ("need … lcores, … there", True), ("need … CPUs", False), ("… lcores", True),
            ("lcores, 5 there", False),
        ):  # fmt: skip
            texts = {"lib__a_cc": code, "docs__troubleshooting.md": page.format(quoted)}
            self.assertEqual(not self.findings("quoted-errors", **texts), good, quoted)
        texts["docs__troubleshooting.md"] = "| what you see |\n| --- |\n| `need more` |\n"
        self.assertFalse(self.findings("quoted-errors", **texts))
        texts = {"tests__a_cc": code, "docs__troubleshooting.md": page.format("need … lcores")}
        self.assertTrue(self.findings("quoted-errors", **texts), "a test prints nothing")

    def test_named_tests_are_there(self):
        code = {"tests__net__tcp_a_test_cc": "TEST(TcpCases, W1_Holds) {\n}\n",
                "tests__b_test_cc": "TEST_F(B,\n       Works) {\n}\n"}  # fmt: skip
        for named, good in (
            ("tcp_a:W1_Holds", True), ("b:Works", True), ("tcp_a:W1_Hold", False),
            ("tcp_a:Works", False), ("tcp:W1_Holds", False),
        ):  # fmt: skip
            page = {"docs__tcp-conformance.md": f"| `b:Works`, `{named}` |\n"}
            self.assertEqual(not self.findings("named-tests", **code, **page), good, named)

    def test_finds_marks_of_unfinished_work(self):
        self.assertTrue(self.findings("unfinished", lib__a_h="// TO" + "DO: more\n"))
        self.assertFalse(self.findings("unfinished", lib__a_h="// the to-do list of a loop\n"))


if __name__ == "__main__":
    tap.main()
