"""Where the value of a secret's name begins and ends, in the notations that logs and files have. Pure.

Nothing here looks further than a bounded number of characters from a name, but what it then masks: the time of a text
grows with its length.
"""

import re
from collections.abc import Iterator
from typing import Final

from gb10.core.secret_kinds import Span
from gb10.core.secret_names import Level, level_of

NAME: Final = 80
"""Characters of a name on each side of what it is found by."""
NEAR: Final = 128
"""Characters of a value that decide whether it is none."""
LONG: Final = 8192
"""Characters in which a value in quotes or brackets ends."""
TRIGGERS: Final = re.compile(
    "passw|pass|passphrase|pswd|pwd|secret|token|key|cred|auth|cookie|sess|sid|bearer|dsn|hook|signature|sig|sas"
    "|credential|jwt|otp|psk|mnemonic|phrase|kennwort|senha|contrase|connectionstring|conn_str|connection_str"
    "|_url|_uri|pat|pin|salt|pw|mdp|psw|totp|mfa|csrf|xsrf|hmac|pepper|passes"
)
IN_NAME: Final = re.compile(r"[\w.\-]+")
DIGITS: Final = re.compile(r"[0-9][^\r\n]{0,40}?[0-9]")
OPTION: Final = re.compile(r"--?[A-Za-z]")
WORDED: Final = re.compile(
    r"(?<![A-Za-z])(?:api|access|secret|private|auth|encryption|licen[sc]e|storage|account"
    r"|security|bearer|refresh|admin) \Z",
    re.I,
)
"""What makes a name of the word behind it, in a sentence."""
QUOTE: Final = re.compile(r"\\{0,15}[\"'`]|&quot;|&#0?3[49];|&apos;|\\{1,8}u002[27]|%2[27]")
OPENING: Final = re.compile(r"(?:[bBrRuUfF]{1,2}(?=\\{0,15}[\"'])|@(?=\")|\$(?=')|![A-Za-z]{1,20} )?")
BRACKETS: Final = {"[": "]", "(": ")", "{": "}"}
BETWEEN: Final = re.compile(r"[ \t]{0,40}(?:=>|->|:=|::|==|\?=|\+=|\|\|=|=|:|\u2192|%3[AaDd])(?!=)[ \t]{0,40}")
TYPED: Final = re.compile(
    r"[A-Za-z.]{1,20}\[[\w\[\], |.]{1,40}\] ?= ?(?=[\[(\"'])"
    r"|(?:Optional\[)?(?:str|string|String|SecretStr|bytes|&str|Any)\]?(?: ?\| ?None)? ?= ?"
)
COLUMN: Final = re.compile(r"[ \t]{0,40}[|\u2502\u2503][ \t]{0,60}|[ \t]{0,40}\t[ \t]{0,60}| {2,60}(?=\S)")
SAYS: Final = re.compile(
    r"(?: for [^\s:]{1,60}| of [^\s:]{1,60}| value)? (?:was changed to|was set to|is set to|is now|is|was|set to"
    r"|equals|are|changed to)(?: now)?:? (?![a-z]{0,4}ly )",
    re.I,
)
PAIR: Final = re.compile(
    r"[,;\]]?\s{0,80}(?:-\s{1,40})?(?:[\w.\[\]-]{1,60}\.)?\\{0,15}[\"'`]?"
    r"(?:(?:default|secret|env|string)?_?value|val|data|content|v)\\{0,15}[\"'`]?"
    r"\s{0,20}[:=]\s{0,20}",
    re.I,
)
END: Final = re.compile(
    r"[\s\0\"'`<]|[,;)}\]](?=[\s,;:.)}\]\"'`|]|\Z)|;(?=[A-Za-z][A-Za-z ]{0,30}=)|,(?=[\w.-]{1,40}[=:])|&quot;|&#"
)
OPENS: Final = ("?", "&", ";")
"""What stands before a name in a URL."""
BELOW: Final = re.compile(r"\r?\n[ \t]{0,80}(?=\")")
CLOSED: Final = re.compile(r"[}\r\n]")
QUERY: Final = re.compile(r"[&\s\0\"'`<>#|\\)\]}]|;(?=\w+=)")
LINE: Final = re.compile(r"[\r\n]|\\[rn](?![a-z])|\Z")
WORDS: Final = re.compile(r"\s")
NOTHING: Final = re.compile(
    r"(?:none|null|nil|true|false|undefined|unset|not set|empty|<?unset>?|\(unset\)|n/a|~|-|redacted|hidden|masked|nan"
    r"|\\{0,4}[\"']{0,2}|\*+|x{3,}|\.{2,}|\[?<?\*{0,3}(?:redacted|hidden|masked|removed|secret|omitted)\*{0,3}>?\]?"
    r"|[\w.:]{0,40}[\W_]{0,9}\*{3}[\W_]{0,9}|not-needed|empty|[\[({]\s{0,9}(?:none|null)?,?\s{0,9}[\])}])[,;.]?",
    re.I,
)
"""A value that is none."""
REFERENCE: Final = re.compile(
    r"\$\{?[A-Z_][A-Z0-9_]*\}?|\$\{\{.{0,200}\}\}|\$\([^)]{0,200}\)?|\{\{.{0,200}\}\}|%[A-Z_]+%|%\(?\w{0,40}\)?s|\{\}"
    r"|<[^<>]{0,20}(?:your|token|key|password|secret|placeholder|name)[^<>]{0,20}>|(?:secrets|vault|var|local|data|module)\.[\w.]+"
    r"|(?:self|args|os|config|settings|cls|this|kwargs|opts|options|params|envs?|process|server_args|request|req)[.\[][\w.\[\]'\"]*"
    r"|(?:\w+\.)*(?:getenv|environ|get\w*|read\w*|open|load\w*|input|prompt\w*|generate\w*|Field|make\w*|create\w*)\(.*"
    r"|(?:arn:aws:|projects/)\S*|vault:\S*"
)
"""A value that only names where the secret is."""
PLACE: Final = re.compile(r"\{(\w{1,40})\}")
"""A place of a template, which has the name of a secret."""
DULL: Final = re.compile(
    r"[-+]?[\d.,:%/ x]+[a-z%]{0,4}|</?[^<>\s]{1,60}>|<\|[^|]{1,60}\|>|\[[A-Z_]{1,20}\]|/\S{0,120}|\.{1,2}/\S*|[\W_]+"
    r"|[\[({][-\d.,\s]*[\])}]|(?:basic|bearer|digest|oauth2?|token|required|enabled|disabled|optional|auto|default|on|off"
    r"|yes|no|ok|failed|error|invalid|missing|expired|unknown|success|successful|not|is|the|for|and|are|was|plain|login"
    r"|with|from|to|in|by|a|an|str|string|int|float|bool|bytes|dict|list|tuple|object|type|any|optional\[\w+\]|\w{0,2})[.,:;!]?",
    re.I,
)
"""What follows a weak name and is no secret."""
ENGLISH: Final = re.compile(
    r"(?:required|not|invalid|incorrect|wrong|missing|empty|too|needed|expired|only|an?|the|in|for|set|stored|used|read"
    r"|checked|sent|missing|optional|mandatory|unknown|correct|valid|accepted|rejected|present|defined|given|no|never"
    r"|always|hidden|masked|redacted|on|off|there|deprecated|ignored|unsupported|supported|longer|shorter|different"
    r"|necessary|available|unavailable|enabled|disabled|taken|being|now|from|too|by|at)\b",
    re.I,
)
PHRASES: Final = re.compile(r"pass|pwd|phrase|secret|mnemonic|kennwort|senha|contrase", re.I)
SEVERAL: Final = re.compile(r"(?:keys|secrets|passwords|tokens|credentials)[\"'`]?$", re.I)
ITEMS: Final = re.compile(r"[\r\n\0\"')}\]]|(?<!,)\s|,?\s(?=[\w.-]{1,40}[=:])")
"""Where values end behind a name of several."""
COMMAND: Final = re.compile(
    r"[ \t]{1,8}(?:\S{0,80}/)?(?:vllm|sglang|python[\d.]*|docker|bash|sh|exec|env|sudo|mpirun|ray|uv|[A-Z_]{2,40}=|-)"
)
SENTENCE: Final = re.compile(
    END.pattern.replace(r"[\s\0", r"[\r\n\0", 1)
    + r"|\s(?![A-Za-z!?.'-]{1,30}(?:[\s,;!]|\Z)(?!(?:vllm|sglang|python3?|docker|bash|exec|sudo)\b))"
    + r"|\s(?=(?:vllm|sglang|python3?|docker|bash|sh|exec|env|sudo|ray|uv|for|from|user|host|and|with|at|on)\s)"
)
"""Where words end that are a password."""
ODD: Final = re.compile(
    r"(?:invalid|unexpected|unknown|expected|bad|next|missing|no|each|per|first|last|special|single|any|a|this|new) \Z",
    re.I,
)
"""What stands before the word token where a parser or a model speaks of one."""
BLOCK: Final = 64
"""Lines of a YAML block that hold a secret."""


