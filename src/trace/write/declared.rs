//! The event types that the program declares, and the numbers they get.
//!
//! A type gets a uid when its first event is logged: its index in an append-only table that all
//! threads share without locks. In each cycle the worker announces the types that are new. Uids of
//! the program have bit 6 set and the tracker's have not, so the first byte of an event says whose
//! event it is.
//!
//! A uid represents a type *and* the channels it was logged on, so that a filter by channels needs
//! only the event. Readers know types by name, so they accept one type with several uids. A
//! definition has one uid, whatever channels it is logged on, and is in every stream: the events
//! that refer to it name that uid, and can be on any channel.
#![expect(unsafe_code, reason = "addresses of statics, which a watcher takes")]

use super::watch;
use crate::platform::os;
use crate::platform::static_table::StaticTable;
use memledger_format::encode;
use memledger_format::layout::EventLayout;
use memledger_format::schema::{DEFINITION, FieldFamily, FieldType, LAST_UID, MAYBE_HAS_AUX};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many types a program can log. A type counts once for each set of channels.
const MAX_TYPES: usize = watch::TYPES;
/// Uids with this bit are the program's.
const PROGRAM: u16 = 1 << 6;
/// The wire uid of a type that has none yet.
pub const NO_WIRE: u16 = 0;
/// The type got no uid, because the table is full.
const REFUSED: u32 = 1 << 16;

static TABLE: StaticTable<Logged, MAX_TYPES> = StaticTable::new();

/// In a watcher: takes the types of the process that has ended. The types of a library that it has loaded
/// after the start of the watcher are unknown here, and so are the later ones.
pub(crate) fn take_all() {
    let Some(logs) = watch::logs() else { return };
    let mut next = TABLE.iter().count();
    logs.types.visit(|number, [address]| {
        let address = address as usize;
        if number as usize == next && os::is_in_loaded_file(address) {
            // SAFETY: `note` has added the address of a static, in a file that is loaded here, too.
            TABLE.set(next, unsafe { &*ptr::with_exposed_provenance(address) });
            next += 1;
        }
    });
}

/// In the child of a fork, whose memory is shared with another watcher: notes the types of the process that
/// has forked it.
pub(crate) fn share_all() {
    TABLE.iter().enumerate().for_each(|(number, logged)| note(number, logged));
}

/// Notes for a watcher that `logged` has the entry `number`.
fn note(number: usize, logged: &'static Logged) {
    if let Some(logs) = watch::watched_logs() {
        logs.types.add(number as u32, [ptr::from_ref(logged).expose_provenance() as u64]);
    }
}

const _: () = assert!(uid_of(MAX_TYPES - 1) <= LAST_UID);

/// The uid of the program's `number`th type.
pub(crate) const fn uid_of(number: usize) -> u16 {
    (number as u16 / PROGRAM) * 2 * PROGRAM + PROGRAM + number as u16 % PROGRAM
}

/// The number of the program's type with this uid; `None` if the uid is one of the tracker's.
pub(crate) const fn number_of(uid: u16) -> Option<usize> {
    if uid & PROGRAM == 0 {
        return None;
    }
    Some((uid / (2 * PROGRAM) * PROGRAM + uid % PROGRAM) as usize)
}

/// The program's `number`th type.
pub(crate) fn registered(number: usize) -> Option<&'static Logged> {
    TABLE.get(number)
}

/// How a field takes part in references between events.
#[derive(Debug)]
pub enum Family {
    /// A plain value.
    Regular,
    /// The id of this event.
    DefinitionId,
    /// The id of an event of another type.
    Reference(fn() -> &'static Logged),
}

/// One field.
#[derive(Debug)]
pub struct DeclaredField {
    /// Its name.
    pub name: &'static str,
    /// The type of its values.
    pub field_type: FieldType,
    /// Its part in references.
    pub family: Family,
}

/// An event type that the program declares. [`event!`](crate::events::event) makes it.
#[derive(Debug)]
pub struct Declared {
    logger: &'static str,
    event: &'static str,
    flags: u8,
    fields: &'static [DeclaredField],
}

/// An event type at one log site, and the ids of the channels that it is logged on there.
#[derive(Debug)]
pub struct Logged {
    declared: fn() -> &'static Declared,
    channels: &'static [u32],
    /// The first two bytes of its events on a thread's stream; 0 while it has no uid.
    wire: AtomicU32,
}

impl Declared {
    /// Declares a type that the wire format can carry, which `event!` has checked.
    pub const fn new(
        logger: &'static str,
        event: &'static str,
        flags: u8,
        fields: &'static [DeclaredField],
    ) -> Self {
        let mut flags = flags;
        let mut index = 0;
        while index < fields.len() {
            if fields[index].field_type.is_array() {
                flags |= MAYBE_HAS_AUX;
            }
            if matches!(fields[index].family, Family::DefinitionId) {
                flags |= DEFINITION;
            }
            index += 1;
        }
        Self { logger, event, flags, fields }
    }

