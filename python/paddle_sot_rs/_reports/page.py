"""The template of a report: one page that needs no network."""

from __future__ import annotations

_STYLE = """
:root { --ink: #1f2430; --soft: #667085; --line: #d9dee7; --paper: #ffffff; --ground: #f5f6f9;
  --captured: #e4f5e8; --broken: #fde3e1; --native: #fdf1d6; --trace: #4878d0; --infer: #ee9a44;
  --backend: #9467bd; --ran: #b9c3d3; --link: #1d5fbf; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ee; --soft: #98a2b3; --line: #394150; --paper: #1d222c;
  --ground: #14181f; --captured: #1d3b27; --broken: #4b2424; --native: #463a1c; --ran: #56617a; --link: #7fb0ff; } }
* { box-sizing: border-box; }
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground); }
main { max-width: 1180px; margin: 0 auto; padding: 24px; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 32px 0 10px; }
h3 { font-size: 15px; margin: 20px 0 8px; }
p { margin: 6px 0; } .soft { color: var(--soft); }
.card { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; padding: 14px 18px; margin: 10px 0; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: 13px; }
th, td { padding: 5px 10px 5px 0; vertical-align: top; border-bottom: 1px solid var(--line); }
tr:last-child td { border-bottom: 0; }
td.place code { white-space: nowrap; }
td.figure, th.figure { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
code, pre { font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
pre { margin: 6px 0; overflow-x: auto; }
summary { cursor: pointer; } summary h2, summary h3 { display: inline; }
.source { white-space: pre; overflow-x: auto; font: 13px/1.55 ui-monospace, "DejaVu Sans Mono", monospace; }
.source div { display: flex; min-width: max-content; }
.followed { margin-top: 4px; }
.source .at { width: 48px; padding-right: 12px; text-align: right; color: var(--soft); flex: none; user-select: none; }
.source .ids { padding-left: 24px; }
.captured { background: var(--captured); } .broken { background: var(--broken); } .as-it-is { background: var(--native); }
.key span { padding: 1px 8px; border-radius: 4px; margin-right: 8px; font-size: 13px; }
.id { color: var(--link); font-weight: 600; text-decoration: none; }
.tags { display: flex; flex-wrap: wrap; gap: 6px 18px; margin-top: 6px; font-size: 14px; }
svg { display: block; width: 100%; } svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .soft { fill: var(--soft); }
.trace { fill: var(--trace); } .infer { fill: var(--infer); } .backend { fill: var(--backend); } .ran { fill: var(--ran); }
.key .trace { background: var(--trace); color: #fff; } .key .infer { background: var(--infer); color: #222; }
.key .backend { background: var(--backend); color: #fff; } .key .ran { background: var(--ran); }
.graph { position: relative; border: 1px solid var(--line); border-radius: 6px; margin: 8px 0; background: var(--ground); }
.graph svg { height: 420px; cursor: grab; touch-action: none; }
.graph rect { fill: var(--paper); stroke: var(--soft); rx: 5px; } .graph rect.input { stroke-dasharray: 4 3; }
.graph path { fill: none; stroke: var(--soft); }
.zoom { position: absolute; right: 8px; top: 8px; display: flex; gap: 4px; }
.zoom button { width: 30px; height: 28px; border: 1px solid var(--line); border-radius: 5px; background: var(--paper);
  color: var(--ink); font-size: 15px; cursor: pointer; }
"""

_SCRIPT = """
for (const graph of document.querySelectorAll('.graph')) {
  const svg = graph.querySelector('svg'), all = svg.dataset.all.split(' ');
  const show = (x, y, width, height) => svg.setAttribute('viewBox', [x, y, width, height].join(' '));
  const zoom = (factor, at) => {
    const box = svg.viewBox.baseVal, px = at ? at.x : box.x + box.width / 2, py = at ? at.y : box.y + box.height / 2;
    show(px - (px - box.x) * factor, py - (py - box.y) * factor, box.width * factor, box.height * factor);
  };
  const place = (event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  graph.addEventListener('click', (event) => {
    const act = event.target.dataset.zoom;
    if (act === 'in') zoom(0.7); else if (act === 'out') zoom(1 / 0.7); else if (act === 'all') show(...all);
  });
  svg.addEventListener('wheel', (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault(); zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, place(event));
  }, { passive: false });
  let from = null;
  svg.addEventListener('pointerdown', (event) => { from = place(event); svg.setPointerCapture(event.pointerId); });
  svg.addEventListener('pointermove', (event) => {
    if (!from) return;
    const to = place(event), box = svg.viewBox.baseVal;
    show(box.x + from.x - to.x, box.y + from.y - to.y, box.width, box.height);
  });
  svg.addEventListener('pointerup', () => { from = null; });
}
document.body.dataset.ready = document.querySelectorAll('.graph').length;
"""