def after_names(text: str, least: Level = Level.RANDOM) -> Iterator[Span]:
    """The values that follow the name of a secret, of this level or above."""
    low = text.lower()
    if len(low) != len(text):
        low = "".join(small if len(small := one.lower()) == 1 else one for one in text)
    done = 0
    for found in TRIGGERS.finditer(low):
        if found.start() < done:
            continue
        start, end = _name(text, found.start(), found.end())
        done = end
        level = level_of(text[start:end])
        if level < least:
            continue
        if (
            level is Level.RANDOM
            and not OPTION.match(text, start)
            and text[start - 1 : start] not in OPENS
            and not DIGITS.search(text, end, end + NEAR)
        ):
            continue  # most keys of tables
        if level is Level.WEAK and ODD.search(text, max(0, start - 16), start):
            continue
        for span in _values(text, start, end, level):
            yield span
            done = max(done, span[1])


def is_secret(value: str, level: Level) -> bool:
    """Whether a value is one, behind a name of this level. ``value`` may be cut to NEAR characters."""
    value = value.strip()
    if not value or NOTHING.fullmatch(value) or REFERENCE.fullmatch(value):
        return False
    if (place := PLACE.fullmatch(value)) and level_of(place[1]) is not Level.NONE:
        return False
    if level is Level.WEAK:
        return not DULL.fullmatch(value) and len(value) > 3
    return level is not Level.RANDOM or is_random(value)


