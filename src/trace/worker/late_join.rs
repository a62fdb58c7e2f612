//! The start of a stream that joins during a recording.
//!
//! A late stream starts between two events of the order. Its destination begins with the blocks
//! that are alive there, from the in-process analyzer; all later events are sent to it as to every
//! sink. Each thread's stream starts within a buffer, so the late stream first reopens the scopes
//! that are open at that position.

use super::announcer::{Announcer, Definitions};
use super::layouts::Layouts;
use super::streams::CONTROL;
use super::threads::{OpenThread, Threads};
use crate::trace::write::declared;
use memledger_format::layout::{ENTER_SCOPE, StreamItem};
use memledger_format::stream_events;

/// The position in the order where a stream starts.
pub(crate) struct JoinPoint {
    /// The serial of the next event.
    pub(crate) serial: u64,
    /// The start of the clock, and the time of the last marker, in cycles.
    pub(crate) start: u64,
    pub(crate) marked_at: u64,
    /// Whether the recording has all events since the start of the process.
    pub(crate) from_process_start: bool,
    /// What the threads' events refer to, apart from important events.
    pub(crate) definitions: Vec<Definitions>,
    /// The bytes that each stream starts with: for a thread, its information and the scopes that
    /// are open on it; for the control stream, the figures so far.
    pub(crate) streams: Vec<(u16, Vec<u8>)>,
}

/// The bytes that each stream starts with, for a reader that has seen none of it.
pub(super) fn open_streams(threads: &Threads, announcer: &Announcer) -> Vec<(u16, Vec<u8>)> {
    let figures = announcer.figures_before().into_iter().map(|packet| (CONTROL, packet));
    let open = |thread: OpenThread<'_>| (thread.stream, start_of(&thread, announcer.layouts()));
    figures.chain(threads.open().map(open)).collect()
}

/// The thread's information, and its open scopes.
fn start_of(thread: &OpenThread<'_>, layouts: &Layouts) -> Vec<u8> {
    let mut bytes = thread.start.to_vec();
    if let Some(sent) = thread.sent() {
        let open = still_open(sent, layouts);
        // The other open scopes were entered in earlier buffers, which are freed.
        let before = (thread.depth as usize).saturating_sub(open.len());
        (0..before).for_each(|_| open_unknown(&mut bytes));
        for scope in open {
            match scope {
                Some(scope) => bytes.extend_from_slice(scope),
                None => open_unknown(&mut bytes),
            }
        }
    }
    bytes
}

/// Opens a scope whose event is not known.
fn open_unknown(out: &mut Vec<u8>) {
    out.push(ENTER_SCOPE);
    stream_events::SCOPE_GOES_ON.append(&[], out);
}

/// The scopes that `events` have opened and not closed: the bytes of each scope of the tracker,
/// `None` for a scope of the program. The event of a program's scope is not repeated, because it
/// can have a serial below the stream's first, and arrays of any length.
fn still_open<'a>(events: &'a [u8], layouts: &Layouts) -> Vec<Option<&'a [u8]>> {
    let mut open = Vec::new();
    let mut rest = events;
    while let Some((item, bytes, after)) = layouts.split(rest) {
        match item {
            StreamItem::Enter => open.push((rest, bytes.len())),
            StreamItem::Leave => drop(open.pop()),
            _ => {}
        }
        rest = after;
    }
    let scope = |(events, enter): (&'a [u8], usize)| match layouts.split(events.get(enter..)?)? {
        (StreamItem::Event(uid, _), event, _) if declared::number_of(uid).is_none() => {
            events.get(..enter + event.len())
        }
        _ => None,
    };
    open.into_iter().map(scope).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use memledger_format::encode::Declaration;
    use memledger_format::layout::{ENTER_SCOPE_AT, LEAVE_SCOPE, LEAVE_SCOPE_AT};
    use memledger_format::schema::FieldType::U32;
    use memledger_format::schema::NO_SYNC;

    #[test]
    fn what_is_open_is_found_whatever_was_closed_before() {
        static SCOPE: Declaration =
            Declaration { uid: 40, logger: "A", event: "N", flags: NO_SYNC, fields: &[("F", U32)] };
        let layouts = Layouts::new([&SCOPE].iter());
        let event = |field: u32| {
            let mut bytes = Vec::new();
            SCOPE.append(&[field.into()], &mut bytes);
            bytes
        };
        let enter = |field| [vec![ENTER_SCOPE], event(field)].concat();
        let open = |events: &[Vec<u8>]| {
            let bytes = events.concat();
            let open = still_open(&bytes, &layouts).into_iter();
            open.map(|scope| scope.unwrap_or_default().to_vec()).collect::<Vec<_>>()
        };
        let leave = || vec![LEAVE_SCOPE];
        let nothing = Vec::<Vec<u8>>::new();
        assert_eq!(open(&[]), nothing);
        assert_eq!(open(&[enter(1), event(5)]), [enter(1)]);
        assert_eq!(open(&[enter(1), event(5), leave()]), nothing);
        assert_eq!(open(&[enter(1), leave(), enter(2), enter(3), event(1)]), [enter(2), enter(3)]);
        // The scope's own event is the last one, or is not written yet.
        assert_eq!(open(&[event(5), enter(2)]), [enter(2)]);
        assert_eq!(open(&[event(5), vec![ENTER_SCOPE]]), [Vec::<u8>::new()]);
        // A scope that was opened in an earlier buffer is closed in this one.
        assert_eq!(open(&[leave(), enter(2)]), [enter(2)]);
        // With a time.
        let timed = [vec![ENTER_SCOPE_AT], vec![7; 8], event(9)].concat();
        let left = [vec![LEAVE_SCOPE_AT], vec![8; 8]].concat();
        assert_eq!(open(&[enter(1), timed.clone()]), [enter(1), timed.clone()]);
        assert_eq!(open(&[enter(1), timed, left]), [enter(1)]);
    }
}
