"""Runs a program once, alone or under `memledger run`, and notes all that the rest of the system sees of it."""

import ctypes
import fcntl
import hashlib
import os
import pty
import re
import select
import shutil
import signal
import stat
import struct
import subprocess
import termios
import time

# No wait has an end of its own: at this load each of them would be wrong.
DEADLINE_S = int(os.environ.get("DEADLINE_S", "90"))
# How long a process may take to end after the program, and the tracker to start.
LEFT_S = 10
PR_SET_CHILD_SUBREAPER = 36
# System calls in which a program that has nothing to do waits (x86-64): read, poll, select, accept, wait4, pause, nanosleep,
# rt_sigsuspend, rt_sigtimedwait, futex, clock_nanosleep, epoll_wait, pselect6, ppoll, waitid, epoll_pwait, recvfrom, recvmsg.
READ = 0
FUTEX = 202
WAITS = {READ, 7, 23, 34, 35, 43, 45, 47, 61, 128, 130, FUTEX, 230, 232, 247, 270, 271, 281, 288}
# The same, of a program that has said that it is ready.
AFTER_READY = WAITS.copy()
STATUS_FIELDS = {
    "Name", "Umask", "Uid", "Gid", "Groups", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff",
    "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters",
}
THREAD_FIELDS = {"Name", "Uid", "SigPnd", "SigBlk", "CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs", "Seccomp"}
# The names of the tracker's threads begin so.
OUR_THREADS = "memledger"


class Late(Exception):
    """A wait has passed its deadline."""


def wait_until(what, condition, seconds=None):
    seconds = DEADLINE_S if seconds is None else seconds
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Late(f"{what}: not within {seconds} s")
        time.sleep(0.003)


