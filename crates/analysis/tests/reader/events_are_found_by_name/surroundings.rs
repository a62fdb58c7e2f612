//! Where and when an event was logged: thread, time and open scopes.

use super::Feed;
use memledger_analysis::read::{ClosedScope, Decoder, EventAnalyzer, Occurrence};
use memledger_format::schema::FieldType::*;
use memledger_test_support::wire::*;

/// `$Trace.NewTrace` 60, `Memory.Marker` 61, `$Trace.ThreadInfo` 62, `Memledger.ThreadStart` 63,
/// `Demo.Frame` 64, `Demo.Point` 65: the last two without a serial.
fn frame_types() -> Vec<u8> {
    let thread = [("SystemId", U32), ("Name", AnsiString)];
    [
        type_record(
            7,
            60,
            "$Trace.NewTrace",
            IMPORTANT | NO_SYNC,
            &[("StartCycle", U64), ("CycleFrequency", U64)],
        ),
        type_record(7, 61, "Memory.Marker", 0, &[("Cycle", U64)]),
        type_record(
            7,
            62,
            "$Trace.ThreadInfo",
            IMPORTANT | NO_SYNC | AUX,
            &[&[("ThreadId", U32)], &thread[..]].concat(),
        ),
        type_record(
            7,
            63,
            "Memledger.ThreadStart",
            NO_SYNC | AUX,
            &[&[("Id", U32)], &thread[..]].concat(),
        ),
        type_record(7, 64, "Demo.Frame", NO_SYNC, &[("N", U8)]),
        type_record(7, 65, "Demo.Point", NO_SYNC, &[("Cycle", U64)]),
        type_record(
            7,
            31,
            "Memledger.Trace",
            IMPORTANT | NO_SYNC,
            &[("Version", U8), ("FirstSerial", U64)],
        ),
    ]
    .concat()
}

fn start() -> Vec<u8> {
    let new_trace = [1000_u64.to_le_bytes(), 1_000_000_u64.to_le_bytes()].concat();
    [framed(60, &new_trace), framed(31, &[&[1][..], &1_u64.to_le_bytes()].concat())].concat()
}

fn thread_info(stream: u32, system: u32, name: &[u8]) -> Vec<u8> {
    let fixed = [stream.to_le_bytes(), system.to_le_bytes()].concat();
    important(62, &fixed, &[(2, name)], 0)
}

fn thread_start(id: u32, system: u32, name: &[u8]) -> Vec<u8> {
    let fixed = [id.to_le_bytes(), system.to_le_bytes()].concat();
    [plain(63, &fixed), aux(2, name), TERMINAL.to_vec()].concat()
}

fn marker(serial: u64, cycle: u64) -> Vec<u8> {
    synced(61, serial, &cycle.to_le_bytes())
}

fn point(cycle: u64) -> Vec<u8> {
    plain(65, &cycle.to_le_bytes())
}

fn who(event: &Occurrence<'_>) -> String {
    match event.thread() {
        Some(thread) => format!("{} {:?} {:?}", thread.id, thread.system_id, thread.name),
        None => "nobody".into(),
    }
}

#[test]
fn a_thread_is_known_by_an_id_that_is_not_used_again() {
    let analyzer = EventAnalyzer::new(Vec::new())
        .on("Demo", "Point", [], |out: &mut Vec<String>, event, []| out.push(who(event)))
        .on("$Trace", "ThreadInfo", [], |out, event, []| out.push(who(event)));
    let mut feed = Feed::new(analyzer, &[frame_types()]);
    feed.packet(2, &point(0));
    feed.packet(IMPORTANTS, &thread_info(2, 4242, b"main\0"));
    feed.packet(2, &point(0));
    feed.packet(3, &[thread_start(3, 77, b"first"), point(0)].concat());
    // The stream goes to another thread: that is said twice, first out of order.
    feed.packet(IMPORTANTS, &thread_info(3, 78, b"second"));
    feed.packet(3, &point(0));
    feed.packet(3, &[thread_start(9, 77, b"second"), point(0)].concat());
    // The pseudo-important stream and unknown ones are no threads.
    feed.packet(PSEUDO, &point(0));
    assert_eq!(
        feed.finish().state,
        [
            "2 None \"\"",
            "nobody",
            "2 Some(4242) \"main\"",
            "3 Some(77) \"first\"",
            "nobody",
            "3 Some(77) \"first\"",
            "9 Some(77) \"second\"",
            "nobody",
        ]
    );
}

