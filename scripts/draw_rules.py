"""Draw docs/rules/*.md from the rules: `python scripts/draw_rules.py`; with --check, fail if a page differs.

One page a provider. Each rule stands there with the texts that the API prints, so that a search for one leads to it.
"""

import sys
from pathlib import Path

from midstride.transcript import entries

FOLDER = Path(__file__).parent.parent / "docs" / "rules"

TITLES = {
    "anthropic": "Anthropic Messages",
    "openai-chat": "OpenAI Chat Completions",
    "openai-responses": "OpenAI Responses",
}
LEVELS = {
    "reject": "The API refuses the request.",
    "compat": "The first-party API accepts it; strict and compatible servers refuse it.",
    "quality": "It is accepted, and costs cache, reasoning or later behaviour.",
    "harness": "The API cannot see it; running or keeping it is wrong.",
}


def page(provider):
    rules = entries(provider)
    head = [
        f"# Rules of {TITLES[provider]}",
        "",
        f"What a transcript for {TITLES[provider]} must satisfy so that the next request is accepted, and what mends",
        "it. `midstride check` names the broken rules of a transcript; `midstride repair` mends what can be mended. In",
        "Python: `midstride.transcript.check` and `midstride.transcript.repair`.",
        "",
        "| level | what follows |",
        "| --- | --- |",
        *(f"| {level} | {what} |" for level, what in LEVELS.items()),
        "",
        "## Error texts",
        "",
        "`...`, `N` and `<id>` stand for what varies.",
        "",
        "| the API answers | rule |",
        "| --- | --- |",
        *(f"| {code(error)} | [{rule.name}](#{rule.name.lower()}) |" for rule in rules for error in rule.errors),
    ]
    return "\n".join([*head, *(line for rule in rules for line in section(rule))]) + "\n"


def section(rule):
    yield from ("", f"## {rule.name}", "", f"*{rule.level}*: {LEVELS[rule.level]}", "")
    yield " ".join(rule.says)
    yield ""
    for error in rule.errors:
        yield from ("```text", error, "```", "")
    yield f"**Repair.** {rule.repair}"
    if rule.unless:
        yield from ("", f"**When no change of the messages mends it.** {rule.unless}")
    yield from ("", f"Source: {rule.source}")


def code(text):
    bar = text.replace("|", "\\|")
    return f"`` {bar} ``" if "`" in text else f"`{bar}`"


def index():
    lines = [
        "# Rules",
        "",
        "What the model APIs demand of a transcript, rule by rule, each with the error text that it explains.",
        "",
        "| API | rules | refused by the API |",
        "| --- | --- | --- |",
    ]
    for provider, title in TITLES.items():
        rules = entries(provider)
        refused = sum(rule.level == "reject" for rule in rules)
        lines.append(f"| [{title}]({provider}.md) | {len(rules)} | {refused} |")
    return "\n".join([*lines, "", *PROMISES]) + "\n"


PROMISES = [
    "Two rules no transcript can show: a journal keeps every response as it came (G07), and an answer 400 does not",
    "heal by sending the same again (G08): check, repair once, send once, and then stop with the rule's name.",
]

PAGES = {"index": index, **{provider: lambda provider=provider: page(provider) for provider in TITLES}}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, drawn in PAGES.items():
        path = FOLDER / f"{name}.md"
        text = drawn()
        if "--check" in sys.argv and (not path.exists() or path.read_text() != text):
            sys.exit(f"docs/rules/{name}.md is not what the rules say: run `python scripts/draw_rules.py`")
        path.write_text(text)
