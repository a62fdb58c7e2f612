//! Writes streams byte by byte, as the format describes them, and logs what a reader delivers.
//! It shares no code with the writer or the reader.

use memledger_analysis::read::{Damage, Decoder, Event, Hole, Visitor};
use memledger_format::schema::{EventType, FieldType};

pub const TYPES: u16 = 0;
pub const IMPORTANTS: u16 = 1;
pub const PSEUDO: u16 = 0x3ffe;

pub const IMPORTANT: u8 = 1;
pub const AUX: u8 = 2;
pub const NO_SYNC: u8 = 4;

pub const TERMINAL: &[u8] = &[3 << 1];
pub const ENTER: &[u8] = &[4 << 1];
pub const LEAVE: &[u8] = &[5 << 1];

/// A type record with its header. `name` is `Logger.Event`.
pub fn type_record(
    protocol: u8,
    uid: u16,
    name: &str,
    flags: u8,
    fields: &[(&str, FieldType)],
) -> Vec<u8> {
    let (logger, event) = name.split_once('.').unwrap();
    let mut record = uid.to_le_bytes().to_vec();
    record.extend([fields.len() as u8, flags, logger.len() as u8, event.len() as u8]);
    let mut offset = 0u16;
    for (name, field_type) in fields {
        let size = field_type.fixed_size() as u16;
        if protocol >= 6 {
            // Family, and the byte Unreal does not initialise.
            record.extend([0, 0xa5]);
        }
        record.extend(offset.to_le_bytes());
        record.extend(size.to_le_bytes());
        record.extend([field_type.code(), name.len() as u8]);
        offset += size;
    }
    record.extend(logger.bytes().chain(event.bytes()));
    fields.iter().for_each(|(name, _)| record.extend(name.bytes()));
    framed(0, &record)
}

/// A record of stream 0 or 1: uid, size, body.
pub fn framed(uid: u16, body: &[u8]) -> Vec<u8> {
    [&uid.to_le_bytes()[..], &(body.len() as u16).to_le_bytes(), body].concat()
}

/// An event without a serial, without aux blocks and terminal.
pub fn plain(uid: u16, fixed: &[u8]) -> Vec<u8> {
    [&(uid << 1 | 1).to_le_bytes()[..], fixed].concat()
}

/// An event with a serial, without aux blocks and terminal.
pub fn synced(uid: u16, serial: u64, fixed: &[u8]) -> Vec<u8> {
    [&(uid << 1 | 1).to_le_bytes()[..], &serial.to_le_bytes()[..3], fixed].concat()
}

/// A block of array data of a thread's stream.
pub fn aux(field: u8, data: &[u8]) -> Vec<u8> {
    let header = 2 | u32::from(field) << 8 | (data.len() as u32) << 13;
    [&header.to_le_bytes()[..], data].concat()
}

/// An important event with its frame; `tail` unused bytes follow its terminal.
pub fn important(uid: u16, fixed: &[u8], arrays: &[(u8, &[u8])], tail: usize) -> Vec<u8> {
    let mut body = fixed.to_vec();
    for (field, data) in arrays {
        let header = 1 | u32::from(*field) << 8 | (data.len() as u32) << 13;
        body.extend(header.to_le_bytes());
        body.extend(*data);
    }
    if !arrays.is_empty() {
        body.push(3);
    }
    body.extend(vec![0xcd; tail]);
    framed(uid, &body)
}

/// A plain packet.
pub fn packet(stream: u16, payload: &[u8]) -> Vec<u8> {
    let size = (payload.len() + 4) as u16;
    [&size.to_le_bytes()[..], &stream.to_le_bytes(), payload].concat()
}

/// A sync packet.
pub const SYNC: &[u8] = &[4, 0, 0xff, 0x3f];

/// The start of a trace.
pub fn handshake(protocol: u8) -> Vec<u8> {
    [b"2CRT", &[4, 0, 2, 0, 0xff, 0xff][..], &[4, protocol]].concat()
}

/// One thing a reader delivered.
#[derive(Clone, Debug, PartialEq)]
pub enum Log {
    Type(usize, String),
    /// Name, stream, serial, fixed part.
    Event(String, u16, Option<u64>, Vec<u8>),
    /// The joined data of the arrays of the event before, by field.
    Arrays(Vec<(u8, Vec<u8>)>),
    /// The event before opens a scope.
    Enter,
    Leave(u16),
    Hole(u64, u64),
    Damage(String),
}

#[derive(Default)]
pub struct Logger(pub Vec<Log>);

impl Visitor for Logger {
    fn event_type(&mut self, index: usize, event_type: &EventType) {
        self.0.push(Log::Type(index, event_type.name()));
    }

