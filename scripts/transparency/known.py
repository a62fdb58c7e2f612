"""The differences that scripts/check_transparency.sh knows. Each is a row of docs/transparency.md, or is to be mended; the full form
fails where one has gone.

For each, patterns of the program, the mode, the event, what differs, and its lines with + (tracked) or - (alone), and the reason."""

ANY = ".*"
FOLLOWED = "stacks, children"
CANNOT_WRITE = r"\+memledger: (there is no watcher: )?cannot create .*/memledger-(run|watch)-.*: (Permission denied|Read-only file system).*"
FEW_DESCRIPTORS = r"\+memledger: .*: Too many open files.*"
LINES = "the row of lines that begin with `memledger: `"

KNOWN = [
    ("start-stop-daemon.*|runuser|chroot|capsh|bubblewrap.*|setpriv.*|python3 os.setuid|C: .*|Rust: drops", ANY, ANY, "notes in stderr",
     CANNOT_WRITE, f"a program that has changed its identity or its root, and replaces itself, may not write the trace: {LINES}"),
    ("memcached|nginx|redis-server|capsh|runuser", FOLLOWED, ANY, "notes in stderr", r"\+memledger: cannot read /proc/.*/maps: Permission denied.*",
     f"a program that has given up its rights may not read its own maps, so symbols are missing: {LINES}"),
    ("nginx|start-stop-daemon --background", FOLLOWED, ANY, "notes in stderr", r"\+memledger: the trace( of .*)? has no end: .*",
     f"a followed child that runs on when its parent has ended has no end yet: {LINES}"),
    ("prlimit|.*sh|C: few-descriptors", ANY, ANY, "notes in stderr", FEW_DESCRIPTORS,
     f"a program with few descriptors has none for a watcher's pipe, or for symbols: {LINES}"),
    ("C: last-thread-call", ANY, ANY, "status", r"-5|\+3", "the last thread ends by the system call, with a status of its own: the row of system calls"),
    ("redis-server", ANY, ANY, ".*: process 0: thread 5", ANY,
     "a second background thread of jemalloc, for the arena of the tracker's thread: the row of threads"),
    ("bubblewrap.*", ANY, ANY, "stderr", r"\+ERROR: ld\.so: object .* cannot be preloaded .*", "the row of ld.so"),
]
