//! A naive reader of protocols 0 to 4: it has the whole file in memory, and looks at the start of each stream
//! for each event. It shares no code with the reader.

use memledger_test_support::unreal4::{AUX, IMPORTANT, Item, Made, NO_SYNC};
use std::collections::{HashMap, VecDeque};

/// A type: its flags, the size of its fields, its name, and the offset of `$Trace.NewTrace`'s `Serial`.
#[derive(Clone)]
struct Type {
    name: String,
    flags: u8,
    size: usize,
    serial_at: Option<usize>,
}

/// The items of each stream, and the events with serials in their order.
#[derive(Default)]
pub struct Trace {
    pub by_stream: Vec<Vec<Item>>,
    pub ordered: Vec<Made>,
}

/// An item that waits: `None` if it is a type record, which can have a serial.
type Waiting = (Option<u64>, Option<Item>);

struct Parser {
    is_trc2: bool,
    protocol: u8,
    types: HashMap<u16, Type>,
    /// The serial of `$Trace.NewTrace`, if it has one.
    new_trace: Option<u64>,
    /// The stream that it is on.
    started_on: usize,
    hint: Option<u64>,
}

/// Reads a file that has no damage. A packet of transport 2 is a stream of its own as far as its
/// bytes go.
pub fn read(file: &[u8]) -> Trace {
    let (magic, rest) = match file {
        [b'E', b'C', b'R', b'T', rest @ ..] => (1, rest),
        [b'2', b'C', b'R', b'T', size, 0, rest @ ..] => (2, &rest[usize::from(*size)..]),
        rest => (0, rest),
    };
    let (transport, protocol) = (rest[0], rest[1]);
    let parts = match transport {
        1 => vec![(0, rest[2..].to_vec())],
        2 => batches(&rest[2..]),
        _ => threads(&rest[2..]),
    };
    let mut parser = Parser {
        is_trc2: magic == 2,
        protocol,
        types: HashMap::new(),
        new_trace: None,
        started_on: 0,
        hint: None,
    };
    let mut positions = vec![0; parts.len()];
    let streams = parts.iter().map(|part| usize::from(part.0) + 1).max().unwrap_or(0);
    let mut waiting = vec![VecDeque::new(); streams];
    let mut opening = vec![false; streams];
    // As long as any stream advances, it may have declared a type that another one waits for.
    loop {
        let before: usize = positions.iter().sum();
        for ((id, bytes), at) in parts.iter().zip(&mut positions) {
            let stream = usize::from(*id);
            while let Some(size) =
                parser.item(*id, &bytes[*at..], &mut opening[stream], &mut waiting[stream])
            {
                *at += size;
            }
        }
        if positions.iter().sum::<usize>() == before {
            break;
        }
    }
    parser.order(waiting)
}

fn packets(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut packets = Vec::new();
    while let [s0, s1, i0, i1, ..] = *bytes {
        let (size, id) = (usize::from(u16::from_le_bytes([s0, s1])), u16::from_le_bytes([i0, i1]));
        let (packet, rest) = bytes.split_at(size);
        packets.push((
            id & 0x7fff,
            match id >> 15 {
                0 => packet[4..].to_vec(),
                _ => lz4(&packet[6..]),
            },
        ));
        bytes = rest;
    }
    packets
}

fn threads(bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut threads: Vec<(u16, Vec<u8>)> = Vec::new();
    for (id, payload) in packets(bytes) {
        match threads.iter_mut().find(|thread| thread.0 == id) {
            Some(thread) => thread.1.extend(payload),
            None => threads.push((id, payload)),
        }
    }
    threads
}

/// The packets in the order of their events.
fn batches(bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    // NOTE: in this transport, the serial comes before the size.
    let mut swapped = bytes.to_vec();
    let mut at = 0;
    while at < swapped.len() {
        let size = usize::from(u16::from_le_bytes([swapped[at + 2], swapped[at + 3]]));
        swapped[at..at + 4].rotate_left(2);
        at += size;
    }
    let mut ordered: Vec<(u16, Vec<u8>)> = Vec::new();
    let (mut last, mut batch) = (None, 0);
    for (serial, payload) in packets(&swapped) {
        if last.is_some_and(|last| serial <= last) {
            batch = ordered.len();
        }
        last = Some(serial);
        ordered.insert(batch, (0, payload));
    }
    ordered
}

fn lz4(mut block: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    let next = |block: &mut &[u8]| {
        let byte = block[0];
        *block = &block[1..];
        byte
    };
    let length = |nibble: u8, block: &mut &[u8]| {
        let mut length = usize::from(nibble);
        while length >= 15 {
            let more = next(block);
            length += usize::from(more);
            if more < 255 {
                break;
            }
        }
        length
    };
    while !block.is_empty() {
        let token = next(&mut block);
        let literals = length(token >> 4, &mut block);
        data.extend(&block[..literals]);
        block = &block[literals..];
        if block.is_empty() {
            break;
        }
        let back = usize::from(u16::from_le_bytes([next(&mut block), next(&mut block)]));
        for _ in 0..length(token & 15, &mut block) + 4 {
            data.push(data[data.len() - back]);
        }
    }
    data
}

