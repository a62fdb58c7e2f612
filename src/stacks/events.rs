//! Modules and call stacks in the stream.
//!
//! Each stack is written once as Unreal's `Memory.CallstackSpec`, before the first event that has
//! its number. Unreal loses the stacks of a stream that starts late; here a late stream begins with
//! all of them.

use super::capture::{self, Change, SUPPORTED};
use super::state;
use super::tree::{self, NewStack, Walk};
use crate::error::{self, Error};
use crate::events::channel::Channel;
use crate::trace::worker::{CONTROL, Definitions, EventProvider, Importants};
use memledger_format::encode::{Declaration, Value};
use memledger_format::packet::IMPORTANTS;
use memledger_format::schema::{
    FieldType::{AnsiString, U8, U8Array, U32, U64, U64Array, WideString},
    IMPORTANT, NO_SYNC,
};
use std::time::{Duration, Instant};

/// There is one, before the first module.
static MODULE_INIT: Declaration = Declaration {
    uid: 51,
    logger: "Diagnostics",
    event: "ModuleInit",
    flags: IMPORTANT | NO_SYNC,
    fields: &[("SymbolFormat", AnsiString), ("ModuleBaseShift", U8)],
};

static MODULE_LOAD: Declaration = Declaration {
    uid: 52,
    logger: "Diagnostics",
    event: "ModuleLoad",
    flags: IMPORTANT | NO_SYNC,
    fields: &[
        ("Name", WideString),
        ("Base", U64),
        ("Size", U32),
        ("ImageId", U8Array),
        ("Inode", U64),
        ("ChangeTime", U64),
    ],
};

static MODULE_UNLOAD: Declaration = Declaration {
    uid: 53,
    logger: "Diagnostics",
    event: "ModuleUnload",
    flags: IMPORTANT | NO_SYNC,
    fields: &[("Base", U64)],
};

/// The return addresses of a stack, innermost first.
static CALLSTACK_SPEC: Declaration = Declaration {
    uid: 54,
    logger: "Memory",
    event: "CallstackSpec",
    flags: NO_SYNC,
    fields: &[("CallstackId", U32), ("Frames", U64Array)],
};

/// The stack before this event has more frames than it says, by `Reason`: 1 the limit on frames, 2
/// code without unwind information, 3 memory that cannot be read, 4 a library that came or went. Or 5: it lacks its inner
/// frames, because there was no memory for them.
static CALLSTACK_END: Declaration = Declaration {
    uid: 55,
    logger: "Memledger",
    event: "CallstackEnd",
    flags: NO_SYNC,
    fields: &[("CallstackId", U32), ("Reason", U8)],
};

/// Of the stack before this event, the frames from the index `From` on, counted from the innermost one, were found by a
/// frame pointer or are further out than such a frame.
static CALLSTACK_GUESS: Declaration = Declaration {
    uid: 58,
    logger: "Memledger",
    event: "CallstackGuess",
    flags: NO_SYNC,
    fields: &[("CallstackId", U32), ("From", U8)],
};

/// From here on, only a Poisson sample of the bytes has stacks, with this mean between two; 0: all
/// allocations have one.
static STACK_SAMPLING: Declaration = Declaration {
    uid: 56,
    logger: "Memledger",
    event: "StackSampling",
    flags: IMPORTANT | NO_SYNC,
    fields: &[("MeanBytes", U64)],
};

pub(crate) static TYPES: &[&Declaration] = &[
    &MODULE_INIT,
    &MODULE_LOAD,
    &MODULE_UNLOAD,
    &CALLSTACK_SPEC,
    &CALLSTACK_GUESS,
    &CALLSTACK_END,
    &STACK_SAMPLING,
];

/// The channel of call stacks. Unreal's has the same name.
pub(crate) static CHANNEL: Channel = Channel::new("Callstack", false);

/// A packet of stacks is complete at this many bytes; its last stack may exceed them.
const PACKET: usize = 24 << 10;

