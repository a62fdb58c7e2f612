//! Call stacks in the stream: the settings that turn them on, and what each destination gets.

use crate::files::check_told;
use crate::harness::{
    Case, Outcome, TRACE, builder, case, check_with_another_reader, churn, leave,
};
use memledger::events::Channel;
use memledger::{ErrorKind, Ledger, Stacks};
use memledger_analysis::Analyzer;
use memledger_analysis::convert::convert;
use memledger_analysis::read::{self, Event, Value, Visitor};
use memledger_format::handshake::Transport;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::hint::black_box;

pub(crate) const CASES: &[Case] = &[
    case("the variable turns stacks on", plain, |run| {
        for (value, sampling) in [
            ("on", Some(0)),
            ("1", Some(0)),
            ("sample:512KiB", Some(512 << 10)),
            ("sample:1000", Some(1000)),
            ("sample:2 GiB", Some(2 << 30)),
            ("off", None),
            ("0", None),
        ] {
            let outcome = crate::harness::Run::of(&run).tracked();
            let outcome = outcome.env("MEMLEDGER_STACKS", value).run();
            outcome.quiet().whole();
            check(&outcome, TRACE, sampling);
        }
        // The channel of that name does the same.
        let outcome = run.tracked().env("MEMLEDGER_CHANNELS", "memory,CallstackChannel").run();
        outcome.quiet().whole();
        check(&outcome, TRACE, Some(0));
    }),
    case("a value that is none is told and no stack is taken", plain, |run| {
        for (value, says) in [
            ("sample:0", "only on, off and sample:BYTES"),
            ("sample:", "such as sample:512KiB; no call stack is taken"),
            ("sample:-1", "no call stack is taken"),
            ("sample:99999999999GiB", "no call stack is taken"),
            ("2", "no call stack is taken"),
        ] {
            let outcome = crate::harness::Run::of(&run).tracked();
            let outcome = outcome.env("MEMLEDGER_STACKS", value).run();
            check_told(&outcome, &["MEMLEDGER_STACKS (or -tracestacks=)", says]);
            check(&outcome, TRACE, None);
        }
        for frames in ["0", "256", "-1", "many"] {
            let outcome = crate::harness::Run::of(&run).tracked();
            let outcome = outcome.env("MEMLEDGER_STACK_FRAMES", frames).run();
            check_told(&outcome, &["MEMLEDGER_STACK_FRAMES", "from 1 to 255"]);
        }
        for memory in ["0", "1023KiB", "65MiB", "-1", "much"] {
            let outcome = crate::harness::Run::of(&run).tracked();
            let outcome = outcome.env("MEMLEDGER_STACK_MEMORY", memory).run();
            check_told(&outcome, &["MEMLEDGER_STACK_MEMORY", "1MiB to 64MiB"]);
        }
    }),
    case("flags and code set the same", from_flags, |run| {
        let outcome = run.run();
        outcome.quiet();
        check(&outcome, "flag.utrace", Some(0));
        check(&outcome, "sample.utrace", Some(1 << 20));
        check(&outcome, "code.utrace", Some(4096));
        let deep = Seen::read(&outcome, "code.utrace");
        // The recordings before had deeper ones.
        assert!(deep.specs.values().all(|stack| stack.frames <= 3));
        assert!(deep.specs.values().any(|stack| stack.frames == 3 && stack.end == 1));
        // The environment takes precedence over code.
        let outcome = outcome.again().env("MEMLEDGER_STACKS", "off").run();
        outcome.quiet();
        check(&outcome, "flag.utrace", Some(0));
        check(&outcome, "code.utrace", None);
    }),
    case("code adds stacks to a recording of the environment", joins, |run| {
        let run = run.env("MEMLEDGER_TRACE", TRACE).env("MEMLEDGER_REPORT", "off");
        let outcome = run.run();
        outcome.quiet();
        check(&outcome, TRACE, Some(1 << 16));
        // Within the bounds of the environment, which go before those of code.
        let run = outcome.again().env("MEMLEDGER_TRACE", TRACE).env("MEMLEDGER_REPORT", "off");
        let outcome = run.env("MEMLEDGER_STACK_FRAMES", "2").run();
        outcome.quiet();
        let bounded = Seen::read(&outcome, TRACE);
        assert!(!bounded.specs.is_empty() && bounded.specs.values().all(|it| it.frames <= 2));
        // Unless the environment has set them.
        let run = outcome.again().env("MEMLEDGER_TRACE", TRACE).env("MEMLEDGER_REPORT", "off");
        let outcome = run.env("MEMLEDGER_STACKS", "off").run();
        outcome.quiet();
        check(&outcome, TRACE, None);
    }),
    case("stacks are turned on and off by their channel", toggled, |run| {
        let outcome = run.run();
        outcome.quiet().whole();
        let seen = Seen::read(&outcome, TRACE);
        assert_eq!(seen.channel, [0, 1, 0, 1]);
        assert_eq!((seen.module_inits, &seen.sampling[..]), (1, &[0][..]));
        for (bytes, taken) in [(OFF, false), (ON, true), (OFF + 1, false), (ON + 1, true)] {
            let stack = seen.stack_of[&(bytes as u64)];
            assert_eq!(stack != 0, taken, "{bytes}: {stack}");
        }
    }),
    case(
        "each destination and each part of one has every stack that it refers to",
        destinations,
        |run| {
            let outcome = run.run();
            outcome.quiet().whole();
            let all = Seen::read(&outcome, TRACE);
            for (from, channels, name) in [
                ("late.memledger", "memory,callstack", "only.utrace"),
                ("late.utrace", "memory,scope", "none.utrace"),
                (TRACE, "-callstack", "none.memledger"),
                ("late.utrace", "-memory", "logs.utrace"),
            ] {
                outcome.export_channels(from, channels, name);
            }
            for name in ["late.utrace", "late.memledger", "only.utrace"] {
                let late = Seen::read(&outcome, name);
                assert_eq!((late.module_inits, &late.sampling[..]), (1, &[0][..]), "{name}");
                assert_eq!(late.modules, all.modules, "{name}");
                assert!(
                    all.specs.iter().all(|(id, stack)| late.specs.get(id) == Some(stack)),
                    "{name}"
                );
                // A block from before the stream began, and one from after.
                for bytes in [ON as u64, AFTER as u64] {
                    assert_eq!(late.stack_of[&bytes], all.stack_of[&bytes], "{name}");
                    assert!(all.stack_of[&bytes] > 1, "{name}");
                }
            }
            for name in ["none.utrace", "none.memledger", "logs.utrace"] {
                let none = Seen::read(&outcome, name);
                // All but `memory` includes the channel, and has no event for it.
                assert_eq!(none.channel, [u64::from(name == "logs.utrace")], "{name}");
                assert_eq!((none.module_inits, none.modules.len(), none.specs.len()), (0, 0, 0));
                assert_eq!((&none.sampling[..], none.with_stack), (&[][..], 0), "{name}");
                assert_eq!(none.stack_of.contains_key(&(AFTER as u64)), name != "logs.utrace");
            }
        },
    ),
    case(
        "stacks for which there is no memory have the outer frames that are known",
        scattered,
        |run| {
            let outcome = run.run();
            outcome.exited(0);
            let [whole, bound] = ["whole.utrace", TRACE].map(|name| Seen::read(&outcome, name));
            assert!(whole.specs.values().all(|stack| stack.end == 0 || stack.frames == 0));
            let (mut cut, mut equal) = (0, 0);
            for size in (FIRST_SIZE..).take(SCATTERED).map(|size| size as u64) {
                let [of_whole, of_bound] =
                    [&whole, &bound].map(|seen| &seen.specs[&seen.stack_of[&size]]);
                match of_bound.end {
                    0 => {
                        assert_eq!(of_bound, of_whole);
                        equal += 1;
                    }
                    _ => {
                        assert!(
                            of_bound.end == 5 && of_bound.frames < of_whole.frames,
                            "{of_bound:?}"
                        );
                        // The innermost frames are the first.
                        assert!(of_whole.bytes.ends_with(&of_bound.bytes));
                        cut += 1;
                    }
                }
            }
            assert!(cut > SCATTERED / 4 && equal > 5_000, "{cut} {equal}");
            // An edge of the tree has 20 bytes.
            assert!(bound.specs.len() < (1 << 20) * 9 / 8 / 20, "{}", bound.specs.len());
            let mut analyzer = Analyzer::new();
            read::read(File::open(outcome.path(TRACE)).unwrap(), &mut analyzer).unwrap();
            let report = analyzer.report();
            assert!(report.losses.stacks_cut >= cut as u64, "{:?}", report.losses);
            assert!(report.losses.stacks_cut_bytes >= (cut * FIRST_SIZE) as u64);
            let not_kept = report.by_stack.iter().filter(|row| {
                let innermost = row.frames.first().map(|frame| &report.frames[*frame as usize]);
                innermost.is_some_and(|frame| {
                    frame.functions.iter().any(|of| of.function == "(frames not kept)")
                })
            });
            let blocks: u64 =
                not_kept.map(|row| row.figures.allocations + row.figures.reallocations).sum();
            assert_eq!(blocks, report.losses.stacks_cut);
        },
    ),
    #[cfg(unix)]
    case("the child of a fork has all stacks from before and a new recording none", again, |run| {
        let outcome = run.run();
        outcome.quiet();
        let first = Seen::read(&outcome, "first.utrace");
        let second = Seen::read(&outcome, TRACE);
        let child = Seen::read(&outcome, &format!("trace.{}.utrace", outcome.stdout.trim()));
        for seen in [&second, &child] {
            assert_eq!((seen.module_inits, &seen.sampling[..]), (1, &[0][..]));
            assert!(seen.stack_of[&(AFTER as u64)] > 1);
        }
        // The child's live blocks refer to them.
        let before = second.stack_of[&(BEFORE as u64)];
        assert_eq!(child.stack_of.get(&(BEFORE as u64)), Some(&before));
        assert_eq!(child.specs.get(&before), Some(&second.specs[&before]));
        let of_first = &first.specs[&first.stack_of[&(OFF as u64)]];
        assert!([&second, &child].iter().all(|seen| seen.specs.values().all(|s| s != of_first)));
    }),
];

