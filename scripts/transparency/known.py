"""The differences that scripts/check_transparency.sh knows. Each is a row of docs/faults.md, or is to be mended; the full form
fails where one has gone.

For each, patterns of the program, the mode, the event, what differs, and its lines with + (tracked) or - (alone), and the reason."""

ANY = ".*"
FOLLOWED = "stacks, children"
TO_END = "end|stdin closed|stdout closed|ignored"
TRACE = r"cannot create .*/memledger-run-[^/]*/\d+\.memledger"
# What the command writes after the program's end.
SAYS = r"\+memledger: process \d+: "
DENIED = rf"{SAYS}{TRACE}: Permission denied \(os error 13\)"
READ_ONLY = rf"({TRACE}|there is no watcher: cannot create .*/memledger-watch-\d+\.memledger): Read-only file system \(os error 30\)"
LINES = "the row of lines that begin with `memledger: `"

KNOWN = [
    ("setpriv|setpriv --inh-caps|start-stop-daemon|chroot|capsh|python3 os.setuid", ANY, ANY, "notes in stderr", DENIED,
     f"a program that has changed its identity, and replaces itself, may not write the trace: {LINES}"),
    ("start-stop-daemon --background|runuser", FOLLOWED, ANY, "notes in stderr", DENIED,
     f"the same in a followed child: {LINES}"),
    ("bubblewrap", FOLLOWED, "INT|TERM|HUP|PIPE|ignored", "notes in stderr", SAYS + READ_ONLY,
     f"a sandbox in which no folder can be written to: {LINES}"),
    ("bubblewrap", FOLLOWED, "end|stdin closed|stdout closed", "notes in stderr", r"\+memledger: " + READ_ONLY,
     f"the same with a network of its own, from which the command cannot be reached: {LINES}"),
    ("bubblewrap", FOLLOWED, "INT|TERM|HUP|PIPE|ignored", r"(ready|signalled): process 0\.0: SigCgt", r"-0{16}|\+00000000000044e[ab]",
     "where nothing can be written, there is no watcher: the row of handlers"),
    ("nginx|start-stop-daemon --background", FOLLOWED, ANY, "notes in stderr", r"\+memledger: the trace( of .*)? has no end: .*",
     f"a followed child that runs on when its parent has ended has no end yet: {LINES}"),
    (r"gcc|g\+\+|make|timeout", FOLLOWED, "INT|TERM|HUP|PIPE", "notes in stderr", r"\+memledger: the trace of (cc1|cc1plus|cat|dash) .*has no end: .*",
     f"the same where only the parent gets the signal: {LINES}"),
    ("prlimit", ANY, TO_END, "notes in stderr", rf"{SAYS}there is no watcher: Too many open files \(os error 24\)",
     f"a program with few descriptors has none for a watcher's pipe: {LINES}"),
    ("C: last-thread-call", ANY, TO_END, "status", r"-5|\+3", "the last thread ends by the system call, with a status of its own: the row of system calls"),
    ("redis-server", ANY, "INT|TERM|HUP|PIPE|ignored", "(ready|asked|signalled): process 0: thread [56]",
     r"\+(Name jemalloc_bg_thd|(Uid|SigPnd|SigBlk|CapInh|CapPrm|CapEff|CapAmb|NoNewPrivs|Seccomp) .*)",
     "background threads of jemalloc, for the arenas of the tracker's threads: the row of threads"),
]