_MACROS = """
{% macro reasons(title, rows) %}
{% if rows %}
<h3>{{ title }}</h3>
{% for it in rows %}
<div class="reason">
<p><a class="id" href="#ids-{{ it.id }}">{{ it.id }}</a> {{ it.title }}, <code>{{ it.place }}</code>
{% if it.count > 1 %}<span class="soft">({{ it.count }} times)</span>{% endif %}: {{ it.message }}</p>
{% if it.excerpt %}<pre>{{ it.excerpt | join("\\n") }}</pre>{% endif %}
<p class="soft">{{ it.hint }}; see <code>{{ it.link }}</code></p>
</div>
{% endfor %}
{% endif %}
{% endmacro %}
{% macro listing(lines) %}
<div class="source">
{% for line in lines %}<div class="{{ line.kind }}"><span class="at">{{ line.at }}</span><span>{{ line.text }}\
</span>{% if line.ids %}<span class="ids">{% for id in line.ids %}<a class="id" href="#ids-{{ id }}">{{ id }}</a> \
{% endfor %}</span>{% endif %}</div>{% endfor %}
</div>
{% endmacro %}
{% macro drawing(picture) %}
{% set height = [picture.height, 120] | max %}
<div class="graph">
<div class="zoom"><button data-zoom="in" title="nearer">+</button><button data-zoom="out" title="farther">−</button>\
<button data-zoom="all" title="all of it">⤢</button></div>
<svg viewBox="{{ picture.first | join(' ') }}" data-all="0 0 {{ picture.width }} {{ height }}" role="img" \
aria-label="the graph">
{% for line in picture.lines %}<path d="{{ line }}"/>{% endfor %}
{% for it in picture.boxes %}
<g><title>{{ it.title }}</title><rect class="{{ it.kind }}" x="{{ it.x }}" y="{{ it.y }}" width="{{ box[0] }}" \
height="{{ box[1] }}"/><text x="{{ it.x + box[0] / 2 }}" y="{{ it.y + 17 }}" text-anchor="middle">{{ it.name[:22] }}</text>\
<text class="soft" x="{{ it.x + box[0] / 2 }}" y="{{ it.y + 33 }}" text-anchor="middle">{{ it.shape[:24] }}</text></g>
{% endfor %}
</svg>
</div>
{% if picture.left_out %}<p class="soft">{{ picture.left_out }} more operations are not drawn.</p>{% endif %}
{% endmacro %}
"""