/// How often the list of modules is read even if the loader seems to have changed nothing.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Turns the taking of stacks on and off with the channel, and announces modules and stacks.
pub(crate) struct StackEvents {
    walk: Walk,
    /// The end of the stacks that are announced next.
    end: u32,
    /// The number of changes of the list of modules that were announced.
    changes: usize,
    /// The state of the loader before the modules were last read.
    loader: Option<u64>,
    refreshed_at: Option<Instant>,
    /// The mean number of bytes that was last announced; `None` if stacks were never on.
    sampling: Option<u64>,
    /// Whether the channel was on when it was last looked at.
    is_on: bool,
    /// In a watcher: the first stack that the process may not have announced.
    left: Option<u32>,
    on_problem: fn(Error),
}

impl StackEvents {
    /// Reports problems to `on_problem`.
    pub(crate) fn new(on_problem: fn(Error)) -> Self {
        // Adds the channel to the table, so that settings and commands know its name.
        CHANNEL.is_enabled();
        Self {
            walk: Walk::default(),
            end: 0,
            changes: 0,
            loader: None,
            refreshed_at: None,
            sampling: None,
            is_on: false,
            left: None,
            on_problem,
        }
    }

    /// Does what the channel asks for, if that has changed.
    fn follow_channel(&mut self) {
        let is_on = CHANNEL.is_enabled();
        if is_on == self.is_on {
            return;
        }
        self.is_on = is_on;
        match is_on {
            true if SUPPORTED => {
                self.refresh_modules();
                state::turn_on();
            }
            true => (self.on_problem)(error::stacks_unsupported()),
            false => state::turn_off(),
        }
    }

    /// Reads which modules are loaded now, if that may have changed.
    fn refresh_if_due(&mut self) {
        let loader = capture::loader_state();
        let has_changed = loader.is_some() && loader != self.loader;
        if has_changed || self.refreshed_at.is_none_or(|at| at.elapsed() >= REFRESH_INTERVAL) {
            self.refresh_modules();
            self.loader = loader;
        }
    }

    fn refresh_modules(&mut self) {
        self.refreshed_at = Some(Instant::now());
        if let Err(error) = capture::refresh_modules() {
            let path = std::path::Path::new("/proc/thread-self/maps");
            (self.on_problem)(error::file("read", path, error));
        }
    }

    fn announce_sampling(&mut self, importants: &mut Importants) {
        if self.sampling.is_none() {
            importants.add(&MODULE_INIT, &["dwarf".into(), 0_u32.into()]);
        }
        let mean_bytes = state::mean_bytes();
        if self.sampling.replace(mean_bytes) != Some(mean_bytes) {
            importants.add(&STACK_SAMPLING, &[mean_bytes.into()]);
        }
    }
}

impl EventProvider for StackEvents {
    fn types(&self) -> &'static [&'static Declaration] {
        TYPES
    }

    fn announce(&mut self, importants: &mut Importants) {
        if self.left.is_some() {
            return;
        }
        // NOTE: before the modules are read. All stacks below are in modules that are announced.
        self.end = tree::end();
        self.follow_channel();
        if self.is_on && SUPPORTED {
            self.announce_sampling(importants);
        }
        // NOTE: stacks are announced after the channel was turned off, too. A hook that was under
        // way may have taken one.
        if self.sampling.is_some() {
            self.refresh_if_due();
        }
    }

    fn define(&mut self, send: &mut dyn FnMut(u16, &[u8])) {
        if let Some(first) = &mut self.left {
            let mut packets = Packets::new(send);
            tree::visit_left(*first, |stack| packets.add(&stack));
            *first = u32::MAX;
            return packets.flush();
        }
        if self.sampling.is_none() {
            return;
        }
        let mut packets = Packets::new(send);
        for (stacks, change) in capture::changes_after(self.changes) {
            self.walk.visit_new(stacks, |stack| packets.add(&stack));
            packets.add_change(&change);
            self.changes += 1;
        }
        self.walk.visit_new(self.end, |stack| packets.add(&stack));
        packets.flush();
    }

    fn definitions(&self) -> Option<Definitions> {
        self.sampling?;
        let walk = self.walk.clone();
        let mut changes = capture::changes_after(0);
        changes.truncate(self.changes);
        Some(Box::new(move |send| {
            let mut packets = Packets::new(send);
            let mut again = Walk::default();
            for (stacks, change) in changes {
                again.visit_those_of(&walk, stacks, |stack| packets.add(&stack));
                packets.add_change(&change);
            }
            again.visit_those_of(&walk, u32::MAX, |stack| packets.add(&stack));
            packets.flush();
        }))
    }

    fn position(&self) -> u64 {
        self.sampling.map_or(0, |_| u64::from(self.walk.visited()) + 1)
    }

    fn continue_after(&mut self, position: u64) -> bool {
        self.left = position.checked_sub(1).map(|first| first as u32);
        self.left.is_some()
    }
}

