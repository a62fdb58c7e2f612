//! Handlers that want no more, passes that end early, and passes on threads of their own.

use super::*;
use memledger_analysis::read::{Pass, Summary};
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, channel};

const SAMPLE: &[u8] = include_bytes!("../../../../../tests/samples/mem-2t-40k.utrace");

#[test]
fn a_handler_that_unsubscribes_is_not_called_again() {
    let mut analyzer = EventAnalyzer::new([0_u32; 3])
        .on("Memory", "AllocSystem", [], |counts, event, []| {
            counts[0] += 1;
            if counts[0] == 3 {
                event.unsubscribe();
            }
        })
        .on("Memory", "Alloc*", [], |counts, _, []| counts[1] += 1)
        .on("Mem*", "*", [], |counts, event, []| {
            counts[2] += u32::from(event.event.event_type.event == "AllocSystem");
        });
    let summary = read(SAMPLE, &mut analyzer).unwrap();
    let [few, all, any] = analyzer.state;
    assert_eq!(few, 3);
    assert!(all > 1000 && all == any && summary.is_complete());
    assert_eq!(analyzer.problems(), [""; 0]);
}

#[test]
fn a_type_that_is_announced_later_is_not_for_who_has_unsubscribed() {
    let analyzer = EventAnalyzer::new(0).on("Demo", "Event", ["A"], |count, event, _| {
        *count += 1;
        event.unsubscribe();
    });
    let mut feed = Feed::new(analyzer, &[demo(&[("A", U8)])]);
    feed.packet(2, &plain(DEMO, &[1]));
    feed.packet(TYPES, &demo(&[("A", U16)]));
    feed.packet(2, &plain(DEMO, &[1, 0]));
    assert_eq!(feed.finish().state, 1);
}

/// A thousand packets with a `Demo.Event` each.
fn many_packets() -> Vec<u8> {
    let mut trace = [handshake(7), packet(TYPES, &demo(&[("A", U8)]))].concat();
    (0..1000).for_each(|_| trace.extend(packet(2, &plain(DEMO, &[1]))));
    [&trace[..], SYNC].concat()
}

#[test]
fn a_handler_ends_the_pass_for_all_handlers_of_its_analyzer() {
    let trace = many_packets();
    let mut analyzer = EventAnalyzer::new((0, 0))
        .on("Demo", "Event", [], |(first, _), event, []| {
            *first += 1;
            if *first == 5 {
                event.end_pass();
            }
        })
        .on("Demo", "Event", [], |(_, second), _, []| *second += 1)
        .on_damage(|_, damage| panic!("{damage:?}"));
    let summary = read(&trace[..], &mut analyzer).unwrap();
    assert_eq!(analyzer.state, (5, 4), "the second handler comes after the first");
    assert!(summary.stopped && !summary.is_complete());
    assert_eq!(summary.counts.events, 5);
    let whole = read(&trace[..], &mut EventAnalyzer::new(())).unwrap();
    assert!(!whole.stopped && whole.is_complete() && whole.counts.events == 1000);
}

#[test]
fn the_end_of_a_scope_ends_a_pass_or_a_subscription() {
    let analyzer = EventAnalyzer::new((0, 0))
        .on_leave("Demo", "E*", |(one, _), left| {
            *one += 1;
            left.unsubscribe();
        })
        .on_leave("*mo", "Event", |(_, two), left| {
            *two += 1;
            if *two == 2 {
                left.end_pass();
            }
        });
    let mut feed = Feed::new(analyzer, &[demo(&[("A", U8)])]);
    for _ in 0..4 {
        feed.packet(2, &[ENTER, &plain(DEMO, &[1]), LEAVE].concat());
    }
    assert!(feed.analyzer.is_done());
    assert_eq!(feed.finish().state, (1, 2));
}

/// Ends at the first event if `ends`, else counts.
fn counter<'a>(ends: bool) -> EventAnalyzer<'a, u64> {
    EventAnalyzer::new(0).on("*", "*", [], move |count, event, []| {
        *count += 1;
        if ends {
            event.end_pass();
        }
    })
}

#[test]
fn a_pass_goes_to_the_end_for_who_wants_all_of_it() {
    let trace = many_packets();
    let mut both = (counter(true), counter(false));
    assert!(read(&trace[..], &mut both).unwrap().is_complete());
    assert_eq!((both.0.state, both.1.state), (1, 1000));
    let mut list = vec![counter(true), counter(true)];
    assert!(read(&trace[..], &mut list).unwrap().stopped);
    let mut none: Vec<EventAnalyzer<'_, u64>> = Vec::new();
    assert!(read(&trace[..], &mut none).unwrap().is_complete());
}

#[test]
fn a_pass_on_a_thread_gives_what_a_pass_gives() {
    let mut here = (analysis::Analyzer::new(), counter(false));
    let expected = read(SAMPLE, &mut here).unwrap();
    let pass = Pass::start(SAMPLE, (analysis::Analyzer::new(), counter(false))).unwrap();
    let (there, summary): (_, Summary) = pass.wait().unwrap();
    assert_eq!(summary.counts, expected.counts);
    assert_eq!(there.0.report(), here.0.report());
    assert_eq!(there.1.state, here.1.state);
    let failed = Pass::start(&b"no trace"[..], counter(false)).unwrap().wait();
    assert!(failed.unwrap_err().to_string().contains("not a trace"));
}

/// Gives the bytes that come through a channel.
struct Piecewise(Receiver<&'static [u8]>, &'static [u8]);

impl Read for Piecewise {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.1.is_empty() {
            self.1 = self.0.recv().unwrap_or_default();
        }
        self.1.read(buffer)
    }
}

#[test]
fn a_pass_on_a_thread_is_stopped_by_the_program() {
    let (pieces, source) = channel();
    let pass = Pass::start(Piecewise(source, &[]), counter(false)).unwrap();
    let (now, later) = SAMPLE.split_at(SAMPLE.len() / 2);
    pieces.send(now).unwrap();
    assert!(!pass.is_finished(), "it waits for its source");
    pass.stop();
    // It may have ended already.
    let _ = pieces.send(later);
    let (_, summary) = pass.wait().unwrap();
    assert!(summary.stopped && summary.input_bytes < SAMPLE.len() as u64);
}