#[test]
fn time_comes_from_markers_and_from_an_events_own_cycle() {
    let analyzer =
        EventAnalyzer::new(Vec::new()).on("Demo", "Point", ["Cycle"], |out, event, [cycle]| {
            out.push((event.nanoseconds(), cycle.nanoseconds().unwrap()));
        });
    let mut feed = Feed::new(analyzer, &[frame_types()]);
    feed.packet(IMPORTANTS, &start());
    feed.packet(2, &point(1001));
    feed.packet(2, &[marker(1, 1010), point(999)].concat());
    feed.packet(3, &[marker(2, 1007), point(1000)].concat());
    feed.packet(2, &[marker(3, 2_001_000), point(u64::MAX)].concat());
    assert_eq!(
        feed.finish().state,
        [
            (None, 1000),
            (Some(10_000), 0),
            (Some(10_000), 0), // the marker goes back
            (Some(2_000_000_000), u64::MAX),
        ]
    );
}

#[test]
fn scopes_nest_on_each_thread_and_tell_when_they_close() {
    #[derive(Default)]
    struct Log(Vec<String>);
    let leave = |log: &mut Log, left: &ClosedScope<'_>| {
        let id = left.thread().map(|thread| thread.id);
        log.0.push(format!(
            "{id:?} {}..{} in {}",
            ms(left.entered()),
            ms(left.left()),
            left.depth()
        ));
    };
    fn ms(time: Option<u64>) -> u64 {
        time.unwrap() / 1_000_000
    }
    let analyzer = EventAnalyzer::new(Log::default())
        .on("Demo", "Point", [], |log, event, []| {
            let scopes = event.scopes().map(|scope| scope.name()).collect::<Vec<_>>();
            log.0.push(format!("point in {scopes:?}"));
        })
        .on("Demo", "Frame", ["N"], |log, event, [n]| {
            log.0.push(format!("frame {} in {}", n.u64().unwrap(), event.scopes().count()));
        })
        .on_leave("Demo", "Frame", leave);
    let mut feed = Feed::new(analyzer, &[frame_types()]);
    feed.packet(IMPORTANTS, &start());
    let frame = |n| [ENTER, &plain(64, &[n])].concat();
    feed.packet(5, &[marker(1, 2_000), frame(1), marker(2, 3_000), frame(2)].concat());
    feed.packet(6, &[frame(3), marker(3, 4_000), LEAVE.to_vec(), point(0)].concat());
    feed.packet(5, &[marker(4, 5_000), ENTER.to_vec(), point(0), LEAVE.to_vec()].concat());
    feed.packet(5, &[point(0), LEAVE.to_vec(), marker(5, 9_000), LEAVE.to_vec()].concat());
    assert_eq!(
        feed.finish().state.0,
        [
            "frame 1 in 0",
            "frame 2 in 1",
            "frame 3 in 0",
            "Some(6) 2..3 in 0",
            "point in []",
            "point in [\"Demo.Frame\", \"Demo.Frame\"]",
            "point in [\"Demo.Frame\", \"Demo.Frame\"]",
            "Some(5) 2..4 in 1",
            "Some(5) 1..8 in 0",
        ]
    );
}

/// The end or beginning of a scope with its time, which counts from the thread's stamp before in
/// protocols up to 6, and from the start in 7.
fn stamped(protocol: u8, enter: bool, cycles: u64) -> Vec<u8> {
    let uid = match (protocol, enter) {
        (7, true) | (5 | 6, true) => 8_u64,
        (7, false) => 9,
        _ => 12,
    };
    (uid << 1 | cycles << 8).to_le_bytes().to_vec()
}

