//! The life of sessions: commands, time limits, and output that is not read.

use super::{CAT1, CAT2, FILE, ledger, named, read, ring, session, since_boot, unreachable};
use crate::harness::Run;
use memledger::control::{Client, Command};
use memledger::events::Channel;
use memledger::perfetto::{Track, TrackEventConfig};
use memledger::perfetto::{instant, track_event};
use memledger::{Destination, DestinationHandle, DestinationState, Ledger};
use memledger_test_support::packets::{Field, Trace};
use std::fs::File;
use std::io::Read;
use std::time::Duration;

pub(super) fn commands() {
    let ledger = Ledger::builder().control("0").control_folder(".").start().unwrap();
    let address = format!("127.0.0.1:{}", ledger.control_address().unwrap().port());
    let mut client = Client::connect(&address).unwrap();
    let start = |name: &str, config: Option<&str>| Command::StartSession {
        name: name.into(),
        config: config.map(str::to_owned),
    };
    let dump =
        |name: &str, file: &str| Command::DumpSession { name: name.into(), file: file.into() };
    // What cannot be is refused with a sentence, and leaves no file.
    let stop = |name: &str| Command::StopSession(name.into());
    for (command, says) in [
        (stop("a.pftrace"), "there is no session \"a.pftrace\", and none is running"),
        (start("a.pftrace", Some("size=4")), "the configuration has \"size=4\", but only"),
        (start("../a.pftrace", None), "must be a file name without a folder"),
        (dump("a.pftrace", "b.pftrace"), "there is no session"),
    ] {
        let error = client.send(&command).unwrap_err().to_string();
        assert!(error.contains(says), "{command}: {error}");
    }
    let is_trace = |name: &std::path::Path| name.extension().is_some_and(|it| it == "pftrace");
    let files =
        std::fs::read_dir(".").unwrap().filter(|file| is_trace(&file.as_ref().unwrap().path()));
    assert_eq!(files.count(), 0);

    assert!(!CAT1.is_enabled());
    client.send(&start("whole.pftrace", None)).unwrap();
    client.send(&start("ring.pftrace", Some("ring=64KiB categories=cat1"))).unwrap();
    assert!(CAT1.is_enabled() && CAT2.is_enabled());
    instant!(CAT1, "first");
    instant!(CAT2, "other");
    let flushed = client.send(&Command::FlushSession("whole.pftrace".into())).unwrap();
    assert_eq!(flushed, ["session whole.pftrace, 2 events"]);
    let events = |file: &str| Trace::decode(&std::fs::read(file).unwrap()).events.len();
    assert_eq!(events("whole.pftrace"), 2);
    client.send(&dump("ring.pftrace", "now.pftrace")).unwrap();
    assert_eq!(events("now.pftrace"), 1);
    let error = client.send(&dump("whole.pftrace", "no.pftrace")).unwrap_err().to_string();
    assert!(error.contains("only a session with a ring buffer can be dumped"), "{error}");
    let stopped = client.send(&stop("whole.pftrace")).unwrap();
    assert_eq!(stopped, ["session ended whole.pftrace, 2 events, 0 lost"]);
    assert!(CAT1.is_enabled() && !CAT2.is_enabled());
    let error = client.send(&stop("whole.pftrace")).unwrap_err().to_string();
    assert!(error.contains("the sessions are ring.pftrace"), "{error}");
    // A session of the program has the name of its file, too.
    let none = Destination::track_events("none.pftrace", TrackEventConfig::default());
    let none = ledger.trace_to(none).unwrap();
    let stopped = client.send(&stop("none.pftrace")).unwrap();
    assert_eq!(stopped, ["session ended none.pftrace, 0 events, 0 lost"]);
    assert_eq!(none.status().state, DestinationState::Ended);
    instant!(CAT1, "second");
    // The end of the recording writes the ring.
    drop(ledger);
    assert_eq!(events("ring.pftrace"), 2);
    assert!(!std::path::Path::new("no.pftrace").exists());
}