def is_random(value: str) -> bool:
    """Whether nobody made up a word like this."""
    if not len(value) >= 12 or " " in value or value.startswith("/"):
        return False
    digits = sum(one.isdigit() for one in value)
    letters = sum(one.isalpha() for one in value)
    if digits < 2 or letters < 3 or "://" in value:
        return False
    parts = re.split(r"[._\-/:@]", value)
    return max(map(len, parts)) >= 12 and len(set(value)) >= 8


def _name(text: str, start: int, end: int) -> Span:
    """The whole name around a part of it."""
    first = max(0, start - NAME)
    while start > first and (text[start - 1].isalnum() or text[start - 1] in "_-."):
        start -= 1
    rest = IN_NAME.match(text, end, end + NAME)
    end = rest.end() if rest else end
    while text[end - 1] in ".-":
        end -= 1
    if text[start:end].lower() in ("key", "keys", "token", "code") and (
        words := WORDED.search(text, max(0, start - 16), start)
    ):
        start = words.start()
    return start, end


def _values(text: str, start: int, end: int, level: Level) -> Iterator[Span]:
    option = bool(OPTION.match(text, start))
    opened = _quote_before(text, start)
    closing = QUOTE.match(text, end)
    at = closing.end() if closing else end
    if closing and text[at : at + 1] in ("]", ")"):
        at += 1
    between = BETWEEN.match(text, at)
    if between:
        yield from _assigned(text, start, between, level, "" if closing else opened)
    elif closing and (found := re.compile(r"\s{0,40},\s{0,40}").match(text, at)):
        pair = PAIR.match(text, at)
        if pair:
            yield from _read(text, pair.end(), level, "", bare=END)
        else:
            yield from _listed(text, found.end(), level, option)
    elif option and text[at : at + 1] == " ":
        yield from _optional(text, at, level, start, opened)
    else:
        yield from _other(text, start, at, max(level, Level.WEAK), closed=bool(closing))


