"""The programs of scripts/check_transparency.sh: how each ends by itself, how it waits, and what is known of it."""

import dataclasses
import socket


@dataclasses.dataclass
class Case:
    name: str
    # The command line of a run to the end, and of one that waits (for input, unless it says that it is ready). $AT is the run's folder.
    ends: list
    waits: list = None
    # What it prints when it waits, and whether it may wait for anything but its input before that is seen.
    ready: str = ""
    anywhere: bool = False
    # How many processes it has then.
    processes: int = 1
    stdin: str = "one\ntwo\n3 three\n"
    files: dict = dataclasses.field(default_factory=dict)
    # A function that asks it something by way of the run's folder.
    ask: object = None
    # Signals that do not end it, and the commands that it leaves.
    survives: str = ""
    leaves: list = dataclasses.field(default_factory=list)
    # What is typed on its terminal, where it has one, part by part.
    keys: list = dataclasses.field(default_factory=list)
    # In the short form: all, or the events that are.
    short: object = ()
    # Events that say nothing of it.
    without: tuple = ()


ENDS = ("end", "stdin closed", "stdout closed")
SIGNALS = ("INT", "TERM", "HUP", "PIPE")
EVENTS = (*ENDS[:1], *SIGNALS, *ENDS[1:], "ignored")