impl Parser {
    /// Takes the item that `bytes` begin with; returns its size. `None` if it is not there yet.
    fn item(
        &mut self,
        stream: u16,
        bytes: &[u8],
        opening: &mut bool,
        waiting: &mut VecDeque<Waiting>,
    ) -> Option<usize> {
        let &first = bytes.first()?;
        if self.protocol == 4 && first & 1 == 0 {
            match first {
                2 | 4 => *opening = true,
                6 | 8 => waiting.push_back((None, Some(None))),
                _ => panic!("byte {first}"),
            }
            return Some(if matches!(first, 2 | 6) { 1 } else { 8 });
        }
        let &[u0, u1, s0, s1] = bytes.first_chunk()?;
        let uid = match (self.protocol, u16::from_le_bytes([u0, u1])) {
            (0, tag) => tag & 0x3fff,
            (4, tag) => tag >> 1,
            (_, tag) => tag & 0x7fff,
        };
        let size = usize::from(u16::from_le_bytes([s0, s1]));
        let known = match uid {
            0 => None,
            // In transport 2, these are unused bytes at the end of a packet.
            _ if bytes.len() < 4 + size => return None,
            _ => Some(self.types.get(&uid)?.clone()),
        };
        let flags = known.as_ref().map_or(0, |known| known.flags);
        let is_inside = self.is_trc2 && flags & IMPORTANT != 0;
        let is_synced = match (self.protocol, &known) {
            (0, _) => false,
            (1, _) => true,
            (2, None) => true,
            (_, None) => false,
            _ => flags & NO_SYNC == 0 && !is_inside,
        };
        let width = match (is_synced, self.protocol) {
            (false, _) => 0,
            (true, 1) => 2,
            (true, _) => 3,
        };
        let low = bytes[4..4 + width].iter().rfold(0, |all, &byte| all << 8 | u64::from(byte));
        let serial = is_synced.then_some(low);
        let mut at = 4 + width;
        let body = &bytes[at..at + size];
        at += size;
        let Some(known) = known else {
            self.declare(body);
            waiting.push_back((serial, None));
            return Some(at);
        };
        let (fixed, mut attachment) = body.split_at(known.size);
        let mut arrays = Vec::new();
        if self.protocol > 0 && flags & AUX != 0 {
            let mut rest = if is_inside { std::mem::take(&mut attachment) } else { &bytes[at..] };
            let before = rest.len();
            while let [head @ 0x80..=0xff, a, b, c, after @ ..] = rest {
                let size = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
                arrays.push((head & 0x7f, after[..size].to_vec()));
                rest = &after[size..];
            }
            assert_eq!(rest[0], 0);
            at += if is_inside { 0 } else { before - rest.len() + 1 };
        }
        if known.name == "$Trace.NewTrace" {
            (self.new_trace, self.started_on) = (serial, stream.into());
            let hint = known.serial_at.map(|at| [fixed[at], fixed[at + 1], fixed[at + 2], 0]);
            self.hint = hint.map(|hint| u32::from_le_bytes(hint).into());
        }
        let made = Made {
            stream,
            uid,
            serial,
            enters: std::mem::take(opening),
            fixed: fixed.to_vec(),
            attachment: attachment.to_vec(),
            arrays,
        };
        waiting.push_back((serial, Some(Some(made))));
        Some(at)
    }

    fn declare(&mut self, record: &[u8]) {
        let uid = u16::from_le_bytes([record[0], record[1]]);
        let [count, flags, logger, event] = [2, 3, 4, 5].map(|at| usize::from(record[at]));
        let (fields, mut names) = record[6..].split_at(6 * count);
        let mut name = |size: usize| {
            let (name, rest) = names.split_at(size);
            names = rest;
            String::from_utf8(name.to_vec()).unwrap()
        };
        let whole = format!("{}.{}", name(logger), name(event));
        let (mut size, mut serial_at) = (0, None);
        for field in fields.chunks(6) {
            if name(field[5].into()) == "Serial" {
                serial_at = Some(size);
            }
            size += usize::from(field[2]);
        }
        self.types.insert(uid, Type { name: whole, flags: flags as u8, size, serial_at });
    }

    /// The streams as they are delivered: the event with the next serial, wherever it is.
    fn order(self, mut waiting: Vec<VecDeque<Waiting>>) -> Trace {
        let count = if self.protocol == 1 { 1 << 16 } else { 1 << 24 };
        let heads = |waiting: &[VecDeque<Waiting>]| -> Vec<u64> {
            let head = |stream: &VecDeque<Waiting>| stream.iter().find_map(|item| item.0);
            waiting.iter().filter_map(head).collect()
        };
        let lowest = |heads: &[u64]| -> Option<u64> {
            let (least, most) = (heads.iter().min()?, heads.iter().max()?);
            match most - least > count / 2 {
                true => heads.iter().copied().filter(|&head| head >= count / 2).min(),
                false => Some(*least),
            }
        };
        let distance = |from: u64, to: u64| (to + count - from % count) % count;
        let mut trace = Trace::default();
        trace.by_stream.resize(waiting.len(), Vec::new());
        let mut next = match self.hint {
            Some(hint) => {
                let near = |head: &u64| (distance(hint, *head) + count / 2) % count;
                heads(&waiting).into_iter().min_by_key(near).unwrap_or(0)
            }
            None => {
                heads(&waiting[self.started_on..=self.started_on]).first().map_or(0, |&head| head)
            }
        };
        while let Some(stream) = waiting.iter().position(|items| {
            items.front().is_some_and(|item| item.0.is_none_or(|low| low == next % count))
        }) {
            let (serial, item) = waiting[stream].pop_front().unwrap();
            let whole = serial.map(|_| next);
            next += u64::from(serial.is_some());
            if let Some(mut item) = item {
                if let Some(made) = &mut item {
                    made.serial = whole;
                    trace.ordered.extend(whole.map(|_| made.clone()));
                }
                trace.by_stream[stream].push(item);
            }
            // After the start of the trace, serials can go on with any other one.
            if serial.is_some() && serial == self.new_trace {
                next = lowest(&heads(&waiting)).unwrap_or(0).max(next);
            }
        }
        assert!(waiting.iter().all(VecDeque::is_empty), "a serial is missing");
        trace
    }
}