def _other(text: str, start: int, at: int, level: Level, *, closed: bool) -> Iterator[Span]:
    """What has no sign between name and value: pairs, tables, calls, tags, sentences."""
    strong = level >= Level.STRONG
    name = text[start:at]
    if pair := PAIR.match(text, at):
        yield from _read(text, pair.end(), level, "", bare=END)
    elif text[at : at + 1] == ">" or (text[start - 1 : start] == "<" and text[at : at + 1] == " "):
        opened = text.find(">", at, at + 200)
        closed_at = text.find("<", at, at + LONG)
        if (text[start - 1 : start] == "<" or closed) and opened >= 0 and closed_at > opened:
            yield from _accepted(text, opened + 1, closed_at, level)
    elif (
        strong
        and (column := COLUMN.match(text, at))
        and (name.strip("\"'`").isupper() or not column[0].isspace() or ("\t" in column[0] and _begins(text, start)))
    ):
        yield from _read(text, column.end(), level, "", bare=WORDS)
    elif strong and text[at : at + 1] == "(" and (quote := QUOTE.match(text, at + 1)):
        yield from _quoted(text, quote.start(), quote, level)
    elif (says := SAYS.match(text, at)) and not ENGLISH.match(text, says.end()):
        for span in _read(text, says.end(), level, "", bare=END):
            if strong or any(map(str.isdigit, text[span[0] : span[0] + NEAR])):
                yield span
    elif text[at : at + 1] == " ":
        before = text[max(0, start - 120) : start]
        quote = QUOTE.match(text, at + 1) if strong else None
        setting = name in SETTINGS and _begins(text, start)
        if quote or SETS.search(before) or (setting and not ENGLISH.match(text, at + 1)):
            yield from _read(text, at + 1, level, "", bare=WORDS)


SETTINGS: Final = ("password", "passwd", "requirepass", "masterauth", "secret")
"""Names that begin a line of settings."""
SETS: Final = re.compile(
    r"(?:\b(?:ENV|ARG|setenv|setx|SetEnv|export|configure set|config set|secret set)|\s-(?:gx|x|Ux)|\blogin\s\S{1,80}"
    r"|\bmachine\s[^\n]{1,80})\s{1,20}$"
)
"""What stands before a name whose value follows a blank: in shells, Dockerfiles, netrc."""


def _begins(text: str, start: int) -> bool:
    """Whether a name begins its line."""
    return not text[text.rfind("\n", max(0, start - NAME), start) + 1 : start].strip()


def _assigned(text: str, start: int, between: re.Match[str], level: Level, opened: str) -> Iterator[Span]:
    """A value behind ``=`` or ``:``."""
    at = between.end()
    if ":" in between[0] and (typed := TYPED.match(text, at)):
        at = typed.end()
    before = text[start - 1 : start]
    if text[start - 2 : start] == "${" and text[at : at + 1] in "-=?+":
        yield from _bare_value(text, at + 1, CLOSED, level)
    elif level is Level.HEADER:
        yield from _header(text, at, opened)
    elif not opened and (below := BELOW.match(text, at)):
        yield from _read(text, below.end(), level, "", bare=END)
    elif text[at : at + 1] in ("", "\r", "\n", "|", ">") and between[0].strip() == ":":
        yield from _block(text, start, at, level)
    elif before in ("?", "&") or text[start - 5 : start] == "&amp;":
        yield from _bare_value(text, at, QUERY, Level.STRONG if level is Level.RANDOM else level)
    elif _is_folder(text[start : between.start()], text, at):
        pass
    elif opened and "=" in between[0] and not QUOTE.match(text, at) and (end := _closing(text, at, opened)) is not None:
        yield from _accepted(text, at, end, level)
    else:
        yield from _read(text, at, level, opened, bare=_bare(text, start, between, level))


def _bare(text: str, start: int, between: re.Match[str], level: Level) -> re.Pattern[str]:
    """Where a value without quotes ends: a line of settings whose name speaks of words may have blanks."""
    line = text.rfind("\n", max(0, start - NAME), start) + 1
    alone = re.fullmatch(r"\s*(?:[-#;*]\s+)?(?:export\s+|set\s+|declare -x\s+|local\s+)?", text[line:start])
    if level >= Level.STRONG and SEVERAL.search(text[start : between.start()]):
        return ITEMS
    if level < Level.STRONG or not PHRASES.search(text[start : between.start()]):
        return END
    if not alone or (line == 0 and start > NAME):
        return SENTENCE
    word = _until(text, between.end(), WORDS)
    if word - between.end() > 12 or COMMAND.match(text, word) or text[word : word + 1] in ("\n", "\r", ""):
        return WORDS if word - between.end() <= 12 else END
    return LINE