# What a shell does: with descriptors, traps, pipes, children, limits.
SHELL = """
trap 'echo leaving' EXIT
exec 3>made; echo to three >&3
while read -r line; do case $line in Sig[BIC]*|Cap*) echo "$line";; esac; done </proc/self/status
{probe} probe
echo c b a | tr ' ' '\\n' | sort
(exit 3); echo "$?"
sleep 0 & wait $!; echo "waited $?"
exec 3>&-
ulimit -n 9; echo few | cat
trap
echo to errors >&2
exit 7
"""
SHELL_TRAPS = """
trap 'echo took INT; exit 4' INT
trap 'echo took TERM; exit 5' TERM
trap 'echo leaving' EXIT
echo ready
read line
echo "line $line"
"""
PYTHON = """
import os, signal, subprocess, sys
print(*[line for line in open("/proc/self/status") if line.startswith(("SigB", "SigI", "SigC", "Cap"))])
print([os.readlink(f"/proc/self/fd/{fd}") for fd in sorted(os.listdir("/proc/self/fd"), key=int)[:3]], len(os.listdir("/proc/self/fd")))
print([signal.getsignal(n) for n in (1, 2, 13, 15)])
sys.stdout.flush()
print(subprocess.run(["{probe}", "probe"]).returncode)
print(subprocess.run(["sh", "-c", "kill -TERM $$"]).returncode)
if os.fork() == 0: os._exit(9)
print(os.wait()[1])
open("made", "w").write("text")
raise ValueError("at the end")
"""
PYTHON_WAITS = """
import atexit, sys, time
atexit.register(lambda: print("atexit"))
print("ready", flush=True)
try: time.sleep(600)
except KeyboardInterrupt: print("interrupt")
finally: print("finally")
"""
ASYNCIO = """
import asyncio
async def main():
    print("ready", flush=True)
    try: await asyncio.sleep(600)
    finally: print("finally")
asyncio.run(main())
"""
PERL = """
open my $f, "<", "/proc/self/status"; while (<$f>) { print if /^(Sig[BIC]|Cap)/ } close $f;
opendir my $d, "/proc/self/fd"; print join(" ", sort grep { !/\\./ } readdir $d), "\\n"; closedir $d;
$| = 1; print system("{probe}", "probe"), "\\n"; print `echo child`;
$SIG{CHLD} = sub { print "child\\n" }; my $p = fork; if (!$p) { exit 3 } waitpid $p, 0; print $? >> 8, "\\n";
END { print "END\\n" } die "at the end";
"""
RUBY = """
puts File.readlines("/proc/self/status").grep(/^(Sig[BIC]|Cap)/)
puts Dir.children("/proc/self/fd").map(&:to_i).sort.join(" "); $stdout.flush
system("{probe}", "probe"); puts `echo child`; p $?.exitstatus
pid = fork { exit! 3 }; Process.wait pid; p $?.exitstatus
at_exit { puts "at_exit" }
raise "at the end"
"""
RUBY_WAITS = """
$stdout.sync = true
at_exit { puts "at_exit" }
begin; puts "ready"; sleep 600; rescue Interrupt; puts "interrupt"; ensure puts "ensure"; end
"""
LUA = """
for line in io.lines("/proc/self/status") do if line:match("^Sig[BIC]") or line:match("^Cap") then print(line) end end
io.stdout:flush() print(os.execute("{probe} probe")) print(io.popen("echo child"):read("a"))
local f = io.open("made", "w") f:write("text") f:close() error("at the end")
"""
NODE = """
const fs = require("fs"), child = require("child_process");
console.log(fs.readFileSync("/proc/self/status", "utf8").match(/^(Sig[BIC]|Cap).*/gm).join("\\n"));
child.spawnSync("{probe}", ["probe"], { stdio: "inherit" }); console.log(child.execSync("echo child").toString());
console.log(child.spawnSync("sh", ["-c", "kill -9 $$"]).signal);
process.on("exit", () => console.log("exit")); fs.writeFileSync("made", "text"); process.exitCode = 6;
"""
NODE_WAITS = """
process.on("SIGINT", () => { console.log("interrupt"); process.exit(4); });
process.on("exit", () => console.log("exit"));
setTimeout(() => {}, 600000); setImmediate(() => console.log("ready"));
"""
TCL = """
set f [open /proc/self/status]; puts [join [lsearch -all -inline -regexp [split [read $f] "\\n"] {^(Sig[BIC]|Cap)}] "\\n"]; close $f
flush stdout; puts [exec {probe} probe]; puts [exec echo child]; error "at the end"
"""
GUILE = """
(display (system* "{probe}" "probe")) (newline) (force-output)
(let ((child (primitive-fork))) (if (= child 0) (primitive-_exit 3) (begin (display (status:exit-val (cdr (waitpid child)))) (newline))))
(call-with-output-file "made" (lambda (port) (display "text" port))) (error "at the end")
"""
PHP = """
foreach (file("/proc/self/status") as $line) if (preg_match("/^(Sig[BIC]|Cap)/", $line)) echo $line;
passthru("{probe} probe"); echo `echo child`; register_shutdown_function(function () { echo "shutdown\\n"; });
file_put_contents("made", "text"); fwrite(STDERR, "to errors\\n"); exit(6);
"""
AWK = """BEGIN { while ((getline line < "/proc/self/status") > 0) if (line ~ /^(Sig[BIC]|Cap)/) print line; fflush();
system("{probe} probe"); "echo child" | getline x; print x; print "text" > "made"; print "c\\nb" | "sort"; close("sort"); exit 5 }"""
MAKEFILE = """
all: a b
\t{probe} probe
a b:
\techo $@ > $@
b: a
fails: all
\tfalse
"""
C_SOURCE = '#include <stdio.h>\nint main(void) { int unused; puts("hello"); return 3; }\n'
NGINX = """
user root nogroup; worker_processes 2; daemon off; pid $AT/work/pid; error_log stderr; events {}
http { client_body_temp_path $AT/tmp/a; proxy_temp_path $AT/tmp/b; fastcgi_temp_path $AT/tmp/c; uwsgi_temp_path $AT/tmp/d;
scgi_temp_path $AT/tmp/e; access_log off; server { listen unix:$AT/work/socket; location / { root $AT/work; } } }
"""


def over_socket(text, end=None):
    """A function that sends this to the program's socket, and returns the answer up to `end` or the end."""

    def ask(folder):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(f"{folder}/work/socket")
            connection.sendall(text.encode())
            answer = b""
            while end is None or not answer.endswith(end.encode()):
                part = connection.recv(65536)
                if not part:
                    break
                answer += part
        return answer.decode(errors="replace")

    return ask


