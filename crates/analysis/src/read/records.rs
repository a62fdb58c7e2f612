//! The two streams that belong to no thread: the stream of type records and the stream of important
//! events.
//!
//! ```text
//! u16 uid (plain, 0 for a type record)   u16 size   `size` bytes
//!     of an important event: fixed part, then blocks of u32 (0x01 | field << 8 | size << 13)
//!     and data, then 0x03, then unused bytes
//! ```
//! A record can continue in the next packet, so after a loss the next packet may start inside a
//! record.

use super::event::{Event, Visitor};
use super::resync::payload::begins_near_start;
use super::schemas::{Added, Protocol, ReaderRole, Types};
use super::tally::Tally;
use memledger_format::schema::{EventType, FIRST_UID, LAST_UID};

const HEADER: usize = 4;
const NEW_EVENT: u16 = 0;
const AUX: u8 = 1;
const TERMINAL: u8 = 3;

/// After a loss, the number of consecutive legal records that mark the start of a record.
const MIN_LEGAL_RECORDS: usize = 3;

/// The state of one of these streams, and its bytes that are not decoded yet.
pub(super) struct Records {
    stream: u16,
    bytes: Vec<u8>,
    /// The next byte may be inside a record.
    lost: bool,
    pub packets: u64,
    pub total_bytes: u64,
    pub events: u64,
}

/// The records of a packet that the decoder itself uses.
#[derive(Default)]
pub(super) struct RecordEffects {
    pub types: bool,
    pub first_serial: Option<u64>,
}

impl Records {
    pub(super) fn new(stream: u16) -> Self {
        Self { stream, bytes: Vec::new(), lost: false, packets: 0, total_bytes: 0, events: 0 }
    }

    /// A packet is missing after the bytes so far.
    pub(super) fn packet_lost(&mut self, tally: &mut Tally, visitor: &mut impl Visitor) {
        self.end(tally, visitor);
        self.lost = true;
    }

    /// The stream has ended: drops the last record if it is incomplete.
    pub(super) fn end(&mut self, tally: &mut Tally, visitor: &mut impl Visitor) {
        let rest = self.bytes.len();
        if rest > 0 {
            let what = format!("stream {} breaks off {rest} bytes into a record", self.stream);
            tally.damage(visitor, tally.offset, rest, what);
            self.bytes.clear();
        }
    }

    /// Takes in the payload of one packet and delivers the complete records.
    pub(super) fn packet(
        &mut self,
        payload: &[u8],
        protocol: &Protocol,
        types: &mut Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) -> RecordEffects {
        let mut found = RecordEffects::default();
        self.packets += 1;
        self.total_bytes += payload.len() as u64;
        self.bytes.extend_from_slice(payload);
        let mut at = 0;
        let mut illegal = false;
        loop {
            if self.lost {
                at += self.skip(at, protocol, types, tally, visitor);
                self.lost = at == self.bytes.len();
            }
            let rest = self.bytes.get(at..).unwrap_or_default();
            let Some((uid, size)) = header(rest) else { break };
            let is_uid = uid == NEW_EVENT || (FIRST_UID..=LAST_UID).contains(&uid);
            let body = rest.get(HEADER..HEADER + size);
            if body.is_none() && is_uid && (uid == NEW_EVENT || types.layout(uid).is_some()) {
                break;
            }
            // Other bytes could be a record of an unknown type, but are more likely no record.
            let Some(body) = body.filter(|_| is_uid) else {
                self.lost = true;
                continue;
            };
            let read = if uid == NEW_EVENT {
                protocol.type_record(body).map(|event_type| {
                    found.types |= add_type(event_type, protocol, types, tally, visitor);
                })
            } else {
                important(uid, body, types).map(|aux| {
                    self.events += 1;
                    let serial = deliver(uid, body, &aux, self.stream, types, tally, visitor);
                    found.first_serial = found.first_serial.or(serial);
                })
            };
            if let Err(what) = read {
                // If no record follows, these bytes are no record either.
                // NOTE: neither is the second illegal record of this packet. Otherwise damage could
                // be reported for every four bytes.
                let next = rest.get(HEADER + size..).and_then(header);
                let is_none = |(uid, _)| uid != NEW_EVENT && types.layout(uid).is_none();
                if std::mem::replace(&mut illegal, true) || next.is_some_and(is_none) {
                    self.lost = true;
                    continue;
                }
                tally.damage(visitor, tally.offset, HEADER + size, what);
            }
            at += HEADER + size;
        }
        self.bytes.drain(..at);
        found
    }

    /// How many bytes from `at` on are no record; they are reported.
    fn skip(
        &self,
        at: usize,
        protocol: &Protocol,
        types: &Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) -> usize {
        let rest = self.bytes.get(at..).unwrap_or_default();
        let skipped = resynchronise(rest, protocol, types).unwrap_or(rest.len());
        if skipped > 0 {
            let stream = self.stream;
            let what = format!("{skipped} bytes of stream {stream} are not the start of a record");
            tally.damage(visitor, tally.offset, skipped, what);
        }
        skipped
    }
}

