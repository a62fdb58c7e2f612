use super::*;
use crate::trace::write::buffer;
use crate::trace::write::declared::{self, Declared, DeclaredField, Family, Logged};
use memledger_format::arrays::piece_head;
use memledger_format::encode::Declaration;
use memledger_format::layout::ARRAYS_END;
use memledger_format::schema::FieldType::{AnsiString, U8, U64};
use memledger_format::schema::NO_SYNC;

static WITH_SERIAL: Declaration =
    Declaration { uid: 40, logger: "A", event: "S", flags: 0, fields: &[("F", U64)] };
static WITHOUT: Declaration =
    Declaration { uid: 41, logger: "A", event: "N", flags: NO_SYNC, fields: &[("F", U64)] };

fn layouts() -> Layouts {
    Layouts::new([&WITH_SERIAL, &WITHOUT].iter())
}

fn synced(serial_or_epoch: u64, field: u64) -> Vec<u8> {
    let mut event = WITH_SERIAL.wire().to_le_bytes().to_vec();
    event.extend(&serial_or_epoch.to_le_bytes()[..3]);
    event.extend(field.to_le_bytes());
    event
}

fn unsynced(field: u64) -> Vec<u8> {
    let mut event = WITHOUT.wire().to_le_bytes().to_vec();
    event.extend(field.to_le_bytes());
    event
}

/// A buffer that was begun in `epoch` and holds these events, and where they end.
fn buffer_of(epoch: u64, events: &[Vec<u8>]) -> (Buffer, *mut u8) {
    let bytes = events.concat();
    let buffer = buffer::take(buffer::SMALL).unwrap();
    // SAFETY: the buffer is the test's own, and longer than the events.
    unsafe {
        buffer.epoch.store(epoch, Ordering::Relaxed);
        buffer.start().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
    }
    (buffer, buffer.start().wrapping_add(bytes.len()))
}

