//! Any bytes as a file of Perfetto.

use memledger::analysis::{Analyzer, Until};
use memledger::dump::perfetto::{Events, Export, ExportOptions};
use memledger::trace::read::{Reader, read};
use memledger_cli::pftrace::items;
use std::io::Read;

/// Gives at most `size` bytes at a time.
struct Pieces<'a> {
    rest: &'a [u8],
    size: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let size = self.size.min(out.len());
        let Some(out) = out.get_mut(..size) else { return Ok(0) };
        self.rest.read(out)
    }
}

/// Reads `data` at once and in pieces: the packets and the damage are the same, and lines have no control
/// characters.
pub fn run(data: &[u8]) {
    let whole = items(data);
    let (found, read, skipped) = &whole;
    assert_eq!(*read, data.len() as u64, "all bytes are read");
    assert!(skipped <= read, "{skipped} of {read} bytes are skipped");
    let size = 1 + usize::from(data.first().copied().unwrap_or(0));
    assert_eq!(items(Pieces { rest: data, size }), whole, "pieces of {size} bytes");
    for item in found {
        let line = item["line"].as_str().unwrap_or_default();
        assert!(!line.contains(char::is_control), "{line:?}");
    }
}

/// What is exported from small traces, and a packet for each thing that sequences, names and clocks can be.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<_> = crate::seeds::traces().iter().filter_map(|trace| export(trace)).collect();
    seeds.push(made());
    seeds
}

/// The first bytes of a trace for Perfetto.
fn export(trace: &[u8]) -> Option<Vec<u8>> {
    let mut analyzer = Analyzer::new().by_bucket();
    read(trace, &mut analyzer).ok()?;
    let report = analyzer.report();
    let mut export = Export::new(&report, analyzer.peak_event(), &ExportOptions::default());
    let until = Until::Event(report.trace.events);
    let mut analyzer = Analyzer::observing(Events::default()).until(until);
    let mut reader = Reader::open(trace).ok()?;
    let mut out = Vec::new();
    while reader.packet(&mut analyzer) {
        export.events(&mut analyzer, &mut out).ok()?;
    }
    reader.finish(&mut analyzer);
    export.finish(&mut analyzer, &mut out).ok()?;
    out.truncate(4096);
    Some(out)
}

/// A message as the field of another one.
fn field(number: u8, message: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, message.len() as u8], message].concat()
}

/// A slice on a sequence with an incremental clock and interned names, and what a reader cannot use.
fn made() -> Vec<u8> {
    let clock = |id: u8, time: u8| field(1, &[8, id, 16, time]);
    let clocks = [clock(6, 50), [clock(64, 50), vec![24, 1, 32, 1]].concat()].concat();
    let name = |list: u8, text: &[u8]| field(list, &[&[8, 1][..], &field(2, text)].concat());
    let data = [name(1, b"category"), name(2, b"slice"), name(3, b"argument")].concat();
    let argument = [&[8, 1][..], &field(6, b"a text\x1b")].concat();
    let begin = [&[0x48, 1, 0x18, 1, 0x50, 1][..], &field(4, &argument)].concat();
    let on_sequence = |fields: &[u8]| field(1, &[&[0x50, 2][..], fields].concat());
    [
        on_sequence(&[&[0x68, 1][..], &field(6, &clocks)].concat()),
        on_sequence(&[&[0x68, 2, 0x40, 7][..], &field(11, &begin), &field(12, &data)].concat()),
        // The end of the slice. Then an event whose name has an unknown number, a packet that states a loss, and a
        // sequence whose first packet is missing.
        on_sequence(&[&[0x68, 2, 0x40, 7][..], &field(11, &[0x48, 2])].concat()),
        on_sequence(&[&[0x68, 2, 0x40, 7][..], &field(11, &[0x48, 1, 0x50, 9])].concat()),
        on_sequence(&[0x68, 2, 0xd0, 2, 1]),
        field(1, &[&[0x50, 3, 0x68, 2][..], &field(11, &[0x48, 3, 0x50, 1])].concat()),
    ]
    .concat()
}