fn header(bytes: &[u8]) -> Option<(u16, usize)> {
    let &[u0, u1, s0, s1] = bytes.first_chunk()?;
    Some((u16::from_le_bytes([u0, u1]), usize::from(u16::from_le_bytes([s0, s1]))))
}

/// Adds a type; returns whether it is new.
pub(super) fn add_type(
    event_type: EventType,
    protocol: &Protocol,
    types: &mut Types,
    tally: &mut Tally,
    visitor: &mut impl Visitor,
) -> bool {
    let name = event_type.name();
    let index = match types.add(event_type, protocol) {
        Added::New(index) => index,
        Added::Unchanged => return false,
        Added::Refused { first } => {
            if first {
                let what = format!(
                    "the trace declares more types than a reader keeps: {name} and all that follow are left out"
                );
                tally.damage(visitor, tally.offset, 0, what);
            }
            return false;
        }
    };
    if let Some(known) = types.get(index) {
        tally.by_type.push(0);
        visitor.event_type(index as usize, &known.event_type);
    }
    true
}

type Aux<'a> = Vec<(u8, &'a [u8])>;

/// Decodes an important event; returns the pieces of its arrays.
fn important<'a>(uid: u16, body: &'a [u8], types: &Types) -> Result<Aux<'a>, String> {
    let Some(known) = types.info(uid).and_then(|info| types.get(info.type_index)) else {
        return Err(format!("an important event has the unknown type {uid}"));
    };
    // The text is shown on terminals, so control characters are escaped.
    let name = || known.event_type.name().escape_debug().to_string();
    let Some(mut rest) = body.get(known.fixed_size..) else {
        return Err(format!("an important event {} has only {} bytes", name(), body.len()));
    };
    let mut aux = Vec::new();
    if !known.event_type.has_aux() {
        return Ok(aux);
    }
    let broken = || format!("the arrays of an important event {} cannot be read", name());
    loop {
        match rest.first() {
            Some(&TERMINAL) => return Ok(aux),
            Some(&AUX) => {}
            _ => return Err(broken()),
        }
        let (&block, data) = rest.split_first_chunk::<4>().ok_or_else(broken)?;
        let block = u32::from_le_bytes(block);
        let field = (block >> 8 & 0x1f) as u8;
        let (data, after) = data.split_at_checked((block >> 13) as usize).ok_or_else(broken)?;
        let owner = known.event_type.fields.get(usize::from(field)).ok_or_else(broken)?;
        if !owner.field_type.is_array() {
            return Err(broken());
        }
        aux.push((field, data));
        rest = after;
    }
}

/// Delivers an important event; returns the first serial of the trace if the event declares it.
fn deliver(
    uid: u16,
    body: &[u8],
    aux: &[(u8, &[u8])],
    stream: u16,
    types: &Types,
    tally: &mut Tally,
    visitor: &mut impl Visitor,
) -> Option<u64> {
    let index = types.info(uid)?.type_index;
    let known = types.get(index)?;
    let event = Event {
        event_type: &known.event_type,
        type_index: index as usize,
        stream,
        serial: None,
        enters_scope: false,
        fixed: body.get(..known.fixed_size)?,
        aux,
    };
    tally.event(index);
    visitor.event(&event);
    match known.role {
        ReaderRole::FirstSerial(offset) => Some(event.unsigned(usize::from(offset), 8)),
        _ => None,
    }
}

/// The first offset at which [`MIN_LEGAL_RECORDS`] legal records begin, or fewer that end with the
/// bytes.
fn resynchronise(bytes: &[u8], protocol: &Protocol, types: &Types) -> Option<usize> {
    (0..bytes.len()).find(|&start| {
        let mut at = start;
        for _ in 0..MIN_LEGAL_RECORDS {
            let rest = bytes.get(at..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            let Some((uid, size)) = header(rest) else { return false };
            let Some(body) = rest.get(HEADER..HEADER + size) else {
                // The last record may continue in the next packet.
                return at > start && types.layout(uid).is_some();
            };
            // PERF: most attempts end here, before the text of an error is made.
            let possible = match uid {
                NEW_EVENT => body.first_chunk().is_some_and(|&declared| {
                    (FIRST_UID..=LAST_UID).contains(&u16::from_le_bytes(declared))
                }),
                _ => types.layout(uid).is_some(),
            };
            if !possible {
                return false;
            }
            let legal = match uid {
                NEW_EVENT => protocol.type_record(body).is_ok(),
                _ => important(uid, body, types).is_ok(),
            };
            if !legal {
                return false;
            }
            at += HEADER + size;
        }
        true
    })
}

/// Whether records begin somewhere in a payload. Subtracts the cost in bytes from `budget`.
pub(super) fn is_plausible(
    payload: &[u8],
    protocol: &Protocol,
    types: &Types,
    budget: &mut usize,
) -> bool {
    begins_near_start(payload, budget, |start| resynchronise(start, protocol, types).is_some())
}