/// One sentence with the number of stacks that the tree had no room for since the last call, if
/// there are any.
pub(crate) fn take_refused() -> Option<String> {
    let refused = tree::take_refused();
    (refused > 0).then(|| {
        format!("the stacks of {refused} events are (other), because there was no memory for them")
    })
}

/// Packets of modules and stacks, in an order in which each stack comes while its modules are loaded:
/// another module can be loaded at the same address later.
struct Packets<'a> {
    stream: u16,
    packet: Vec<u8>,
    send: &'a mut dyn FnMut(u16, &[u8]),
}

impl<'a> Packets<'a> {
    fn new(send: &'a mut dyn FnMut(u16, &[u8])) -> Self {
        Self { stream: CONTROL, packet: Vec::new(), send }
    }

    /// The next events are on this stream.
    fn on(&mut self, stream: u16) {
        if self.stream != stream || self.packet.len() >= PACKET {
            self.flush();
            self.stream = stream;
        }
    }

    fn add_change(&mut self, change: &Change) {
        self.on(IMPORTANTS);
        match change {
            Change::Loaded { base, size, path, build_id, stamp: [inode, changed] } => {
                let size = u32::try_from(*size).unwrap_or(u32::MAX).into();
                let build_id = Value::Elements(build_id, 1);
                let (base, inode, changed) = ((*base).into(), (*inode).into(), (*changed).into());
                let values = [Value::Wide(path), base, size, build_id, inode, changed];
                MODULE_LOAD.append(&values, &mut self.packet);
            }
            Change::Unloaded { base } => {
                MODULE_UNLOAD.append(&[(*base).into()], &mut self.packet);
            }
        }
    }

    fn add(&mut self, stack: &NewStack<'_>) {
        self.on(CONTROL);
        let frames: Vec<_> = stack.frames.iter().flat_map(|frame| frame.to_le_bytes()).collect();
        let number = stack.number.into();
        CALLSTACK_SPEC.append(&[number, Value::Elements(&frames, 8)], &mut self.packet);
        if stack.proved < stack.frames.len() {
            let from = (stack.proved as u32).into();
            CALLSTACK_GUESS.append(&[stack.number.into(), from], &mut self.packet);
        }
        let reason: u32 = match stack.end {
            tree::TOO_DEEP => 1,
            tree::NO_TABLE => 2,
            tree::UNREADABLE => 3,
            tree::LIBRARY_CHANGED => 4,
            _ => 0,
        };
        let cut = if stack.is_cut { 5 } else { 0 };
        for reason in [reason, cut].into_iter().filter(|reason| *reason > 0) {
            let number = stack.number.into();
            CALLSTACK_END.append(&[number, reason.into()], &mut self.packet);
        }
    }

