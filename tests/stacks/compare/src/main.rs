//! Compares the stacks of samples with those of the trace. `scripts/check_stacks.sh` calls it.
//!
//! ```text
//! stack-compare NAME TRACE SAMPLES [PLACE...]     fails if one of the places has no equal stack
//! ```
//! Each sample of the `backtrace` crate and of memledger must have the same frames, from the function
//! that has taken it outwards, but for the documented differences:
//! - The frames below that function are those of each tracker, and the same in all samples.
//! - Where a signal has interrupted code, memledger's frame is 1 higher, or an instruction of ARM: a reader
//!   takes 1 off each frame.
//! - memledger takes 255 frames at most.
//! - Code of a library that was just loaded ends a stack, and so does code without unwind information
//!   (assembly, the first frame of a coroutine). The frames up to there are equal, and the stack says so.

mod trace;

use stack_sampler::{HEADER, Head, INTERRUPTED, PLACES, Place, TRAMPOLINE};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::process::ExitCode;
use trace::{Seen, Stack};

/// The maximum size in bytes of the function that takes samples.
const PROBE_BYTES: u64 = 1 << 13;
/// The numbers of stacks without frames.
const NO_STACK: u64 = 0;
const OTHER_STACK: u64 = 1;
/// Unreal's limit on frames.
const MAX_FRAMES: usize = 255;

struct Sample {
    head: Head,
    frames: Vec<u64>,
}

/// Reads the file of samples; returns the trampoline, too, and how much higher our frame of interrupted code
/// is.
fn read_samples(path: &str) -> std::io::Result<(Vec<Sample>, [u64; 2])> {
    let mut file = File::open(path)?;
    let mut word = [0; 8];
    file.read_exact(&mut word)?;
    let used = u64::from_le_bytes(word);
    let mut bytes = Vec::new();
    file.take((used - 1) * 8).read_to_end(&mut bytes)?;
    let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let words: Vec<_> = std::iter::once(used).chain(words).collect();
    let mut samples = Vec::new();
    let mut rest = &words[HEADER..];
    while let [first, others @ ..] = rest {
        rest = others;
        // A thread that was still writing at the exit of the program has left zeros.
        let Some(head) = Head::parse(*first) else { continue };
        let (frames, others) = others.split_at(head.frames);
        rest = others;
        let mut frames = frames.to_vec();
        while frames.last() == Some(&0) {
            frames.pop();
        }
        samples.push(Sample { head, frames });
    }
    Ok((samples, [words[TRAMPOLINE], words[INTERRUPTED]]))
}

/// The number of frames of each tracker below the function that takes samples.
type Own = (usize, usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Equal,
    /// The first 255 frames.
    EqualUpToLimit,
    /// Up to code without unwind information.
    EqualUpToNoTable,
    Differs(&'static str),
}

struct Comparison {
    trampoline: u64,
    interrupted: u64,
    own: HashMap<u8, Own>,
}

impl Comparison {
    /// Whether both are the same frame; `inner` is the frame that it has called.
    fn is_same(&self, ours: u64, theirs: u64, inner: Option<&u64>) -> bool {
        let is_interrupted = self.trampoline != 0 && inner == Some(&self.trampoline);
        ours == theirs + if is_interrupted { self.interrupted } else { 0 }
    }

    /// The number of frames of each that are not in both, at the inner end.
    fn difference(&self, ours: &[u64], theirs: &[u64]) -> Own {
        let pairs = ours.iter().rev().zip((0..theirs.len()).rev());
        let same = pairs.take_while(|(ours, i)| {
            self.is_same(**ours, theirs[*i], i.checked_sub(1).map(|i| &theirs[i]))
        });
        let same = same.count();
        (ours.len() - same, theirs.len() - same)
    }

    fn is_prefix(&self, ours: &[u64], theirs: &[u64], own: Own) -> bool {
        let (Some(ours), Some(_)) = (ours.get(own.0..), theirs.get(own.1..)) else { return false };
        ours.iter().enumerate().all(|(i, frame)| {
            let i = own.1 + i;
            theirs.get(i).is_some_and(|theirs_i| {
                self.is_same(*frame, *theirs_i, i.checked_sub(1).map(|i| &theirs[i]))
            })
        })
    }

    /// Where a stack ends in code without unwind information: its frames without the last one, if
    /// `backtrace` has not got that far. In musl's code it leaves out the frame in which it ends.
    fn shared<'a>(ours: &'a [u64], theirs: &[u64]) -> &'a [u64] {
        match ours.split_last() {
            Some((last, outer)) if theirs.last() != Some(last) => outer,
            _ => ours,
        }
    }

    /// Learns the own frames of each kind of sample from most of those of which neither stack is
    /// longer.
    fn learn(&mut self, pairs: &[(&Sample, &Stack)]) {
        let mut counts: HashMap<(u8, Own), usize> = HashMap::new();
        for (sample, stack) in pairs {
            let own = match stack.end {
                0 => self.difference(&stack.frames, &sample.frames),
                2 => self.difference(Self::shared(&stack.frames, &sample.frames), &sample.frames),
                _ => continue,
            };
            *counts.entry((sample.head.kind, own)).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| *count);
        self.own = counts.into_iter().map(|(key, _)| key).collect();
    }

    fn compare(&self, sample: &Sample, stack: &Stack) -> Outcome {
        let Some(own) = self.own.get(&sample.head.kind).copied() else {
            return Outcome::Differs("no stack of this kind is whole");
        };
        let (ours, theirs) = (&stack.frames, &sample.frames);
        match stack.end {
            0 => {
                if self.difference(ours, theirs) != own {
                    return Outcome::Differs("frames differ");
                }
                let inner = own.0.checked_sub(1).zip(own.1.checked_sub(1));
                match inner {
                    Some((i, j)) if ours[i].abs_diff(theirs[j]) > PROBE_BYTES => {
                        Outcome::Differs("the sampler's own frames differ")
                    }
                    _ => Outcome::Equal,
                }
            }
            1 if ours.len() == MAX_FRAMES && self.is_prefix(ours, theirs, own) => {
                Outcome::EqualUpToLimit
            }
            1 => Outcome::Differs("the first 255 frames differ"),
            // Both end there, as in `main` of a program with panic = "abort", and in musl's code.
            2 if self.difference(Self::shared(ours, theirs), theirs) == own => Outcome::Equal,
            2 if self.is_prefix(ours, theirs, own) => Outcome::EqualUpToNoTable,
            2 => Outcome::Differs("the frames up to code without unwind information differ"),
            _ => Outcome::Differs("memory could not be read"),
        }
    }
}

