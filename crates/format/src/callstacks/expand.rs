//! Stacks as Unreal's readers know them: each by itself.

use super::{CALLSTACKS, Callstack, GUESS, INNER_NOT_KEPT, Inner, OUTER_LOST, Outer, visit};
use crate::arrays::{PIECE_HEAD, piece_head};
use crate::layout::{ARRAYS_END, PIECE, UID_SIZE};
use crate::records::{Record, Records};

/// The ids that can be known: more than a tracker has memory for.
const MAX_IDS: usize = 1 << 22;
/// How many ids are in one allocation.
const CHUNK: usize = 1 << 12;

/// What is known of one id.
#[derive(Clone, Copy, Debug, Default)]
struct Stack {
    /// The stack with its outer frames; 0 for none.
    outer: u32,
    /// Where its own frames are.
    at: u32,
    /// How many of the other's frames it does not have, how many it has itself, and how many it has in all.
    without: u8,
    frames: u8,
    depth: u8,
    /// How many stacks it depends on, one through the other.
    links: u8,
    is_known: bool,
    /// If there is no stack with outer frames.
    reason: u8,
    is_cut: bool,
}

/// The first bytes of an event.
type Wire = [u8; UID_SIZE];

/// The events of a stack by itself. A stream of an earlier version has no type for guesses.
#[derive(Clone, Copy, Debug, Default)]
struct Events {
    spec: Option<Wire>,
    guess: Option<Wire>,
    end: Option<Wire>,
}

/// Turns `Memledger.Callstacks` to `Memory.CallstackSpec`, `Memledger.CallstackGuess` and
/// `Memledger.CallstackEnd`.
#[derive(Debug)]
pub struct Expander {
    protocol: u8,
    records: Records,
    callstacks: Option<Wire>,
    events: Events,
    /// By id.
    stacks: Vec<Option<Box<[Stack; CHUNK]>>>,
    frames: Vec<u64>,
}