_FUNCTION = """
<details class="card function" id="function-{{ it.at }}"{% if loop.index <= 3 %} open{% endif %}>
<summary><h2>{{ it.name }}</h2> <span class="soft"><code>{{ it.file }}:{{ it.line }}</code></span></summary>
<div class="tags"><span>{{ it.calls }} calls, {{ it.total }}</span><span>{{ it.stats.graphs }} graphs of
{{ it.stats.ops }} operations</span><span>{{ it.breaks | length }} breaks</span>
<span>{{ it.stats.translations }} translations</span></div>
<h3>Time</h3>
<table class="phases"><tr>{% for phase in it.phases %}<th class="figure">{{ phase[0] }}</th>{% endfor %}</tr>
<tr>{% for phase in it.phases %}<td class="figure">{{ phase[1] }} <span class="soft">{{ phase[2] }}</span></td>\
{% endfor %}</tr></table>
{% if it.source %}
<h3>Source</h3>
<p class="key"><span class="captured">in a graph</span><span class="broken">breaks the graph</span>\
<span class="as-it-is">runs as it is</span></p>
{{ listing(it.source) }}
{% for inner in it.followed %}
<details class="followed"><summary>{{ inner.name }} <span class="soft"><code>{{ inner.file }}:{{ inner.line }}</code></span>
</summary>{{ listing(inner.source) }}</details>
{% endfor %}
{% endif %}
{{ reasons("Breaks", it.breaks) }}
{{ reasons("Calls that run as they are", it.fallbacks) }}
{% if it.recompiles %}
<h3>Translated again</h3>
<ol class="recompiles">{% for guard in it.recompiles %}<li><code>{{ guard }}</code></li>{% endfor %}</ol>
{% endif %}
{% if it.pieces %}
<h3>Translations and their guards</h3>
{% for piece in it.pieces %}
<details><summary>{{ piece.where }}: found {{ piece.hits }} times, passed over {{ piece.failures }} times,
executor {{ piece.executor }}, made in {{ piece.compiled }}{% if piece.graph is not none %}, graph {{ piece.graph }}\
{% endif %}</summary>
<table><tr><th>guard</th><th class="figure">failed</th></tr>
{% for guard, count in piece.guards %}<tr{% if count %} class="broken"{% endif %}><td><code>{{ guard }}</code></td>\
<td class="figure">{{ count or "" }}</td></tr>{% endfor %}</table></details>
{% endfor %}
{% endif %}
{% if it.graphs %}
<h3>Graphs</h3>
{% for graph in it.graphs %}
<details class="one-graph"{% if loop.first %} open{% endif %}>
<summary>graph {{ loop.index0 }}: {{ graph.nodes | rejectattr(0, "equalto", "input") | list | length }} operations,
backend {{ graph.made_by }}</summary>
{% if graph.nodes %}{{ drawing(graph.picture) }}{% endif %}
{% for line in graph.report %}<p class="soft">{{ line }}</p>{% endfor %}
<details><summary class="soft">as text</summary><pre>{{ graph.ir }}</pre></details>
</details>
{% endfor %}
{% endif %}
</details>
"""

PAGE = (
    _MACROS
    + """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>paddle-sot-rs report</title>
<style>"""
    + _STYLE
    + """</style>
</head>
<body>
<main>
<h1>What was compiled</h1>
<p class="soft">{{ functions | length }} functions in {{ whole | seconds }}; paddle-sot-rs {{ version }}</p>

<h2>What to change first</h2>
<div class="card" id="losses">
{% if losses %}
<table>
<tr><th class="figure">time lost</th><th>why</th><th>where</th><th>what to do</th></tr>
{% for loss in losses[:20] %}
<tr id="{% if loop.first or loss.id not in losses[:loop.index0] | map(attribute='id') %}ids-{{ loss.id }}{% endif %}">
<td class="figure">{{ loss.seconds | seconds }}<br><span class="soft">{{ loss.share }}</span></td>
<td><span class="id">{{ loss.id }}</span> {{ loss.what }}: {{ loss.message }}</td>
<td class="place"><code>{{ loss.place }}</code><br>{{ loss.function }}</td>
<td>{{ loss.hint }}<br><span class="soft">{{ loss.link }}</span></td></tr>
{% endfor %}
</table>
{% else %}
<p>Nothing: no graph broke, and nothing was translated twice.</p>
{% endif %}
</div>

<h2>Time line</h2>
<div class="card" id="timeline">
<p class="key">{% for name in phase_names %}<span class="{{ name }}">{{ name }}</span>{% endfor %}\
<span class="ran">calls</span></p>
<svg viewBox="0 0 {{ width + 180 }} {{ functions | length * 34 + 30 }}" role="img" aria-label="when each function ran">
{% for it in functions %}
{% set top = loop.index0 * 34 %}
<text x="0" y="{{ top + 20 }}">{{ it.name[-24:] }}</text>
<g transform="translate(170 {{ top }})">
{% for bar in it.bars %}
<rect class="{{ bar.kind }}" x="{{ '%.2f' | format(bar.x) }}" width="{{ '%.2f' | format(bar.width) }}" \
y="{{ 4 if bar.kind == 'ran' else 9 }}" height="{{ 24 if bar.kind == 'ran' else 14 }}"><title>{{ bar.title }}</title></rect>
{% endfor %}
</g>
{% endfor %}
{% for x, label in ticks %}
<text class="soft" x="{{ 170 + x }}" y="{{ functions | length * 34 + 22 }}" \
text-anchor="{{ 'start' if loop.first else 'end' if loop.last else 'middle' }}">{{ label }}</text>
{% endfor %}
</svg>
</div>

<h2>Functions</h2>
{% for it in functions %}
"""
    + _FUNCTION
    + """
{% endfor %}
</main>
<script>"""
    + _SCRIPT
    + """</script>
</body>
</html>
"""
)
