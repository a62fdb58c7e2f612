//! Rust programs of `scripts/check_transparency.sh`, which runs them without and with a recording: each
//! argument is one.

#![expect(unsafe_code, reason = "signals, forks and changes of identity are C functions")]

use std::io::{BufRead, Read, Write};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

#[global_allocator]
static ALLOC: memledger::TrackingAllocator = memledger::TrackingAllocator::system();

/// The signal that was handled.
static TAKEN: AtomicI32 = AtomicI32::new(0);

fn main() {
    let program = std::env::args().nth(1).unwrap_or_default();
    match program.as_str() {
        "says" => says(),
        "threads" => threads(),
        "waits" => waits(),
        "reads" => reads(),
        "panics" => panics(),
        "spawns" => spawns(),
        "serves" => serves(),
        "handles" => handles(),
        "aborts" => std::process::abort(),
        "overflows" => println!("{}", overflows(1)),
        "exits" => exits(),
        "drops" => drops_rights(),
        "forks" => forks(),
        _ => panic!("there is no program {program:?}"),
    }
}

/// What the process has got.
fn says() {
    // NOTE: of this thread. The first one may still be within `pthread_create`, where all signals are
    // blocked.
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("/proc");
    let is_shown =
        |line: &&str| ["Sig", "Cap", "Uid", "Umask"].iter().any(|name| line.starts_with(name));
    // NOTE: the tracker's threads make glibc handle the signals 32 and 33.
    for line in status.lines().filter(is_shown).filter(|line| !line.starts_with("SigQ")) {
        println!("{}", line.replace('\t', "\n"));
    }
    let files = std::fs::read_dir("/proc/self/fd").expect("/proc");
    let mut numbers: Vec<u32> =
        files.filter_map(|file| file.ok()?.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    println!("descriptors {numbers:?}");
    for number in 1..32 {
        // SAFETY: the structure may be zero, and is written.
        let action = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(number, std::ptr::null(), &mut action);
            action.sa_sigaction
        };
        // NOTE: Rust's runtime handles SIGSEGV and SIGBUS.
        if action != libc::SIG_DFL {
            println!(
                "signal {number} {}",
                if action == libc::SIG_IGN { "ignored" } else { "handled" }
            );
        }
    }
}

fn threads() {
    let (send, receive) = mpsc::channel();
    let workers: Vec<_> = (0..8)
        .map(|number: u64| {
            let send = send.clone();
            thread::spawn(move || {
                let words: Vec<String> = (0..2000).map(|word| format!("{number} {word}")).collect();
                let bytes: usize = words.iter().map(String::len).sum();
                send.send((number, bytes)).expect("a receiver");
            })
        })
        .collect();
    drop(send);
    for worker in workers {
        worker.join().expect("no panic");
    }
    let mut all: Vec<_> = receive.into_iter().collect();
    all.sort_unstable();
    println!("{all:?}");
}

fn ready() {
    println!("ready");
    std::io::stdout().flush().expect("an output");
}

fn waits() {
    ready();
    // SAFETY: no pointers. A signal whose handler returns ends it, unlike `thread::sleep`.
    let left = unsafe { libc::sleep(600) };
    println!("code after sleep ran, {left}");
}

fn reads() {
    let mut count = 0;
    for line in std::io::stdin().lock().lines() {
        match line {
            Ok(line) => println!("{line}"),
            Err(error) => eprintln!("{error}"),
        }
        count += 1;
    }
    eprintln!("{count} lines");
}

fn panics() {
    let ended = thread::spawn(|| panic!("in a thread")).join();
    println!("{}", ended.is_err());
    let caught = std::panic::catch_unwind(|| panic!("caught"));
    println!("{}", caught.is_err());
    panic!("at the end");
}

fn spawns() {
    let output =
        Command::new("sh").args(["-c", "echo child; cat; exit 3"]).stdin(Stdio::null()).output();
    println!("{output:?}");
    let mut cat =
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cat");
    cat.stdin.take().expect("a pipe").write_all(b"through a pipe\n").expect("a reader");
    let mut text = String::new();
    cat.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
    println!("{text}{:?}", cat.wait());
    let mut killed = Command::new("sleep").arg("600").spawn().expect("sleep");
    killed.kill().expect("it runs");
    println!("{:?}", killed.wait().map(|status| status.signal()));
    println!("{:?}", Command::new("/nothing").spawn().map(|_| ()));
}

fn serves() {
    let folder = std::env::var("AT").unwrap_or_default();
    let Ok(listener) = UnixListener::bind(format!("{folder}/work/socket")) else { return };
    ready();
    for connection in listener.incoming() {
        let mut connection = connection.expect("a connection");
        thread::spawn(move || {
            let mut line = String::new();
            let _ = std::io::BufReader::new(&connection).read_line(&mut line);
            let _ = connection.write_all(line.to_uppercase().as_bytes());
        })
        .join()
        .expect("no panic");
    }
}

extern "C" fn handler(number: i32) {
    TAKEN.store(number, Ordering::Relaxed);
}

fn handles() {
    for number in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGPIPE] {
        // SAFETY: the handler writes an atomic number.
        let before = unsafe { libc::signal(number, handler as *const () as libc::sighandler_t) };
        println!("{number} was {before}");
    }
    ready();
    while TAKEN.load(Ordering::Relaxed) == 0 {
        // SAFETY: no pointers.
        unsafe { libc::sleep(600) };
    }
    println!("handled {}", TAKEN.load(Ordering::Relaxed));
    // SAFETY: no pointers.
    unsafe {
        libc::signal(libc::SIGTERM, libc::SIG_DFL);
        libc::raise(libc::SIGTERM);
    }
    println!("alive");
}

#[expect(unconditional_recursion, reason = "it overflows the stack")]
#[inline(never)]
fn overflows(depth: u64) -> u64 {
    let rows = std::hint::black_box([depth; 64]);
    overflows(depth + 1) + rows[1]
}

fn exits() {
    println!("flushed");
    for _ in 0..4 {
        thread::spawn(|| {
            loop {
                std::hint::black_box(vec![0_u8; 100]);
            }
        });
    }
    thread::spawn(|| std::process::exit(7));
    thread::sleep(Duration::from_secs(600));
}

fn drops_rights() {
    // SAFETY: no pointers but null.
    let results = unsafe {
        [
            libc::setgroups(0, std::ptr::null()),
            libc::setgid(65534),
            libc::setuid(65534),
            libc::setuid(0),
            // NOTE: the library of `memledger run` would do it; what is linked with a program does not
            // replace C functions.
            memledger::without_threads(|| libc::unshare(libc::CLONE_NEWUSER)),
        ]
    };
    println!("{results:?}");
    thread::spawn(says).join().expect("no panic");
}

fn forks() {
    for way in 0..3 {
        // SAFETY: this process has no other thread of its own.
        let child = unsafe { libc::fork() };
        if child == 0 {
            println!("child {way} has {} bytes", vec![0_u8; 1000].len());
            match way {
                0 => std::process::exit(3),
                // SAFETY: no pointers.
                1 => unsafe { libc::_exit(4) },
                // SAFETY: no pointers.
                _ => unsafe { libc::raise(libc::SIGTERM) },
            };
        }
        let mut status = 0;
        // SAFETY: the status lives.
        let got = unsafe { libc::wait(&mut status) };
        println!("{way}: {} {status:x}", got == child);
    }
}
