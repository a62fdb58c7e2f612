"""The differences that scripts/check_transparency.sh knows. Each is a row of docs/transparency.md, or is to be mended; the full form
fails where one has gone.

For each, patterns of the program, the mode, the event, what differs, and its lines with + (tracked) or - (alone), and the reason."""

ANY = ".*"
FOLLOWED = "stacks, children"
CANNOT_WRITE = r"\+memledger: process \d+: (there is no watcher: )?cannot create .*/memledger-(run|watch)-.*: (Permission denied|Read-only file system).*"
HAS_NO_END = r"\+memledger: the trace( of .*)? has no end: .*"
FEW_DESCRIPTORS = r"\+memledger: process \d+: .*: Too many open files.*"
LINES = "the row of lines that begin with `memledger: `"

KNOWN = [
    ("start-stop-daemon.*|runuser|chroot|capsh|bubblewrap.*|setpriv.*|python3 os.setuid|C: .*|Rust: drops", ANY, ANY, "notes in stderr",
     CANNOT_WRITE, f"a program that has changed its identity or its root, and replaces itself, may not write the trace: {LINES}"),
    ("C: children|Rust: forks|runuser|strace|start-stop-daemon --background|nginx|.*sh( .*)?|timeout|make|gcc|g\\+\\+|bubblewrap.*", FOLLOWED, ANY,
     "notes in stderr", HAS_NO_END,
     f"a followed child that a signal has ended, or that runs on, has no watcher: {LINES}"),
    ("prlimit|.*sh|C: few-descriptors", ANY, ANY, "notes in stderr", FEW_DESCRIPTORS,
     f"a program with few descriptors has none for a watcher's pipe, or for symbols: {LINES}"),
    (r"nginx|make|gcc|g\+\+", FOLLOWED, ANY, r"(ready|asked|signalled): process 0\.[\d.]+: SigCgt", "[-+][0-9a-f]{16}",
     "a followed child that has not replaced itself has no watcher: the row of handlers"),
    ("bash|zsh -f|busybox sh|dash|ksh|zsh", FOLLOWED, ANY, "stdout", r"[-+]SigCgt:\s[0-9a-f]{16}",
     "a followed child that has not replaced itself has no watcher: the row of handlers"),
    ("C: last-thread-call", ANY, ANY, "status", r"-5|\+3", "the last thread ends by the system call, with a status of its own: the row of system calls"),
    ("redis-server", ANY, "INT|TERM|HUP|PIPE|ignored", "(ready|asked|signalled): process 0: thread [56]",
     r"\+(Name jemalloc_bg_thd|(Uid|SigPnd|SigBlk|CapInh|CapPrm|CapEff|CapAmb|NoNewPrivs|Seccomp) .*)",
     "background threads of jemalloc, for the arenas of the tracker's threads: the row of threads"),
    ("bubblewrap.*", ANY, ANY, "stderr", r"\+ERROR: ld\.so: object .* cannot be preloaded .*", "the row of ld.so"),
]