    fn flush(&mut self) {
        if !self.packet.is_empty() {
            (self.send)(self.stream, &self.packet);
            self.packet.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::tree::{
        COMPLETE, Frame, LIBRARY_CHANGED, NO_TABLE, OTHER, TOO_DEEP, UNREADABLE, tests::add,
    };
    use memledger_format::arrays::piece_head;

    fn stack(end: u32, frames: &[u64]) -> u32 {
        add(end, frames.iter().rev().map(|frame| Frame::new(*frame, 3)))
    }

    /// A provider whose channel was on.
    fn provider() -> StackEvents {
        let mut provider = StackEvents::new(|error| panic!("{error}"));
        provider.announce_sampling(&mut Importants::new());
        provider
    }

    fn defined(provider: &mut StackEvents) -> Vec<u8> {
        let mut bytes = Vec::new();
        provider.announce(&mut Importants::new());
        provider.define(&mut |stream, packet| match stream {
            CONTROL => bytes.extend_from_slice(packet),
            _ => assert_eq!(stream, IMPORTANTS),
        });
        bytes
    }

    /// What the stream has of one stack.
    fn spec(number: u32, frames: &[u64], reason: Option<u8>) -> Vec<u8> {
        let mut bytes = CALLSTACK_SPEC.wire().to_le_bytes().to_vec();
        bytes.extend(number.to_le_bytes());
        if !frames.is_empty() {
            bytes.extend(piece_head(1, frames.len() * 8, 1));
            bytes.extend(frames.iter().flat_map(|frame| frame.to_le_bytes()));
        }
        bytes.push(6);
        if let Some(reason) = reason {
            bytes.extend(CALLSTACK_END.wire().to_le_bytes());
            bytes.extend(number.to_le_bytes());
            bytes.push(reason);
        }
        bytes
    }

    fn has(bytes: &[u8], part: &[u8]) -> usize {
        bytes.windows(part.len()).filter(|window| *window == part).count()
    }

    #[test]
    fn each_stack_is_written_once_and_again_for_a_stream_that_starts_late() {
        let mut provider = provider();
        let first = stack(COMPLETE, &[0x6100_0003, 0x6100_0002, 0x6100_0001]);
        let one = defined(&mut provider);
        let expected = spec(first, &[0x6100_0003, 0x6100_0002, 0x6100_0001], None);
        assert_eq!(has(&one, &expected), 1);
        assert_eq!(one[..7], spec(OTHER, &[], None));
        let cut = [(TOO_DEEP, 1), (NO_TABLE, 2), (UNREADABLE, 3), (LIBRARY_CHANGED, 4)];
        let cut = cut.map(|(end, reason)| {
            let frames = [0x6200_0000 + u64::from(end)];
            spec(stack(end, &frames), &frames, Some(reason))
        });
        let two = defined(&mut provider);
        for expected in &cut {
            assert_eq!(has(&two, expected), 1);
        }
        assert_eq!(has(&two, &expected) + has(&two, &spec(OTHER, &[], None)), 0);
        let mut again = Vec::new();
        let definitions = provider.definitions().unwrap();
        // Stacks from here on are for the next call of `define`.
        let later = stack(COMPLETE, &[0x6300_0001]);
        let later = spec(later, &[0x6300_0001], None);
        definitions(&mut |_, packet| again.extend_from_slice(packet));
        assert_eq!(has(&again, &later), 0);
        for expected in cut.iter().chain([&expected]) {
            assert_eq!(has(&again, expected), 1);
        }
        assert_eq!(has(&defined(&mut provider), &later), 1);
    }

    #[test]
    fn a_recording_without_stacks_has_none() {
        stack(COMPLETE, &[0x6400_0001]);
        let mut provider = StackEvents::new(|error| panic!("{error}"));
        assert_eq!(defined(&mut provider), [0; 0]);
        assert!(provider.definitions().is_none());
    }

    #[test]
    fn a_stack_of_the_most_frames_fits_a_packet() {
        let mut provider = provider();
        let frames: Vec<_> = (0..255).map(|frame| 0x7f00_6500_0000 + frame).collect();
        (0..100).for_each(|inner| {
            stack(COMPLETE, &[&[0x6500_0000 + inner], &frames[1..]].concat());
        });
        let mut largest = 0;
        provider.announce(&mut Importants::new());
        provider.define(&mut |_, packet| largest = largest.max(packet.len()));
        assert!((PACKET..PACKET + 3000).contains(&largest), "{largest}");
    }

    #[test]
    fn exact_bytes_of_a_module() {
        let (path, build_id) = ("/a".into(), vec![1, 2, 3]);
        let stamp = [7, 0x0102_0304_0506_0708];
        let loaded = Change::Loaded { base: 0x5500, size: 1 << 33, path, build_id, stamp };
        let mut bytes = Vec::new();
        let mut send = |stream, packet: &[u8]| {
            assert_eq!(stream, IMPORTANTS);
            bytes.extend_from_slice(packet);
        };
        let mut packets = Packets::new(&mut send);
        packets.add_change(&loaded);
        packets.add_change(&Change::Unloaded { base: 0x5500 });
        packets.flush();
        let expected = [
            &[52, 0, 44, 0][..],
            &[0, 0x55, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
            &[7, 0, 0, 0, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1],
            &[0x01, 0x80, 0, 0],
            &[b'/', 0, b'a', 0],
            &[0x01, 0x63, 0, 0, 1, 2, 3],
            &[3],
            &[53, 0, 8, 0, 0, 0x55, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(bytes, expected.concat());
    }
}