/// Sizes of blocks that nothing else has.
const OFF: usize = 1_000_003;
const ON: usize = 1_100_003;
const AFTER: usize = 1_200_007;
const BEFORE: usize = 1_300_003;

/// The blocks of `scattered`: one of each size from this one on.
const FIRST_SIZE: usize = 100_000;
const SCATTERED: usize = 60_000;

/// What a stream has of one stack.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stack {
    frames: usize,
    bytes: Vec<u8>,
    end: u64,
}

/// What a stream has of stacks.
#[derive(Default)]
struct Seen {
    /// The reported states of the channel.
    channel: Vec<u64>,
    id: u64,
    module_inits: usize,
    modules: BTreeMap<u64, String>,
    sampling: Vec<u64>,
    specs: BTreeMap<u64, Stack>,
    /// Allocations with a stack.
    with_stack: usize,
    without: usize,
    /// The stack of the last block of each size.
    stack_of: HashMap<u64, u64>,
    is_from_start: bool,
    /// What contradicts the rules.
    wrong: Vec<String>,
}

impl Seen {
    #[track_caller]
    fn read(outcome: &Outcome, name: &str) -> Self {
        let path = outcome.path(name);
        let mut seen = Self::default();
        let file = File::open(&path).unwrap_or_else(|e| panic!("{name}: {e}\n{}", outcome.stderr));
        // As Unreal's readers see it: each stack by itself.
        let mut plain = Vec::new();
        convert(file, &mut plain, Transport::Unreal).unwrap();
        let summary = read::read(&plain[..], &mut seen).unwrap();
        assert!(summary.is_complete(), "{name}");
        assert_eq!(seen.wrong, [""; 0], "{name}");
        if seen.is_from_start {
            check_with_another_reader(&path);
        }
        seen
    }
}