def _is_folder(name: str, text: str, at: int) -> bool:
    """PWD is a folder, unless it is no path."""
    return name.strip("\"'").upper() in ("PWD", "OLDPWD", "INIT_CWD") and text[at : at + 3].strip("\"'")[:1] in (
        "/",
        "~",
    )


def _header(text: str, at: int, opened: str) -> Iterator[Span]:
    """All of a header: to the quote that opened it, or to the end of the line."""
    prefix = OPENING.match(text, at)
    at = prefix.end() if prefix else at
    quote = QUOTE.match(text, at)
    if quote:
        yield from _quoted(text, at, quote, Level.STRONG)
        return
    if text[at : at + 1] in BRACKETS:
        yield from _bracket(text, at, Level.STRONG)
        return
    end = _closing(text, at, opened) if opened else None
    yield from _accepted(text, at, end if end is not None else _until(text, at, LINE), Level.STRONG)


def _read(text: str, at: int, level: Level, opened: str, *, bare: re.Pattern[str]) -> Iterator[Span]:
    """A value in any notation."""
    prefix = OPENING.match(text, at)
    at = prefix.end() if prefix else at
    if quote := QUOTE.match(text, at):
        yield from _quoted(text, at, quote, level)
    elif (place := PLACE.match(text, at)) and level_of(place[1]) is not Level.NONE:
        pass
    elif text[at : at + 1] in BRACKETS and not REFERENCE.match(text, at, at + NEAR):
        yield from _bracket(text, at, level)
    elif call := CALL.match(text, at, at + 60):
        yield from _bracket(text, call.end() - 1, level)
    else:
        yield from _bare_value(text, at, bare, level)


CALL: Final = re.compile(
    r"(?:\w+\.)*(?:\w{0,40}(?:Auth|Credentials?|Token|Key|Secret)|SecretStr|SecretBytes|Secret|Password|Token|str|bytes|Some|String::from|String)\((?=[bru]?\\*[\"'])"
)


def _optional(text: str, at: int, level: Level, start: int, opened: str) -> Iterator[Span]:
    """Behind an option and a blank: one word; of keys all words that follow."""
    several = text[start:at].rstrip("\"'").endswith(("key", "keys"))
    while blank := BLANK.match(text, at):
        at = blank.end()
        if STOP.match(text, at):
            return
        spans = list(_read(text, at, max(level, Level.WEAK), opened, bare=END if opened else WORDS))
        yield from spans
        if not several or not spans:
            return
        quote = QUOTE.match(text, spans[-1][1])
        at = quote.end() if quote else spans[-1][1]


BLANK: Final = re.compile(" {1,40}")
STOP: Final = re.compile(r"[-|&;>\r\n<]|\\(?!\")|\Z")
"""What follows an option that has no value."""


def _listed(text: str, at: int, level: Level, option: bool) -> Iterator[Span]:
    """The next items of a list or tuple, in which the name was one; behind an option all that are no options."""
    for _ in range(64):
        prefix = OPENING.match(text, at)
        at = prefix.end() if prefix else at
        quote = QUOTE.match(text, at)
        if not quote:
            if text[at : at + 1] in BRACKETS:
                yield from _bracket(text, at, level)
            return
        end = _closing(text, quote.end(), quote[0])
        if end is None or text[quote.end() : quote.end() + 1] == "-":
            return
        after = end + len(quote[0])
        if not option and BETWEEN.match(text, after):
            return  # a dict's next key
        yield from _accepted(text, quote.end(), end, level)
        more = re.compile(r"\s{0,40},\s{0,40}").match(text, after)
        if not option or not more:
            return
        at = more.end()


def _block(text: str, start: int, at: int, level: Level) -> Iterator[Span]:
    """What stands below a name in YAML, further to the right; items of a list may stand as far left."""
    line = text.rfind("\n", max(0, start - NAME), start) + 1
    own = text[line:start]
    if own.strip(" -#\"'") or level < Level.WEAK:
        return
    indent = len(own) - len(own.lstrip(" ")) if own.strip() != "-" else len(own)
    at = _until(text, at, LINE)
    for _ in range(BLOCK):
        begin = at + (2 if text[at : at + 2] == "\r\n" else 1)
        found = re.compile(r" {0,200}(?:- +)?").match(text, begin)
        if begin >= len(text) or not found:
            return
        deep = len(found[0].split("-")[0])
        end = _until(text, found.end(), LINE)
        if text[found.end() : end].strip() and not (deep > indent or ("-" in found[0] and deep >= indent)):
            return
        key = re.compile(r"[\w.-]{1,60}: +").match(text, found.end(), end)
        yield from _accepted(text, key.end() if key else found.end(), end, level)
        at = end