/// The bytes after the committed ones belong to the thread: this test makes them unreadable.
#[test]
#[cfg(target_os = "linux")]
fn nothing_is_read_after_what_is_committed() {
    const PAGE: usize = 4096;
    let events = [synced(7, 1), unsynced(2), vec![ENTER_SCOPE], synced(7, 3), vec![LEAVE_SCOPE]];
    let bytes = events.concat();
    // SAFETY: the pages are this test's own; the second may not be accessed.
    let (start, end) = unsafe {
        let (access, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
        let flags = private | libc::MAP_ANONYMOUS;
        let pages = libc::mmap(std::ptr::null_mut(), 2 * PAGE, access, flags, -1, 0);
        let end = pages.cast::<u8>().add(PAGE);
        assert_eq!(libc::mprotect(end.cast(), PAGE, libc::PROT_NONE), 0);
        let start = end.sub(bytes.len());
        start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        (start, end)
    };
    let mut cursor = BufferCursor {
        buffer: buffer::take(buffer::SMALL).unwrap(),
        copy: None,
        first: start,
        first_offset: 0,
        at: start,
        run: start,
        sent: start,
        end,
        epoch: 0,
        depth: 0,
    };
    let layouts = layouts();
    assert_eq!(cursor.next_epoch(&layouts), Some(7));
    assert_eq!(cursor.number(7, 40, &layouts), 42);
    assert_eq!((cursor.next_epoch(&layouts), cursor.depth()), (None, 0));
    let run = [synced(40, 1), unsynced(2), vec![ENTER_SCOPE], synced(41, 3), vec![LEAVE_SCOPE]];
    assert_eq!(cursor.take_run(), run.concat());
}

#[test]
fn the_events_of_an_epoch_get_serials_and_take_along_what_has_none() {
    let layouts = layouts();
    let events = [
        vec![ENTER_SCOPE],
        unsynced(1),
        synced(7, 0xffff_ffff_ffff_ffff),
        unsynced(2),
        synced(7, 0),
        vec![LEAVE_SCOPE],
        synced(9, 3),
    ];
    let (buffer, end) = buffer_of(5, &events);
    let mut cursor = BufferCursor::new(buffer, None, end, 0);
    assert_eq!(cursor.next_epoch(&layouts), Some(7));
    // Past the wrap of the serial's 24 bits.
    let serial = (1 << 24) - 1;
    assert_eq!(cursor.number(7, serial, &layouts), serial + 2);
    let run = [
        vec![ENTER_SCOPE],
        unsynced(1),
        synced(0xff_ffff, 0xffff_ffff_ffff_ffff),
        unsynced(2),
        synced(0, 0),
        vec![LEAVE_SCOPE],
    ];
    assert_eq!(cursor.take_run(), run.concat());
    assert_eq!(cursor.next_epoch(&layouts), Some(9));
    assert!(!cursor.is_done());
    // The rest, in another cycle.
    let mut rest = BufferCursor::new(buffer, Some(cursor.resume_point()), end, cursor.depth());
    assert_eq!(rest.next_epoch(&layouts), Some(9));
    assert_eq!(rest.number(9, 4, &layouts), 5);
    assert_eq!((cursor.depth(), rest.depth()), (0, 0));
    assert!(rest.is_done() && rest.next_epoch(&layouts).is_none());
    assert_eq!(rest.take_run(), synced(4, 3));
    assert_eq!(rest.take_piece(), synced(4, 3));
    assert_eq!(cursor.take_piece(), run.concat());
    buffer::give_back(buffer);
}

#[test]
fn events_of_the_program_are_numbered_and_their_arrays_left_alone() {
    static TYPES: [Declared; 3] = [
        Declared::new("Test", "Short", 0, &[]),
        Declared::new(
            "Test",
            "WithArray",
            0,
            &[DeclaredField { name: "Name", field_type: AnsiString, family: Family::Regular }],
        ),
        Declared::new(
            "Test",
            "Unsynced",
            NO_SYNC,
            &[DeclaredField { name: "Small", field_type: U8, family: Family::Regular }],
        ),
    ];
    static LOGGED: [Logged; 3] = [
        Logged::new(|| &TYPES[0], &[1]),
        Logged::new(|| &TYPES[1], &[1]),
        Logged::new(|| &TYPES[2], &[1]),
    ];
    let [short, with_array, without] = LOGGED.each_ref().map(Logged::register);
    let mut layouts = layouts();
    for (number, logged) in (0..).map_while(|n| Some((n, declared::registered(n)?))) {
        layouts.add(declared::uid_of(number), logged.declared().layout());
    }
    let event =
        |wire: u16, number: [u8; 3], rest: &[u8]| [&wire.to_le_bytes(), &number[..], rest].concat();
    // Data that would be events, elsewhere.
    let data = [0x06, 0x51, 0, 1, 2, 3, 0x08, 0x0a, 0x55];
    let array = [&piece_head(0, data.len(), 1)[..], &data].concat();
    let events = |first: [u8; 3], second: [u8; 3], third: [u8; 3]| {
        [
            [&[ENTER_SCOPE_AT][..], &[7; 8], &without.to_le_bytes(), &[5]].concat(),
            event(short, first, &[]),
            event(with_array, second, &array),
            array.clone(),
            vec![ARRAYS_END],
            event(short, third, &[]),
            [&[LEAVE_SCOPE_AT][..], &[9; 8]].concat(),
        ]
    };
    let (buffer, end) = buffer_of(5, &events([7, 0, 0], [7, 0, 0], [9, 0, 0]));
    let mut cursor = BufferCursor::new(buffer, None, end, 0);
    assert_eq!(cursor.next_epoch(&layouts), Some(7));
    assert_eq!(cursor.number(7, 0x01_02_03, &layouts), 0x01_02_05);
    assert_eq!(cursor.next_epoch(&layouts), Some(9));
    assert_eq!(cursor.number(9, 0x01_02_05, &layouts), 0x01_02_06);
    assert_eq!(cursor.next_epoch(&layouts), None);
    assert!(cursor.is_done());
    assert_eq!(cursor.take_piece(), events([3, 2, 1], [4, 2, 1], [5, 2, 1]).concat());
    buffer::give_back(buffer);
}

#[test]
fn epochs_are_completed_from_their_low_bits() {
    let layouts = layouts();
    let epochs = [0x1_00ff_fffe, 0x1_00ff_ffff, 0x1_0100_0000, 0x1_01ff_fff0];
    let events = epochs.map(|epoch| synced(epoch, 0));
    let (buffer, end) = buffer_of(0x1_00f0_0000, &events);
    let mut cursor = BufferCursor::new(buffer, None, end, 0);
    for (serial, epoch) in epochs.into_iter().enumerate() {
        assert_eq!(cursor.next_epoch(&layouts), Some(epoch));
        let serial = serial as u64;
        assert_eq!(cursor.number(epoch, serial, &layouts), serial + 1);
    }
    assert!(cursor.is_done());
    buffer::give_back(buffer);
}