#[test]
fn scopes_with_a_time_of_their_own_tell_it() {
    for protocol in 5..=7 {
        let analyzer = EventAnalyzer::new(Vec::new())
            .on("Demo", "Frame", ["N"], |log: &mut Vec<String>, event, [n]| {
                log.push(format!("{} at {:?}", n.u64().unwrap(), event.nanoseconds()));
            })
            .on_leave("Demo", "Frame", |log, left| {
                log.push(format!("{:?}..{:?}", left.entered(), left.left()));
            });
        let mut feed = Feed { decoder: Decoder::new(protocol), analyzer };
        let n = [("N", U8)];
        let base = [("BaseTimestamp", U64)];
        feed.packet(
            TYPES,
            &[
                type_record(
                    protocol,
                    60,
                    "$Trace.NewTrace",
                    IMPORTANT | NO_SYNC,
                    &[("StartCycle", U64), ("CycleFrequency", U64)],
                ),
                type_record(protocol, 64, "Demo.Frame", NO_SYNC, &n),
                type_record(protocol, 66, "$Trace.ThreadTiming", NO_SYNC, &base),
                type_record(protocol, 67, "Demo.Late", 0, &n),
            ]
            .concat(),
        );
        let new_trace = [1000_u64.to_le_bytes(), 1_000_000_u64.to_le_bytes()].concat();
        feed.packet(IMPORTANTS, &framed(60, &new_trace));
        // Relative times add up from the base; absolute ones do not.
        let times = if protocol == 7 { [5, 7, 8, 9] } else { [2, 2, 1, 1] };
        let enter = |time| stamped(protocol, true, time);
        let leave = |time| stamped(protocol, false, time);
        let frame = |number| plain(64, &[number]);
        let timing = plain(66, &3_u64.to_le_bytes());
        let bytes = [
            timing,
            enter(times[0]),
            frame(1),
            enter(times[1]),
            frame(2),
            leave(times[2]),
            leave(times[3]),
            // A scope without an event is not reported, and its times are not kept for the next
            // one.
            enter(0),
            leave(0),
            ENTER.to_vec(),
            frame(3),
            LEAVE.to_vec(),
        ]
        .concat();
        let expected = [
            "1 at Some(5000)",
            "2 at Some(7000)",
            "Some(7000)..Some(8000)",
            "Some(5000)..Some(9000)",
            "3 at None",
            "None..None",
        ];
        // However the packets cut it.
        for cut in 0..=bytes.len() {
            feed.packet(2, &bytes[..cut]);
            feed.packet(2, &bytes[cut..]);
            assert_eq!(feed.analyzer.state, expected, "protocol {protocol}, cut at {cut}");
            feed.analyzer.state.clear();
        }
        if protocol == 7 {
            // The cycle itself, in the eight bytes after the uid.
            let enter = [&[6 << 1][..], &1012_u64.to_le_bytes()].concat();
            let leave = [&[7 << 1][..], &1013_u64.to_le_bytes()].concat();
            feed.packet(3, &[enter, frame(4), leave].concat());
            assert_eq!(feed.analyzer.state, ["4 at Some(12000)", "Some(12000)..Some(13000)"]);
        }
    }
}

#[test]
fn a_new_thread_on_a_stream_has_no_scopes_of_the_old_one() {
    let analyzer = EventAnalyzer::new(Vec::new())
        .on("Demo", "Point", [], |out, event, []| out.push(event.scopes().count()));
    let mut feed = Feed::new(analyzer, &[frame_types()]);
    feed.packet(2, &[thread_start(2, 7, b"a"), ENTER.to_vec(), plain(64, &[1]), point(0)].concat());
    // The same thread is announced again, with another name.
    feed.packet(2, &[thread_start(2, 7, b"b"), point(0)].concat());
    feed.packet(2, &[thread_start(3, 8, b"c"), point(0)].concat());
    assert_eq!(feed.finish().state, [1, 1, 0]);
}