impl Expander {
    /// An expander for a stream of this protocol.
    pub fn new(protocol: u8) -> Self {
        Self {
            protocol,
            records: Records::default(),
            callstacks: None,
            events: Events::default(),
            stacks: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// Reads a piece of the stream of type records.
    pub fn learn(&mut self, piece: &[u8]) {
        let Self { records, callstacks, events, .. } = self;
        records.visit(piece, |record| {
            let Some(record) = Record::split(record, self.protocol) else { return };
            let wire = Some((record.uid << 1 | 1).to_le_bytes());
            match (record.logger, record.event) {
                (b"Memledger", b"Callstacks") => *callstacks = wire,
                (b"Memory", b"CallstackSpec") => events.spec = wire,
                (b"Memledger", b"CallstackGuess") => events.guess = wire,
                (b"Memledger", b"CallstackEnd") => events.end = wire,
                _ => {}
            }
        });
    }

    /// Passes on what takes the place of `payload`, in pieces of whole events. `false` if its first event is
    /// no list of stacks: then it stays as it is, and nothing is passed on.
    pub fn expand(&mut self, payload: &[u8], mut piece: impl FnMut(&[u8])) -> bool {
        let Some(wire) = self.callstacks.filter(|wire| payload.starts_with(wire)) else {
            return false;
        };
        let Events { spec: Some(spec), end: Some(end), guess } = self.events else { return false };
        let (mut rest, mut out) = (payload, Vec::new());
        let (mut own, mut frames) = (Vec::new(), Vec::new());
        while let Some((first, stacks, after)) = split(wire, rest) {
            let is_whole = visit(first, stacks, &mut own, |stack| {
                if self.add(&stack).is_none() {
                    return;
                }
                let ends = self.collect(stack.id, &mut frames);
                append(stack.id, (spec, guess), &mut frames, (end, ends), &mut out);
                if out.len() >= super::PACKET {
                    piece(&out);
                    out.clear();
                }
            });
            if !is_whole {
                break;
            }
            rest = after;
        }
        // What is no list of stacks, or no whole one, stays as it is.
        out.extend_from_slice(rest);
        if !out.is_empty() {
            piece(&out);
        }
        true
    }

    fn get(&self, id: u32) -> Option<&Stack> {
        let chunk = self.stacks.get(id as usize / CHUNK)?.as_ref()?;
        chunk.get(id as usize % CHUNK).filter(|stack| stack.is_known)
    }

    /// Adds a stack; `None` if it is not known which inner frames it has.
    fn add(&mut self, stack: &Callstack<'_>) -> Option<()> {
        let mut new = Stack { is_known: true, ..Stack::default() };
        match stack.outer {
            Outer::End(reason) => new.reason = reason,
            Outer::Of { id, without } => match self.get(id).filter(|_| id < stack.id) {
                Some(other) if other.links < u8::MAX => {
                    new.outer = id;
                    new.links = other.links + 1;
                    new.without = without.min(other.depth.into()) as u8;
                    new.depth = other.depth - new.without;
                }
                _ => new.reason = OUTER_LOST,
            },
        }
        let room = u8::MAX - new.depth;
        match stack.inner {
            Inner::NotKept => new.is_cut = true,
            Inner::SameAs(id) => {
                let other = self.get(id)?;
                (new.frames, new.at) = (other.frames.min(room), other.at);
            }
            Inner::Frames(frames) => {
                new.frames = frames.len().min(room.into()) as u8;
                new.at = self.frames.len() as u32;
                self.frames.extend(frames.iter().take(new.frames.into()));
            }
        }
        new.depth += new.frames;
        let index = stack.id as usize;
        if index >= MAX_IDS {
            return None;
        }
        if index / CHUNK >= self.stacks.len() {
            self.stacks.resize(index / CHUNK + 1, None);
        }
        let chunk = self.stacks.get_mut(index / CHUNK)?;
        let chunk = chunk.get_or_insert_with(|| Box::new([Stack::default(); CHUNK]));
        *chunk.get_mut(index % CHUNK)? = new;
        Some(())
    }

    /// The frames of a stack, innermost first. Returns the reasons why it is not whole, 0 for none.
    fn collect(&self, id: u32, frames: &mut Vec<u64>) -> [u8; 2] {
        frames.clear();
        let (mut at, mut without) = (id, 0);
        let mut ends = [0; 2];
        while let Some(stack) = self.get(at) {
            let own = self.frames.get(stack.at as usize..).unwrap_or_default();
            let own = own.get(..stack.frames.into()).unwrap_or_default();
            let kept = own.len().saturating_sub(without);
            frames.extend(own[..kept].iter().rev());
            ends[0] = stack.reason;
            if at == id && stack.is_cut {
                ends[1] = INNER_NOT_KEPT;
            }
            without = without.saturating_sub(own.len()) + usize::from(stack.without);
            at = stack.outer;
        }
        ends
    }
}

/// Appends the events of a stack.
fn append(
    id: u32,
    (spec, guess): (Wire, Option<Wire>),
    frames: &mut [u64],
    (end, reasons): (Wire, [u8; 2]),
    out: &mut Vec<u8>,
) {
    let proved = frames.iter().position(|frame| frame & GUESS != 0);
    frames.iter_mut().for_each(|frame| *frame &= !GUESS);
    out.extend(spec);
    out.extend(id.to_le_bytes());
    if !frames.is_empty() {
        out.extend(piece_head(1, size_of_val(frames), 1));
        out.extend(frames.iter().flat_map(|frame| frame.to_le_bytes()));
    }
    out.push(ARRAYS_END);
    if let Some((guess, proved)) = guess.zip(proved) {
        out.extend(guess);
        out.extend(id.to_le_bytes());
        out.push(u8::try_from(proved).unwrap_or(u8::MAX));
    }
    for reason in reasons.into_iter().filter(|reason| *reason > 0) {
        out.extend(end);
        out.extend(id.to_le_bytes());
        out.push(reason);
    }
}

/// The first id, the stacks of the list that `bytes` begin with, and what follows it.
pub(super) fn split(wire: Wire, bytes: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let fields = bytes.strip_prefix(&wire)?;
    let (first, rest) = fields.split_first_chunk()?;
    let (head, rest) = rest.split_first_chunk::<PIECE_HEAD>()?;
    let head = u32::from_le_bytes(*head);
    let index = CALLSTACKS.fields.len() as u32 - 1;
    if head & 0x1fff != u32::from(PIECE) | index << 8 {
        return None;
    }
    let (stacks, rest) = rest.split_at_checked((head >> 13) as usize)?;
    let rest = rest.strip_prefix(&[ARRAYS_END])?;
    Some((u32::from_le_bytes(*first), stacks, rest))
}
