"""`docs/user/breaks.md`: everything that can be looked up of a break, made from the engine's table."""

from __future__ import annotations

from ._core import break_table

_CLASSES = {
    "DDCF": "control flow that depends on a tensor",
    "UNSPS": "a call or operation that the interpreter makes, between two graphs",
    "CDBL": "a call on a black list",
    "UNIMP": "the whole call runs in the interpreter",
    "recompile": "the function is compiled once more",
}
_HEAD = """# Why is my graph broken?

A translated function is as few graphs as it can be. Where one ends, or where a call runs in the interpreter, the reason
has an id. `stats(f)`, `explain(f)(...)`, the logs (`PADDLE_SOT_LOGS=graph_breaks,recompiles`) and the errors of
`full_graph=True` and `save` say it, with the file and the line. Results are right in any case.

Ids stay: a number is never given to another reason. `stats(f).graph_breaks` has each break once, with `.id`, `.title`,
`.link` and `.count`. The class of a reason says what becomes of the code:

"""
_WORDS = {
    "graph": "operations that were captured together, and run as one program",
    "open dim": "a dim of a tensor that may differ between calls of one graph",
    "number of the graph": "a number that a tensor or an open dim gives when the graph runs: Python has none",
    "on one way, on the other": "behind an `if`: with its condition true, and false",
    "round": "one turn of a loop",
    "hand on": "give to code that the engine does not follow",
}


def page() -> str:
    """The page as Markdown."""
    rows = break_table()
    parts = [
        _HEAD,
        *(f"- {code}: {meaning}.\n" for code, meaning in _CLASSES.items()),
        "\nWords in messages:\n\n",
        *(f"- *{word}*: {meaning}.\n" for word, meaning in _WORDS.items()),
        "\n| id | | reason |\n|---|---|---|\n",
        *(f"| [{name}](#{name.lower()}) | {code} | {title} |\n" for name, code, title, *_ in rows),
    ]
    for name, code, title, explanation, advice, example in rows:
        parts.append(
            f"\n## {name}\n\n**{title[0].upper()}{title[1:]}** ({code}). {explanation}\n\nWhat to do: {advice}.\n"
        )
        if example:
            parts.append(f"\n```python\n{example}```\n")
    return "".join(parts)