    /// Its fields, in order.
    #[cfg(feature = "perfetto")]
    pub(crate) fn fields(&self) -> &'static [DeclaredField] {
        self.fields
    }

    /// `Logger.Event`.
    pub(crate) fn name(&self) -> String {
        format!("{}.{}", self.logger, self.event)
    }

    /// The layout of its events on a thread's stream.
    pub(crate) fn layout(&self) -> EventLayout {
        let fields = self.fields.iter().map(|field| field.field_type.fixed_size());
        EventLayout::new(fields.sum(), self.flags)
    }
}

impl Logged {
    /// A type on the channels with these ids; on none, if it is one that others refer to.
    pub const fn new(declared: fn() -> &'static Declared, channels: &'static [u32]) -> Self {
        Self { declared, channels, wire: AtomicU32::new(0) }
    }

    pub(crate) fn declared(&self) -> &'static Declared {
        (self.declared)()
    }

    /// The ids of the channels: a stream has these events only if it has all of these channels. A
    /// type that others refer to needs no channel.
    pub(crate) fn channels(&self) -> &'static [u32] {
        if self.declared().flags & DEFINITION == 0 { self.channels } else { &[] }
    }

    /// Whether both get the same uid: they have the same type, and the same set of channels.
    fn is_like(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.channels(), other.channels());
        ptr::eq(self.declared(), other.declared())
            && ours.len() == theirs.len()
            && ours.iter().all(|channel| theirs.contains(channel))
    }

    /// The first two bytes of its events on a thread's stream: the uid, marked as two bytes long;
    /// [`NO_WIRE`] if it has none yet.
    // NOTE: acquire, so that a worker that sees an event of the type also sees its table entry.
    #[inline(always)]
    pub(crate) fn wire(&self) -> u16 {
        self.wire.load(Ordering::Acquire) as u16
    }

    /// Returns [`wire`](Self::wire), after taking a uid if there is none; [`NO_WIRE`] if no uid is
    /// left.
    #[cold]
    pub(crate) fn register(&'static self) -> u16 {
        self.register_within(8)
    }

    /// `depth` bounds the recursion, because types can refer to each other in a circle.
    fn register_within(&'static self, depth: u32) -> u16 {
        if self.wire.load(Ordering::Acquire) == 0 {
            for field in self.declared().fields {
                // The types that a type refers to are announced before it.
                if let Family::Reference(target) = field.family
                    && let Some(depth) = depth.checked_sub(1)
                    && !target().is_like(self)
                {
                    target().register_within(depth);
                }
            }
            let wire = self
                .find_or_claim_entry()
                .inspect(|number| note(*number, self))
                .map_or(REFUSED, |number| u32::from(uid_of(number) << 1 | 1));
            // Two threads that register at once find the same table entry, and so do two equal log
            // sites.
            self.wire.store(wire, Ordering::Release);
        }
        self.wire()
    }

    /// Takes an entry of the table, or finds the entry that was taken before; `None` if the table
    /// is full.
    fn find_or_claim_entry(&'static self) -> Option<usize> {
        TABLE.find_or_add(self, |taken| taken.is_like(self))
    }

    /// Appends the type record of a type that has an entry in the table.
    pub(crate) fn append_record(&'static self, out: &mut Vec<u8>) {
        let declared = self.declared();
        let fields = declared.fields.iter().map(|field| {
            let family = match field.family {
                Family::Regular => FieldFamily::Regular,
                Family::DefinitionId => FieldFamily::DefinitionId,
                Family::Reference(target) => FieldFamily::Reference(target().register() >> 1),
            };
            (field.name, field.field_type, family)
        });
        // NOTE: registers the type here, too, because the thread that took the table entry may not
        // have stored the uid yet, and in the child of a fork it never will.
        let (uid, names) = (self.register() >> 1, (declared.logger, declared.event));
        encode::append_record(out, uid, names, declared.flags, fields);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memledger_format::schema::{FIRST_UID, IMPORTANT, NO_SYNC};

    #[test]
    fn the_programs_uids_and_numbers_belong_together() {
        for number in 0..MAX_TYPES {
            let uid = uid_of(number);
            assert!((FIRST_UID..=LAST_UID).contains(&uid));
            assert_eq!(number_of(uid), Some(number));
        }
        assert!((0..64).all(|uid| number_of(uid).is_none()));
        assert_eq!((uid_of(0), uid_of(63), uid_of(64)), (64, 127, 192));
    }

    #[test]
    fn threads_that_come_at_once_get_one_uid() {
        static TYPE: Declared = Declared::new("Test", "Declared", NO_SYNC, &[]);
        static CHANNELS: [[u32; 1]; 20] = {
            let mut channels = [[0]; 20];
            let mut number = 0;
            while number < 20 {
                channels[number] = [number as u32];
                number += 1;
            }
            channels
        };
        static TYPES: [Logged; 20] = {
            let mut types = [const { Logged::new(|| &TYPE, &[]) }; 20];
            let mut number = 0;
            while number < 20 {
                types[number].channels = &CHANNELS[number];
                number += 1;
            }
            types
        };
        let threads = (0..4)
            .map(|_| std::thread::spawn(|| TYPES.iter().map(Logged::register).collect::<Vec<_>>()));
        let wires = threads.collect::<Vec<_>>().into_iter().map(|t| t.join().unwrap());
        let wires = wires.collect::<Vec<_>>();
        assert!(wires.iter().all(|found| *found == wires[0]));
        for (logged, wire) in TYPES.iter().zip(&wires[0]) {
            let found = registered(number_of(wire >> 1).unwrap()).unwrap();
            assert!(ptr::eq(found, logged));
        }
    }

    #[test]
    fn a_type_is_announced_with_its_uid_while_its_log_site_does_not_have_it_yet() {
        static TYPE: Declared = Declared::new("Test", "Interrupted", NO_SYNC, &[]);
        static SITES: [Logged; 2] = [Logged::new(|| &TYPE, &[1]), Logged::new(|| &TYPE, &[1])];
        // A thread that was interrupted, or is not in the child of a fork, got as far as this.
        let number = SITES[0].find_or_claim_entry().unwrap();
        assert_eq!(SITES[0].wire(), NO_WIRE);
        let mut out = Vec::new();
        registered(number).unwrap().append_record(&mut out);
        // Another thread logs at a site of its own.
        let uid = SITES[1].register() >> 1;
        assert_eq!(u16::from_le_bytes([out[4], out[5]]), uid);
        assert_eq!(SITES[0].register() >> 1, uid);
    }

    #[test]
    fn a_type_has_a_uid_for_each_set_of_channels_and_a_definition_one_for_all() {
        static TYPE: Declared = Declared::new("Test", "OnChannels", 0, &[]);
        static DEFINITION_TYPE: Declared = Declared::new(
            "Test",
            "DefinitionOnChannels",
            NO_SYNC,
            &[DeclaredField {
                name: "Id",
                field_type: FieldType::U32,
                family: Family::DefinitionId,
            }],
        );
        static SITES: [Logged; 5] = [
            Logged::new(|| &TYPE, &[1]),
            Logged::new(|| &TYPE, &[2]),
            Logged::new(|| &TYPE, &[1, 2]),
            Logged::new(|| &TYPE, &[2, 1]),
            Logged::new(|| &TYPE, &[1]),
        ];
        static DEFINITIONS: [Logged; 3] = [
            Logged::new(|| &DEFINITION_TYPE, &[1]),
            Logged::new(|| &DEFINITION_TYPE, &[]),
            Logged::new(|| &DEFINITION_TYPE, &[2, 1]),
        ];
        let [one, two, both, reversed, again] = SITES.each_ref().map(Logged::register);
        assert!(one != two && one != both && two != both);
        assert_eq!((one, both), (again, reversed));
        let [first, second, third] = DEFINITIONS.each_ref().map(Logged::register);
        assert_eq!((first, first), (second, third));
        assert_eq!((SITES[2].channels(), DEFINITIONS[2].channels()), (&[1, 2][..], &[][..]));
    }

    #[test]
    fn exact_bytes_of_records_with_references() {
        static TARGET_TYPE: Declared = Declared::new(
            "A",
            "B",
            NO_SYNC | IMPORTANT,
            &[
                DeclaredField {
                    name: "Text",
                    field_type: FieldType::WideString,
                    family: Family::Regular,
                },
                DeclaredField {
                    name: "Id",
                    field_type: FieldType::U32,
                    family: Family::DefinitionId,
                },
            ],
        );
        static TARGET: Logged = Logged::new(|| &TARGET_TYPE, &[]);
        static EVENT_TYPE: Declared = Declared::new(
            "A",
            "C",
            0,
            &[
                DeclaredField { name: "X", field_type: FieldType::I8, family: Family::Regular },
                DeclaredField {
                    name: "Who",
                    field_type: FieldType::U32,
                    family: Family::Reference(|| &TARGET),
                },
            ],
        );
        static EVENT: Logged = Logged::new(|| &EVENT_TYPE, &[7]);
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
        assert_eq!((EVENT_TYPE.layout().size(), TARGET_TYPE.layout().size()), (10, 6));
    }
}
