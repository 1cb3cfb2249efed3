#!/usr/bin/env python3
"""Lists the programs that a configured build folder makes from one folder of the tree.

usage: targets.py BUILD_DIR FOLDER

Prints "name<TAB>file below BUILD_DIR", a line each.
"""

import json
import os
import subprocess
import sys


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build_dir, folder = sys.argv[1:]
    text = subprocess.run(
        ["meson", "introspect", "--targets", build_dir], check=True, capture_output=True, text=True
    ).stdout
    here = os.path.dirname(os.path.realpath(__file__))
    top = os.path.join(os.path.dirname(os.path.dirname(here)), folder)
    for target in json.loads(text):
        inside = os.path.realpath(target["defined_in"]).startswith(os.path.realpath(top) + os.sep)
        if target["type"] == "executable" and inside:
            print(f"{target['name']}\t{os.path.relpath(target['filename'][0], build_dir)}")


if __name__ == "__main__":
    main()
