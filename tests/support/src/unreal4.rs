//! Writes streams of protocols 0 to 4 byte by byte, as the format describes them, and keeps what it wrote. It
//! shares no code with the reader.

pub const IMPORTANT: u8 = 1;
pub const AUX: u8 = 2;
pub const NO_SYNC: u8 = 4;

/// The codes of fields.
pub const U8: u8 = 0;
pub const U16: u8 = 1;
pub const U32: u8 = 2;
pub const U64: u8 = 3;
pub const BYTES: u8 = 0x80;
pub const U64_ARRAY: u8 = 0x83;
pub const TEXT: u8 = 0x88;

/// A type of events: uid, name, flags, fields.
pub type Type<'a> = (u16, &'a str, u8, &'a [(&'a str, u8)]);

/// What a stream delivers next. `None` is the end of a scope.
pub type Item = Option<Made>;

/// An event as it was made, and as it is delivered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Made {
    pub stream: u16,
    pub uid: u16,
    pub serial: Option<u64>,
    pub enters: bool,
    pub fixed: Vec<u8>,
    pub attachment: Vec<u8>,
    pub arrays: Vec<(u8, Vec<u8>)>,
}

/// The streams of some threads.
pub struct Streams {
    magic: &'static [u8],
    transport: u8,
    protocol: u8,
    /// The next serial.
    pub next: u64,
    /// The bytes of each thread, and where in them each item ends.
    bytes: Vec<Vec<u8>>,
    ends: Vec<Vec<usize>>,
    /// Whether the next event of a thread opens a scope.
    opening: Vec<bool>,
    pub by_stream: Vec<Vec<Item>>,
    /// The events with serials, in their order.
    pub ordered: Vec<Made>,
}

/// How the bytes of the streams become packets.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    pub stream: usize,
    /// Bytes of a packet, or items in transport 2.
    pub size: usize,
    pub is_lz4: bool,
}

impl Streams {
    /// Streams that begin with `magic`, or with none.
    pub fn new(magic: &'static [u8], transport: u8, protocol: u8, threads: usize) -> Self {
        Self {
            magic,
            transport,
            protocol,
            next: 0,
            bytes: vec![Vec::new(); threads],
            ends: vec![Vec::new(); threads],
            opening: vec![false; threads],
            by_stream: vec![Vec::new(); threads],
            ordered: Vec::new(),
        }
    }

    /// The number of serials: they wrap to 0 there.
    pub fn serials(protocol: u8) -> u64 {
        if protocol == 1 { 1 << 16 } else { 1 << 24 }
    }

    pub fn is_trc2(&self) -> bool {
        self.magic == b"2CRT"
    }

    /// The header of an event, or of a type record if the uid is 0.
    fn header(&self, uid: u16, size: usize, serial: Option<u64>) -> Vec<u8> {
        let tag = if self.protocol == 4 { uid << 1 | 1 } else { uid };
        let mut bytes = [tag.to_le_bytes(), (size as u16).to_le_bytes()].concat();
        let width = if self.protocol == 1 { 2 } else { 3 };
        bytes.extend(serial.iter().flat_map(|serial| serial.to_le_bytes()[..width].to_vec()));
        bytes
    }

    fn take_serial(&mut self, is_synced: bool) -> Option<u64> {
        is_synced.then(|| {
            self.next += 1;
            self.next - 1
        })
    }

    fn push(&mut self, stream: usize, bytes: &[u8]) {
        self.bytes[stream].extend(bytes);
        self.ends[stream].push(self.bytes[stream].len());
    }

    /// Writes a type record.
    pub fn declare(&mut self, stream: usize, &(uid, name, flags, fields): &Type<'_>) {
        let (logger, event) = name.split_once('.').unwrap();
        let mut record = uid.to_le_bytes().to_vec();
        record.extend([fields.len() as u8, flags, logger.len() as u8, event.len() as u8]);
        let mut offset = 0_u16;
        for (name, code) in fields {
            let size = if code & 0x80 != 0 { 0 } else { 1_u16 << (code & 3) };
            record.extend([offset.to_le_bytes(), size.to_le_bytes()].concat());
            record.extend([*code, name.len() as u8]);
            offset += size;
        }
        record.extend(logger.bytes().chain(event.bytes()));
        record.extend(fields.iter().flat_map(|(name, _)| name.bytes()));
        let serial = self.take_serial(matches!(self.protocol, 1 | 2));
        let bytes = [self.header(0, record.len(), serial), record].concat();
        self.push(stream, &bytes);
    }

    /// Writes an event. `tail`: unused bytes after arrays that are inside the size.
    pub fn event(
        &mut self,
        stream: usize,
        &(uid, _, flags, _): &Type<'_>,
        fixed: &[u8],
        attachment: &[u8],
        arrays: &[(u8, &[u8])],
        tail: usize,
    ) {
        let is_inside = self.is_trc2() && flags & IMPORTANT != 0;
        let is_synced = match self.protocol {
            0 => false,
            1 => true,
            _ => flags & NO_SYNC == 0 && !is_inside,
        };
        let serial = self.take_serial(is_synced);
        let mut aux = Vec::new();
        if self.protocol > 0 && flags & AUX != 0 {
            for (field, data) in arrays {
                aux.extend((u32::from(0x80 | field) | (data.len() as u32) << 8).to_le_bytes());
                aux.extend(*data);
            }
            aux.push(0);
        }
        if is_inside {
            aux.extend(vec![0xcd; tail]);
        }
        let body = fixed.len() + attachment.len() + if is_inside { aux.len() } else { 0 };
        let bytes = [&self.header(uid, body, serial)[..], fixed, attachment, &aux].concat();
        self.push(stream, &bytes);
        let made = Made {
            stream: stream as u16,
            uid,
            serial,
            enters: std::mem::take(&mut self.opening[stream]),
            fixed: fixed.to_vec(),
            attachment: attachment.to_vec(),
            arrays: arrays.iter().map(|&(field, data)| (field, data.to_vec())).collect(),
        };
        if serial.is_some() {
            self.ordered.push(made.clone());
        }
        self.by_stream[stream].push(Some(made));
    }

