"""Compares what the compiler says of each file of tests/misuse with the file's first lines.

    python3 scripts/misuse_is_refused.py MESSAGES

MESSAGES is the output of `cargo check --message-format json`. What a file expects must be in an error, or in its
notes and helps, not somewhere in a trail of spans. A file that expects nothing must compile.
"""

import json
import pathlib
import sys


def texts(message):
    yield message["message"]
    for child in message["children"]:
        yield child["message"]
    # The labels at the code itself.
    yield from (span["label"] or "" for span in message["spans"] if span["is_primary"])


said = {}
checked = set()
for line in open(sys.argv[1]):
    entry = json.loads(line)
    target = entry.get("target", {})
    if target.get("kind") != ["bin"]:
        continue
    if entry["reason"] == "compiler-artifact":
        checked.add(target["name"])
    elif entry["reason"] == "compiler-message" and entry["message"]["level"] == "error":
        said.setdefault(target["name"], []).append(entry["message"])

wrong = False
for file in sorted(pathlib.Path("tests/misuse").glob("*.rs")):
    lines = file.read_text().splitlines()
    refused = file.stem != "compiles"
    expected = [line[4:] for line in lines if line.startswith("//! ")] if refused else []
    found = [text for message in said.get(file.stem, []) for text in texts(message)]
    missing = [text for text in expected if not any(text in line for line in found)]
    if missing or refused != bool(found) or refused != bool(expected) or refused == (file.stem in checked):
        wrong = True
        print(f"{file}: ", f"the compiler does not say {missing}" if missing else "compiles, or should")
        print(*(message["rendered"] for message in said.get(file.stem, [])), sep="")
sys.exit(wrong)
