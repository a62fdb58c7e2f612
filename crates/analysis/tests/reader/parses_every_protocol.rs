//! What the bytes of one thread mean, in each protocol: exact events out of exact bytes.

use memledger_format::schema::FieldType;
use memledger_test_support::wire::*;

fn event(name: &str, stream: u16, serial: Option<u64>, fixed: &[u8]) -> Log {
    Log::Event(name.into(), stream, serial, fixed.to_vec())
}

#[test]
fn events_with_and_without_serial_in_each_protocol() {
    for protocol in 5..=7 {
        let mut run = Run::new(protocol);
        // By hand: uid 17 without serial, uid 16 with serial 0x010203, uid 17 in one byte.
        run.packet(2, &[0x23, 0, 0xaa, 0x21, 0, 3, 2, 1, 0xbb, 0x22, 0xcc]);
        run.finish();
        assert_eq!(
            run.take(),
            [
                event("T.Free", 2, None, &[0xaa]),
                event("T.Sync", 2, Some(0x01_0203), &[0xbb]),
                event("T.Free", 2, None, &[0xcc]),
            ]
        );
    }
}

#[test]
fn arrays_may_be_split_over_blocks_and_packets() {
    let mut run = Run::new(7);
    let bytes = [
        plain(18, &[1]),
        aux(1, b"he"),
        aux(2, b"x"),
        aux(1, b"llo"),
        TERMINAL.to_vec(),
        plain(17, &[2]),
    ]
    .concat();
    let expected = [
        event("T.Arrays", 2, None, &[1]),
        Log::Arrays(vec![(1, b"hello".to_vec()), (2, b"x".to_vec())]),
        event("T.Free", 2, None, &[2]),
    ];
    for cut in 0..=bytes.len() {
        run.packet(2, &bytes[..cut]);
        run.packet(2, &bytes[cut..]);
        assert_eq!(run.take(), expected, "cut at {cut}");
    }
    for byte in &bytes {
        run.packet(2, &[*byte]);
    }
    assert_eq!(run.take(), expected);
    // No block at all means an empty array, but the terminal is there.
    run.packet(2, &[plain(18, &[3]), TERMINAL.to_vec()].concat());
    assert_eq!(run.take(), [event("T.Arrays", 2, None, &[3])]);
}

#[test]
fn events_between_an_event_and_its_terminal_come_after_it() {
    let mut run = Run::from_serial(5);
    run.packet(2, &[synced(19, 5, &[1]), aux(1, b"a"), synced(16, 6, &[2])].concat());
    run.packet(2, &[plain(18, &[3]), aux(1, b"b"), TERMINAL.to_vec()].concat());
    run.packet(3, &serials([7]));
    assert_eq!(run.take(), []);
    run.packet(2, &[aux(1, b"c"), TERMINAL.to_vec()].concat());
    assert_eq!(
        run.take(),
        [
            event("T.SyncArrays", 2, Some(5), &[1]),
            Log::Arrays(vec![(1, b"ac".to_vec())]),
            event("T.Sync", 2, Some(6), &[2]),
            event("T.Arrays", 2, None, &[3]),
            Log::Arrays(vec![(1, b"b".to_vec())]),
            event("T.Sync", 3, Some(7), &[7]),
        ]
    );
}

#[test]
fn scopes_in_each_protocol() {
    let stamp = [0xfe; 8];
    let stamped = |uid: u8, size: usize| [&[uid << 1][..], &stamp[..size]].concat();
    let pairs = |protocol| match protocol {
        7 => vec![(stamped(6, 8), stamped(7, 8)), (stamped(8, 7), stamped(9, 7))],
        _ => vec![(stamped(8, 7), stamped(12, 7))],
    };
    for protocol in 5..=7 {
        for (enter, leave) in pairs(protocol).into_iter().chain([(ENTER.to_vec(), LEAVE.to_vec())])
        {
            let mut run = Run::new(protocol);
            let bytes = [
                &enter[..],
                &plain(17, &[1]),
                &plain(17, &[2]),
                &enter,
                &plain(17, &[3]),
                &leave,
                &leave,
                &plain(17, &[4]),
            ]
            .concat();
            run.packet(2, &bytes);
            assert_eq!(run.short(), ".1 { .2 .3 { } } .4", "protocol {protocol}");
            // Cut inside a stamp, it waits for the rest.
            run.packet(2, &enter[..1]);
            run.packet(2, &[&enter[1..], &plain(17, &[5]), &leave].concat());
            assert_eq!(run.short(), ".5 { }");
        }
    }
}

#[test]
fn a_stamp_of_another_protocol_is_damage() {
    for (protocol, bytes) in [(5, [6 << 1, 0]), (6, [9 << 1, 0]), (7, [12 << 1, 0]), (7, [1, 0])] {
        let mut run = Run::new(protocol);
        run.packet(2, &bytes);
        run.packet(2, &plain(17, &[1]));
        assert_eq!(run.short(), "! .1", "protocol {protocol} {bytes:?}");
    }
}

