//! Core files of programs that crash: they are those that the programs would leave without the tracker.

use crate::crashes::{by_zero, cut_file, no_instruction, no_memory, overflow};
use crate::harness::{Case, Outcome, Run, case, churn, kill};
use libc::c_int;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian, elf};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::sync::{Arc, Barrier};

pub(crate) const CASES: &[Case] = &[
    case("of abort", crash, |run| check(&run, "abort", libc::SIGABRT)),
    case("of SIGSEGV", crash, |run| check(&run, "SEGV", libc::SIGSEGV)),
    case("of SIGBUS", crash, |run| check(&run, "BUS", libc::SIGBUS)),
    case("of SIGILL", crash, |run| check(&run, "ILL", libc::SIGILL)),
    case("of SIGFPE", crash, |run| check(&run, "FPE", libc::SIGFPE)),
    case("of SIGQUIT", crash, |run| check(&run, "QUIT", libc::SIGQUIT)),
    case("of a stack overflow", crash, |run| check(&run, "overflow", libc::SIGABRT)),
    case("of a signal that another process sends", crash, |run| check(&run, "sent", libc::SIGABRT)),
];

/// What asks for a report at the end.
const WATCH: &str = "MEMLEDGER_WATCH";
const ON_SIGNALS: &str = "MEMLEDGER_REPORT_ON_SIGNALS";

/// The file with the number of the thread that ends the process.
const THREAD: &str = "thread";

/// What a core file says about the end.
#[derive(Debug, PartialEq, Eq)]
struct End {
    signal: c_int,
    code: c_int,
    /// Where the thread was: a file, and the place in it.
    at: (String, u64),
    address: Address,
}

/// The address that the signal came with.
#[derive(Debug, PartialEq, Eq)]
enum Address {
    OfInstruction,
    /// In the first page, which is never mapped.
    Low(u64),
    Other,
    /// None, but the process that has sent the signal.
    SentBy(Sender),
}

#[derive(Debug, PartialEq, Eq)]
enum Sender {
    Itself,
    Test,
}

/// Ends in this way, on one thread and on eight, without the tracker's report and with each way to get it.
#[track_caller]
fn check(run: &Run, way: &str, signal: c_int) {
    for threads in ["1", "8"] {
        let run = || Run::of(run).env("TEST_WAY", way).env("TEST_THREADS", threads);
        let plain = end(run(), way, signal);
        let Some(expected) = found(&plain) else {
            let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
            return eprintln!(
                "SKIPPED: this system writes no core file into the folder of the process (core_pattern {}, dumped: {})",
                pattern.trim(),
                plain.status.core_dumped()
            );
        };
        for variables in
            [&[(WATCH, "1")][..], &[(WATCH, "0"), (ON_SIGNALS, "1")], &[(ON_SIGNALS, "1")]]
        {
            let run =
                variables.iter().fold(run().tracked(), |run, (name, value)| run.env(name, value));
            let outcome = end(run, way, signal);
            assert!(outcome.status.core_dumped(), "{variables:?}: {}", outcome.status);
            assert_eq!(found(&outcome).as_ref(), Some(&expected), "{variables:?}, {threads}");
        }
    }
}

#[track_caller]
fn end(run: Run, way: &str, signal: c_int) -> Outcome {
    let mut running = run.spawn();
    if way == "sent" {
        running.wait_for(THREAD);
        // NOTE: until then, its first thread could be anywhere.
        let futex = format!("{} ", libc::SYS_futex);
        running.wait_until("a parked thread", |running| {
            let call = fs::read_to_string(format!("/proc/{}/syscall", running.pid()));
            call.is_ok_and(|call| call.starts_with(&futex))
        });
        kill(running.pid(), signal);
    }
    let outcome = running.wait();
    assert_eq!(outcome.status.signal(), Some(signal), "{}\n{}", outcome.status, outcome.stderr);
    outcome
}

/// What the core file says; `None` if there is none.
fn found(outcome: &Outcome) -> Option<End> {
    let name = outcome.files().into_iter().find(|name| name.starts_with("core"))?;
    let data = fs::read(outcome.path(&name)).unwrap();
    let thread = fs::read_to_string(outcome.path(THREAD)).unwrap().parse().unwrap();
    Some(read_core(&data, thread, outcome.pid))
}

fn word(data: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(data[at..at + 8].try_into().unwrap())
}

fn number(data: &[u8], at: usize) -> c_int {
    c_int::from_le_bytes(data[at..at + 4].try_into().unwrap())
}

/// Where a core file has the address of an instruction, among the registers of a thread.
const INSTRUCTION: usize = if cfg!(target_arch = "aarch64") { 32 } else { 16 };

