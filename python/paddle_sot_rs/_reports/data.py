"""What the page of a report shows, computed from what was recorded."""

from __future__ import annotations

import ast
import functools
import linecache
import os
from collections import defaultdict
from dataclasses import dataclass, field, fields
from typing import Any

from .. import _core
from ..report import Seconds
from . import excerpt
from .page import PAGE

Place = tuple[str, int, str]

_PHASES = [phase.name for phase in fields(Seconds)]

# Larger graphs are shown without their last operations.
_DRAWN = 300
# Of a box of a graph, and between boxes.
_BOX = (150, 40)
_GAP = (22, 34)
# Of a graph that can be read.
_READABLE = 1100
# Of the time line.
_WIDTH = 1000


def seconds_text(value: float) -> str:
    """A time for people."""
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1e3:.1f} ms" if value >= 1e-3 else f"{value * 1e6:.0f} µs"


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f}%" if whole else ""


@dataclass
class Box:
    """An operation in a picture of a graph."""

    name: str
    shape: str
    title: str
    kind: str
    x: float = 0
    y: float = 0


@dataclass
class Picture:
    """A graph as boxes in rows, and lines between them."""

    boxes: list[Box] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    width: float = 0
    height: float = 0
    left_out: int = 0
    first: tuple[float, float, float, float] = (0, 0, 1, 1)