#[test]
fn scopes_without_an_event_and_ends_without_a_scope_are_ignored() {
    let mut run = Run::new(7);
    run.packet(2, &[ENTER, LEAVE, &plain(17, &[1])].concat());
    assert_eq!(run.short(), ".1");
    run.packet(2, &[LEAVE, &plain(17, &[2]), LEAVE].concat());
    run.packet(2, &[LEAVE, &plain(17, &[3])].concat());
    assert_eq!(run.short(), "! .2 .3");
}

#[test]
fn a_scope_opens_with_the_outer_event_and_waits_for_its_serial() {
    let mut run = Run::from_serial(0);
    run.packet(2, &[ENTER, &synced(19, 1, &[1]), &plain(17, &[2]), TERMINAL, LEAVE].concat());
    assert_eq!(run.short(), "");
    run.packet(3, &serials([0]));
    assert_eq!(run.short(), "0 1 { .2 }");
}

#[test]
fn important_events_have_plain_uids_and_unshifted_blocks() {
    for protocol in 5..=7 {
        let mut run = Run::new(protocol);
        let events = [
            important(20, &[1], &[(1, b"ab"), (1, b"c")], 0),
            important(20, &[2], &[(1, b"d")], 9),
        ]
        .concat();
        let expected = [
            event("T.Important", 1, None, &[1]),
            Log::Arrays(vec![(1, b"abc".to_vec())]),
            event("T.Important", 1, None, &[2]),
            Log::Arrays(vec![(1, b"d".to_vec())]),
        ];
        for cut in 0..events.len() {
            run.packet(IMPORTANTS, &events[..cut]);
            run.packet(IMPORTANTS, &events[cut..]);
            assert_eq!(run.take(), expected, "cut at {cut}");
        }
        assert_eq!(run.decoder.streams()[1].events, 2 * events.len() as u64);
    }
}

#[test]
fn an_important_event_of_unknown_or_wrong_form_is_passed_over_by_its_size() {
    let mut run = Run::new(7);
    let good = important(20, &[1], &[(1, b"d")], 0);
    for bad in [
        framed(99, b"whatever"),
        framed(20, &[]),
        framed(20, &[1, 1, 0, 0]),
        framed(20, &[1, 1, 0, 0xff, 0xff, 3]),
        framed(20, &[1, 7]),
    ] {
        run.packet(IMPORTANTS, &[&bad[..], &good].concat());
        assert_eq!(run.short(), r"! .1 [(1, [100])]", "{bad:?}");
    }
}

#[test]
fn pseudo_important_events_are_delivered_at_once_without_serial() {
    let mut run = Run::from_serial(100);
    run.packet(PSEUDO, &[synced(16, 0, &[1]), plain(17, &[2])].concat());
    assert_eq!(run.short(), ".1 .2");
    run.packet(2, &serials([100]));
    assert_eq!(run.short(), "100");
}

#[test]
fn a_type_announced_again_is_new_only_if_it_differs() {
    let mut run = Run::new(7);
    run.packet(2, &synced(16, 4, &[1]));
    run.packet(TYPES, &type_record(7, 16, "T.Sync", 0, &[("V", FieldType::U8)]));
    assert_eq!(run.take(), []);
    run.packet(TYPES, &type_record(7, 16, "T.Sync", 0, &[("W", FieldType::U16)]));
    assert_eq!(run.take(), [Log::Type(7, "T.Sync".into())]);
    run.packet(2, &synced(16, 5, &[2, 3]));
    run.finish();
    // The event that waited keeps the type it was sent with.
    assert_eq!(
        run.take(),
        [event("T.Sync", 2, Some(4), &[1]), event("T.Sync", 2, Some(5), &[2, 3])]
    );
    let counts = run.decoder.types().map(|(_, events)| events).collect::<Vec<_>>();
    assert_eq!(counts, [1, 0, 0, 0, 0, 0, 0, 1]);
}

#[test]
fn type_records_may_straddle_packets_and_be_padded_in_protocol_7() {
    let record = type_record(7, 40, "T.Odd", NO_SYNC, &[("V", FieldType::U8)]);
    let mut padded = record.clone();
    padded.push(0);
    padded[2] += 1;
    for cut in 0..padded.len() {
        let mut run = Run::new(7);
        run.packet(TYPES, &padded[..cut]);
        run.packet(TYPES, &padded[cut..]);
        run.packet(2, &plain(40, &[6]));
        assert_eq!(run.short(), "type 7 .6");
    }
    padded.push(0);
    padded[2] += 1;
    let mut run = Run::new(7);
    run.packet(TYPES, &padded);
    assert_eq!(run.short(), "!");
}