/// The outcomes in one place.
#[derive(Clone, Copy, Default)]
struct Counts {
    equal: usize,
    to_limit: usize,
    to_no_table: usize,
    differs: usize,
    without_event: usize,
    without_stack: usize,
}

fn print_difference(seen: &Seen, sample: &Sample, stack: &Stack, why: &str) {
    let place = PLACES[usize::from(sample.head.place)].1;
    eprintln!("{place}: {why} (memledger's stack ends with {}):", stack.end);
    for i in 0..stack.frames.len().max(sample.frames.len()) {
        let name = |frames: &[u64]| frames.get(i).map_or(String::new(), |frame| seen.name(*frame));
        eprintln!("  {:40} {}", name(&stack.frames), name(&sample.frames));
    }
}

/// Whether stacks in this place may end early.
fn may_end_early(place: u8) -> bool {
    place == Place::Assembly as u8
}

fn run(name: &str, trace: &str, samples: &str, places: &[String]) -> Result<bool, String> {
    let seen = Seen::read(trace)?;
    let (samples, [trampoline, interrupted]) =
        read_samples(samples).map_err(|e| format!("{samples}: {e}"))?;
    let mut counts = [Counts::default(); PLACES.len()];
    let mut pairs = Vec::new();
    for sample in &samples {
        let counts = &mut counts[usize::from(sample.head.place)];
        match seen.stack_of.get(&u64::from(sample.head.number)) {
            None => counts.without_event += 1,
            Some(&NO_STACK) => counts.without_stack += 1,
            Some(&OTHER_STACK) => return Err("the tree of stacks is full".into()),
            Some(stack) => pairs.push((sample, seen.specs.get(stack).ok_or("a stack is missing")?)),
        }
    }
    let mut comparison = Comparison { trampoline, interrupted, own: HashMap::new() };
    comparison.learn(&pairs);
    for (sample, stack) in pairs {
        let counts = &mut counts[usize::from(sample.head.place)];
        let mut outcome = comparison.compare(sample, stack);
        if outcome == Outcome::EqualUpToNoTable && !may_end_early(sample.head.place) {
            outcome = Outcome::Differs("code without unwind information");
        }
        match outcome {
            Outcome::Equal => counts.equal += 1,
            Outcome::EqualUpToLimit => counts.to_limit += 1,
            Outcome::EqualUpToNoTable => counts.to_no_table += 1,
            Outcome::Differs(why) => {
                counts.differs += 1;
                if counts.differs <= 3 {
                    print_difference(&seen, sample, stack, why);
                }
            }
        }
    }
    let mut is_right = true;
    for ((_, place), counts) in PLACES.iter().zip(counts) {
        let Counts { equal, to_limit, to_no_table, differs, without_event, without_stack } = counts;
        let compared = equal + to_limit + to_no_table + differs;
        if compared + without_event + without_stack > 0 {
            println!(
                "| {name} | {place} | {compared} | {equal} | {to_limit} | {to_no_table} | {differs} | {without_event} | {without_stack} |"
            );
        }
        is_right &= differs == 0;
        if places.iter().any(|expected| expected == place) && equal + to_limit + to_no_table == 0 {
            eprintln!("no stack was compared in {place}");
            is_right = false;
        }
    }
    Ok(is_right)
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [name, trace, samples, places @ ..] = &arguments[..] else {
        eprintln!("usage: stack-compare NAME TRACE SAMPLES [PLACE...]");
        return ExitCode::from(2);
    };
    match run(name, trace, samples, places) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{name}: {message}");
            ExitCode::from(2)
        }
    }
}
