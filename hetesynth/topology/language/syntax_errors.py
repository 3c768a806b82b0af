"""Syntax errors in the user's words, and how to go on after one.

In: what Lark raised. Out: a ``Diagnostic``, or the text with the wrong statement blanked. Token names of the
grammar never reach the user; what people write who know other languages is answered in their own words.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from hetesynth.errors import did_you_mean
from hetesynth.model.diagnostics import Diagnostic, Span
from hetesynth.topology.language.source import Source

_SHOWN = {
    "WORD": "a name",
    "PARTS": "a name",
    "LOOP": "what to go through, like `0-3` or `a, b`",
    "PIECE": "an expression",
    "TIMES": "lanes like `x 2`",
    "STRING": 'a text in quotes, like "H20"',
    "NUMBER": "a number",
    "QUANTITY": "a number with its unit",
    "PERCENT": "a share like `50 %`",
    "SIZES": "sizes like `4x4`",
    "LANES": "lanes like `x 2`",
    "ONE_WAY": "`->`",
    "BOTH_WAYS": "`<->`",
    "SHARED_WAY": "`>->`",
    "FAT_ARROW": "`=>`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "COMMA": "`,`",
    "EQUAL": "`=`",
    "$END": "the end of the file",
}
_MAX_EXPECTED = 14
_STATEMENT = {"INSTANCE", "SWITCH", "CLUSTER", "BANDWIDTH", "MODEL"}  # one of them may begin a statement anywhere
_NUMBER_LIKE = re.compile(r"(?<![\w.\]-])[+-]?\.?[0-9][0-9_.]*(?:[eE][+-]?[0-9]+)?")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")

# What else a statement or a property may be called, and what it is here.
_SYNONYMS = {
    "`bandwidth`": ("bw", "speed", "rate", "throughput", "capacity", "band_width"),
    "`latency`": ("alpha", "delay", "lat", "hop"),
    "`gpus`": ("gpu", "accelerators", "devices", "num_gpus", "ngpus"),
    "`link A <-> B { bandwidth ...; kind nvlink }`": ("nvlink", "xgmi", "connection", "wire", "edge"),
    "`switch nvswitch { ports gpu[0-7]; ...; kind nvlink }`": ("nvswitch",),
    "`fabric NAME { join *.nic* }`": ("network", "connect", "interconnect", "net", "infiniband", "ib"),
    "`pod`": ("rack", "group", "pods"),
    "`node NAME { ... }`, a type, and `instance a = NAME`": ("server", "host", "machine", "nodes", "servers"),
    "`cluster`": ("topology", "system", "topo", "clusters"),
    "`import`": ("use", "include", "from", "require", "using", "imports"),
    "`disable`": ("remove", "fail", "failed", "broken", "down", "delete", "exclude"),
    "`instance`": ("instances",),
    "`chunk`": ("chunk_size", "chunksize", "chunks"),
    "`set`": ("change", "update", "override", "modify"),
    "`mesh`": ("full_mesh", "clique", "fully_connected", "all_to_all"),
    "`nic`": ("nics", "hca", "adapter"),
}
_MEANT = {word: here for here, words in _SYNONYMS.items() for word in words}

_HEADS = (
    "instance|cluster|node|pod|switch|nic|bus|fabric|link|mesh|attach|set|disable|import|chunk|gpus|for|shared"
)
_PROPERTIES = "bandwidth|latency|kind|ports|members|join|model|reduce|chunk|gpus|send|receive|length|host"
_RATED = "nic|link|upi|wan|mesh|ring|grid|torus|hypercube"  # what needs a rate in braces
_OF_CLUSTERS = "instance|fabric|set|disable|chunk|measured|without|degrade|down|rails|leafspine|dragonfly|wan"
_OF_BLOCKS = "switch|nic|bus|link|mesh|attach|detach|for|shared|ring|grid|torus|hypercube|router"
_PARTS = ("nic", "switch", "cpu", "numa", "pcie", "router", "bus", "fabric")
_MEASURED = "bandwidth|latency|reduce|send|receive"
_NAMED = "cluster|node|pod|instance"
_TO_NICS = r"attach|detach)\s+([^;{}<>]*?"
_ENTRY, _FLAT = r"(\w+)\s*=>\s*(\([^\[\]{}", r"(\([^()\[\]{}]*\))"

# How the line up to the place ends, how it goes on, and the way out, which groups of both fill; the first row that
# fits answers.
_HABITS = (
    (r"^\s*", r"/\*|--\s", "a comment begins with # or // and ends with its line"),
    (
        r"^",
        r"[{\[]\s*(?:\"|$)",
        "a topology is text such as `cluster c {{ ... }}`, not JSON: see dsl/reference.md",
    ),
    (r"^\s*", r"</?\w", "a topology is text such as `cluster c {{ ... }}`, not XML: see dsl/reference.md"),
    (r"^\s*\w+", r":\s*$", "a block stands in braces: NAME {{ ... }}"),
    (r"^\s*(?:cluster|node|pod|for)\b.*", r":\s*$", "a block stands in braces: {{ ... }}"),
    (
        r"^\s*import\s+([^,]*[\w\"])\s*",
        r",\s*(.*?)\s*$",
        "an import takes one name: `import {0}` and `import {1}`",
    ),
    (r"^\s*import\s+", r"\{\s*(\w*)", "write `import {0}`"),
    (r"^\s*import\s+", r"'([^']*)'", "a name of the library stands without quotes, a path in double quotes"),
    (r"^\s*import\s+", r"([./~][^\s;]*)", 'a path stands in double quotes: import "{0}"'),
    # names
    (r"(?:cluster|node|pod)\s+", r"\"(\w*)\"", "a name stands without quotes: {0}"),
    (r"(cluster|node|pod)\s+", r"[{=:(]", "give it a name: `{0} NAME {{ ... }}`"),
    (r"(?:cluster|node|pod)\s+\w+\s+", r"\(\s*$", "a block stands in braces: {{ ... }}"),
    (rf"(?:{_NAMED}|fabric|switch|nic|bus)\s+", r"(\d\w*)", "a name does not begin with a digit: n{0}"),
    (r"(fabric|switch|nic|bus|instance)\s+", r"\{", "give it a name: `{0} NAME {{ ... }}`"),
    (rf"(?:{_NAMED})\s+(\w+)", r"-([\w-]*\w)", "a name is letters, digits and underscores: {0}_{1}"),
    # ranges and parts
    (
        r"(\w*[A-Za-z])",
        r"[({<]\s*(\d+)\s*(?:-|:|\.+|,)\s*(\d+)\s*[)}>]",
        "a range stands in brackets: {0}[{1}-{2}]",
    ),
    (r"(\w*?)(\d+)", r"-\s*(\d+)", "a range stands in brackets: {0}[{1}-{2}]"),
    (r"(\w)\s+", r"\[\s*\d", "no space between a name and its range: gpu[0-3]"),
    (r"(\w+\.\w*[A-Za-z])", r"\.(\d+)", "the number follows the name: {0}{1}"),
    (r"(\b[A-Za-z]\w*)", r"[/:](\w+)", "a part of a server is named with a point: {0}.{1}"),
    (r"(?:disable|detach|mesh|ports|join)\s+", r"(\d+)", "name the part: gpu{0}"),
    (r"(?:ports|join|members|disable)\s+", r"\"([^\"]*)\"", "names stand without quotes: {0}"),
    (r"(disable|without)\s+", r"\{\s*(\S*)", "parts stand without braces: {0} {1}"),
    (r",\s*", r"[}\n]|$", "remove the comma before it: nothing follows in the list"),
    (r"", r",\s*(?:#.*)?$", "remove the comma: a statement ends with its line"),
    # networks and losses
    (r"degrade\s+(\S+)\s*", r"=?\s*([\d.]+\s*[\w/%]+)", "write `degrade {0} to {1}`"),
    (r"down\s+([^\s<>-]+)\s*", r"", "`down` is of a wire, A <-> B; a part that failed is `without {0}`"),
    (r"(grid|torus)\s+(\S+)\s*", r"\{", "state the sizes: {0} {1} 2x4 {{ ... }}"),
    (r"(?:grid|torus)\s+\S+\s*", r"\(?(\d+)\s*[,*]\s*(\d+)", "sizes are written {0}x{1}"),
    (r"oversubscription\s+(\d+)\s*", r":\s*1\b", "one number: oversubscription {0}"),
    # numbers
    (r"(\d+)", r",(\d{3})\b", "write {0}{1} without the comma, or take a larger unit"),
    (r"(\d+)", r",(\d+)", "the decimal sign is a point: {0}.{1}"),
    (r"x\s*\d+", r"\.\d", "lanes are a whole number"),
    (r"(\d+)\s*", r"/\s*(\d+)", "what is to be worked out stands in parentheses, units inside: (25 GB/s / 2)"),
    (r"bandwidth\s+(\d+)\s*x\s*([\d.]+)\s*", r"(\w+/?\w*)", "lanes come last: bandwidth {1} {2} x {0}"),
    (r"(?:[GMTK]i?[bB](?:/s|ps)|\bx\b)\s*", r"\*\s*(\d+)", "lanes are written x {0}"),
    (r"", r"×\s*(\d*)", "lanes are written x {0}, behind the bandwidth"),
    (r"\((\w+)\)\s*", r"[KMGT]?i?[bB](?:/s|ps)", "units belong into the value: 25 GB/s, or ({0} * 1 GB/s)"),
    (rf"\b(?:{_PROPERTIES})\s+", r"\"([^\"]*)\"", "numbers stand without quotes: {0}"),
    (
        rf"\b({_PROPERTIES})\s*",
        r"[:=]\s*([^;}\n]*?)\s*(?:[;}]|$)",
        "no sign between a word and its value: {0} {1}",
    ),
    (r"", rf",\s*({_PROPERTIES})\b", "properties are separated by `;`: ...; {0} ..."),
    (r"gpus\s+(\d+)\s*", r"x\s*(\w+)", 'the model is a statement of its own: gpus {0}; model "{1}"'),
    (r"gpus\s+", r"gpu\[0-(\d+)\]", "`gpus` takes how many there are"),
    (rf"(?:{_MEASURED})\s+", r"inf\w*|unlimited", "leave out `bandwidth` of a fabric that never limits"),
    (r"gpus\s+", r"([A-Za-z]\w*)", "a number, as `gpus 8`; a parameter stands in parentheses: gpus ({0})"),
    (rf"\b({_MEASURED})\s+", r"([A-Za-z]\w*)", "a value with its unit, or a parameter in parentheses: {0} ({1})"),
    (r"model\s+", r"[“”„'](\w+)", 'a text stands in straight double quotes: "{0}"'),
    (r"(model|host)\s+", r"([\w\[\]-]+)", 'a text stands in quotes: {0} "{1}"'),
    (r"multicast\s+|reduction\s+", r"\w+", "`multicast` and `reduction` stand alone, without a value"),
    # instances
    (r"instance\s+(\w+(?:\[[^\]]*\])?)\s*", r"(?::=?\s*|(?:of|as)\s+)([\w()]+)", "write `instance {0} = {1}`"),
    (r"instance\s+(\w+x\d+)\s+", r"(\w+)", "the name comes first: `instance {1} = {0}`"),
    (r"instance\s+(\w+(?:\[[^\]]*\])?)\s+", r"(\w+)", "write `instance {0} = {1}`"),
    (r"instance\s+(\w+)\s*", r",\s*(\w+)", "write a range, `instance {0}[0-1] = ...`, or a line for each"),
    (r"instance\s+\S+\s*=\s*", r"(\d+)\s*[x*]\s*(\w+)", "the type comes first: `instance a = {1} x {0}`"),
    (r"=\s*(\w+)\s*", r"\*\s*(\d+)", "how many of a type: {0} x {1}"),
    (r"=\s*(\w+)\s*", r"\+\s*(\w+)", "an instance is one server: write a line for {0} and one for {1}"),
    (r"^\s*", r"(?:node|server)\s+(\w+)\s*=\s*(\w+)", "write `instance {0} = {1}`"),
    (r"^\s*", r"([\w*\[\]-]+\.[\w*\[\]-]+)\.(\w+)\s*=\s*([^;\n]*)", "write `set {0} {{ {1} {2} }}`"),
    (r"^\s*", r"([\w*\[\]-]+\.[\w*\[\]-]+)\s*\{", "write `set {0} {{ ... }}`"),
    (r"^\s*|\{\s*", r"gpus\b", "GPUs belong to a node type: `node n {{ gpus 8 ... }}` and `instance a = n`"),
    (r"^\s*", r"chunk\b", "the chunk size is that of the whole cluster: state it there"),
    (r"^\s*", r"import\b", "imports stand at the top of the file, before the cluster"),
    # links
    (r"link\b.*?", r"(?:--?|<--?>|<--?|=>|<=>|to\b|→|↔|⇄|⟷)\s*", "`<->` for both directions, `->` for one"),
    (r"link\s+(\w+)\s*,\s*(\w+)\s*", r"\{", "a link has two sides: link {0} <-> {1}"),
    (rf"(?:{_TO_NICS})\s*", r"<->\s*(\w+)", "from the GPU to the NIC: {0} -> {1}; it serves both directions"),
    (r"", rf"[\[(]?\s*(?:{_PROPERTIES})\b", "properties stand in braces: {{ bandwidth 25 GB/s }}"),
    # the paper form, loops and parameters
    (rf"{_ENTRY}]*?)\s*", rf"(>?->)\s*{_FLAT}", "entries stand in brackets: {0} => [{1} {2} {3}]"),
    (
        rf"{_ENTRY}>]*)",
        rf"(\([^\[\]{{}}]*?)\s*(>?->)\s*{_FLAT}",
        "entries stand in brackets: {0} => [({1}{2}) {3} {4}]",
    ),
    (r"for\s+(\w+)\s*", r"=\s*([^\s{]+)", "write `for {0} in {1} {{ ... }}`"),
    (r"\w\(\s*(\w+)\s*", r":\s*([^,)]+)", "write ({0} = {1})"),
    (r"\w\(\s*", r"(\d[^,)]*)", "name the parameter: (NAME = {0})"),
    (r"", r"\^|\*\*", "there is no power: write it as a product"),
)
_COMPILED = [(re.compile(rf"(?:{before})$"), re.compile(rest), help_) for before, rest, help_ in _HABITS]
_MOST = 400  # characters of a line that are looked at


def empty(source: Source) -> Diagnostic:
    """The finding for a source without a single statement."""
    help_ = "start with `import h20` and `cluster NAME { ... }`; see dsl/reference.md and examples/"
    return Diagnostic("HS110", Span(source.name, 1, 1), "the topology is empty", help_)


def diagnostic(error: UnexpectedInput, source: Source) -> Diagnostic:
    """What is wrong at the place Lark stopped, and what may stand there."""
    expected = _accepted(error)
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        lines = source.text.rstrip().split("\n")
        end = Span(source.name, len(lines), max(1, len(lines[-1])))
        return Diagnostic("HS112", end, "the text ends too early", _expected_help(expected))
    line, column = max(1, error.line), max(1, error.column)
    above, here = _lines_up_to(source.text, line)
    for match in _NUMBER_LIKE.finditer(here):  # `1e9`, `1_000` or `.5`, within which Lark stopped
        if match.start() < column <= match.end() and not _NUMBER.fullmatch(match.group()):
            span = Span(source.name, line, match.start() + 1, len(match.group()))
            message = f"`{match.group()[:40]}` is not a number as written here"
            help_ = "use digits and at most one point, as 2.5, and a larger unit"
            return Diagnostic("HS111", span, message, help_)
    word = re.compile(r"\w+|\S|\s").match(here, column - 1)
    offending = str(error.token) if isinstance(error, UnexpectedToken) else word.group() if word else " "
    first_line = offending.splitlines()[0] if offending.strip() else offending[:1]
    shown = first_line if len(first_line) <= 40 else first_line[:40] + "..."
    span = Span(source.name, line, column, max(1, len(first_line)))
    if isinstance(error, UnexpectedCharacters) and not re.match(r"\w", shown):
        shown = shown[:1]
        span = Span(source.name, line, column)
    keywords = [word.lower() for word in expected if word not in _SHOWN and word != "_SEMI"]
    help_ = _habit(above, here, column, expected, keywords)
    if not help_:
        near = did_you_mean(shown, keywords) if re.fullmatch(r"[A-Za-z_]+", shown) else ""
        help_ = near if near.startswith("did you mean") else _expected_help(expected)
    return Diagnostic("HS111", span, f"unexpected `{shown}`", help_)


def _lines_up_to(text: str, line: int) -> tuple[list[str], str]:
    lines = text.split("\n")
    return lines[: line - 1], lines[line - 1] if line <= len(lines) else ""


def _habit(above: list[str], here: str, column: int, expected: list[str], keywords: list[str]) -> str:
    """The way out for what people write who know other languages, empty if it is none of that."""
    before, rest = here[: column - 1], here[column - 1 :]
    if not before.strip() and expected in (["LBRACE"], ["LBRACE", "LPAR"]):
        return "the statement before it needs its properties: { bandwidth 25 GB/s }"
    if not before.strip() and not _STATEMENT & set(expected):
        stripped = (earlier.split("#")[0].rstrip() for earlier in reversed(above))
        before = next((earlier for earlier in stripped if earlier), "")
    signs = keywords + [sign for name, sign in (("LBRACE", "{"), ("RBRACE", "}")) if name in expected]
    way_out = habit(before, rest, signs)
    unfinished = rf"(?:^|[;{{}}\s])(?:{_RATED})\s[^;{{}}]*$"
    if not way_out and signs == ["{"] and re.search(unfinished, before[-_MOST:]):
        return "what stands before it needs its properties: { bandwidth 25 GB/s }"
    word = re.match(rf"(?:({_OF_CLUSTERS})|{_OF_BLOCKS})(?![\w.*\[])", rest)
    if way_out or word is None or "cluster" not in keywords:
        return way_out
    block = "the cluster" if word[1] else "a node type or the cluster"
    return f"`{word[0]}` stands inside {block}: move it before the `}}` that ends the block"


def habit(before: str, rest: str, expected: Collection[str]) -> str:
    """A way out for what stands at ``rest``, the end of a line that begins with ``before``; empty if none fits.

    ``expected``: the words of the language that may stand there, in small letters, ``{`` and ``}`` among them.
    """
    before, rest = before[-_MOST:], rest[:_MOST]
    way_out = _other_word(before, rest, expected)
    if way_out:
        return way_out
    for ends, goes_on, help_ in _COMPILED:
        if help_.startswith("properties stand in braces") and "{" not in expected:
            continue
        if goes_on.pattern in (r"gpus\b", r"chunk\b", r"import\b") and not expected:
            continue
        left, right = ends.search(before), goes_on.match(rest)
        if left and right:
            return help_.format(*((group or "")[:40] for group in (*left.groups(), *right.groups())))
    return ""


def _other_word(before: str, rest: str, expected: Collection[str]) -> str:
    """Another word for one of the language, in other letters, or with letters too many."""
    word = re.match(r"\w+", rest)
    if word is None:
        return ""
    if re.search(r"(?:^|[;{}])\s*$", before):
        small = word[0].lower()
        if small in expected and small != word[0]:
            return f"words of the language are written in small letters: `{small}`"
        place = {"ports": "switch", "members": "bus", "join": "fabric"}
        own = [name for name in place if name in expected]
        if small in place and own:
            return f"a {place[own[0]]} has `{own[0]}`; `{small}` is of a {place[small]}"
        if small in _MEANT:
            return f"that is {_MEANT[small]} here"
    glued = re.search(rf"(?:^|[;{{}}])\s*((?:{_HEADS})\w+)\s*$", before)
    longer = re.search(r"(?:^|[;{}])\s*(\w+)$", before)
    full = glued[1] if glued else longer[1] + word[0] if longer else ""
    if full.lower() in _MEANT:
        return f"`{full[:40]}` is {_MEANT[full.lower()]} here"
    # a word of the language with more behind it: `nic0 {`, `switches`, `importh20`
    written = re.match(r"([A-Za-z]\w*)([\w.*\[\]-]*)\s*(\{?)", rest)
    heads = [word for word in expected if word.isalpha() and written and written[1].startswith(word)]
    if written is None or not heads or (written[1] in expected and not written[2]):
        return ""
    head = max(heads, key=len)
    whole = (written[1] + written[2])[:40]
    tail = whole[len(head) :]
    if written[3] and head in _PARTS and re.match(r"\d|\[", tail):
        return f"write `{head} {whole} {{ ... }}`: first what it is, then its name"
    if tail in ("s", "es"):
        return f"did you mean `{head}`?"
    return f"a space stands behind a word of the language: `{head} {tail}`" if head != "for" else ""


def hides_the_rest(error: UnexpectedInput, text: str) -> bool:
    """True where what follows would only repeat this: a block without its brace, or a text in another language."""
    _, whole = _lines_up_to(text, max(1, error.line))
    before, rest = whole[: max(1, error.column) - 1], whole[max(1, error.column) - 1 :]
    if rest[:1] in ("<", "[") or rest[:2] == '{"' or rest.rstrip() == ":":
        return not before.strip() or rest.rstrip() == ":"
    headless = set(_accepted(error)) <= {"LBRACE", "LPAR"}
    return headless and (not before.strip() or "{" not in rest)


def _accepted(error: UnexpectedInput) -> list[str]:
    interactive = getattr(error, "interactive_parser", None)
    if interactive is not None:
        return sorted(interactive.accepts())
    return sorted(getattr(error, "allowed", None) or getattr(error, "expected", None) or ())


def _expected_help(expected: list[str]) -> str:
    words = list(dict.fromkeys(_SHOWN[name] for name in expected if name in _SHOWN))
    words += [f"`{name.lower()}`" for name in expected if name not in _SHOWN and name != "_SEMI"]
    if "`(`" in words and {"a number with its unit", "a number"} & set(words):
        words[words.index("`(`")] = "an expression in parentheses"
        words.sort(key=lambda word: word.startswith("an expression"))
    if "a number with its unit" in words and "a number" in words:
        words.remove("a number")
    if not words:
        return "the end of the file is expected here"
    shown = words[:_MAX_EXPECTED]
    listed = " or ".join(shown) if len(shown) < 3 else ", ".join(shown[:-1]) + f" or {shown[-1]}"
    return f"expected {listed}" + (", ..." if len(words) > len(shown) else "")


def without_statement(text: str, error: UnexpectedInput) -> str | None:
    """``text`` with the statement around the error blanked, so that the rest can be checked; None at the end.

    A statement here is what stands on the line between `;`, `{` and `}`, with the braces it opens.
    """
    position = error.pos_in_stream if isinstance(error.pos_in_stream, int) else 0
    if isinstance(error, UnexpectedToken):
        if error.token.type == "$END":
            return None
        position = position if error.token.start_pos is None else error.token.start_pos
    start = max(text.rfind(mark, 0, position) for mark in "\n;{}") + 1
    end, depth = len(text), 0
    for match in re.compile(r'(?:#|//)[^\n]*|"[^"\n]*"|[{}\n;]').finditer(text, position):
        token = match.group()
        if depth == 0 and token in ("}", "\n", ";"):
            end = match.start()
            break
        depth += {"{": 1, "}": -1}.get(token, 0)
        if token == "}" and depth == 0:
            end = match.end()
            break
    if end <= start:
        return None
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
