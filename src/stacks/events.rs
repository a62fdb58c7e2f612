//! Modules and call stacks in the stream.
//!
//! Each stack is written once, before the first event that has its number. Unreal loses the stacks of a
//! stream that starts late; here a late stream begins with all of them.

use super::capture::{self, Change, SUPPORTED};
use super::state;
use super::tree::{self, Walk};
use crate::error::{self, Error};
use crate::events::channel::Channel;
use crate::platform::os::Instant;
use crate::trace::worker::{CONTROL, Definitions, EventProvider, Importants};
use memledger_format::callstacks::{
    CALLSTACK_END, CALLSTACK_GUESS, CALLSTACK_SPEC, CALLSTACKS, Callstack, CallstackWriter,
    INNER_NOT_KEPT, PACKET,
};
use memledger_format::encode::{Declaration, Value};
use memledger_format::packet::IMPORTANTS;
use memledger_format::schema::{
    FieldType::{AnsiString, U8, U8Array, U32, U64, WideString},
    IMPORTANT, NO_SYNC,
};
use std::time::Duration;

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
    &CALLSTACKS,
];

/// The channel of call stacks. Unreal's has the same name.
pub(crate) static CHANNEL: Channel = Channel::new("Callstack", false);

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
            let path = std::path::Path::new(capture::LIST_OF_MODULES);
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
            tree::visit_left(*first, |stack, is_cut| packets.add_left(&stack, is_cut));
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
        let walk = self.walk.visits();
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
    stacks: CallstackWriter,
    send: &'a mut dyn FnMut(u16, &[u8]),
}

impl<'a> Packets<'a> {
    fn new(send: &'a mut dyn FnMut(u16, &[u8])) -> Self {
        Self { stream: CONTROL, packet: Vec::new(), stacks: CallstackWriter::default(), send }
    }

