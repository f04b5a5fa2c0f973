#!/usr/bin/env python3
"""Writes facts about the used functions, types and values in the Neuron runtime's public headers.

    tools/nrt_declarations.py INCLUDE [--source TEXT] > tests/runtime/backends/neuron/nrt/declarations.inc
    tools/nrt_declarations.py INCLUDE --check tests/runtime/backends/neuron/nrt/declarations.inc

INCLUDE is src/libnrt/include of github.com/aws-neuron/aws-neuron-sdk, or /opt/aws/neuron/include. The names are those
in runtime/backends/neuron/nrt/abi.h. Values, sizes and offsets come from a C program compiled with the headers.
Signatures come from the headers' text, and each is compiled against its declaration. No text is copied: a line holds a
name, a number or types. nrt_declarations_test compares abi.h with every line.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ABI = ROOT / "runtime/backends/neuron/nrt/abi.h"
HEADERS = ["nrt/nrt_status.h", "nrt/nrt.h", "nrt/nrt_version.h", "nrt/nrt_experimental.h"]
# Structures in abi.h that end before a flexible array of the header; their size is the array's offset there.
FLEXIBLE = {"nrt_tensor_info_array_t": "tensor_array"}


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)


def c_type(parameter):
    """The type of one parameter without its name, in one spelling: `const nrt_tensor_t*`."""
    words = parameter.strip()
    if words in ("", "void"):
        return ""
    words = re.sub(r"\b[A-Za-z_]\w*\s*$", "", words)
    return re.sub(r"\s*\*", "*", " ".join(words.split()))


def functions(headers, names):
    for found in re.finditer(r"([A-Za-z_][\w \t]*?[\s*]+)(nrt_\w+)\s*\(([^()]*)\)\s*;", headers):
        result, name, parameters = found.groups()
        if name in names:
            result = re.sub(r"\s*\*", "*", " ".join(result.split()))
            yield name, result, [t for t in map(c_type, parameters.split(",")) if t]


def structures(abi):
    """Name and fields of every structure that abi.h defines."""
    for name, body in re.findall(r"struct (nrt_\w+) \{(.*?)\n\};", abi, flags=re.S):
        yield name, re.findall(r"^\s*[\w]+[\s*]+(\w+)(?:\[\d+\])?;", body, flags=re.M)


def run(include, body, compiler):
    """The output of a C program with `body` and the headers."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder) / "facts.c", pathlib.Path(folder) / "facts"
        lines = ["#include <stddef.h>", "#include <stdio.h>"] + [f'#include "{h}"' for h in HEADERS]
        source.write_text("\n".join(lines + body) + "\n")
        link = [] if "int main" in source.read_text() else ["-c"]
        subprocess.run([compiler, "-Werror", "-I", include, *link, str(source), "-o", str(program)], check=True)
        return "" if link else subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout


def facts(include, source, compiler):
    abi = without_comments(ABI.read_text())
    headers = "\n".join(without_comments((pathlib.Path(include) / h).read_text()) for h in HEADERS)
    found = sorted(functions(headers, set(re.findall(r"\bnrt_\w+", abi))))
    declared = set(re.findall(r"\b(nrt_\w+)\(", abi))
    missing = declared - {name for name, _, _ in found}
    if missing:
        sys.exit(f"the headers declare no {', '.join(sorted(missing))}")

    body = [f"static {result} (*check_{name})({', '.join(types) or 'void'}) = {name};" for name, result, types in found]
    run(include, [line.replace("static", "", 1) for line in body], compiler)

    body = ["int main(void) {"]
    statuses = without_comments((pathlib.Path(include) / "nrt/nrt_status.h").read_text())  # all: abi.h must be complete
    for value in sorted(set(re.findall(r"\b(NRT_[A-Z0-9_]+)\s*=", abi + statuses))):
        body.append(f'  printf("ENUMERATOR({value}, %d)\\n", (int){value});')
    for name, fields in structures(abi):
        size = f"offsetof({name}, {FLEXIBLE[name]})" if name in FLEXIBLE else f"sizeof({name})"
        body.append(f'  printf("SIZE({name}, %zu)\\n", {size});')
        for field in fields:
            place = f"offsetof({name}, {field}), sizeof((({name}*)0)->{field})"
            body.append(f'  printf("FIELD({name}, {field}, %zu, %zu)\\n", {place});')
    printed = run(include, body + ["}"], compiler)

    lines = ["// Facts of the Neuron runtime's public headers, written by tools/nrt_declarations.py; not to be edited.",
             f"// {source}",
             "// FUNCTION(name, result, parameters…)  ENUMERATOR(name, value)  SIZE(structure, bytes)",
             "// FIELD(structure, field, offset, bytes)", "// clang-format off"]
    lines += [f"FUNCTION({', '.join([name, result, *types])})" for name, result, types in found]
    return "\n".join(lines) + "\n" + printed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("include")
    parser.add_argument("--source", default="Source: not said", help="which headers these are, for the file's head")
    parser.add_argument("--check", help="compare with this file instead of printing")
    parser.add_argument("--compiler", default="cc")
    arguments = parser.parse_args()
    text = facts(arguments.include, arguments.source, arguments.compiler)
    if not arguments.check:
        sys.stdout.write(text)
        return
    with open(arguments.check) as file:
        kept = [line for line in file.read().splitlines() if not line.startswith("//")]
    now = [line for line in text.splitlines() if not line.startswith("//")]
    for line in sorted(set(kept) ^ set(now)):
        print("headers alone:" if line in now else "file alone:   ", line)
    sys.exit(kept != now)


if __name__ == "__main__":
    main()
