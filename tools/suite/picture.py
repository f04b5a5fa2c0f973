"""The picture and the page of a suite: every row on one scale, with the aim as a common line.

    decode            ████████████████▏│    0.92 (0.90 … 0.94)   pass        ▏ floor of the row
    ranks-decode      ██████████████████    1.00 (0.98 … 1.01)   aim         │ aim
    int8-decode       not available: …

Both are trees of elements: the picture is built here, the page is suite_page.html with its placeholders filled in.
Pure, except for reading that file.
"""
from __future__ import annotations

import pathlib
import re
import time
from xml.etree.ElementTree import Element, SubElement, indent, parse, tostring

from figures import Row, of_aim, short_number
from report import Report, beside_text, limit_text, summary

PAGE = pathlib.Path(__file__).resolve().parent / "suite_page.html"
WIDTH, TOP, ROW_HEIGHT, BAR = 900, 68, 26, 14
LEFT, RIGHT = 190, 640  # of the bars
MOST = 1.25             # the right end, as a multiple of the aim
SHOWN_REASON = 92       # characters in the picture

# Colours of Okabe and Ito ("Color Universal Design", 2008), distinguishable with any colour vision; dark pages use
# lighter ones. The verdict is also next to the bar as text.
STYLE = """
svg.suite { --ink: #1a1a1a; --soft: #666; --line: #d9d9d9; --back: #fff; --aim: #0072b2; --pass: #009e73;
  --below: #d55e00; font: 13px system-ui, sans-serif; background: var(--back); }
@media (prefers-color-scheme: dark) { svg.suite { --ink: #e8e8e8; --soft: #a0a0a0; --line: #444; --back: #161616;
  --aim: #56b4e9; --pass: #2fc79a; --below: #ff8a3c; } }
svg.suite text { fill: var(--ink); } svg.suite .soft { fill: var(--soft); } svg.suite .title { font-weight: bold; }
svg.suite .aim { fill: var(--aim); } svg.suite .pass { fill: var(--pass); } svg.suite .below { fill: var(--below); }
svg.suite path { fill: none; stroke: var(--line); } svg.suite path.mark { stroke: var(--ink); stroke-width: 1.5; }
svg.suite path.shared { stroke: var(--ink); stroke-dasharray: 3 3; }
svg.suite text.reason { paint-order: stroke; stroke: var(--back); stroke-width: 5px; }
"""


def add(parent: Element, tag: str, text: str = "", **attributes: object) -> Element:
    """A new last child; `class_` stands for class, a dash in a name is written as an underscore."""
    names = {name.rstrip("_").replace("_", "-"): str(value) for name, value in attributes.items()}
    child = SubElement(parent, tag, names)
    child.text = printable(text) or None
    return child


def printable(text: str) -> str:
    """`text` without the control characters that XML cannot hold."""
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "", text)


def x_of(share: float) -> float:
    """The position of a multiple of the aim, clamped to the ends."""
    return round(LEFT + min(max(share, 0.0), MOST) / MOST * (RIGHT - LEFT), 1)


def _draw_bar(group: Element, row: Row, y: float) -> None:
    limits, spread = row.goal.limits, row.spread
    middle = y + BAR / 2
    end = x_of(of_aim(limits, spread.median))
    add(group, "rect", x=LEFT, y=y, width=round(end - LEFT, 1), height=BAR, class_=row.verdict.value)
    left, right = sorted(x_of(of_aim(limits, value)) for value in (spread.min, spread.max))
    add(group, "path", class_="mark", d=f"M{left} {middle - 3}v6m0 -3H{right}m0 -3v6")
    add(group, "path", class_="mark", d=f"M{x_of(of_aim(limits, limits.floor))} {y - 3}v{BAR + 6}")
    add(group, "text", f"{short_number(spread.median)} ({short_number(spread.min)} … {short_number(spread.max)})  "
                       f"{row.verdict.value}", x=RIGHT + 14, y=middle + 4.5)


def _draw_row(svg: Element, row: Row, y: float) -> None:
    group = add(svg, "g")
    add(group, "title", row.goal.name)
    baseline = y + BAR / 2 + 4.5
    add(group, "text", row.goal.id, x=LEFT - 10, y=baseline, text_anchor="end")
    if row.spread:
        _draw_bar(group, row, y)
        return
    reason = row.reason.partition("\n")[0]
    shown = reason if len(reason) <= SHOWN_REASON else reason[:SHOWN_REASON] + "…"
    add(group, "text", f"{row.verdict.value}: {shown}", class_="soft reason", x=LEFT + 6, y=baseline)


def draw(report: Report) -> Element:
    """One bar per row, from 0 to its figure as a multiple of its aim; light and dark, self-contained."""
    height = TOP + ROW_HEIGHT * len(report.rows) + 12
    svg = Element("svg", {"class": "suite", "xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {WIDTH} {height}",
                          "role": "img", "aria-label": summary(report)})
    add(svg, "style", STYLE)
    add(svg, "text", f"lockstep {report.version}, suite {report.suite}", class_="title", x=8, y=18)
    add(svg, "text", summary(report), class_="soft", x=8, y=38)
    add(svg, "text", "aim", class_="soft", x=x_of(1), y=57, text_anchor="middle")
    add(svg, "path", d=f"M{LEFT} {TOP - 6}V{height - 8}")
    add(svg, "path", class_="shared", d=f"M{x_of(1)} {TOP - 6}V{height - 8}")
    for place, row in enumerate(report.rows):
        _draw_row(svg, row, TOP + ROW_HEIGHT * place)
    return svg


def to_svg(report: Report) -> str:
    """The document suite.svg."""
    svg = draw(report)
    indent(svg, "")
    return tostring(svg, encoding="unicode") + "\n"


def _add_row(body: Element, row: Row) -> None:
    line = add(body, "tr")
    name = add(line, "td", row.goal.name)
    for text in filter(None, (beside_text(row), row.reason)):
        add(name, "small", text)
    limits, spread = row.goal.limits, row.spread
    add(line, "td", short_number(spread.median) if spread else "–")
    add(line, "td", limit_text(limits, limits.floor))
    add(line, "td", limit_text(limits, limits.aim))
    add(line, "td", row.verdict.value, class_="text")
    add(line, "td", f"{short_number(spread.min)} … {short_number(spread.max)}" if spread else "")
    add(line, "td", f"{short_number(spread.lower)} … {short_number(spread.upper)}" if spread else "")
    add(line, "td", str(len(row.pairs)))


def to_page(report: Report) -> str:
    """The document suite.html: the picture, and everything else as tables; without scripts or references."""
    page = parse(PAGE)
    places = {element.get("id"): element for element in page.iter() if element.get("id")}
    title = f"lockstep {report.version}, suite {report.suite}"
    page.find("head/title").text = places["title"].text = title
    places["summary"].text = summary(report)
    machine = report.machine
    ended = time.strftime("%Y-%m-%d %H:%M", time.gmtime(report.unix_time))
    places["machine"].text = (f"{machine.host}: {machine.cores} cores, {machine.cpu}; {ended} UTC; rows about several "
                              f"ranks: {report.ranks} of {report.threads} thread(s)")
    places["picture"].append(draw(report))
    for row in report.rows:
        _add_row(places["rows"], row)
    for rival in report.rivals:
        line = add(places["engines"], "tr")
        for text in (rival.name, rival.state, rival.version if rival.state == "ran" else rival.reason):
            add(line, "td", text, class_="text")
    if not report.rivals:
        page.find("body").remove(places["rivals"])
    return "<!DOCTYPE html>\n" + tostring(page.getroot(), encoding="unicode", method="html") + "\n"