    fn event(&mut self, event: &Event<'_>) {
        let name = event.event_type.name();
        self.0.push(Log::Event(name, event.stream, event.serial, event.fixed.to_vec()));
        let mut arrays: Vec<(u8, Vec<u8>)> = Vec::new();
        for &(field, data) in event.aux {
            match arrays.iter_mut().find(|(f, _)| *f == field) {
                Some((_, all)) => all.extend(data),
                None => arrays.push((field, data.to_vec())),
            }
        }
        if !arrays.is_empty() {
            self.0.push(Log::Arrays(arrays));
        }
        if event.enters_scope {
            self.0.push(Log::Enter);
        }
    }

    fn leave_scope(&mut self, stream: u16) {
        self.0.push(Log::Leave(stream));
    }

    fn hole(&mut self, hole: Hole) {
        self.0.push(Log::Hole(hole.first, hole.count));
    }

    fn damage(&mut self, damage: &Damage) {
        self.0.push(Log::Damage(damage.what.clone()));
    }
}

/// A decoder, what it has delivered since it was asked last, and a few types:
/// 16 `T.Sync {V u8}`, 17 `T.Free {V u8}` (no serial), 18 `T.Arrays {V u8, A u8[], B u8[]}`
/// (no serial), 19 `T.SyncArrays {V u8, A u8[]}`, 20 `T.Important {V u8, A u8[]}`,
/// 30 `Memledger.Settled`, 31 `Memledger.Trace`.
pub struct Run {
    pub decoder: Decoder,
    logger: Logger,
}

pub fn types(protocol: u8) -> Vec<u8> {
    use FieldType::{U8, U8Array, U64};
    let v = ("V", U8);
    [
        type_record(protocol, 16, "T.Sync", 0, &[v]),
        type_record(protocol, 17, "T.Free", NO_SYNC, &[v]),
        type_record(protocol, 18, "T.Arrays", NO_SYNC | AUX, &[v, ("A", U8Array), ("B", U8Array)]),
        type_record(protocol, 19, "T.SyncArrays", AUX, &[v, ("A", U8Array)]),
        type_record(protocol, 20, "T.Important", IMPORTANT | NO_SYNC | AUX, &[v, ("A", U8Array)]),
        type_record(protocol, 30, "Memledger.Settled", NO_SYNC, &[("Serial", U64)]),
        type_record(
            protocol,
            31,
            "Memledger.Trace",
            IMPORTANT | NO_SYNC,
            &[("Version", U8), ("FirstSerial", U64)],
        ),
    ]
    .concat()
}

impl Run {
    pub fn new(protocol: u8) -> Self {
        let mut run = Self { decoder: Decoder::new(protocol), logger: Logger::default() };
        run.packet(TYPES, &types(protocol));
        run.take();
        run
    }

    /// One whose stream says that its serials begin with `first`.
    pub fn from_serial(first: u64) -> Self {
        let mut run = Self::new(7);
        run.packet(IMPORTANTS, &framed(31, &[&[1][..], &first.to_le_bytes()].concat()));
        run.take();
        run
    }

    pub fn packet(&mut self, stream: u16, payload: &[u8]) {
        self.decoder.packet(stream, payload, &mut self.logger);
    }

    pub fn settled(&mut self, serial: u64) {
        self.packet(9, &plain(30, &serial.to_le_bytes()));
        self.logger.0.retain(|log| !matches!(log, Log::Event(_, 9, ..)));
    }

    pub fn lost(&mut self, stream: u16) {
        self.decoder.packet_lost(stream, &mut self.logger);
    }

    pub fn sync(&mut self) {
        self.decoder.sync(&mut self.logger);
    }

    pub fn finish(&mut self) {
        self.decoder.finish(&mut self.logger);
    }

    /// What was delivered since the last call.
    pub fn take(&mut self) -> Vec<Log> {
        std::mem::take(&mut self.logger.0)
    }

    /// The same in short: a serial as its number, a hole as `hole 3..5`, a scope as `{` and `}`,
    /// an event without a serial as `.` and its first byte, damage as `!`.
    pub fn short(&mut self) -> String {
        let short = |log: Log| match log {
            Log::Event(_, _, Some(serial), _) => serial.to_string(),
            Log::Event(_, _, None, fixed) => format!(".{}", fixed.first().copied().unwrap_or(0)),
            Log::Hole(first, count) => format!("hole {first}..{}", first + count),
            Log::Enter => "{".into(),
            Log::Leave(_) => "}".into(),
            Log::Damage(_) => "!".into(),
            Log::Type(index, _) => format!("type {index}"),
            Log::Arrays(arrays) => format!("{arrays:?}"),
        };
        self.take().into_iter().map(short).collect::<Vec<_>>().join(" ")
    }
}

/// Several events of type 16 with these serials, one after the other.
pub fn serials(serials: impl IntoIterator<Item = u64>) -> Vec<u8> {
    serials.into_iter().flat_map(|serial| synced(16, serial, &[serial as u8])).collect()
}