def cases(probe):
    """All programs; `probe` is the program of tests/transparency/programs.c."""

    def put(text):
        return text.replace("{probe}", probe)

    every = EVENTS
    some = ("end", "INT", "TERM", "stdout closed")
    once = ("end",)
    found = []

    def add(name, ends, waits=None, **more):
        found.append(Case(name, ends, waits, **more))

    # Shells.
    for name, shell, short in [
        ("bash", ["bash"], every), ("dash", ["dash"], every), ("zsh", ["zsh", "-f"], ()), ("ksh", ["ksh"], ()),
        ("busybox sh", ["busybox", "sh"], ()),
    ]:
        add(name, [*shell, "-c", put(SHELL)], [*shell, "-c", "read line; echo after"], short=short, anywhere="busybox" in name)
        add(f"{name} with traps", [*shell, "-c", SHELL_TRAPS], [*shell, "-c", SHELL_TRAPS], ready="ready")
        add(f"{name} -c sleep", [*shell, "-c", "sleep 0; :"], [*shell, "-c", "sleep 600; echo after"], anywhere=True, processes=2,
            leaves=[], without=("HUP", "TERM", "PIPE", "INT", "ignored"))
    add("bash, interactive", ["bash", "--norc", "-i"], anywhere=True, keys=["PS1='$ '; echo $-\r", "exit 3\r"],
        without=SIGNALS + ENDS[1:] + ("ignored",))
    # Interpreters.
    add("perl", ["perl", "-e", put(PERL)], ["perl", "-e", '$| = 1; END { print "END\\n" } print "ready\\n"; sleep 600; print "after\\n"'],
        ready="ready", short=some)
    add("python3", ["python3", "-c", put(PYTHON)], ["python3", "-c", PYTHON_WAITS], ready="ready", short=every)
    add("python3 asyncio", ["python3", "-c", "import asyncio; asyncio.run(asyncio.sleep(0))"], ["python3", "-c", ASYNCIO], ready="ready",
        short=("INT",))
    add("python3 sys.stdin", ["python3", "-c", "import sys; print(sys.stdin.read() if sys.stdin else sys.stdin)"],
        ["python3", "-c", "import sys; print(sys.stdin.read())"])
    add("ruby", ["ruby", "-e", put(RUBY)], ["ruby", "-e", RUBY_WAITS], ready="ready", survives="PIPE")
    add("lua", ["lua5.4", "-e", put(LUA)], ["lua5.4", "-e", 'print("ready") io.stdout:flush() print(io.read())'], ready="ready")
    add("node", ["node", "-e", put(NODE)], ["node", "-e", NODE_WAITS], ready="ready", short=("end", "INT", "TERM"))
    add("tclsh", ["tclsh", "$AT/work/it.tcl"], ["tclsh"], files={"it.tcl": put(TCL)}, anywhere=True)
    add("guile", ["guile", "--no-auto-compile", "-c", put(GUILE)],
        ["guile", "--no-auto-compile", "-c", '(display "ready") (newline) (force-output) (sleep 600) (display "after")'], ready="ready")
    add("php", ["php", "-n", "-r", put(PHP)], ["php", "-n", "-r", 'echo "ready\\n"; echo fgets(STDIN); echo "after";'], ready="ready")
    for awk in ["gawk", "mawk"]:
        add(awk, [awk, put(AWK)], [awk, "{ print } END { print NR }"], short=once if awk == "mawk" else ())
    # Servers.
    add("nginx", ["nginx", "-t", "-c", "$AT/work/conf"], ["nginx", "-p", "$AT/work", "-e", "stderr", "-c", "$AT/work/conf"],
        files={"conf": NGINX}, anywhere=True, processes=3, survives="HUP PIPE",
        ask=over_socket("GET /conf HTTP/1.0\r\n\r\n"), short=("TERM",))
    add("redis-server", ["redis-server", "--version"],
        ["redis-server", "--port", "0", "--unixsocket", "$AT/work/socket", "--save", "", "--dir", "$AT/work"],
        ready="ready to accept connections", survives="HUP PIPE",
        ask=over_socket("SET a 1\r\nINCR a\r\nCONFIG GET maxclients\r\n", "\r\n$5\r\n10000\r\n"))
    add("memcached", ["memcached", "-V"], ["memcached", "-u", "nobody", "-s", "$AT/work/socket"], anywhere=True, survives="HUP PIPE",
        ask=over_socket("set a 0 0 3\r\nxyz\r\nget a\r\n", "END\r\n"))
    add("python3 -m http.server", ["python3", "-m", "http.server", "--help"], ["python3", "-u", "-m", "http.server", "0"], ready="Serving")
    add("node server", ["node", "-e", "console.log(process.version)"],
        ["node", "-e", 'require("net").createServer(c => c.end("hello")).listen(process.env.AT + "/work/socket", () => console.log("ready"))'],
        ready="ready", ask=over_socket(""))
    # NOTE: it has more rights than its user, so that nothing is loaded into it.
    add("ssh-agent", ["sh", "-c", "exec ssh-agent -a $AT/work/socket true"], ["sh", "-c", "exec ssh-agent -D -a $AT/work/socket"],
        ready="SSH_AUTH_SOCK", leaves=["ssh-agent -a $AT/work/socket true"])
    add("busybox httpd", ["busybox", "httpd", "-d", "a%20b"], ["busybox", "nc", "-l", "-p", "0"], anywhere=True)
    # Daemons that drop rights, and what changes the identity of a process.
    add("setpriv", ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", probe, "probe"],
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "cat"], short=("end", "TERM"))
    add("setpriv --inh-caps", ["setpriv", "--reuid=65534", "--regid=65534", "--init-groups", "--inh-caps=+net_bind_service",
                               "--ambient-caps=+net_bind_service", "--no-new-privs", probe, "probe"])
    add("start-stop-daemon", ["start-stop-daemon", "--start", "--chuid", "nobody:nogroup", "--chdir", "/", "--umask", "027", "--pidfile", "$AT/work/pid",
                              "--startas", probe,
                              "--", "probe"],
        ["start-stop-daemon", "--start", "--chuid", "nobody", "--pidfile", "$AT/work/pid", "--startas", "/bin/cat"], short=once)
    add("start-stop-daemon --background",
        ["sh", "-c", "start-stop-daemon --start --background --make-pidfile --pidfile $AT/work/pid --chuid nobody --startas /bin/sleep -- 1000"
                     " && start-stop-daemon --status --pidfile $AT/work/pid; echo $?"], leaves=["/bin/sleep 1000"])
    add("runuser", ["runuser", "-u", "nobody", "--", probe, "probe"], ["runuser", "-u", "nobody", "cat"], short=once, processes=2,
        anywhere=True, survives="INT HUP PIPE", without=("ignored",))
    add("chroot", ["chroot", "--userspec=nobody:nogroup", "--groups=", "/", probe, "probe"], ["chroot", "--userspec=nobody", "/", "cat"],
        short=once)
    add("capsh", ["capsh", "--drop=cap_sys_admin,cap_setpcap", "--user=nobody", "--", "-c", f"{probe} probe"],
        ["capsh", "--keep=1", "--gid=65534", "--uid=65534", "--", "-c", "read line"])
    for name, short in [("keeps-capabilities", once), ("drops", once), ("namespaces", once), ("new-pid", once)]:
        add(f"C: {name}", [probe, name], short=short, without=SIGNALS)
    add("python3 os.setuid", ["python3", "-c", "import os; os.setgroups([]); os.setgid(65534); os.setuid(65534); print(os.getresuid()); "
                              f"os.execv('{probe}', ['x', 'probe'])"], without=SIGNALS)
    # Sandboxes.
    for name, flags, short in [
        ("-U", ["-U"], ()), ("-Urm", ["-U", "-r", "-m"], once), ("-Urpf", ["-Ur", "-pf", "--mount-proc"], ()),
        ("-mnui", ["-m", "-n", "-u", "-i"], ()),
    ]:
        add(f"unshare {name}", ["unshare", *flags, probe, "probe"], short=short, without=SIGNALS)
    add("unshare -Ur cat", ["unshare", "-Ur", "cat"], ["unshare", "-Ur", "cat"])
    add("bubblewrap", ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "true"],
        ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--unshare-user", "cat"], processes=2, anywhere=True)
    add("bubblewrap probe", ["bwrap", "--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--uid", "1000", "--unshare-user", probe, "probe"],
        without=SIGNALS)
    add("nsenter", ["sh", "-c", f"exec nsenter -t $$ -m {probe} probe"], ["sh", "-c", "exec nsenter -t $$ -u cat"])
    # Compilers.
    add("gcc", ["gcc", "-Wall", "-O1", "-o", "it", "it.c"], ["gcc", "-c", "-x", "c", "-o", "it.o", "-"], files={"it.c": C_SOURCE},
        processes=2, anywhere=True, short=once)
    add("g++", ["g++", "-Wall", "-c", "it.cc", "-o", "it.o"], ["g++", "-E", "-x", "c++", "-"], files={"it.cc": C_SOURCE}, processes=2,
        anywhere=True)
    add("rustc", ["rustc", "--crate-type=lib", "--emit=metadata", "it.rs"], ["rustc", "--crate-type=lib", "--emit=metadata", "-"],
        files={"it.rs": "fn unused() {}"}, anywhere=True, without=SIGNALS + ("ignored",))
    add("make", ["make", "-j2", "-Otarget", "-k", "all", "fails"], ["make", "-f", "wait"], processes=2, anywhere=True, survives="HUP INT",
        files={"Makefile": put(MAKEFILE), "wait": "all:\n\t@read line; echo $$line\n"}, short=once)
    add("ld", ["ld", "-o", "it", "nothing.o"], ["ld", "-r", "-T", "/dev/stdin", "-o", "it"], anywhere=True)
    add("as", ["as", "-o", "it.o"], ["as", "-o", "it.o"], stdin="nop\n")
    # Editors, on a terminal.
    add("vim", ["vim", "-u", "NONE", "-N", "-i", "NONE", "it"], anywhere=True, keys=["ihello\x1b", ":wq\r"], without=SIGNALS + ENDS[1:] + ("ignored",))
    add("nano", ["nano", "-I", "it"], anywhere=True, keys=["hello", "\x0f", "\r", "\x18"], without=SIGNALS + ENDS[1:] + ("ignored",))
    add("ed", ["ed", "it"], ["ed", "it"], stdin="1s/h/H/\nw\nq\n", files={"it": "hello\n"}, survives="INT HUP PIPE")
    # Tools.
    commit = "git init -q . && git add it && git -c user.name=a -c user.email=a commit -qm one --date=2020-01-01T00:00:00Z && git log --format=%s%an && git gc -q"
    add("git", ["sh", "-c", commit + "; git status --short; git show nothing"], ["git", "hash-object", "--stdin"], files={"it": "text"},
        without=("stdin closed", "stdout closed", "ignored"))
    add("git hash-object", ["git", "hash-object", "--stdin"], ["git", "hash-object", "--stdin"])
    add("sqlite3", ["sqlite3", "it.db", "create table t(a); insert into t values (1), (2); select sum(a) from t; select nothing"],
        ["sqlite3", "it.db"], survives="INT", short=once)
    add("openssl", ["openssl", "dgst", "-sha256"], ["openssl", "dgst", "-sha256"], short=once)
    # NOTE: its locks have names of its process and an address.
    add("gpg", ["gpg", "--batch", "--lock-never", "--print-md", "SHA256"], ["gpg", "--batch", "--lock-never", "--print-md", "SHA256"])
    add("tar", ["tar", "cf", "it.tar", "--mtime=2020-01-01", "--sort=name", "-C", "/etc", "passwd", "nothing"], ["tar", "tf", "-"], short=once)
    add("tar with xz", ["tar", "cJf", "it.tar.xz", "--mtime=2020-01-01", "-C", "/etc", "passwd"])
    for name, words in [
        ("gzip", ["-n"]), ("xz", ["-T2"]), ("zstd", ["-q", "-T2"]), ("bzip2", []), ("cat", []), ("sort", []), ("sed", ["s/e/E/"]),
        ("grep", ["t"]), ("jq", ["-R", "."]), ("bc", ["-q"]), ("dc", []), ("m4", []), ("md5sum", []), ("base64", []), ("tr", ["o", "0"]), ("wc", []),
        ("tee", ["made"]), ("dd", ["status=none"]), ("od", ["-c"]), ("cut", ["-c1"]), ("xargs", ["-n1", "echo"]), ("patch", []), ("cpio", ["-t", "--quiet"]),
    ]:
        anywhere = name in ("xz", "zstd")
        short = {"sort": every, "cat": some, "jq": once, "xargs": once, "gzip": once}.get(name, ())
        add(name, [name, *words], [name, *words], short=short, anywhere=anywhere, survives="INT" if name == "dc" else "", stdin="1 2 + p\n" if name in ("dc", "bc") else Case.stdin)
    add("find", ["find", "/etc/apt", "/nothing", "-name", "*.list", "-exec", "echo", "{}", ";"], ["find", "-files0-from", "-"], short=once)
    add("man", ["man", "-l", "it.1"], ["man", "-l", "-"], files={"it.1": ".TH IT 1\n.SH NAME\nit \\- does it\n"}, without=SIGNALS + ("ignored",))
    add("diff", ["diff", "it", "-"], ["diff", "it", "-"], files={"it": "one\n2\n"})
    add("ssh -V", ["ssh", "-V"], short=once)
    add("env -i", ["env", "-i", probe, "probe"], ["env", "-i", "cat"], short=once)
    add("nohup", ["nohup", probe, "probe"], ["nohup", "cat"], survives="HUP")
    add("timeout", ["timeout", "100", probe, "probe"], ["timeout", "100", "cat"], processes=2, anywhere=True, survives="PIPE")
    add("setsid", ["setsid", "--wait", probe, "probe"])
    add("nice", ["nice", "-n", "5", probe, "probe"])
    add("prlimit", ["prlimit", "--nofile=6", "--as=4000000000", probe, "probe"])
    add("stdbuf", ["stdbuf", "-oL", probe, "probe"])
    add("strace", ["strace", "-o", "/dev/null", "-e", "trace=none", "cat"])
    add("script", ["script", "-qec", "echo hello; tty | wc -l", "typescript"], without=SIGNALS + ("ignored",))
    # What shows threads, handlers and descriptors.
    add("C: probe", [probe, "probe"], short=("end", "stdin closed", "stdout closed", "ignored"))
    add("C: probe-children", [probe, "probe-children"], short=once)
    add("C: waits", [probe, "handles-old"], [probe, "waits"], ready="ready", short=every)
    add("C: waits-reads", [probe, "waits-reads"], [probe, "waits-reads"], ready="ready", short=("TERM",))
    add("C: handles", [probe, "handles-old"], [probe, "handles"], ready="ready", short=("TERM", "HUP"))
    add("C: sigwait", [probe, "handles-old"], [probe, "sigwait"], ready="ready", short=("TERM",))
    for name in ["last-thread", "last-thread-call", "closes", "few-descriptors", "strict", "crashes", "aborts", "children"]:
        add(f"C: {name}", [probe, name], short=once, without=SIGNALS)
    return found


def rust_cases(program):
    """Programs with `TrackingAllocator`: tests/transparency/programs.rs."""
    found = [
        Case(f"Rust: {name}", [program, name], without=SIGNALS, short=("end",))
        for name in ["threads", "panics", "spawns", "aborts", "overflows", "exits", "drops", "forks"]
    ]
    found += [
        Case("Rust: says", [program, "says"], without=SIGNALS, short=("end", "stdin closed", "stdout closed", "ignored")),
        Case("Rust: waits", [program, "threads"], [program, "waits"], ready="ready", short=SIGNALS),
        Case("Rust: reads", [program, "reads"], [program, "reads"], short=("end", "TERM")),
        Case("Rust: serves", [program, "says"], [program, "serves"], ready="ready", ask=over_socket("hello\n"), short=("TERM",)),
        Case("Rust: handles", [program, "says"], [program, "handles"], ready="ready", short=("TERM",)),
    ]
    return found
