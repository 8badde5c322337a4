"""What a secret looks like: named expressions, each with what it hides.

The rules for one:

- it is linear: a repetition is of one class of characters, or bounded, and what stands behind it cannot take the same;
- it takes the whole secret, never a part of it; where it cannot tell the end, it takes the rest of the line;
- it does not take what was left in place of a secret, so that redacting twice is redacting once;
- a text may be JSON in JSON: a quote may have backslashes in front, and a line end may be written as `\\n`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Pattern:
    """A named expression: its group `secret` is what it hides, or the whole match where it has no such group.

    Where *hints* are given, a text that holds none of them (in lower case) is not searched.
    """

    name: str
    expression: re.Pattern[str]
    hints: tuple[str, ...] = ()

    def hide(self, text: str) -> str:
        """Return *text* with `[redacted: NAME]` in place of every secret."""
        group = "secret" if "secret" in self.expression.groupindex else 0

        def named(found: re.Match[str]) -> str:
            start, end = found.span(group)
            if start < 0:  # the alternative that matched has no secret in it
                return found[0]
            return f"{text[found.start() : start]}[redacted: {self.name}]{text[end : found.end()]}"

        return self.expression.sub(named, text)


# ---- where a word begins


_START = r"(?:(?<![A-Za-z0-9_+/-])|(?<=\\[abfnrtv0])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4}))"
"""Not in the middle of a word; what an escape ends with is no letter of it."""

_EDGE = r"(?:(?<![\w-])|(?<=\\[abfnrtv0]))"

# ---- fields: a name that says that its value is a secret


_SEP = r"[_.\- ]?"
_PAGES = "".join(rf"(?<!{word})(?<!{word}.)" for word in ("next", "page", "continuation", "pagination", "sync"))
_MODELS = "".join(rf"(?<!{word}.)" for word in ("eos", "bos", "pad", "unk", "sep", "cls", "mask", "stop", "unexpected"))

KEYS = {
    "password": r"pass(?:word|wd|phrase|code)s?|(?<![a-z])pwd(?!\\*[\"']?[ \t]?[=:][ \t]?\\*[\"']?[/~])",
    "secret": r"secrets?",
    "token": rf"{_PAGES}{_MODELS}token",
    "key": rf"(?:api|access|private|account|auth|encryption|signing|master|secret(?:{_SEP}access)?){_SEP}key",
    "credentials": r"credentials?",
}
"""Names of fields: each may have something in front (db_password), and nothing behind (password_hint, max_tokens)."""

_WORDS = (
    "missing invalid expired required optional none null nil true false unknown undefined empty unset string str bytes "
    "int any yes no not see the a an is are must should cannot could was"
)
_NO_VALUE = rf"(?!(?:{'|'.join(_WORDS.split())})(?![\w-])|\[redacted: |\*{{3}}|\$\{{?[A-Z][A-Z0-9_]{{0,80}}\}}?(?!\w))"
_NO_CALL = r"(?![A-Za-z_][\w.]{0,80}\([^\s()]{0,80}\))"
_NO_PROSE = (
    r"(?![A-Za-z]{1,30}[ \t]+[A-Za-z])"
    r"(?![A-Za-z_][\w.]{0,80}[(\[])"
    r"(?![A-Za-z_]{1,40}(?:\.[A-Za-z_]{1,40}){1,5}(?:[\s,;)\]}\"'\\]|$))"
)
_NO_COUNT = r"(?!\d{1,5}(?:\.\d{1,5})?(?![\w-]))"
"""What stands behind `token:` in a sentence, in a program or in a list of counters, and is no token."""

_IS = (
    r"(?P<key>\\*[\"'])?+(?(key)\]?+)[`*]{0,2}+[ \t]{0,8}+(?>=>|:=|={1,3}|:|%3[ADad])"
    r"[ \t]{0,8}+(?!\*{3})\*{0,2}+[ \t]{0,8}+"
)
"""What stands between a field's name and its value, in any notation."""