    /// The next events are on this stream.
    fn on(&mut self, stream: u16) {
        if self.stream != stream || self.packet.len() + self.stacks.list().len() >= PACKET {
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

    fn add(&mut self, stack: &Callstack<'_>) {
        self.on(CONTROL);
        self.stacks.add(stack, &mut self.packet);
    }

    /// Adds a stack in a watcher.
    fn add_left(&mut self, stack: &Callstack<'_>, is_cut: bool) {
        self.add(stack);
        if is_cut {
            self.stacks.end_event(&mut self.packet);
            let reason = u32::from(INNER_NOT_KEPT).into();
            CALLSTACK_END.append(&[stack.id.into(), reason], &mut self.packet);
            // NOTE: a list is the first event of its packet.
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.stacks.end_event(&mut self.packet);
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
        COMPLETE, LIBRARY_CHANGED, NO_TABLE, OTHER, PackedFrame, TOO_DEEP, UNREADABLE, tests::add,
    };
    use memledger_format::arrays::piece_head;
    use memledger_format::callstacks::{self, Inner, Outer};
    use memledger_format::handshake::Transport;
    use memledger_format::packet::{self, Header, PacketWriter};
    use memledger_format::unpack::Unpacker;

    fn stack(end: u32, frames: &[u64]) -> u32 {
        add(end, frames.iter().rev().map(|frame| PackedFrame::new(*frame, 3)))
    }

    /// A provider whose channel was on.
    fn provider() -> StackEvents {
        let mut provider = StackEvents::new(|error| panic!("{error}"));
        provider.announce_sampling(&mut Importants::new());
        provider
    }

    /// What Unreal's readers see of the packets that `send` gets.
    fn as_unreal(define: impl FnOnce(&mut dyn FnMut(u16, &[u8]))) -> Vec<u8> {
        let (mut types, mut out) = (Vec::new(), Vec::new());
        TYPES.iter().for_each(|declared| declared.append_record(&mut types));
        let mut writer = PacketWriter::new(Transport::Unreal, 7);
        writer.packet(packet::TYPES, &types, &mut out);
        let mut at = out.len();
        define(&mut |stream, packet| match stream {
            CONTROL => writer.packet(CONTROL, packet, &mut out),
            _ => assert_eq!(stream, IMPORTANTS),
        });
        let (mut unpacker, mut bytes) = (Unpacker::new(), Vec::new());
        while let Some(head) = out[at..].first_chunk() {
            let header = Header::decode(*head, Transport::Unreal).unwrap();
            bytes.extend_from_slice(unpacker.payload(&header, &out[at..at + header.size]).unwrap());
            at += header.size;
        }
        bytes
    }

    /// The stacks that are new.
    fn defined(provider: &mut StackEvents) -> Vec<(u32, Outer, usize)> {
        let mut stacks = Vec::new();
        provider.announce(&mut Importants::new());
        provider.define(&mut |stream, packet| match stream {
            CONTROL => stacks.extend(listed(packet)),
            _ => assert_eq!(stream, IMPORTANTS),
        });
        stacks
    }

    /// The stacks of a packet that has one list: the number of their own frames, or `usize::MAX` if another
    /// stack has them.
    fn listed(packet: &[u8]) -> Vec<(u32, Outer, usize)> {
        let mut stacks = Vec::new();
        assert_eq!(packet[..2], CALLSTACKS.wire().to_le_bytes());
        let first = u32::from_le_bytes(packet[2..6].try_into().unwrap());
        let list = &packet[10..packet.len() - 1];
        assert_eq!(packet[6..10], piece_head(1, list.len(), 1));
        let is_whole = callstacks::visit(first, list, &mut Vec::new(), |stack| {
            let inner = match stack.inner {
                Inner::Frames(frames) => frames.len(),
                _ => usize::MAX,
            };
            stacks.push((stack.id, stack.outer, inner));
        });
        assert!(is_whole);
        stacks
    }

    /// What Unreal's stream has of one stack.
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
        let first = stack(COMPLETE, &[0x6100_000c, 0x6100_0008, 0x6100_0004]);
        let one = as_unreal(|send| {
            provider.announce(&mut Importants::new());
            provider.define(send);
        });
        let expected = spec(first, &[0x6100_000c, 0x6100_0008, 0x6100_0004], None);
        assert_eq!(has(&one, &expected), 1);
        assert_eq!(one[..7], spec(OTHER, &[], None));
        let cut = [(TOO_DEEP, 1), (NO_TABLE, 2), (UNREADABLE, 3), (LIBRARY_CHANGED, 4)];
        let cut = cut.map(|(end, reason)| {
            let frames = [0x6200_0000 + 4 * u64::from(end)];
            let number = stack(end, &frames);
            (
                number,
                (number, Outer::Of { id: end, without: 0 }, 1),
                spec(number, &frames, Some(reason)),
            )
        });
        let two = defined(&mut provider);
        for (_, expected, _) in &cut {
            assert_eq!(two.iter().filter(|stack| *stack == expected).count(), 1);
        }
        assert!(two.iter().all(|(id, ..)| *id > first));
        let definitions = provider.definitions().unwrap();
        // Stacks from here on are for the next call of `define`.
        let later = stack(COMPLETE, &[0x6300_0004]);
        let again = as_unreal(|send| definitions(send));
        assert_eq!(has(&again, &spec(later, &[0x6300_0004], None)), 0);
        for expected in cut.iter().map(|(.., spec)| spec).chain([&expected]) {
            assert_eq!(has(&again, expected), 1);
        }
        assert_eq!(defined(&mut provider).iter().filter(|(id, ..)| *id == later).count(), 1);
    }

    #[test]
    fn frames_that_stacks_share_are_written_once() {
        let mut provider = provider();
        let inner = [0x6600_0010, 0x6600_000c];
        let [a, b, outer] = [0x6600_0004, 0x6600_0008, 0x6600_0014]
            .map(|outermost| stack(COMPLETE, &[&inner[..], &[outermost]].concat()));
        // Of the third stack, all but the innermost frame.
        let part = stack(COMPLETE, &[0x6600_000c, 0x6600_0014]);
        let stacks = defined(&mut provider);
        let of = |wanted| *stacks.iter().find(|(id, ..)| *id == wanted).unwrap();
        assert_eq!(of(a), (a, Outer::Of { id: COMPLETE, without: 0 }, 3));
        assert_eq!(of(b), (b, Outer::Of { id: COMPLETE, without: 0 }, 3));
        assert_eq!(of(part), (part, Outer::Of { id: outer, without: 1 }, 0));
    }

    #[test]
    fn a_recording_without_stacks_has_none() {
        stack(COMPLETE, &[0x6400_0004]);
        let mut provider = StackEvents::new(|error| panic!("{error}"));
        assert_eq!(defined(&mut provider), []);
        assert!(provider.definitions().is_none());
    }

    #[test]
    fn many_stacks_are_in_packets_of_limited_size() {
        let mut provider = provider();
        for inner in 0..20_000 {
            stack(COMPLETE, &[0x6500_0000 + 4 * inner]);
        }
        let mut sizes = Vec::new();
        provider.announce(&mut Importants::new());
        provider.define(&mut |_, packet| sizes.push(packet.len()));
        let largest = sizes.iter().max().unwrap();
        assert!(sizes.len() > 1 && (PACKET..PACKET + 100).contains(largest), "{sizes:?}");
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