def _quoted(text: str, at: int, quote: re.Match[str], level: Level) -> Iterator[Span]:
    """A value in quotes, with what a shell would join to it."""
    first = quote.end()
    end = _closing(text, first, quote[0])
    if end is None:
        end = _until(text, first, LINE)
        yield from _accepted(text, first, end, level)
        return
    if end == first and text[end : end + 2 * len(quote[0])] == quote[0] * 2:  # three quotes
        found = text.find(quote[0] * 3, end + 2 * len(quote[0]), end + LONG)
        if found >= 0:
            yield from _accepted(text, end + 2 * len(quote[0]), found, level)
            return
    after = end + len(quote[0])
    if quote[0] in "\"'" and text[after : after + 1] not in ("", *" \t\r\n,;:)]}|&<>.=/\\") and level > Level.RANDOM:
        end = _until(text, after, WORDS)
    yield from _accepted(text, first, end, level)


def _bracket(text: str, at: int, level: Level) -> Iterator[Span]:
    """What stands in brackets, to the one that closes."""
    if level is not Level.RANDOM and (text[at] != "{" or level >= Level.STRONG):
        yield from _accepted(text, at + 1, _matching(text, at), level)


def _matching(text: str, at: int) -> int:
    """Where the bracket at a place is closed; without that the end of the line."""
    depth, place = 0, at
    for found in re.compile(r"[\[\](){}]|\\{0,15}[\"']|\n").finditer(text, at, at + LONG):
        if found.start() < place:
            continue
        if found[0] in BRACKETS:
            depth += 1
        elif found[0] in BRACKETS.values():
            depth -= 1
            if depth == 0:
                return found.start()
        elif found[0] != "\n":
            end = _closing(text, found.end(), found[0])
            place = end + len(found[0]) if end is not None else place
    return _until(text, at, LINE)


def _quote_before(text: str, start: int) -> str:
    """The quote that stands before a name, or before the option that it is the name of."""
    if start and text[start - 1] in "\"'`":
        first = start - 1
        while first and text[first - 1] == "\\" and start - first < 15:
            first -= 1
        return text[first:start]
    return ""


def _closing(text: str, at: int, quote: str) -> int | None:
    """Where a value ends that this quote opened: on its line, or lines of a key."""
    if quote[-1] not in "\"'`":
        end = text.find(quote, at, at + LONG)
        return end if end >= 0 else None
    slashes, sign, place = len(quote) - 1, quote[-1], at
    last = text.find("\n", at, at + LONG)
    last = last if last >= 0 else min(len(text), at + LONG)
    if text.startswith("-----BEGIN", at):
        last = min(len(text), at + LONG)
    while (end := text.find(sign, place, last)) >= 0:
        first = end
        while first > at and text[first - 1] == "\\" and end - first < 16:
            first -= 1
        run = end - first
        if (run == slashes) if slashes else run % 2 == 0:
            return end - slashes
        place = end + 1
    return None


def _until(text: str, at: int, ending: re.Pattern[str]) -> int:
    """Where a value without quotes ends."""
    found = ending.search(text, at)
    return found.start() if found else len(text)


def _bare_value(text: str, at: int, ending: re.Pattern[str], level: Level) -> Iterator[Span]:
    """A value without quotes: its beginning decides, and what is no secret is not read to its end."""
    found = ending.search(text, at, at + NEAR + 1)
    if found or len(text) <= at + NEAR:
        yield from _accepted(text, at, found.start() if found else len(text), level)
    elif level is not Level.RANDOM or is_random(text[at : at + NEAR]):
        yield at, _until(text, at, ending)


def _accepted(text: str, start: int, end: int, level: Level) -> Iterator[Span]:
    """The span, unless its value is no secret. A long one is, but where the name says little."""
    while start < end and text[start] in " \t":
        start += 1
    if end <= start:
        return
    value = text[start : min(end, start + NEAR + 1)]
    if (len(value) > NEAR and level is not Level.RANDOM) or is_secret(value, level):
        yield start, end