#[test]
fn illegal_type_records_cost_only_themselves() {
    let good = type_record(7, 41, "T.Good", 0, &[]);
    let of = |uid, flags, fields: &[(&str, FieldType)]| type_record(7, uid, "T.X", flags, fields);
    let with = |index: usize, byte: u8| {
        let mut record = of(40, 0, &[("V", FieldType::U32), ("W", FieldType::U8)]);
        record[index] = byte;
        record
    };
    for (bad, why) in [
        (of(15, 0, &[]), "a uid that is built in"),
        (of(32_767, 0, &[]), "a uid that is too large"),
        (of(40, IMPORTANT, &[]), "important with a serial"),
        (of(40, 0, &[("A", FieldType::U8Array)]), "an array without the flag"),
        (with(6, 3), "more fields than there are bytes"),
        (with(10, 3), "a field family that does not exist"),
        (with(16, 0x04), "a type code that does not exist"),
        (with(20, 5), "an offset behind the end of the field before"),
        (with(22, 2), "a size that does not fit the type"),
        (with(25, 2), "a name that is longer than the record"),
        (framed(0, &[16, 0]), "a record without a header"),
    ] {
        let mut run = Run::new(7);
        run.packet(TYPES, &[&bad[..], &good].concat());
        assert_eq!(run.short(), "! type 7", "{why}");
    }
}

#[test]
fn references_and_definitions_of_protocol_6() {
    // T.Def {V u16, id u32}, T.Ref {R u32 -> uid 50}: record by hand.
    let definition = [
        &[50, 0, 2, NO_SYNC | 8, 1, 3][..],
        &[0, 0, 0, 0, 2, 0, 0x01, 1],
        &[2, 0xee, 2, 0, 0xee, 0xee, 0xee, 0x02],
        b"TDefV",
    ]
    .concat();
    let reference =
        [&[51, 0, 1, NO_SYNC, 1, 3][..], &[1, 0, 0, 0, 50, 0, 0x02, 1], b"TRefR"].concat();
    let mut run = Run::new(6);
    run.packet(TYPES, &[framed(0, &definition), framed(0, &reference)].concat());
    run.packet(2, &[plain(50, &[1, 0, 7, 0, 0, 0]), plain(51, &[7, 0, 0, 0])].concat());
    assert_eq!(
        run.take(),
        [
            Log::Type(7, "T.Def".into()),
            Log::Type(8, "T.Ref".into()),
            event("T.Def", 2, None, &[1, 0, 7, 0, 0, 0]),
            event("T.Ref", 2, None, &[7, 0, 0, 0]),
        ]
    );
    let fields = |index| run.decoder.types().nth(index).unwrap().0.fields.to_vec();
    assert_eq!(fields(7)[1].name, "DefinitionId");
    assert_eq!(fields(8)[0].family, memledger_format::schema::FieldFamily::Reference(50));
}

#[test]
fn an_unknown_type_is_waited_for_over_one_sync_and_then_costs_its_packet() {
    let later = type_record(7, 60, "T.Later", NO_SYNC, &[("V", FieldType::U8)]);
    let mut run = Run::new(7);
    run.packet(2, &[plain(17, &[1]), plain(60, &[2]), plain(17, &[3])].concat());
    run.packet(2, &plain(17, &[4]));
    run.sync();
    assert_eq!(run.short(), ".1");
    run.packet(TYPES, &later);
    assert_eq!(run.short(), "type 7 .2 .3 .4");

    let mut run = Run::new(7);
    run.packet(2, &[plain(17, &[1]), plain(60, &[2]), plain(17, &[3])].concat());
    run.packet(2, &plain(17, &[4]));
    run.packet(2, &[plain(61, &[5]), plain(17, &[6])].concat());
    run.sync();
    run.sync();
    assert_eq!(run.short(), ".1", "a sync without data between does not count");
    run.packet(2, &plain(17, &[7]));
    run.sync();
    assert_eq!(run.short(), "! .4 ! .7");

    let mut run = Run::new(7);
    run.packet(2, &[plain(60, &[2]), plain(17, &[3])].concat());
    run.packet(2, &plain(17, &[4]));
    run.finish();
    assert_eq!(run.short(), "! .4");
}

#[test]
fn a_byte_that_begins_no_event_costs_the_rest_of_its_packet_and_is_named() {
    let mut run = Run::new(7);
    run.packet(2, &[0x00, 1, 2, 3]);
    run.packet(2, &[0x0a]);
    run.finish();
    let what =
        "the last 4 bytes of a packet of stream 2 cannot be read: no event starts with byte 0x00";
    let log = run.take();
    assert!(matches!(&log[..], [Log::Damage(text), ..] if text == what), "{log:?}");
}
