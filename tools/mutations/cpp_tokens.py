"""Tokens of C++ sources, with what surrounds each: its function, its statement, its depth in brackets."""
import bisect
import dataclasses
import re

_PATTERN = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)'
    r'|(?P<string>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"'
    r'|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")'
    r"|(?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)"
    r"|(?P<character>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')"
    r'|(?P<word>[A-Za-z_]\w*)'
    r'|(?P<sign><=>|<<=|>>=|\.\.\.|->\*|::|->|\+\+|--|<<|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[^\w\s])'
    r'|(?P<blank>\s+)', re.S)
_DIRECTIVE = re.compile(r'[ \t]*#(?:\\\n|//[^\n]*|/\*.*?\*/|[^\n])*', re.S)
_TEXT_RESULTS = {"Error", "string", "string_view", "ostream", "formatter"}


@dataclasses.dataclass
class Token:
    kind: str   # word, number, string, character, sign
    text: str
    begin: int  # offset in the source
    line: int   # from 1
    is_conditional: bool = False  # between #if and #endif
    function: int = -1            # number of the function whose body holds it; -1: outside
    makes_text: bool = False      # in a function that returns an error or a text
    depth: int = 0                # of ( and [ in the function
    statement: int = -1           # number of the run of tokens between ; { }

    @property
    def end(self):
        return self.begin + len(self.text)


def tokens_of(source):
    """All tokens except comments and preprocessor lines."""
    tokens, at, conditions, at_line_start = [], 0, 0, True
    starts = [0] + [match.end() for match in re.finditer("\n", source)]
    while at < len(source):
        directive = at_line_start and _DIRECTIVE.match(source, at)
        if directive:
            name = directive.group().lstrip(" \t#")
            conditions += name.startswith("if") - name.startswith("endif")
            at = directive.end()
            continue
        match = _PATTERN.match(source, at)
        if match.lastgroup == "blank" or match.lastgroup == "comment":
            at_line_start = at_line_start or "\n" in match.group()
        else:
            kind = "string" if match["string"] else match.lastgroup
            tokens.append(Token(kind, match.group(), at, bisect.bisect_right(starts, at), conditions > 0))
            at_line_start = False
        at = match.end()
    _mark(tokens)
    return tokens


def _mark(tokens):
    """Fills the fields about a token's surroundings."""
    braces = []  # of each open one: the function it begins, "scope" for namespaces and types, "block" inside functions
    functions = statements = depth = 0
    makes_text = False
    head = []    # the tokens since the last ; { } outside functions
    for token in tokens:
        inside = bool(braces) and braces[-1] != "scope"
        if token.text == "}":
            if braces:
                braces.pop()
            inside = bool(braces) and braces[-1] != "scope"
            head = []
        if token.text in "{};":
            statements += 1
        if inside:
            token.function, token.makes_text, token.statement, token.depth = functions, makes_text, statements, depth
            depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if token.text == "{":
            if inside:
                braces.append("block")
            elif _is_body(head):
                functions, depth, makes_text = functions + 1, 0, _makes_text(head)
                braces.append("body")
            else:
                braces.append("scope")
            head = []
        elif not inside:
            head = [] if token.text in "};" else head + [token.text]


def _is_body(head):
    scopes = {"namespace", "class", "struct", "union", "enum", "="}
    before = head[:head.index("(")] if "(" in head else head
    return "(" in head and not scopes & set(before)


def _makes_text(head):
    return bool(_TEXT_RESULTS & set(head[:head.index("(")]))