def picture(nodes: list[tuple[str, list[str], list[tuple[str, str]], Place]]) -> Picture:
    """Lays a graph out: each operation one row below the last that it takes a value of."""
    taken_somewhere = {symbol for _, taken, _, _ in nodes for symbol in taken}
    # Parameters that a layer takes itself are no part of the picture.
    nodes = [node for node in nodes if node[0] != "input" or node[2][0][0] in taken_somewhere]
    drawn = Picture(left_out=max(0, len(nodes) - _DRAWN))
    makers: dict[str, int] = {}
    rows: list[int] = []
    inputs: list[list[int]] = []
    for name, taken, made, place in nodes[:_DRAWN]:
        number = len(rows)
        above = [makers[it] for it in dict.fromkeys(taken) if it in makers]
        # Arguments have the row in front of the first.
        rows.append(max((rows[it] + 1 for it in above), default=int(name != "input")))
        inputs.append(above)
        for symbol, _ in made:
            makers[symbol] = number
        shapes = " ".join(shape for _, shape in made[:1]) + (" ..." if made[1:] else "")
        title = f"{os.path.basename(place[0])}:{place[1]} in {place[2]}" if place[1] else "an argument of the graph"
        kind = "input" if name == "input" else "operation"
        drawn.boxes.append(Box(name.strip("_") or name, shapes, title, kind))
    for number, box in enumerate(drawn.boxes):
        # An argument stands in front of what takes it first.
        takers = [row for row, above in zip(rows, inputs, strict=True) if number in above]
        if box.kind == "input" and takers:
            rows[number] = min(takers) - 1
    by_row: dict[int, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        by_row[row].append(number)
    widest = max(map(len, by_row.values()), default=0)
    drawn.width = max(1, widest) * (_BOX[0] + _GAP[0]) + _GAP[0]
    for row in sorted(by_row):
        # In the order of what they come from: lines cross less.
        centre = lambda it: sum(drawn.boxes[up].x for up in inputs[it]) / len(inputs[it]) if inputs[it] else it  # noqa: E731
        ordered = sorted(by_row[row], key=lambda it: (drawn.boxes[it].kind == "input", centre(it)))
        left = (drawn.width - len(ordered) * (_BOX[0] + _GAP[0]) + _GAP[0]) / 2
        for at, number in enumerate(ordered):
            drawn.boxes[number].x = left + at * (_BOX[0] + _GAP[0])
            drawn.boxes[number].y = _GAP[1] / 2 + row * (_BOX[1] + _GAP[1])
    for number, above in enumerate(inputs):
        below = drawn.boxes[number]
        for up in above:
            start, x, y = drawn.boxes[up], below.x + _BOX[0] / 2, below.y
            left, top = start.x + _BOX[0] / 2, start.y + _BOX[1]
            bend = _GAP[1] / 2
            drawn.lines.append(
                f"M{left:.0f} {top:.0f}C{left:.0f} {top + bend:.0f} {x:.0f} {y - bend:.0f} {x:.0f} {y:.0f}"
            )
    drawn.height = (max(rows, default=0) + 1) * (_BOX[1] + _GAP[1])
    # What can be read at once comes first: the start of the graph, in its middle.
    width = min(max(drawn.width, 500), _READABLE)
    drawn.first = ((drawn.width - width) / 2, 0, width, width * 0.37)
    return drawn


@functools.cache
def _functions_of(file: str) -> list[tuple[int, int]]:
    """First and last lines of the functions in a file."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            first = min([node.lineno, *(it.lineno for it in getattr(node, "decorator_list", []))])
            found.append((first, node.end_lineno or first))
    return found


def _start_of(file: str, line: int) -> int:
    """The first line of the innermost function that this line is in; 0 where there is none."""
    return max((first for first, last in _functions_of(file) if first <= line <= last), default=0)


def _lines_of(file: str, first: int) -> list[tuple[int, str]]:
    """The source of the function that starts in this line."""
    lines = linecache.getlines(file)
    last = max((last for start, last in _functions_of(file) if start == first), default=0)
    return [(number, lines[number - 1].rstrip("\n")) for number in range(first, last + 1)]


def _reason(record: Any) -> dict[str, Any]:
    return {
        "id": record.id,
        "title": record.title,
        "message": record.message,
        "hint": record.hint,
        "link": record.link,
        "count": record.count,
        "place": f"{os.path.basename(record.file)}:{record.line}",
        "excerpt": excerpt.of(record.file, record.line, record.end_line, *record.columns),
    }


def _key(record: Any) -> tuple[str, str, int, str]:
    return (record.id, record.file, record.line, record.message)


class Function:
    """One function that was recorded."""

    def __init__(self, recorded: dict[str, Any], calls: list[tuple[float, float]]) -> None:
        self.file, self.line, self.name = recorded["place"]
        self.stats, self.pieces, self.graphs = recorded["stats"], recorded["pieces"], recorded["graphs"]
        self.calls = calls
        self.trace, self.infer, self.backend = self.stats.seconds
        self.executor = sum(piece["executor"] for piece in self.pieces)
        self.between = sum(piece["between"] for piece in self.pieces if piece["reason"])
        self.total = sum(seconds for _, seconds in calls)
        compiled = self.trace + self.infer + self.backend
        # Calls from before the record have no time.
        self.rest = max(0.0, self.total - compiled - self.executor - self.between)

    def phases(self) -> list[tuple[str, float]]:
        """Where the time of its calls went, in seconds."""
        return [
            *zip(_PHASES, self.stats.seconds, strict=True),
            ("executor", self.executor),
            ("breaks", self.between),
            ("rest", self.rest),
        ]

    def losses(self) -> list[dict[str, Any]]:
        """What costs time, with what to do about it."""
        found: list[dict[str, Any]] = []
        spent: dict[Any, float] = defaultdict(float)
        for piece in self.pieces:
            if piece["reason"]:
                spent[_key(piece["reason"])] += piece["between"]
        for reason in self.stats.graph_breaks:
            found.append({**self._loss(reason, spent.pop(_key(reason), 0.0)), "what": "a graph breaks"})
        for reason in self.stats.fallbacks:
            found.append({**self._loss(reason, self.rest), "what": "calls run as they are"})
        again: dict[Any, list[dict[str, Any]]] = defaultdict(list)
        for piece in self.pieces:
            again[(piece["place"], piece["resumes"], str(piece["reason"] and _key(piece["reason"])))].append(piece)
        later = [it for pieces in again.values() for it in sorted(pieces, key=lambda it: it["start"])[1:]]
        if self.stats.recompiles:
            row = next(row for row in _core.break_table() if row[0] == "PSR0801")
            failed = self.stats.recompiles[-1].partition(f" in {self.name}: ")[2] or self.stats.recompiles[-1]
            found.append(
                {
                    "seconds": sum(sum(it["seconds"]) for it in later),
                    "what": f"translated again, {len(self.stats.recompiles)} times",
                    "id": row[0],
                    "message": failed,
                    "hint": row[4],
                    "link": "docs/user/breaks.md#psr0801",
                    "place": f"{os.path.basename(self.file)}:{self.line}",
                    "function": self.name,
                }
            )
        return found

    def _loss(self, reason: Any, seconds: float) -> dict[str, Any]:
        return {**_reason(reason), "seconds": seconds, "function": self.name}

    def _followed(self) -> list[dict[str, Any]]:
        """Sources of the functions that it calls, as far as something of them is in its graphs or breaks them."""
        own = {number for number, _ in _lines_of(self.file, self.line)}
        places = [node[3] for graph in self.graphs for node in graph["nodes"]]
        places += [(it.file, it.line, it.function) for it in self.stats.graph_breaks]
        found: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
        for file, line, name in dict.fromkeys(places):
            first = _start_of(file, line)
            if first and (file != self.file or line not in own) and (file, name, first) not in found:
                found[file, name, first] = self._source(file, first)
        return [{"name": name, "file": file, "line": line, "source": it} for (file, name, line), it in found.items()]

    def _source(self, file: str, first: int) -> list[dict[str, Any]]:
        captured = {node[3][1] for graph in self.graphs for node in graph["nodes"] if node[3][0] == file}
        breaks: dict[int, list[str]] = defaultdict(list)
        for reason in [*self.stats.graph_breaks, *self.stats.fallbacks]:
            if reason.file == file and reason.id not in breaks[reason.line]:
                breaks[reason.line].append(reason.id)
        is_native = any(it.line == first and it.file == file for it in self.stats.fallbacks)
        lines = []
        for number, text in _lines_of(file, first):
            kind = "captured" if number in captured else ""
            if is_native and not kind:
                kind = "as-it-is"
            if breaks.get(number):
                kind = "broken"
            lines.append({"at": number, "text": text, "kind": kind, "ids": breaks.get(number, [])})
        return lines

    def shown(self, whole: float, number: int) -> dict[str, Any]:
        """For the template."""
        scale = _WIDTH / whole if whole else 0
        bars: list[dict[str, Any]] = []
        for start, seconds in self.calls:
            x, width = start * scale, max(seconds * scale, 0.7)
            if bars and x < bars[-1]["x"] + bars[-1]["width"] and bars[-1]["kind"] == "ran":
                # Calls that lie in one pixel are one bar.
                bars[-1]["width"] = max(bars[-1]["width"], x + width - bars[-1]["x"])
                bars[-1]["count"] += 1
            else:
                bars.append({"kind": "ran", "x": x, "width": width, "count": 1, "title": seconds_text(seconds)})
        for bar in bars:
            if bar["count"] > 1:
                bar["title"] = f"{bar['count']} calls"
        for piece in self.pieces:
            x = piece["start"] * scale
            for kind, seconds in zip(_PHASES, piece["seconds"], strict=True):
                width = seconds * scale
                bars.append({"kind": kind, "x": x, "width": width, "title": f"{kind}: {seconds_text(seconds)}"})
                x += width
        return {
            "at": number,
            "name": self.name,
            "file": self.file,
            "line": self.line,
            "stats": self.stats,
            "calls": len(self.calls),
            "total": seconds_text(self.total),
            "phases": [(name, seconds_text(spent), share(spent, self.total)) for name, spent in self.phases()],
            "bars": bars,
            "source": self._source(self.file, self.line),
            "followed": self._followed(),
            "breaks": [_reason(it) for it in self.stats.graph_breaks],
            "fallbacks": [_reason(it) for it in self.stats.fallbacks],
            "recompiles": self.stats.recompiles,
            "pieces": [self._piece(it) for it in self.pieces],
            "graphs": [{**graph, "picture": picture(graph["nodes"])} for graph in self.graphs],
        }

    def _piece(self, piece: dict[str, Any]) -> dict[str, Any]:
        failed = dict(piece["failures"])
        guards = [(text, failed.pop(text, 0)) for text in piece["guards"]]
        where = "behind a break" if piece["resumes"] else "from the start"
        return {
            "where": f"{piece['place'][2]}, {where}",
            "hits": piece["hits"],
            "failures": sum(dict(piece["failures"]).values()),
            "executor": seconds_text(piece["executor"]),
            "compiled": seconds_text(sum(piece["seconds"])),
            "guards": sorted([*guards, *failed.items()], key=lambda it: -it[1]),
            "graph": piece["graph"],
        }


def functions_of(recorded: list[dict[str, Any]], calls: list[tuple[Place, float, float]]) -> list[Function]:
    """Those that were called or translated meanwhile; what took most time comes first."""
    spans: dict[Place, list[tuple[float, float]]] = defaultdict(list)
    for place, start, seconds in calls:
        spans[place].append((start, seconds))
    made = [Function(it, spans.pop(it["place"], [])) for it in recorded]
    return sorted((it for it in made if it.calls or it.stats.translations), key=lambda it: -it.total)


def losses_of(functions: list[Function]) -> list[dict[str, Any]]:
    """What costs time in all of them; what costs most comes first."""
    losses = sorted((loss for it in functions for loss in it.losses()), key=lambda loss: -loss["seconds"])
    lost = sum(loss["seconds"] for loss in losses)
    return [{**loss, "share": share(loss["seconds"], lost)} for loss in losses]


def page(recorded: list[dict[str, Any]], calls: list[tuple[Place, float, float]], whole: float) -> str:
    """The page as HTML."""
    import jinja2

    functions = functions_of(recorded, calls)
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["seconds"] = seconds_text
    return environment.from_string(PAGE).render(
        functions=[it.shown(whole, number) for number, it in enumerate(functions)],
        losses=losses_of(functions),
        whole=whole,
        width=_WIDTH,
        ticks=[(at * _WIDTH / 4, seconds_text(whole * at / 4)) for at in range(5)],
        box=_BOX,
        phase_names=_PHASES,
        version=_core.__version__,
    )
