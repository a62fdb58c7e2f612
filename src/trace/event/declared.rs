//! The event types that the program declares, and the numbers they get.
//!
//! A type gets its uid when its first event is logged: the place it takes in an append-only table
//! that all threads share without locks. The worker announces what has been added since its last
//! tick. Uids of the program have bit 6 set and ours do not, so that the first byte of an event
//! says whose it is.
#![expect(unsafe_code, reason = "a table of pointers to statics")]

use super::schema::{
    DEFINITION, FieldFamily, FieldType, IMPORTANT, LAST_UID, MAYBE_HAS_AUX, NO_SYNC,
};
use super::{arrays, encode};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// How many types the programs of a process can declare.
const MAX_TYPES: usize = 4096;
/// Uids with this bit are the program's.
const PROGRAM: u16 = 1 << 6;
/// What a type without a uid has in its place on the wire.
pub const NO_WIRE: u16 = 0;
/// It was refused a uid: the table is full.
const REFUSED: u32 = 1 << 16;

static TABLE: [AtomicPtr<Declared>; MAX_TYPES] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MAX_TYPES];

const _: () = assert!(uid(MAX_TYPES - 1) <= LAST_UID);

const fn uid(number: usize) -> u16 {
    (number as u16 / PROGRAM) * 2 * PROGRAM + PROGRAM + number as u16 % PROGRAM
}

/// Which of the program's types has this uid, if it is one of theirs.
pub(crate) const fn number_of(uid: u16) -> Option<usize> {
    if uid & PROGRAM == 0 {
        return None;
    }
    Some((uid / (2 * PROGRAM) * PROGRAM + uid % PROGRAM) as usize)
}

/// The types that have a uid, from the `number`th on.
pub(crate) fn registered(number: usize) -> Option<&'static Declared> {
    let pointer = TABLE.get(number)?.load(Ordering::Acquire);
    // SAFETY: only pointers to statics are stored there.
    unsafe { pointer.as_ref() }
}

/// How a field takes part in references between events.
#[derive(Debug)]
pub enum Family {
    /// A plain value.
    Regular,
    /// The id of this event.
    DefinitionId,
    /// The id of an event of another type.
    Reference(fn() -> &'static Declared),
}

/// One field.
#[derive(Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub field_type: FieldType,
    /// Its part in references.
    pub family: Family,
}

/// An event type that the program declares. [`event!`](crate::event) makes it.
#[derive(Debug)]
pub struct Declared {
    logger: &'static str,
    event: &'static str,
    flags: u8,
    fields: &'static [Field],
    /// What its events start with on a thread's stream, 0 while it has no uid.
    wire: AtomicU32,
}

impl Declared {
    /// A type; what the wire cannot carry is an error of compilation.
    pub const fn new(
        logger: &'static str,
        event: &'static str,
        flags: u8,
        fields: &'static [Field],
    ) -> Self {
        assert!(!logger.is_empty() && !event.is_empty(), "an event type needs two names");
        assert!(logger.len() < 256 && event.len() < 256, "a name has 255 bytes at most");
        assert!(fields.len() < 256, "an event type has 255 fields at most");
        assert!(
            flags & IMPORTANT == 0 || flags & NO_SYNC != 0,
            "an important event is not synchronised: write [Important, NoSync]"
        );
        let mut flags = flags;
        let mut record = 6 + logger.len() + event.len();
        let mut index = 0;
        while index < fields.len() {
            let field = &fields[index];
            assert!(field.name.len() < 256, "a name has 255 bytes at most");
            record += 8 + field.name.len();
            if field.field_type.is_array() {
                assert!(
                    index <= arrays::MAX_INDEX,
                    "arrays and strings must be among the first 32 fields"
                );
                flags |= MAYBE_HAS_AUX;
            }
            if matches!(field.family, Family::DefinitionId) {
                assert!(index + 1 == fields.len(), "the id of a definition must be its last field");
                flags |= DEFINITION;
            }
            index += 1;
        }
        assert!(record <= u16::MAX as usize, "the names of an event type have too many bytes");
        Self { logger, event, flags, fields, wire: AtomicU32::new(0) }
    }

    /// What its events start with on a thread's stream: the uid, marked as two bytes long;
    /// [`NO_WIRE`] if it has none yet.
    // NOTE: acquire, so that whoever sees the worker take an event also has it see the table.
    #[inline(always)]
    pub(crate) fn wire(&self) -> u16 {
        self.wire.load(Ordering::Acquire) as u16
    }

    /// The same, taking a uid if there is none; [`NO_WIRE`] if no uid is left.
    #[cold]
    pub(crate) fn register(&'static self) -> u16 {
        self.register_within(8)
    }

