"""The differences that scripts/check_transparency.sh knows: each is a row of docs/transparency.md, and fails the full form once it has gone.

Patterns of the program, the mode, the event and what differs, and the reason."""

KNOWN = []
