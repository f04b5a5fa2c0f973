"""The small faults that a C++ source has places for, and their order under a seed."""
import collections
import dataclasses
import hashlib
import re

import cpp_tokens

# In the order in which an area takes them in turn.
KINDS = ("bound", "dropped statement", "arithmetic", "logic", "order of statements", "constant", "equality",
         "smaller or larger", "order of arguments")

_BOUNDS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_ARITHMETIC = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "+=": "-=", "-=": "+=", "++": "--", "--": "++",
               "<<": ">>", ">>": "<<", "|": "&", "&": "|", "|=": "&="}
_LOGIC = {"&&": "||", "||": "&&", "true": "false", "false": "true"}
_EQUALITY = {"==": "!=", "!=": "=="}
_SMALLER = {"min": "max", "max": "min", "Min": "Max", "Max": "Min"}
# Statements with one of these check our own bugs, write messages or logs, or only concern speed.
_EXEMPT = re.compile(r"LOCKSTEP_CHECK\w*|static_assert|(\w*_)?[lL]og(_\w*)?|fmt|Error|ErrorKind|to_string|reserve|"
                     r"\w*prefetch\w*")
_NOT_STATEMENTS = {"return", "if", "for", "while", "switch", "case", "default", "break", "continue", "using", "auto",
                   "const", "constexpr", "static", "template", "typename", "struct", "class", "enum", "delete", "throw",
                   "else", "do", "goto", "typedef", "LOCKSTEP_TRY"}  # the last declares
_ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "|=", "&="}


@dataclasses.dataclass(frozen=True)
class Fault:
    file: str
    kind: str
    line: int    # from 1
    text: str    # of its line
    begin: int   # offset in the source
    before: str
    after: str
    name: str    # stays the same while other lines change

    def apply(self, source):
        end = self.begin + len(self.before)
        assert source[self.begin:end] == self.before, f"{self.file}:{self.line} has changed"
        return source[:self.begin] + self.after + source[end:]

    @property
    def change(self):
        return f"{' '.join(self.before.split())} → {' '.join(self.after.split()) or 'nothing'}"


def faults_of(file, source):
    """All faults of one source, in its order."""
    tokens = cpp_tokens.tokens_of(source)
    lines = source.split("\n")
    exempt = {token.statement for token in tokens if token.kind == "string" or _EXEMPT.fullmatch(token.text)}
    usable = [token.function >= 0 and not token.is_conditional and not token.makes_text and
              token.statement not in exempt for token in tokens]
    found = [change for at in range(len(tokens)) if usable[at] for change in _changes_of_token(tokens, at, source)]
    found += _changes_of_statements(tokens, usable, source)
    count = collections.Counter()
    faults = []
    for kind, token, before, after in found:
        text = lines[token.line - 1].strip()
        column = token.begin - source.rfind("\n", 0, token.begin)
        place = (file, kind, text, column, before, after)
        count[place] += 1
        name = hashlib.sha256("\0".join(map(str, (*place, count[place]))).encode()).hexdigest()[:10]
        faults.append(Fault(file, kind, token.line, text, token.begin, before, after, name))
    return faults


def _changes_of_token(tokens, at, source):
    """(kind, token, text before, text after) of single tokens, and of a call's arguments."""
    token = tokens[at]
    # clang-format surrounds binary operators with blanks, and neither templates nor pointers.
    is_binary = source[token.begin - 1].isspace() and source[token.end:token.end + 1].isspace()
    if token.kind == "sign":
        for kind, table in (("bound", _BOUNDS), ("arithmetic", _ARITHMETIC), ("logic", _LOGIC), ("equality", _EQUALITY)):
            if token.text in table and (is_binary or token.text in ("++", "--")):
                yield kind, token, token.text, table[token.text]
        following = tokens[at + 1] if at + 1 < len(tokens) else None
        if token.text == "!" and following and following.kind == "word":
            yield "logic", token, "!", ""
    elif token.text in _LOGIC:
        yield "logic", token, token.text, _LOGIC[token.text]
    elif token.kind == "number" and re.fullmatch(r"(\d+|\d+\.\d*)[uUlLfF]*", token.text):
        yield "constant", token, token.text, f"({token.text} + 1)"
    elif token.text in _SMALLER and tokens[at - 1].text == "::" and tokens[at - 2].text in ("std", "ranges"):
        yield "smaller or larger", token, token.text, _SMALLER[token.text]
    if token.text == "(" and tokens[at - 1].kind == "word" and tokens[at - 1].text not in _NOT_STATEMENTS:
        inner = tokens[at + 1:at + 4]
        if len(inner) == 3 and inner[1].text == "," and tokens[at + 4].text == ")":
            first, _, second = inner
            if first.kind == second.kind == "word" and first.text != second.text:
                yield ("order of arguments", first, source[first.begin:second.end], f"{second.text}, {first.text}")