impl Visitor for Seen {
    fn event(&mut self, event: &Event<'_>) {
        let number = |index| match event.value(index) {
            Some(Value::Unsigned(number)) => number,
            other => panic!("{}: {other:?}", event.event_type.name()),
        };
        match &*event.event_type.name() {
            "Trace.ChannelAnnounce" if event.text(3).eq_ignore_ascii_case("callstack") => {
                self.id = number(0);
                self.channel.push(number(1));
            }
            "Trace.ChannelToggle" if number(0) == self.id => self.channel.push(number(1)),
            "Memledger.Trace" => self.is_from_start = number(3) == 1,
            "Memledger.StackSampling" => self.sampling.push(number(0)),
            "Diagnostics.ModuleInit" => self.module_inits += 1,
            "Diagnostics.ModuleLoad" => {
                if self.module_inits != 1 {
                    self.wrong.push("a module before ModuleInit".into());
                }
                self.modules.insert(number(1), event.text(0).into_owned());
            }
            "Memory.CallstackSpec" => {
                let bytes = event.bytes(1).into_owned();
                let frames = event.bytes(1).len() / 8;
                let stack = Stack { frames, bytes, end: 0 };
                if self.specs.insert(number(0), stack).is_some() {
                    self.wrong.push(format!("stack {} is there twice", number(0)));
                }
            }
            "Memledger.CallstackEnd" => match self.specs.get_mut(&number(0)) {
                Some(stack) => stack.end = number(1),
                None => self.wrong.push(format!("stack {} ends before it is there", number(0))),
            },
            "Memory.AllocSystem" | "Memory.ReallocAllocSystem" => {
                let stack = number(1);
                self.stack_of.insert(number(2) << 3 | number(3) & 7, stack);
                if stack == 0 {
                    self.without += 1;
                } else {
                    self.with_stack += 1;
                    if !self.specs.contains_key(&stack) {
                        self.wrong.push(format!("stack {stack} is used before it is there"));
                    }
                }
            }
            _ => {}
        }
    }
}