/// A session has the events before its end, and none after it, whenever they reach the session.
pub(super) fn duration() {
    let ledger = ledger();
    let events = Destination::track_events(FILE, TrackEventConfig::all());
    let events = events.duration(Duration::from_secs(1));
    let before = since_boot();
    let session = ledger.trace_to(events).unwrap();
    let after = since_boot();
    let other = ring(&ledger, TrackEventConfig::default().enable("cat2")).unwrap();
    // The clocks are compared now and then.
    const SLACK: u64 = 2_000_000;
    const SECOND: u64 = 1_000_000_000;
    let (mut surely_in, mut surely_out) = (0, u64::MAX);
    for n in 0_u64.. {
        if since_boot() > after + SECOND + SLACK {
            surely_out = surely_out.min(n);
        }
        instant!(CAT1, "event", arg("n", n));
        if since_boot() < before + SECOND - SLACK {
            surely_in = n + 1;
        }
        if session.status().state == DestinationState::Ended {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(session.status().problem, None);
    assert!(!CAT1.is_enabled() && CAT2.is_enabled());
    assert!(
        (surely_in..=surely_out).contains(&session.status().events),
        "{}",
        session.status().events
    );
    println!("{surely_in} {surely_out} {}", session.status().events);
    other.stop();
}

pub(super) fn duration_test(run: Run) {
    let outcome = run.run();
    outcome.exited(0);
    let trace = Trace::decode(&std::fs::read(outcome.path(FILE)).unwrap());
    let numbers = outcome.stdout.split_whitespace().map(|number| number.parse::<u64>().unwrap());
    let [surely_in, surely_out, written] = numbers.collect::<Vec<_>>()[..] else { panic!() };
    assert!(surely_in <= written && written <= surely_out, "{surely_in} {written} {surely_out}");
    let numbers = trace.events.iter().map(|event| event.arguments[0].1.clone());
    assert!(numbers.eq((0..written).map(Field::Number)), "{} events", trace.events.len());
}

#[cfg(unix)]
const PIPE: &str = "pipe.pftrace";
#[cfg(unix)]
const TEXT: usize = 60_000;
/// More than wait for a session, and than a pipe holds.
#[cfg(unix)]
const EVENTS: u64 = 2_000;

/// `DropCount`: the output is read far more slowly than events come, until much more was emitted than waits
/// for a session.
#[cfg(unix)]
pub(super) fn blocked() {
    let path = std::ffi::CString::new(PIPE).unwrap();
    // SAFETY: the path ends with a NUL.
    #[expect(unsafe_code, reason = "a system call")]
    let made = unsafe { libc::mkfifo(path.as_ptr(), 0o600) };
    assert_eq!(made, 0);
    let mut reader = File::options().read(true).write(true).open(PIPE).unwrap();
    let ledger = Ledger::builder().channels(["scope"]).start().unwrap();
    let session =
        ledger.trace_to(Destination::track_events(PIPE, TrackEventConfig::all())).unwrap();
    let text = "x".repeat(TEXT);
    let (mut all, mut bytes) = (Vec::new(), vec![0; 1 << 16]);
    for n in 0..EVENTS {
        instant!(CAT1, "event", arg("n", n), arg("text", &text));
        // NOTE: a session ends if it is not read from for 3 s. On a busy machine, all events take longer.
        if n % 20 == 0 {
            let count = reader.read(&mut bytes).unwrap();
            all.extend_from_slice(&bytes[..count]);
        }
    }
    assert_eq!(session.status().state, DestinationState::Sending, "{:?}", session.status());
    let reading = std::thread::spawn(move || {
        while !all.ends_with(b"the end") {
            let count = reader.read(&mut bytes).unwrap();
            all.extend_from_slice(&bytes[..count]);
        }
        all.truncate(all.len() - b"the end".len());
        all
    });
    // The session has caught up when an event arrives that was emitted after all others.
    while session.status().lost_events == 0 {
        std::thread::yield_now();
    }
    instant!(CAT1, "after the gap");
    session.flush();
    let (written, lost) = (session.status().events, session.status().lost_events);
    session.stop();
    std::io::Write::write_all(&mut File::options().append(true).open(PIPE).unwrap(), b"the end")
        .unwrap();
    let trace = Trace::decode(&reading.join().unwrap());
    assert_eq!(named(&trace, "after the gap").kind, 3);
    assert_eq!((trace.events.len() as u64, trace.lost), (written, lost));
    assert_eq!(written + lost, EVENTS + 1, "{lost} events are lost");
    assert!(lost > 100 && written > 100, "{written} events are written, {lost} lost");
}

pub(super) fn runtime_names() {
    let ledger = ledger();
    let session = session(&ledger, TrackEventConfig::all());
    for n in 0..2_u64 {
        let (argument, track) = (format!("argument {n}"), format!("track {n}"));
        track_event!(
            CAT1,
            instant("event"),
            arg(&argument, n),
            arg("fixed", "text"),
            named_track(&track, 7, Track::process()),
        );
        let inner = format!("inner {n}");
        track_event!(
            CAT1,
            instant("nested"),
            nested_tracks[process, named(&track, 7), named(&inner, n, [field(14, "described")])],
        );
    }
    // The texts of a field of the program are no categories of the program's events.
    track_event!(CAT1, instant("interned"), interned(3, 1, "of a field"), arg("n", 1));
    instant!(CAT2, "another category");
    session.stop();
}

pub(super) fn runtime_names_test(run: Run) {
    let trace = read(run);
    for n in 0..2_u64 {
        let event = trace.events.iter().filter(|event| event.name.as_deref() == Some("event"));
        let event = event.clone().nth(n as usize).unwrap();
        assert_eq!(event.arguments[0], (format!("argument {n}"), Field::Number(n), 3));
        assert_eq!(event.arguments[1].0, "fixed");
        let track = trace.track(&format!("track {n}"));
        assert_eq!(track.number(1), Some(event.track));
        let inner = trace.track(&format!("inner {n}"));
        assert_eq!(
            (inner.number(5), inner.text(14).as_deref()),
            (track.number(1), Some("described"))
        );
    }
    assert_eq!(named(&trace, "interned").categories, ["cat1", "of a field"]);
    assert_eq!(named(&trace, "another category").categories, ["cat2"]);
}

/// A thread's events are missing because its buffers were full: its sequence says so, and begins anew.
pub(super) fn losses() {
    let builder = Ledger::builder().channels(["scope"]).on_full(memledger::OnFull::Drop);
    let ledger = builder.worker(memledger::Worker::Manual).buffer_limit(1 << 20).start().unwrap();
    let session = session(&ledger, TrackEventConfig::all());
    for n in 0..100_000_u64 {
        instant!(CAT1, "event", arg("n", n));
    }
    ledger.flush();
    for n in 100_000..100_010_u64 {
        instant!(CAT1, "event", arg("n", n));
    }
    session.flush();
    let (written, lost) = (session.status().events, session.status().lost_events);
    assert!(lost > 0 && written + lost >= 100_010, "{written} events, {lost} lost");
    println!("{written} {lost}");
    session.stop();
}

pub(super) fn losses_test(run: Run) {
    let outcome = run.run();
    outcome.exited(0);
    let trace = Trace::decode(&std::fs::read(outcome.path(FILE)).unwrap());
    let counted = format!("{} {}\n", trace.events.len(), trace.lost);
    assert_eq!(outcome.stdout, counted);
    let numbers = trace.events.iter().map(|event| match event.arguments[0].1 {
        Field::Number(n) => n,
        ref other => panic!("{other:?}"),
    });
    let numbers: Vec<_> = numbers.collect();
    assert!(numbers.is_sorted() && numbers.ends_with(&[100_008, 100_009]));
    // The sequence has begun anew, and its first packet says that others are missing.
    assert!(trace.starts > 1 && trace.dropped > 1, "{} of {} starts", trace.dropped, trace.starts);
}

pub(super) fn clear_period() {
    let ledger = ledger();
    let events = Destination::track_events(FILE, TrackEventConfig::all());
    let session = ledger.trace_to(events.clear_period(Duration::from_nanos(1))).unwrap();
    for n in 0..3 {
        track_event!(CAT1, instant("again"), arg("n", n), named_track("t", 0, Track::global()));
        session.flush();
    }
    session.stop();
}

/// `IncrementalStateClearSuccess`.
pub(super) fn clear_period_test(run: Run) {
    let trace = read(run);
    // That the reader knows all texts and tracks is checked as it reads.
    assert_eq!((trace.starts, trace.events.len()), (3, 3));
}

pub(super) fn traced() {
    let _ledger =
        Ledger::builder().channels(["track"]).trace_to_file("run.utrace").start().unwrap();
    for n in 7..9 {
        track_event!(CAT1, instant("sent"), arg("n", n), arg("text", "hello"));
    }
    Channel::set_enabled_by_name("track", false).unwrap();
    track_event!(CAT1, instant("not sent"), arg("x", unreachable::<u64>()));
}

pub(super) fn traced_test(run: Run) {
    let outcome = run.run();
    outcome.exited(0);
    let found = |file: &str| {
        let mut found = memledger_analysis::read::EventAnalyzer::new(Vec::new())
            .on("Perfetto", "Site", ["Category", "Name", "Id"], |found, _, [category, name, id]| {
                let (category, name) = (category.text().unwrap(), name.text().unwrap());
                found.push(format!("{}: {category}, {name}", id.u64().unwrap()));
            })
            .on("Perfetto", "Event", ["Site"], |found, _, [site]| {
                found.push(format!("{} long", site.u64().unwrap()));
            })
            .on("Perfetto", "TextEvent", ["Site", "A", "Text"], |found, _, [site, a, text]| {
                let text = text.elements().unwrap().filter_map(|byte| byte.as_u64());
                let text = text.map(|byte| byte as u8 as char).collect::<String>();
                found.push(format!("{} {} {text}", site.u64().unwrap(), a.u64().unwrap()));
            });
        let file = std::fs::File::open(outcome.path(file)).unwrap();
        memledger_analysis::read::read(file, &mut found).unwrap();
        found.state
    };
    outcome.export_channels("run.utrace", "-track", "other.utrace");
    assert_eq!(found("other.utrace"), [""; 0]);
    assert_eq!(found("run.utrace"), ["1: cat1, sent", "1 long", "1 8 hello"]);
}

pub(super) fn refusals() {
    let sentence =
        |result: Result<DestinationHandle, memledger::Error>| result.unwrap_err().to_string();
    let started = ledger();
    let ended = Ledger::current().unwrap();
    started.finish().unwrap();
    let start = |ledger| ring(ledger, TrackEventConfig::all());
    let none = sentence(start(&ended));
    assert!(none.contains("nothing is being recorded"), "{none}");
    let ledger = ledger();
    let sessions = (0..16).map(|_| start(&ledger).unwrap()).collect::<Vec<_>>();
    assert_eq!(sentence(start(&ledger)), "16 sessions are running, the maximum");
    sessions.iter().for_each(DestinationHandle::stop);
    start(&ledger).unwrap().stop();
    let to = |file, config| ledger.trace_to(Destination::track_events(file, config));
    let large = TrackEventConfig::default().enable("x".repeat(1 << 20));
    assert!(sentence(to(FILE, large)).contains("1048576 bytes"));
    let missing = to("missing/run.pftrace", TrackEventConfig::all());
    assert!(sentence(missing).starts_with("cannot create missing/run.pftrace"));
    let file = session(&ledger, TrackEventConfig::all());
    let refused = file.dump("x.pftrace").unwrap_err().to_string();
    assert!(refused.starts_with("only a session with a ring buffer can be dumped"), "{refused}");
}

/// Track events that are set with the recording, to a ring.
pub(super) fn built() {
    let events = Destination::track_events(FILE, TrackEventConfig::all().disable("cat2"));
    let _ledger = Ledger::builder().trace_to(events.ring(1 << 20)).start().unwrap();
    instant!(CAT1, "enabled");
    instant!(CAT2, "disabled");
}

/// The same in a recording that the environment has begun, unless it names track events itself.
pub(super) fn built_test(run: Run) {
    let (begun, named) = (Run::of(&run), Run::of(&run));
    let begun = begun.env("MEMLEDGER_TRACE", "run.utrace").env("MEMLEDGER_REPORT", "off");
    for run in [run, begun] {
        let trace = read(run);
        assert_eq!(trace.events.len(), 1);
        assert_eq!(trace.events[0].name.as_deref(), Some("enabled"));
    }
    let outcome = named.env("MEMLEDGER_PERFETTO", "named.pftrace").run();
    outcome.exited(0);
    let trace = Trace::decode(&std::fs::read(outcome.path("named.pftrace")).unwrap());
    assert_eq!((trace.events.len(), outcome.path(FILE).exists()), (2, false));
}