def read(path):
    """The text of a file of /proc, or nothing if the process has ended."""
    try:
        with open(path, errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def children(pid):
    """The child processes, in the order in which they were made."""
    found = []
    for task in names(f"/proc/{pid}/task"):
        found += read(f"/proc/{pid}/task/{task}/children").split()
    return [int(child) for child in in_order(pid, found)]


def in_order(pid, numbers):
    """What a process has made, in the order of its making: after the highest number, the kernel begins again at the lowest."""
    return sorted(numbers, key=lambda number: (int(number) < int(pid), int(number)))


def names(folder):
    try:
        return sorted(os.listdir(folder), key=lambda name: (len(name), name))
    except OSError:
        return []


def tree(pid):
    """The process and its descendants, each with its path: the program is `0`, its second child `0.1`."""
    found = [("0", pid)]
    for path, parent in found:
        found += [(f"{path}.{number}", child) for number, child in enumerate(children(parent))]
    return found


def is_over(pid):
    """Whether a process has ended; its parent may not have waited for it yet."""
    return state_of(pid) in ("", "Z")


def state_of(pid):
    return "".join(read(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1])


def is_waiting(pid, calls):
    # NOTE: a zombie waits for its parent.
    state = state_of(pid)
    if state not in ("S", "Z"):
        return False
    call = read(f"/proc/{pid}/syscall").split()
    if state == "Z" or not call:
        return True
    if call[0] == "running" or int(call[0]) not in calls:
        return False
    if int(call[0]) == FUTEX and calls is not AFTER_READY:
        # NOTE: while the tracker starts, the first thread waits so for another one.
        return any(read(f"/proc/{pid}/task/{thread}/syscall").startswith(f"{READ} 0x0 ") for thread in names(f"/proc/{pid}/task"))
    return int(call[0]) != READ or calls != {READ} or int(call[1], 16) == 0


class Run:
    """One run: `case` says what, `event` what happens to it, `launch` is the start of the command line."""

    def __init__(self, case, event, launch, environment, folder, through, is_same):
        self.case, self.event, self.launch, self.folder = case, event, launch, folder
        # Whether what is seen is as of the program alone, where that is known.
        self.is_same = is_same
        # Whether a signal goes to the command, which passes it on.
        self.through = through
        self.work, self.aside = f"{folder}/work", f"{folder}.aside"
        self.environment = environment | {"HOME": self.work, "TMPDIR": f"{folder}/tmp", "AT": folder}
        self.seen = {}
        self.terminal = None
        self.output = b""

    def waits(self):
        return self.event in ("INT", "TERM", "HUP", "PIPE") or self.event == "ignored" and self.case.waits

    def go(self):
        for path in (self.folder, self.aside):
            shutil.rmtree(path, ignore_errors=True)
            os.makedirs(path, 0o755)
        for path in (self.work, f"{self.folder}/tmp"):
            os.mkdir(path)
            # Programs of other users write there, too.
            os.chmod(path, 0o1777)
        for name, text in self.case.files.items():
            with open(f"{self.work}/{name}", "w") as file:
                file.write(text.replace("$AT", self.folder))
            # NOTE: what servers say of a file has its time.
            os.utime(f"{self.work}/{name}", (0, 0))
        try:
            self.start()
            if self.waits():
                self.wait_until_ready()
                self.look("ready")
                self.ask()
                self.signal()
            elif self.case.keys:
                self.wait_until_ready()
                self.look("ready")
                self.type(self.case.keys)
            self.end()
        except Late as late:
            self.seen["hangs"] = f"{late}\n" + "\n".join(
                f"{read(f'/proc/{pid}/comm').strip()}: {read(f'/proc/{pid}/syscall')}" for _, pid in tree(self.process.pid))
        finally:
            self.clean()
        self.note_output()
        self.note_files()
        return self.seen

    def start(self):
        command = self.case.waits if self.waits() and self.case.waits else self.case.ends
        command = [word.replace("$AT", self.folder) for word in command]
        self.keep = None
        out, err = (open(f"{self.aside}/{name}", "wb") for name in ("out", "err"))
        if self.case.keys:
            self.terminal, slave = pty.openpty()
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            stdin = out = err = os.fdopen(slave, "wb", 0)
        elif self.waits():
            stdin, self.keep = os.pipe()
        else:
            with open(f"{self.aside}/in", "w") as file:
                file.write(self.case.stdin)
            stdin = os.open(f"{self.aside}/in", os.O_RDONLY)

        def prepare():
            os.umask(0o022)
            if self.case.keys:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            for number, event in enumerate(("stdin closed", "stdout closed", "stderr closed")):
                if self.event == event:
                    os.close(number)
            # NOTE: this check may run under `nohup`, or in the background of a script.
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGPIPE):
                is_ignored = self.event == "ignored" and number in (signal.SIGHUP, signal.SIGPIPE)
                signal.signal(number, signal.SIG_IGN if is_ignored else signal.SIG_DFL)

        self.process = subprocess.Popen(
            [*self.launch, *command], stdin=stdin, stdout=out, stderr=err, cwd=self.work, env=self.environment,
            start_new_session=True, preexec_fn=prepare)
        if isinstance(stdin, int):
            os.close(stdin)
        out.close()
        err.close()

    def program(self):
        """The process id of the program, which `memledger run` has started."""
        if not self.through and not self.is_tracked():
            return self.process.pid
        for child in children(self.process.pid):
            # NOTE: until it has called `exec`, it is the command.
            if os.path.basename(self.launch[0]) not in read(f"/proc/{child}/cmdline").split("\0")[0]:
                return child
        return None

    def is_tracked(self):
        return "run" in self.launch

    def has_ended(self):
        # NOTE: not `poll`, so that its number stays its own.
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def drain(self):
        """Takes what is on the terminal, which keeps only a few KiB."""
        while self.terminal is not None and select.select([self.terminal], [], [], 0)[0]:
            try:
                self.output += os.read(self.terminal, 65536)
            except OSError:
                return

    def printed(self):
        self.drain()
        return self.output.decode(errors="replace") + read(f"{self.aside}/out") + read(f"{self.aside}/err")

    def is_ready(self):
        self.drain()
        if self.has_ended():
            return True
        pid = self.program()
        if pid is None or self.case.ready and self.case.ready not in self.printed():
            return False
        of_program = tree(pid)
        calls = AFTER_READY if self.case.ready else WAITS if self.case.anywhere else {READ}
        return len(of_program) == self.case.processes and all(is_waiting(process, calls) for _, process in of_program)

    def wait_until_ready(self):
        wait_until("it is not ready", self.is_ready)

    def look(self, when):
        """What /proc says of each process of the program."""
        pid = None if self.has_ended() else self.program()

        def now():
            return {f"{when}: process {path}: {name}": value for path, process in tree(pid) for name, value in of_process(process).items()}

        # NOTE: the tracker may still be starting, or ending; what stays is seen.
        if pid is not None and self.is_same is not None:
            try:
                wait_until("the same", lambda: is_over(pid) or self.is_same(f"{when}: process", now()), LEFT_S)
            except Late:
                pass
        if pid is not None and is_over(pid):
            # The command ends after it.
            wait_until("the command has not ended", self.has_ended)
            pid = None
        if pid is None:
            self.seen[f"{when}: has ended"] = "yes"
        else:
            self.seen.update(now())

    def ask(self):
        """Has the program do something by its input, or its socket."""
        if self.case.ask and not self.has_ended():
            self.seen["answer"] = self.case.ask(self.folder)
            self.wait_until_ready()
            self.look("asked")

    def type(self, keys):
        for part in keys:
            os.write(self.terminal, part.encode())
            self.drain()
            if part != keys[-1]:
                wait_until("what was typed is not read", lambda: self.has_ended() or self.has_read())

    def has_read(self):
        queued = struct.unpack("i", fcntl.ioctl(self.terminal, termios.TIOCOUTQ, b"\0" * 4))[0]
        return queued == 0 and self.is_ready()

    def signal(self):
        if self.has_ended():
            return
        pid = self.program()
        if self.event == "ignored":
            os.kill(pid, signal.SIGHUP)
            self.finish(pid)
            return
        number = getattr(signal, f"SIG{self.event}")
        ignored = int(fields(read(f"/proc/{pid}/status"), {"SigIgn"}).get("SigIgn", "0"), 16) >> (number - 1) & 1
        survives = ignored or self.event in self.case.survives.split()
        # `memledger run` passes on all but SIGPIPE. When it does so cannot be seen where nothing ends.
        passed_on = self.through and self.event != "PIPE" and not survives
        os.kill(self.process.pid if passed_on else pid, number)
        if survives:
            self.finish(pid)

    def finish(self, pid):
        """Ends a program that a signal has not ended, after the signal was taken."""
        bit = 1 << (getattr(signal, f"SIG{'HUP' if self.event == 'ignored' else self.event}") - 1)

        def taken():
            if self.has_ended():
                return True
            sets = fields(read(f"/proc/{pid}/status"), {"SigPnd", "ShdPnd", "SigBlk"})
            # One that is blocked stays.
            is_blocked = int(sets.pop("SigBlk", "0"), 16) & bit
            is_pending = any(int(word, 16) & bit for word in sets.values())
            return (is_blocked or not is_pending) and self.is_ready()

        wait_until("the signal is not taken", taken)
        self.look("signalled")
        # NOTE: parents first, or they would see how their children end.
        for _, process in tree(pid):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def end(self):
        def over():
            self.drain()
            return self.has_ended()

        wait_until("it has not ended", over)
        status = self.process.wait()
        # What waits for the same input ends, too.
        self.release()
        # What `memledger run` ends with, see docs/start.md.
        self.seen["status"] = str(128 - status if status < 0 else status)
        leaves = [] if self.waits() else sorted(line.replace("$AT", self.folder) for line in self.case.leaves)
        try:
            wait_until("left", lambda: self.left() == leaves, LEFT_S)
        except Late:
            pass
        self.seen["left"] = "\n".join(self.left())

    def left(self):
        """The commands of processes that are left; a watcher is none of the program's."""
        found = []
        for pid in children(os.getpid()):
            for _, process in tree(pid):
                line = read(f"/proc/{process}/cmdline").replace("\0", " ").strip()
                is_watcher = read(f"/proc/{process}/comm").startswith(OUR_THREADS)
                if not line:
                    reap(process)
                elif process != self.process.pid and not is_watcher:
                    found.append(line)
        return sorted(found)

    def release(self):
        if self.keep is not None:
            os.close(self.keep)
            self.keep = None

    def clean(self):
        """Ends everything that is left, and waits for it."""
        self.release()

        def gone():
            for pid in children(os.getpid()):
                for _, process in reversed(tree(pid)):
                    try:
                        os.kill(process, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                reap(pid)
            return not children(os.getpid())

        wait_until("processes cannot be killed", gone)
        self.process.returncode = 0
        if self.terminal is not None:
            self.drain()
            os.close(self.terminal)

    def note_output(self):
        for name in ("out", "err"):
            text = read(f"{self.aside}/{name}")
            if name == "out":
                text += self.output.decode(errors="replace")
            # What the tracker says of itself.
            lines = text.splitlines(keepends=True)
            ours = [line for line in lines if line.startswith("memledger: ")]
            self.seen[f"std{name}"] = "".join(line for line in lines if line not in ours)
            if ours:
                self.seen[f"notes in std{name}"] = "".join(ours)

    def note_files(self):
        for top in (self.work, f"{self.folder}/tmp"):
            for folder, folders, files in os.walk(top):
                for name in folders + files:
                    path = os.path.join(folder, name)
                    self.seen["file " + os.path.relpath(path, self.folder)] = of_file(path)


def reap(pid):
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


def of_file(path):
    found = os.lstat(path)
    text = f"{stat.filemode(found.st_mode)} {found.st_uid} {found.st_gid}"
    if stat.S_ISLNK(found.st_mode):
        return f"{text} {os.readlink(path)}"
    if stat.S_ISREG(found.st_mode):
        with open(path, "rb") as file:
            content = file.read()
        if len(content) < 2000:
            return f"{text}\n{content.decode(errors='replace')}"
        return f"{text} {len(content)} bytes\n{hashlib.sha256(content).hexdigest()}"
    return text


def fields(text, wanted):
    found = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    return {name: value for name, value in found.items() if name in wanted}


def of_process(pid):
    """What others see of a process, without what cannot be the same (docs/faults.md)."""
    at = f"/proc/{pid}"
    seen = fields(read(f"{at}/status"), STATUS_FIELDS)
    if state_of(pid) == "Z":
        return {"Name": seen.get("Name", ""), "state": "zombie"}
    seen["command"] = read(f"{at}/cmdline").replace("\0", " ")
    variables = [line for line in read(f"{at}/environ").split("\0") if line]
    seen["environment"] = "\n".join(
        line for line in variables if not line.startswith(("LD_PRELOAD=", "MEMLEDGER_")))
    seen["limits"] = read(f"{at}/limits")
    for name in ("oom_score_adj", "personality", "timerslack_ns", "coredump_filter", "setgroups", "uid_map", "gid_map"):
        seen[name] = read(f"{at}/{name}")
    for name in ("cwd", "root", "exe"):
        seen[name] = link(f"{at}/{name}")
    for name in names(f"{at}/ns"):
        own = link(f"{at}/ns/{name}") == link(f"/proc/self/ns/{name}")
        seen[f"namespace {name}"] = "ours" if own else "its own"
    for number in names(f"{at}/fd"):
        flags = fields(read(f"{at}/fdinfo/{number}"), {"flags"}).get("flags", "")
        seen[f"descriptor {number}"] = f"{link(f'{at}/fd/{number}')} flags {flags}"
    stats = read(f"{at}/stat").rpartition(")")[2].split()
    if stats:
        group, session, terminal, foreground = (int(word) for word in stats[2:6])
        # NOTE: `memledger run` leads the group and the session, as `time` would.
        seen["terminal"] = f"{terminal != 0}, in front {foreground == group}"
        seen["priority"] = f"{stats[15]}, nice {stats[16]}, real time {stats[37]}, policy {stats[38]}"
    others = [thread for thread in in_order(pid, names(f"{at}/task")) if thread != str(pid)]
    threads = [fields(read(f"{at}/task/{thread}/status"), THREAD_FIELDS) for thread in others]
    threads = [thread for thread in threads if not thread.get("Name", OUR_THREADS).startswith(OUR_THREADS)]
    for number, thread in enumerate(threads, 1):
        seen[f"thread {number}"] = "\n".join(f"{name} {value}" for name, value in thread.items())
    return seen


def link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def adopt_orphans():
    """Processes whose parent has ended become our children, so that what is left is found."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")