def _changes_of_statements(tokens, usable, source):
    """Dropped statements, and neighbours of which one may depend on the other in the other order."""
    previous = None
    for at, token in enumerate(tokens):
        end = _statement_end(tokens, at) if usable[at] else None
        if end is None:
            continue
        text = source[token.begin:tokens[end].end]
        yield "dropped statement", token, text, ";"
        if previous and previous[1] == at - 1 and _may_depend(tokens[previous[0]:previous[1]], tokens[at:end]):
            first = tokens[previous[0]]
            both = source[first.begin:tokens[end].end]
            gap = source[tokens[at - 1].end:token.begin]
            yield "order of statements", first, both, text + gap + source[first.begin:tokens[at - 1].end]
        previous = (at, end)


def _may_depend(first, second):
    """Whether two statements have a name in common; of two assignments, whether one uses the other's target."""
    texts = [[token.text for token in statement] for statement in (first, second)]
    if all(text[:2] == ["LOCKSTEP_TRY_VOID", "("] and text[2].startswith("check") for text in texts):
        return False  # which of two errors is reported
    if texts[0][0] == texts[1][0] == "__builtin_memcpy":
        return False  # into variables of their own
    targets = [_target(text) for text in texts]
    if all(targets):
        return targets[0] == targets[1] or any(targets[i] in " ".join(texts[1 - i]) for i in (0, 1))
    words = [{token.text for token in statement if token.kind == "word"} for statement in (first, second)]
    return bool(words[0] & words[1])


def _target(text):
    """What an assignment or a step writes; None of another statement."""
    if text[0] in ("++", "--"):
        return " ".join(text[1:])
    at = next((at for at, part in enumerate(text) if part in _ASSIGNMENTS or part == "("), 0)
    return " ".join(text[:at]) if text[at] in _ASSIGNMENTS else None


def _statement_end(tokens, at):
    """The place of the semicolon of a call, an assignment or a step that begins at `at`; None of anything else."""
    first = tokens[at]
    if tokens[at - 1].text not in (";", "{", "}") or first.depth != 0:
        return None
    if first.text in ("++", "--"):
        at += 1
    if tokens[at].kind != "word" or tokens[at].text in _NOT_STATEMENTS:
        return None
    chain = at + 1
    while tokens[chain].text in ("::", ".", "->", "["):
        if tokens[chain].text == "[":
            while tokens[chain].text != "]":
                chain += 1
            chain += 1
        else:
            chain += 2
    if tokens[chain].text != "(" and tokens[chain].text not in _ASSIGNMENTS and first.text not in ("++", "--"):
        return None
    for end in range(chain, min(chain + 60, len(tokens))):
        if tokens[end].text in ("{", "}"):
            return None
        if tokens[end].text == ";" and tokens[end].depth == 0:
            return end
    return None


def in_order(faults, seed, per_file):
    """The faults in the order in which an area takes them: kinds in turn, places of a kind by their hash with the seed,
    at most `per_file` of a file until all files have theirs."""
    def key(fault):
        return hashlib.sha256(f"{seed} {fault.name}".encode()).digest()

    by_kind = [sorted((fault for fault in faults if fault.kind == kind), key=key) for kind in KINDS]
    taken, late, order = collections.Counter(), [], []
    while any(by_kind):
        for places in by_kind:
            while places:
                fault = places.pop(0)
                if taken[fault.file] < per_file:
                    taken[fault.file] += 1
                    order.append(fault)
                    break
                late.append(fault)
    return order + late