/// The trace has stacks of this sampling, or none.
#[track_caller]
fn check(outcome: &Outcome, name: &str, sampling: Option<u64>) {
    let seen = Seen::read(outcome, name);
    let expected = Vec::from_iter(sampling);
    assert_eq!(seen.sampling, expected, "{name}");
    assert_eq!(seen.module_inits, expected.len(), "{name}");
    assert_eq!(seen.channel.last(), Some(&u64::from(sampling.is_some())), "{name}");
    match sampling {
        Some(0) => assert!(seen.with_stack > 500, "{name}"),
        Some(_) => assert!(seen.without > 0, "{name}"),
        None => assert_eq!((seen.with_stack, seen.specs.len()), (0, 0), "{name}"),
    }
}

fn plain() {
    churn(1000);
}

fn args(file: &str, flags: &[&str]) {
    let file = format!("-tracefile={file}");
    let args = [&[&*file, "-tracereport=off", "x"], flags].concat();
    let (ledger, rest) = Ledger::from_args(args.into_iter().map(Into::into));
    assert_eq!(rest, ["x"]);
    churn(1000);
    drop(ledger);
}

fn from_flags() {
    args("flag.utrace", &["-tracestacks"]);
    args("sample.utrace", &["-tracestacks=sample:1MiB", "-tracestackframes=9"]);
    let sampled = |mean_bytes| Stacks::Sampled { mean_bytes };
    let refused = builder().stacks(sampled(0)).start().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidSetting);
    assert!(refused.to_string().contains("1 byte"), "{refused}");
    let refused = builder().stack_frames(0).start().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidSetting);
    assert!(refused.to_string().contains("255"), "{refused}");
    let refused = builder().stack_memory(1 << 10).start().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidSetting);
    assert!(refused.to_string().contains("1 MiB to 64 MiB, not 1024 bytes"), "{refused}");
    let ledger = Ledger::builder().trace_to_file("code.utrace");
    let ledger = ledger.stacks(sampled(4096)).stack_frames(3).start().unwrap();
    churn(1000);
    drop(ledger);
}

