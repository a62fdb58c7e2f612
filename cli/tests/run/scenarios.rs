//! What the tracked program does.

use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::Pid;
use std::fs;
use std::hint::black_box;
use std::io::{Read, Write};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

pub const SCENARIO: &str = "TEST_SCENARIO";
/// The size of a block that stays: no other has it.
pub const LEFT: u64 = 1_000_003;
pub const LEFT_IN_CHILD: u64 = 1_000_005;

pub fn play(scenario: &str) {
    // A test that fails leaves its programs behind: they end by themselves after its deadline.
    nix::unistd::alarm::set(120);
    leave(LEFT);
    match scenario {
        "echo" => {
            let mut input = String::new();
            std::io::stdin().read_to_string(&mut input).expect("text");
            print!("out:{input}");
            eprint!("err:{input}");
            exit(7);
        }
        "succeed" => {}
        "fail" => exit(7),
        "killed" => {
            flush();
            kill(Pid::this(), Signal::SIGKILL).expect("this process");
        }
        "interrupted" => {
            flush();
            raise(Signal::SIGINT).expect("this process");
        }
        "wait" => wait(),
        "count" => count(),
        "ignored" => {
            let status = fs::read_to_string("/proc/self/status").expect("the status");
            let line = status.lines().find(|line| line.starts_with("SigIgn"));
            print!("{}", line.expect("the ignored signals"));
        }
        "spawns" => {
            let mut command = Command::new(std::env::current_exe().expect("a path"));
            let status = command.env(SCENARIO, "child").status().expect("it runs");
            assert!(status.success());
        }
        "deletes" => fs::remove_file("t.utrace").expect("its trace"),
        "replaces" => {
            let mut program = Command::new(std::env::current_exe().expect("a path"));
            let error = std::os::unix::process::CommandExt::exec(program.env(SCENARIO, "child"));
            panic!("it was not replaced: {error}");
        }
        "replaces by an unrecorded one" => {
            let mut sleep = Command::new("/bin/sleep");
            sleep.arg(std::env::var("TEST_SLEEP").expect("a time")).env_clear();
            let error = std::os::unix::process::CommandExt::exec(&mut sleep);
            panic!("it was not replaced: {error}");
        }
        "replaces and waits" => {
            let mut program = Command::new(std::env::current_exe().expect("a path"));
            let error = std::os::unix::process::CommandExt::exec(program.env(SCENARIO, "wait"));
            panic!("it was not replaced: {error}");
        }
        "replaces as another user" => {
            let mut setpriv = Command::new("setpriv");
            setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
            setpriv.arg(std::env::current_exe().expect("a path")).env(SCENARIO, "child");
            let error = std::os::unix::process::CommandExt::exec(&mut setpriv);
            panic!("it was not replaced: {error}");
        }
        "gone" => {
            let program = std::env::current_exe().expect("a path");
            for _ in 0..2 {
                let status = Command::new(&program).env(SCENARIO, "child").status();
                assert!(status.expect("it runs").success());
            }
            fs::remove_file(program).expect("its own file");
        }
        "defects" => defects(),
        "served" => served(),
        "panics" => {
            let _ = memledger_cli::commands::top::screen::in_terminal(|_| panic!("on purpose"));
        }
        "before" => compared(10, 0),
        "after" => compared(30, 5),
        "child" => leave(LEFT_IN_CHILD),
        other => panic!("there is no scenario {other:?}"),
    }
}

/// Puts all that has happened into the trace.
fn flush() {
    memledger::Ledger::from_env().flush();
}

/// What two runs differ by: blocks of 1000 bytes that `keep_cache` keeps, and what `make_index` makes.
fn compared(cached: usize, indexed: usize) {
    memledger::alloc_scope!("request");
    keep_parsed(7);
    keep_cache(cached);
    if indexed > 0 {
        make_index(indexed);
    }
}

#[inline(never)]
fn keep_parsed(blocks: usize) {
    (0..blocks).for_each(|_| leave(2000));
}

#[inline(never)]
fn keep_cache(blocks: usize) {
    (0..blocks).for_each(|_| leave(1000));
}

#[inline(never)]
fn make_index(blocks: usize) {
    memledger::alloc_scope!("index");
    (0..blocks).for_each(|_| leave(3000));
}

/// A buffer that is made anew in a loop, and blocks that a scope frees that has not made them.
fn defects() {
    let mut kept = Vec::with_capacity(10);
    for round in 0..30_u64 {
        memledger::alloc_scope!("render", {
            (0..100).for_each(|_| drop(black_box(vec![1_u8; 1_000])));
            std::mem::forget(black_box(vec![1_u8; 5_000]));
            kept.extend((0..10).map(|_| black_box(Box::new([round; 40]))));
        });
        memledger::alloc_scope!("clean up", { kept.clear() });
        memledger::bookmark!("a round");
        std::thread::sleep(std::time::Duration::from_millis(30));
    }
}

fn exit(status: i32) -> ! {
    std::io::stdout().flush().expect("a reader");
    std::process::exit(status)
}

fn leave(bytes: u64) {
    std::mem::forget(black_box(Vec::<u8>::with_capacity(bytes as usize)));
}

/// Waits for a signal that ends it.
fn wait() {
    flush();
    fs::write("ready", std::process::id().to_string()).expect("the folder can be written");
    loop {
        nix::unistd::pause();
    }
}

static INTERRUPTS: AtomicU32 = AtomicU32::new(0);
static ASKED: AtomicU32 = AtomicU32::new(0);

/// Counts SIGINT until SIGUSR1 asks for the number.
#[expect(unsafe_code, reason = "signal handlers")]
fn count() {
    extern "C" fn on_signal(signal: i32) {
        let counter = if signal == Signal::SIGINT as i32 { &INTERRUPTS } else { &ASKED };
        counter.fetch_add(1, Ordering::SeqCst);
    }
    for signal in [Signal::SIGINT, Signal::SIGUSR1] {
        let handler = nix::sys::signal::SigHandler::Handler(on_signal);
        // SAFETY: the handler only adds to an atomic number.
        unsafe { nix::sys::signal::signal(signal, handler) }.expect("a handler");
    }
    let ready = |text: &str| {
        fs::write("next", text).expect("the folder can be written");
        fs::rename("next", "ready").expect("the folder can be written");
    };
    ready(&std::process::id().to_string());
    let mut interrupts = 0;
    while ASKED.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
        if INTERRUPTS.load(Ordering::SeqCst) != interrupts {
            interrupts = INTERRUPTS.load(Ordering::SeqCst);
            ready(&format!("{interrupts} interrupts"));
        }
    }
    fs::write("interrupts", INTERRUPTS.load(Ordering::SeqCst).to_string()).expect("a file");
}

/// Writes where it can be controlled into `ready`; then each line of its input has it allocate more.
fn served() {
    let ledger = memledger::Ledger::from_env();
    let mut blocks = vec![memledger::alloc_scope!("loading", { vec![1_u8; 5 << 20] })];
    let address = ledger.control_address().map_or("none".to_owned(), |address| address.to_string());
    fs::write("ready.new", address)
        .and_then(|()| fs::rename("ready.new", "ready"))
        .expect("a file");
    println!("the program's own words");
    for line in std::io::stdin().lines() {
        line.expect("text");
        blocks.push(memledger::alloc_scope!("growing", { vec![1_u8; 3 << 20] }));
        ledger.flush();
    }
    black_box(blocks);
}
