//! Whether a trace that no longer grows has its end.

use crate::read::{Event, Value, Visitor, read};
use memledger_format::schema::EventType;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Bytes that are read from the beginning, which declares the types, and from the end. Between two
/// syncs, memledger sends fewer bytes than this.
const PART: u64 = 256 << 10;

/// What a trace that no longer grows says of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ending {
    /// The program has written it.
    pub is_there: bool,
    /// How many events the program could not record, as it says there.
    pub lost_events: u64,
}

/// The end of a trace; `None` if its writer never writes one, as Unreal's does not.
///
/// A connection ends in the same way when a program ends and when it is killed, so only the trace
/// shows the difference. Takes some milliseconds for a trace of any length.
pub fn ending(mut file: &File) -> io::Result<Option<Ending>> {
    let size = file.metadata()?.len();
    let (mut begin, mut end) = (Vec::new(), Vec::new());
    // If the caller has written the file, the position may be the end of the file.
    file.rewind()?;
    file.take(PART).read_to_end(&mut begin)?;
    file.seek(SeekFrom::Start(size.saturating_sub(PART).max(PART)))?;
    file.take(PART).read_to_end(&mut end)?;
    let mut trailer = Trailer::default();
    // The part between beginning and end is not read, so damage that is reported for it is ignored.
    let is_trace = read((&begin[..]).chain(&end[..]), &mut trailer).is_ok();
    let ending = Ending {
        is_there: trailer.lost_events.is_some(),
        lost_events: trailer.lost_events.unwrap_or(0),
    };
    Ok((is_trace && trailer.by_memledger).then_some(ending))
}

/// What a trace shows about its writer and its end.
#[derive(Default)]
struct Trailer {
    by_memledger: bool,
    /// Of `Memledger.Report`, the last event that memledger writes.
    lost_events: Option<u64>,
}

impl Visitor for Trailer {
    fn event_type(&mut self, _: usize, event_type: &EventType) {
        self.by_memledger |= event_type.is("Memledger", "Trace");
    }

    fn event(&mut self, event: &Event<'_>) {
        if event.event_type.is("Memledger", "Report") {
            let mut fields = event.event_type.fields.iter();
            let lost = fields.position(|field| field.name == "LostEvents");
            self.lost_events = match lost.and_then(|field| event.value(field)) {
                Some(Value::Unsigned(lost)) => Some(lost),
                _ => Some(0),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memledger_format::framing::Framing;
    use std::io::Write;

    fn sample(name: &str) -> Vec<u8> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/samples/");
        std::fs::read(format!("{folder}{name}")).unwrap()
    }

    fn end_of(bytes: &[u8]) -> Option<bool> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        ending(&file).unwrap().map(|ending| ending.is_there)
    }

    #[test]
    fn a_program_says_at_its_end_that_it_is_the_end() {
        let whole = sample("memledger-small.utrace");
        assert_eq!(end_of(&whole), Some(true));
        assert_eq!(end_of(&whole[..whole.len() / 2]), Some(false), "killed");
        assert_eq!(end_of(&sample("ue511-smoke.utrace")), None, "Unreal does not say");
        assert_eq!(end_of(b"no trace"), None);
        assert_eq!(end_of(b""), None);
    }

    #[test]
    fn a_long_trace_is_looked_at_from_both_ends() {
        let whole = sample("memledger-small.utrace");
        let half = whole.len() / 2;
        let mut framing = Framing::new();
        framing.push(&whole[..half]).unwrap();
        let middle = framing.whole() as usize;
        // Packets of a thread that no reader can decode.
        let filling = [&[0x60, 0xea, 9, 0][..], &[7; 59_996]].concat();
        for count in [3, 9, 20, 100] {
            let long = [&whole[..middle], &filling.repeat(count), &whole[middle..]].concat();
            assert_eq!(end_of(&long), Some(true), "{count}");
            assert_eq!(end_of(&long[..long.len() - (whole.len() - middle)]), Some(false));
        }
    }
}
