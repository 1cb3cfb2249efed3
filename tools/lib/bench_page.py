#!/usr/bin/env python3
"""Draws the results of benches as one page.

usage: bench_page.py OUT.html RESULT.json…

Each result is what a bench writes with --json. For every case and metric: one plot, with the median
of each subject over n (or side by side where there is one n), whiskers from min to max, and the
figures in a table below it. One file, no script, nothing from elsewhere.
"""

import html
import json
import math
import sys

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 118, 16, 40
ROW = 26
# Okabe and Ito's palette, which colour-blind readers can tell apart, and two more; Pinion has the
# strong one.
PEER_COLOURS = ["#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#7f7f7f"]
COLOURS = {"pinion": "#d55e00", "floor": "#999999"}
STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --soft: #6b6b6b; --line: #e3e3e3; --page: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececec; --soft: #9c9c9c; --line: #3a3a3a; --page: #161616; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
  max-width: 1200px; margin: 2.5rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.6rem; } h2 { margin-top: 2.5rem; } h3 { font-size: 1rem; margin: 0 0 .2rem; }
.machine { color: var(--soft); }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(520px, 1fr)); gap: 2rem; }
svg { width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 12px; }
svg text.name { font-weight: 600; } .grid { stroke: var(--line); }
summary { cursor: pointer; color: var(--soft); font-size: .85rem; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
td, th { padding: .15rem .7rem .15rem 0; text-align: right; } td:first-child, th:first-child
{ text-align: left; } tr.pinion td { font-weight: 600; }
"""


def count(n):
    """1000 -> 1k."""
    for size, mark in ((1_000_000, "M"), (1_000, "k")):
        if n >= size and n % size == 0:
            return f"{n // size}{mark}"
    return str(n)


def figure(value):
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(digits, 3)}f}"


class LogScale:
    """Values to pixels, on a logarithmic axis."""

    def __init__(self, values, first, last, whole_decades=True):
        positive = [value for value in values if value > 0] or [1]
        low, high = math.log10(min(positive)), math.log10(max(positive))
        if whole_decades:
            low, high = math.floor(low), math.ceil(high)
        self.low, self.high = low, max(high, low + (1 if whole_decades else 1e-9))
        self.first, self.last = first, last

    def __call__(self, value):
        exponent = math.log10(value) if value > 0 else self.low
        share = (max(exponent, self.low) - self.low) / (self.high - self.low)
        return self.first + share * (self.last - self.first)

    def decades(self):
        return [10.0**power for power in range(math.floor(self.low), math.ceil(self.high) + 1)]


def colours_of(rows):
    peers = sorted({row["subject"] for row in rows} - COLOURS.keys())
    return {**COLOURS, **{p: PEER_COLOURS[i % len(PEER_COLOURS)] for i, p in enumerate(peers)}}


def tooltip(row):
    return (
        f"<title>{html.escape(row['subject'])}, n = {count(row['n'])}: {figure(row['median'])} "
        f"{html.escape(row['unit'])} ({figure(row['min'])} to {figure(row['max'])}, "
        f"{row['runs']} runs)</title>"
    )


def line(x1, y1, x2, y2, extra='class="grid"'):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {extra}/>'


def text(x, y, words, extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {extra}>{html.escape(words)}</text>'


def spread(labels, distance):
    """Moves labels (y, …) apart so that none covers another; keeps their order."""
    placed = []
    for y, *rest in sorted(labels):
        placed.append([max(y, placed[-1][0] + distance) if placed else y, y, *rest])
    shift = sum(at - wanted for at, wanted, *_ in placed) / max(len(placed), 1)
    return [(at - shift, *rest) for at, _, *rest in placed]


def line_plot(rows, colours):
    """Medians over n, one line a subject, on two logarithmic axes."""
    sizes = sorted({row["n"] for row in rows})
    x = LogScale(sizes, LEFT + 8, WIDTH - RIGHT, whole_decades=False)
    y = LogScale([row[key] for row in rows for key in ("min", "max")], HEIGHT - BOTTOM, TOP)
    parts = []
    for value in y.decades():
        parts.append(line(LEFT, y(value), WIDTH - RIGHT, y(value)))
        parts.append(text(LEFT - 8, y(value) + 4, f"{value:,g}", 'text-anchor="end"'))
    for n in sizes:
        parts.append(text(x(n), HEIGHT - BOTTOM + 20, count(n), 'text-anchor="middle"'))
    labels = []
    subjects = sorted({row["subject"] for row in rows}, key=lambda name: name == "pinion")
    for subject in subjects:
        own = sorted((row for row in rows if row["subject"] == subject), key=lambda row: row["n"])
        colour, ours = colours[subject], subject == "pinion"
        points = " ".join(f"{x(row['n']):.1f},{y(row['median']):.1f}" for row in own)
        dashes = ' stroke-dasharray="4 4"' if subject == "floor" else ""
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" '
            f'stroke-width="{3 if ours else 1.5}"{dashes}/>'
        )
        for row in own:
            at = x(row["n"])
            parts.append(line(at, y(row["min"]), at, y(row["max"]), f'stroke="{colour}"'))
            parts.append(
                f'<circle cx="{at:.1f}" cy="{y(row["median"]):.1f}" r="{4.5 if ours else 3}" '
                f'fill="{colour}">{tooltip(row)}</circle>'
            )
        labels.append((y(own[-1]["median"]), x(own[-1]["n"]), subject))
    for at, end, subject in spread(labels, 14):
        style = f'class="name" style="fill:{colours[subject]}"'
        parts.append(text(max(end, WIDTH - RIGHT) + 10, at + 4, subject, style))
    return WIDTH, HEIGHT, parts


def dot_plot(rows, colours):
    """One n: the subjects side by side on one logarithmic axis."""
    rows = sorted(rows, key=lambda row: row["median"])
    height = TOP + ROW * len(rows) + BOTTOM
    x = LogScale([row[key] for row in rows for key in ("min", "max")], 130, WIDTH - 60)
    parts = []
    for value in x.decades():
        parts.append(line(x(value), TOP, x(value), height - BOTTOM))
        parts.append(text(x(value), height - BOTTOM + 18, f"{value:,g}", 'text-anchor="middle"'))
    for number, row in enumerate(rows):
        at, colour = TOP + ROW * (number + 0.5), colours[row["subject"]]
        style = f'class="name" text-anchor="end" style="fill:{colour}"'
        parts.append(text(120, at + 4, row["subject"], style))
        parts.append(line(x(row["min"]), at, x(row["max"]), at, f'stroke="{colour}"'))
        parts.append(
            f'<circle cx="{x(row["median"]):.1f}" cy="{at:.1f}" r="5" fill="{colour}">'
            f"{tooltip(row)}</circle>"
        )
        parts.append(text(x(row["max"]) + 8, at + 4, figure(row["median"])))
    return WIDTH, height, parts


def table(rows):
    cells = "".join(
        f'<tr class="{html.escape(row["subject"])}"><td>{html.escape(row["subject"])}</td>'
        f"<td>{count(row['n'])}</td><td>{figure(row['median'])}</td><td>{figure(row['min'])}</td>"
        f"<td>{figure(row['max'])}</td><td>{row['runs']}</td><td>{figure(row['ratio'])}</td></tr>"
        for row in sorted(rows, key=lambda row: (row["n"], row["median"]))
    )
    head = "".join(f"<th>{word}</th>" for word in "subject n median min max runs ratio".split())
    return f"<details><summary>figures</summary><table><tr>{head}</tr>{cells}</table></details>"


def section(result):
    groups = {}
    for row in result["rows"]:
        groups.setdefault((row["case"], row["metric"], row["unit"]), []).append(row)
    colours = colours_of(result["rows"])
    plots = []
    for (case, metric, unit), rows in groups.items():
        several = len({row["n"] for row in rows}) > 1
        width, height, parts = (line_plot if several else dot_plot)(rows, colours)
        title = f"{metric}, {case} [{unit}]"
        plots.append(
            f"<figure style='margin:0'><h3>{html.escape(title)}</h3>"
            f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(title)}">'
            f"{''.join(parts)}</svg>{table(rows)}</figure>"
        )
    machine = result["machine"]
    if isinstance(machine, dict):
        machine = ", ".join(f"{key} {value}" for key, value in machine.items())
    return (
        f"<h2>{html.escape(result['bench'])}</h2><p class='machine'>{html.escape(str(machine))}</p>"
        f"<div class='plots'>{''.join(plots)}</div>"
    )


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    results = []
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            results.append(json.load(file))
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(
            "<!doctype html><html lang='en'><meta charset='utf-8'><title>Pinion benches</title>"
            f"<meta name='viewport' content='width=device-width'><style>{STYLE}</style>"
            "<h1>Pinion benches</h1><p>Medians, whiskers from min to max. A ratio is the subject's "
            "median over Pinion's: above 1, Pinion needs less. Axes are logarithmic.</p>"
            f"{''.join(section(result) for result in results)}</html>\n"
        )
    print(f"wrote {sys.argv[1]}")


if __name__ == "__main__":
    main()