    /// `depth` ends a circle of references.
    fn register_within(&'static self, depth: u32) -> u16 {
        if self.wire.load(Ordering::Acquire) == 0 {
            for field in self.fields {
                // What a type refers to is announced before it.
                if let Family::Reference(target) = field.family
                    && let Some(depth) = depth.checked_sub(1)
                    && !ptr::eq(target(), self)
                {
                    target().register_within(depth);
                }
            }
            let place = TABLE.iter().position(|entry| {
                let this = ptr::from_ref(self).cast_mut();
                match entry.load(Ordering::Acquire) {
                    taken if !taken.is_null() => taken == this,
                    free => entry
                        .compare_exchange(free, this, Ordering::AcqRel, Ordering::Acquire)
                        .map_or_else(|other| other == this, |_| true),
                }
            });
            let wire = place.map_or(REFUSED, |number| u32::from(uid(number) << 1 | 1));
            // Two threads that come at once find the same place.
            self.wire.store(wire, Ordering::Release);
        }
        self.wire()
    }

    /// `Logger.Event`.
    pub(crate) fn name(&self) -> String {
        format!("{}.{}", self.logger, self.event)
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.flags & NO_SYNC == 0
    }

    pub(crate) fn has_aux(&self) -> bool {
        self.flags & MAYBE_HAS_AUX != 0
    }

    /// Bytes of its events on a thread's stream, without what is in arrays.
    pub(crate) fn size(&self) -> usize {
        let head = if self.is_synced() { encode::SYNCED_HEADER } else { 2 };
        head + self.fields.iter().map(|field| field.field_type.fixed_size()).sum::<usize>()
    }

    /// Appends the type record of a type that has a uid.
    pub(crate) fn append_record(&self, out: &mut Vec<u8>) {
        let fields = self.fields.iter().map(|field| {
            let family = match field.family {
                Family::Regular => FieldFamily::Regular,
                Family::DefinitionId => FieldFamily::DefinitionId,
                Family::Reference(target) => FieldFamily::Reference(target().register() >> 1),
            };
            (field.name, field.field_type, family)
        });
        let uid = self.wire() >> 1;
        encode::append_record(out, uid, (self.logger, self.event), self.flags, fields);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::event::schema::FIRST_UID;

    #[test]
    fn the_programs_uids_and_numbers_belong_together() {
        for number in 0..MAX_TYPES {
            let uid = uid(number);
            assert!((FIRST_UID..=LAST_UID).contains(&uid));
            assert_eq!(number_of(uid), Some(number));
        }
        assert!((0..64).all(|uid| number_of(uid).is_none()));
        assert_eq!((uid(0), uid(63), uid(64)), (64, 127, 192));
    }

    #[test]
    fn threads_that_come_at_once_get_one_uid() {
        static TYPES: [Declared; 20] =
            [const { Declared::new("Test", "Declared", NO_SYNC, &[]) }; 20];
        let threads = (0..4).map(|_| {
            std::thread::spawn(|| TYPES.iter().map(Declared::register).collect::<Vec<_>>())
        });
        let wires = threads.collect::<Vec<_>>().into_iter().map(|t| t.join().unwrap());
        let wires = wires.collect::<Vec<_>>();
        assert!(wires.iter().all(|found| *found == wires[0]));
        for (declared, wire) in TYPES.iter().zip(&wires[0]) {
            let found = registered(number_of(wire >> 1).unwrap()).unwrap();
            assert!(ptr::eq(found, declared));
        }
    }

    #[test]
    fn exact_bytes_of_records_with_references() {
        static TARGET: Declared = Declared::new(
            "A",
            "B",
            NO_SYNC | IMPORTANT,
            &[
                Field { name: "Text", field_type: FieldType::WideString, family: Family::Regular },
                Field { name: "Id", field_type: FieldType::U32, family: Family::DefinitionId },
            ],
        );
        static EVENT: Declared = Declared::new(
            "A",
            "C",
            0,
            &[
                Field { name: "X", field_type: FieldType::I8, family: Family::Regular },
                Field {
                    name: "Who",
                    field_type: FieldType::U32,
                    family: Family::Reference(|| &TARGET),
                },
            ],
        );
        let event = (EVENT.register() >> 1).to_le_bytes();
        let target = (TARGET.wire() >> 1).to_le_bytes();
        assert!(target < event, "registered with what refers to it, before it");
        let mut out = Vec::new();
        TARGET.append_record(&mut out);
        let expected = [
            &[0, 0, 28, 0, target[0], target[1], 2, 1 | 2 | 4 | 8, 1, 1][..],
            &[0, 0, 0, 0, 0, 0, 0x89, 4],
            &[2, 0, 0, 0, 0, 0, 0, 0x02],
            b"ABText",
        ];
        assert_eq!(out, expected.concat());
        out.clear();
        EVENT.append_record(&mut out);
        let expected = [
            &[0, 0, 28, 0, event[0], event[1], 2, 0, 1, 1][..],
            &[0, 0, 0, 0, 1, 0, 0x10, 1],
            &[1, 0, 1, 0, target[0], target[1], 0x02, 3],
            b"ACXWho",
        ];
        assert_eq!(out, expected.concat());
        assert_eq!((EVENT.size(), TARGET.size()), (10, 6));
    }
}