_QUOTED = r"(?:(?!(?<!\\)(?P=quote))[^\r\n])+"
_WORD = r"(?:(?!\\+[nrt\"'`]|[&;,](?:[\w.%-]{1,40}[ \t]?[=:]|\s|$)|%26|[\"'`](?!\w))\S)+"
_BARE = (
    r"(?:(?(key)[{\[][^\r\n]+|(?!))|"
    rf"(?![{{\[]|\\*[\"'`]){_WORD}(?:(?<=[:=])[ \t]{{1,8}}(?:\"[^\"\r\n]*\"?|'[^'\r\n]*'?|{_WORD}))?)"
)
"""A value without quotes: it ends with a blank, an escaped line end, a quote, or where the next field begins.

One that itself ends like the name of a field takes what stands behind it along; one that is the beginning of an object
or a list takes the rest of the line.
"""

_VALUE = rf"(?P<quote>\\*[\"'`])?+(?P<secret>(?(quote){_QUOTED}|{_BARE}))"


def _fields(name: str, key: str, hints: tuple[str, ...]) -> Iterator[Pattern]:
    """Yield the patterns for `key=value`, `"key": "value"`, `--key value` and `<key>value<`."""
    guards = _NO_VALUE + _NO_CALL + ("" if name == "password" else _NO_PROSE) + (_NO_COUNT if name == "token" else "")
    for expression in (
        rf"(?:{key}){_IS}{guards}{_VALUE}",
        rf"{_EDGE}--?(?:[a-z0-9]{{1,20}}-){{0,3}}(?:{key})(?P<key>)[ \t]{{1,8}}(?!-){guards}{_VALUE}",
        rf"<[\w:.-]{{0,40}}(?:{key})>(?P<secret>(?!\[redacted: )[^<]+)",
    ):
        yield Pattern(name, re.compile(expression, re.IGNORECASE), hints)


# ---- secrets by their own form


_CUT = r"(?=\.\.\.|…)"
"""What stands behind a text that was shortened before it came here."""

_PEM_END = r"[^-]*+(?:-(?!----)[^-]*+)*+-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_PEM_LINE = r"(?:[ \t]*+(?:[\r\n]|\\[nr])(?:\s|\\[nr])*+|[ \t]+(?=[A-Za-z0-9+/=]{20}))"
_PEM_CUT = rf"(?:{_PEM_LINE}[\w-]{{1,40}}: [^\r\n\\]*+)*+(?:{_PEM_LINE}[A-Za-z0-9+/=]++)*+"

_SCHEMES = r"(?:AWS4-HMAC-SHA256|Digest|Hawk|OAuth|Signature)\b[^\r\n]+"
_NO_SENTENCE = r"(?!(?!bearer|basic|token)[a-z]{1,30}[ \t]+[a-z])"

_SPANNING: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "private key",
        ("private key",),
        rf"-----BEGIN [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----(?:{_PEM_END}|{_PEM_CUT})",
    ),
    (
        "authorization",
        ("authorization",),
        rf"(?i:authorization){_IS}(?![A-Za-z0-9-]{{0,40}}[ \t]{{0,8}}\[redacted: ){_NO_SENTENCE}{_NO_VALUE}"
        rf"(?P<quote>\\*[\"'`])?+"
        rf"(?P<secret>(?(quote){_QUOTED}|(?:{_SCHEMES}|(?:[A-Za-z][\w-]{{0,40}}[ \t]{{1,8}})?{_BARE})))",
    ),
    (
        "cookie",
        ("cookie",),
        rf"{_EDGE}(?:Set-Cookie|Cookie|set-cookie|cookie)[\\\"']{{0,4}}:[ \t]{{0,4}}"
        r"(?P<secret>[^\s;=\"'\\]{1,200}=[^\r\n\"'\\]*)",
    ),
)
"""What may hold other secrets, and is hidden as a whole."""