/// Reads a core file of Linux on x86-64 or AArch64. It is of this process, whose thread `thread` has crashed.
#[track_caller]
fn read_core(data: &[u8], thread: c_int, process: u32) -> End {
    let header = elf::FileHeader64::<LittleEndian>::parse(data).unwrap();
    assert_eq!(header.e_type.get(LittleEndian), elf::ET_CORE);
    let mut notes = Vec::new();
    for part in header.program_headers(LittleEndian, data).unwrap() {
        let mut of_part = part.notes(LittleEndian, data).unwrap();
        while let Some(note) = of_part.as_mut().and_then(|notes| notes.next().unwrap()) {
            notes.push((note.n_type(LittleEndian), note.desc()));
        }
    }
    // The first of each kind is that of the thread that has ended the process.
    let of_kind = |kind| notes.iter().find(|(of, _)| *of == kind).expect("a note").1;
    let (status, info) = (of_kind(elf::NT_PRSTATUS), of_kind(elf::NT_SIGINFO));
    assert_eq!(number(status, 32), thread, "the thread");
    let (signal, code, address, instruction) =
        (number(info, 0), number(info, 8), word(info, 16), word(status, 112 + INSTRUCTION * 8));
    assert_eq!(number(status, 0), signal);
    let address = match address {
        _ if code <= 0 && number(info, 16) as u32 == process => Address::SentBy(Sender::Itself),
        _ if code <= 0 && number(info, 16) as u32 == std::process::id() => {
            Address::SentBy(Sender::Test)
        }
        address if address == instruction => Address::OfInstruction,
        low @ 0..4096 => Address::Low(low),
        _ => Address::Other,
    };
    let mut at = place(of_kind(elf::NT_FILE), instruction);
    if cfg!(target_arch = "aarch64") && address == Address::SentBy(Sender::Test) {
        // NOTE: Linux steps back to the system call that the signal interrupts, unless there is a handler.
        at.1 = 0;
    }
    End { signal, code, at, address }
}

/// The file that was mapped at an address, and where in it the address is.
fn place(files: &[u8], address: u64) -> (String, u64) {
    let (count, page) = (word(files, 0) as usize, word(files, 8));
    let names = files[16 + count * 24..].split(|byte| *byte == 0);
    let mut ranges = files[16..].chunks(24).take(count).zip(names);
    let (range, name) = ranges
        .find(|(range, _)| (word(range, 0)..word(range, 8)).contains(&address))
        .expect("code of a file");
    let offset = word(range, 16) * page + (address - word(range, 0));
    (String::from_utf8_lossy(name).into_owned(), offset)
}

/// Crashes in the way that the environment names. All other threads are at work.
fn crash() {
    system::allow_core();
    let variable = |name| std::env::var(name).unwrap();
    let (way, threads) = (variable("TEST_WAY"), variable("TEST_THREADS").parse::<usize>().unwrap());
    churn(1000);
    // NOTE: a thread that begins can take a signal that is for the first one.
    let all = Arc::new(Barrier::new(threads));
    for _ in 1..threads {
        let all = Arc::clone(&all);
        std::thread::spawn(move || {
            all.wait();
            loop {
                churn(100);
            }
        });
    }
    all.wait();
    let end = move || {
        let name = format!("{THREAD} is written");
        fs::write(&name, system::thread().to_string()).unwrap();
        fs::rename(name, THREAD).unwrap();
        match &*way {
            "abort" => std::process::abort(),
            "SEGV" => no_memory(),
            "BUS" => cut_file(),
            "ILL" => no_instruction(),
            "FPE" => by_zero(),
            "QUIT" => system::raise(libc::SIGQUIT),
            "overflow" => overflow(),
            _ => loop {
                std::thread::park();
            },
        }
    };
    // A signal from outside goes to the first thread.
    if threads == 1 || variable("TEST_WAY") == "sent" {
        end();
    } else {
        std::thread::spawn(end).join().unwrap();
    }
}

#[expect(unsafe_code, reason = "system calls")]
mod system {
    use libc::c_int;

    /// Lets the system write a core file of this process.
    pub(super) fn allow_core() {
        // SAFETY: the limit is a local.
        unsafe {
            let mut limit = std::mem::zeroed::<libc::rlimit>();
            libc::getrlimit(libc::RLIMIT_CORE, &raw mut limit);
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_CORE, &raw const limit);
        }
    }

    pub(super) fn thread() -> c_int {
        // SAFETY: a plain call.
        unsafe { libc::gettid() }
    }

    pub(super) fn raise(signal: c_int) {
        // SAFETY: a plain call.
        unsafe { libc::raise(signal) };
    }
}