fn joins() {
    churn(1000);
    let ledger = Ledger::builder().stacks(Stacks::Sampled { mean_bytes: 1 << 16 });
    let ledger = ledger.stack_frames(5).start().unwrap();
    churn(1000);
    ledger.flush();
}

fn toggled() {
    let ledger = builder().start().unwrap();
    let switch = |on| {
        Channel::set_enabled_by_name("callstack", on).unwrap();
        // The worker follows the channel in its next cycle.
        ledger.flush();
    };
    leave(OFF);
    switch(true);
    leave(ON);
    switch(false);
    leave(OFF + 1);
    switch(true);
    leave(ON + 1);
    drop(ledger);
}

fn destinations() {
    let ledger = builder()
        .stacks(Stacks::On)
        .trace_to_file(TRACE)
        .channels(["memory", "scope"])
        .start()
        .unwrap();
    churn(3000);
    leave(ON);
    for name in ["late.utrace", "late.memledger"] {
        ledger.trace_to_file(name).unwrap();
    }
    churn(3000);
    leave(AFTER);
    drop(ledger);
}

#[cfg(unix)]
fn again() {
    let builder = |name| Ledger::builder().trace_to_file(name).stacks(Stacks::On);
    let first = builder("first.utrace").start().unwrap();
    churn(1000);
    leave(OFF);
    drop(first);
    let ledger = builder(TRACE).follow_forks(true).start().unwrap();
    churn(1000);
    leave(BEFORE);
    // SAFETY: the child allocates and exits.
    #[expect(unsafe_code)]
    let child = unsafe { libc::fork() };
    leave(AFTER);
    if child == 0 {
        drop(ledger);
        // SAFETY: nothing is to happen at the exit of the child.
        #[expect(unsafe_code)]
        unsafe {
            libc::_exit(0)
        }
    }
    // SAFETY: waits for our own child.
    #[expect(unsafe_code)]
    unsafe {
        libc::waitpid(child, std::ptr::null_mut(), 0)
    };
    println!("{child}");
    drop(ledger);
}

/// A recursion at random, so that nearly each allocation has a stack of its own; twice, with the same stacks.
fn scattered() {
    #[inline(never)]
    fn one(path: u64, bytes: usize) -> u64 {
        black_box(next(path, bytes)) + 1
    }
    #[inline(never)]
    fn two(path: u64, bytes: usize) -> u64 {
        black_box(next(path, bytes)) + 2
    }
    #[inline(never)]
    fn three(path: u64, bytes: usize) -> u64 {
        black_box(next(path, bytes)) + 3
    }
    #[inline(never)]
    fn next(path: u64, bytes: usize) -> u64 {
        match path % 4 {
            _ if path == 0 => drop(black_box(Vec::<u8>::with_capacity(black_box(bytes)))),
            1 => return one(path / 4, bytes),
            2 => return two(path / 4, bytes),
            _ => return three(path / 4, bytes),
        }
        0
    }
    #[inline(never)]
    fn record((name, memory): (&'static str, u64)) {
        let ledger = Ledger::builder().trace_to_file(name).stacks(Stacks::On).stack_memory(memory);
        let ledger = ledger.start().unwrap();
        let mut random = 1_u64;
        for bytes in (FIRST_SIZE..).take(SCATTERED) {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            black_box(next(random >> 40, bytes));
        }
        drop(ledger);
    }
    // NOTE: one call for both, which the compiler must not make two.
    let mut rounds = vec![(TRACE, 1 << 20), ("whole.utrace", 64 << 20)];
    while let Some(round) = black_box(&mut rounds).pop() {
        record(round);
    }
}