    /// Opens a scope with the next event of the stream, with a time or without.
    pub fn enter(&mut self, stream: usize, stamp: Option<u64>) {
        self.builtin(stream, [2, 4], stamp);
        self.opening[stream] = true;
    }

    /// Closes a scope.
    pub fn leave(&mut self, stream: usize, stamp: Option<u64>) {
        self.builtin(stream, [6, 8], stamp);
        self.by_stream[stream].push(None);
    }

    fn builtin(&mut self, stream: usize, codes: [u8; 2], stamp: Option<u64>) {
        match stamp {
            None => self.bytes[stream].push(codes[0]),
            Some(cycles) => {
                self.bytes[stream].push(codes[1]);
                self.bytes[stream].extend(&cycles.to_le_bytes()[..7]);
            }
        }
    }

    /// The whole file.
    pub fn file(&self, cuts: &[Cut]) -> Vec<u8> {
        let mut file = self.magic.to_vec();
        if self.is_trc2() {
            file.extend([4, 0, 2, 0, 0xbf, 0x07]);
        }
        file.extend([self.transport, self.protocol]);
        match self.transport {
            1 => file.extend(&self.bytes[0]),
            2 => self.batches(cuts, &mut file),
            _ => self.packets(cuts, &mut file),
        }
        file
    }

    /// Packets per thread, which end anywhere.
    fn packets(&self, cuts: &[Cut], file: &mut Vec<u8>) {
        let mut rest: Vec<_> = self.bytes.iter().map(|bytes| &bytes[..]).collect();
        for cut in cuts.iter().cycle().take(40_000) {
            let (now, later) = rest[cut.stream].split_at(cut.size.min(rest[cut.stream].len()));
            packet(cut.stream as u16, now, cut.is_lz4, file);
            rest[cut.stream] = later;
        }
        for (stream, rest) in rest.iter().enumerate() {
            rest.chunks(4096).for_each(|part| packet(stream as u16, part, false, file));
        }
    }

    /// Packets of whole events, in batches of one to four, each with its last packet first.
    fn batches(&self, cuts: &[Cut], file: &mut Vec<u8>) {
        let (mut start, mut ends) = (0, self.ends[0].iter().copied().peekable());
        for batch in cuts.chunks(2).cycle() {
            let mut packets = Vec::new();
            for cut in batch {
                let Some(end) = ends.by_ref().take(cut.size % 7 + 1).last() else { break };
                // Up to three bytes of a packet can be unused.
                let payload = [&self.bytes[0][start..end], &vec![0; cut.size % 4]].concat();
                packets.push((payload, cut.is_lz4));
                start = end;
            }
            for (serial, (payload, is_lz4)) in packets.iter().rev().enumerate() {
                let at = file.len();
                packet(serial as u16, payload, *is_lz4, file);
                // In this transport, the serial comes before the size.
                file[at..at + 4].rotate_left(2);
            }
            if ends.peek().is_none() {
                break;
            }
        }
    }
}

/// A packet; no writer makes an empty one.
pub fn packet(id: u16, payload: &[u8], is_lz4: bool, file: &mut Vec<u8>) {
    if payload.is_empty() {
        return;
    }
    let coded = if is_lz4 { lz4(payload) } else { payload.to_vec() };
    let head = if is_lz4 { 6 } else { 4 };
    file.extend((coded.len() as u16 + head).to_le_bytes());
    file.extend((id | u16::from(is_lz4) << 15).to_le_bytes());
    if is_lz4 {
        file.extend((payload.len() as u16).to_le_bytes());
    }
    file.extend(coded);
}

/// A block of LZ4. Matches are up to 40 bytes back.
fn lz4(data: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    let (mut literals, mut at) = (0, 0);
    // The last five bytes are literals, and the last match begins twelve bytes before the end.
    while at + 12 < data.len() {
        let length = |back: usize| {
            (at..data.len() - 5).take_while(|&next| data[next] == data[next - back]).count()
        };
        let best = (1..=at.min(40)).map(|back| (length(back), back)).max().unwrap_or((0, 0));
        match best {
            (length @ 4.., back) => {
                sequence(&data[literals..at], Some((length, back)), &mut block);
                at += length;
                literals = at;
            }
            _ => at += 1,
        }
    }
    sequence(&data[literals..], None, &mut block);
    block
}

fn sequence(literals: &[u8], found: Option<(usize, usize)>, block: &mut Vec<u8>) {
    let length = found.map_or(0, |(length, _)| length - 4);
    block.push((literals.len().min(15) << 4 | length.min(15)) as u8);
    extend(literals.len(), block);
    block.extend(literals);
    if let Some((_, back)) = found {
        block.extend((back as u16).to_le_bytes());
        extend(length, block);
    }
}

/// What is left of a length that does not fit its four bits.
fn extend(length: usize, block: &mut Vec<u8>) {
    if let Some(rest) = length.checked_sub(15) {
        block.extend(vec![255; rest / 255]);
        block.push((rest % 255) as u8);
    }
}