_WORDS_OF_THEIR_OWN: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "url password",
        (":/", ":\\"),
        r":(?:\\{0,8}/){2}[^\s:/?#@\"'<>\\]{0,256}:(?P<secret>(?!\d{1,5}(?![^\s/?#\"'<>\\,;)\].]))[^\s?#\"'<>\\]{1,512})"
        r"(?:@|(?<!\.)(?=\.\.\.))",
    ),
    ("url signature", ("sig",), r"[?&](?:X-Amz-Signature|X-Goog-Signature|sig)=(?P<secret>[\w%+/=-]{8,})"),
    ("anthropic key", ("sk-ant-",), r"sk-ant-[A-Za-z0-9_-]+"),
    (
        "openai key",
        ("sk-",),
        rf"{_START}sk-(?:(?:proj|svcacct|admin|or)-[A-Za-z0-9_-]{{4,}}|(?=[A-Za-z_-]{{0,200}}\d)"
        rf"(?:[A-Za-z0-9_-]{{0,60}}?[A-Za-z0-9]{{16}}[A-Za-z0-9_-]*|[A-Za-z0-9_-]{{6,60}}{_CUT}))",
    ),
    (
        "aws key",
        ("akia", "asia", "abia", "acca"),
        rf"{_START}(?:AKIA|ASIA|ABIA|ACCA)(?:[A-Z0-9]{{16}}(?![A-Za-z0-9])|[A-Z0-9]{{4,16}}{_CUT})",
    ),
    ("gcp key", ("aiza", "ya29.", "gocspx-"), rf"{_START}(?:AIza[\w-]{{16,}}|ya29\.[\w-]{{8,}}|GOCSPX-[\w-]{{8,}})"),
    (
        "github token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"(?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{8,}",
    ),
    ("gitlab token", ("glpat-", "gldt-", "glrt-"), r"gl(?:pat|dt|rt)-[\w-]{8,}"),
    (
        "slack token",
        ("xox", "xapp-", "hooks.slack.com"),
        r"xox[a-z]-[A-Za-z0-9-]{6,}|xapp-[A-Za-z0-9-]{6,}|(?<=hooks\.slack\.com/)(?:services|workflows)/[\w/-]{8,}",
    ),
    ("stripe key", ("_live_", "_test_", "whsec_"), r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{4,}|whsec_[A-Za-z0-9+/=]{8,}"),
    (
        "access token",
        ("npm_", "pypi-", "hf_", "sg.", "xai-", "gsk_", "dop_v1_", "age-secret-key-"),
        rf"{_START}(?:npm_[A-Za-z0-9]{{30,}}|pypi-[\w-]{{40,}}|hf_[A-Za-z0-9]{{30,}}|SG\.[\w-]{{16,}}\.[\w-]{{16,}}"
        r"|xai-[A-Za-z0-9]{40,}|gsk_[A-Za-z0-9]{40,}|dop_v1_[a-f0-9]{32,}|AGE-SECRET-KEY-1[A-Z0-9]{20,})",
    ),
    ("jwt", ("eyj",), rf"{_START}eyJ[\w-]{{8,}}+(?:\.[\w-]{{4,}}(?:\.[\w-]*){{0,3}}|{_CUT})"),
    (
        "bearer token",
        ("bearer",),
        r"(?i:bearer)(?:[ \t]|%20|\+){1,4}(?P<secret>(?=[A-Za-z._~+/-]*+[\d=]|[A-Za-z]{20})[\w.~+/=-]{8,})",
    ),
    (
        "basic credentials",
        ("basic",),
        rf"{_EDGE}(?i:basic)[ \t]{{1,4}}(?P<secret>(?=[A-Za-z+/]*+[\d=])[A-Za-z0-9+/]{{12,}}={{0,2}})",
    ),
    (
        "password",
        ("curl",),
        r"(?<=\s)(?:-u|--user|--proxy-user)[ =]?[\"']?(?!\d+:\d+(?!\S))[\w.@+-]{1,100}:"
        r"(?P<secret>(?!\[redacted: )[^\s\"']+)",
    ),
)


@functools.cache
def defaults() -> tuple[Pattern, ...]:
    """Return what is looked for by itself, in this order: what spans most comes first."""
    return tuple(_defaults())


def _defaults() -> Iterator[Pattern]:
    for name, hints, expression in _SPANNING:
        yield Pattern(name, re.compile(expression), hints)
    for name, key in KEYS.items():
        yield from _fields(name, key, _HINTS[name])
    for name, hints, expression in _WORDS_OF_THEIR_OWN:
        yield Pattern(name, re.compile(expression), hints)


_HINTS = {
    "password": ("pass", "pwd"),
    "secret": ("secret",),
    "token": ("token",),
    "key": ("key",),
    "credentials": ("credential",),
}
