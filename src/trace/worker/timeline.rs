//! The serials and times of one recording, and the figures at its end.

use crate::platform::{clock, os};
use crate::trace::write::loss;
use memledger_format::stream_events::{self, MARKER_BYTES};
use std::sync::atomic::{AtomicU64, Ordering};

/// Unreal's readers up to 5.5 drop a marker whose time is 60 s or more after that of the last
/// marker, and all later markers. So the times of two markers are at most this many cycles of the
/// clock apart.
const MARKER_SPACING: u64 = 50 * clock::FREQUENCY;

/// After this many cycles of the clock without events, the worker writes a marker. It is less than
/// `MARKER_SPACING`, because on a busy machine the worker may run seconds late.
const MARKER_AT_LEAST: u64 = 45 * clock::FREQUENCY;
const _: () = assert!(MARKER_AT_LEAST < MARKER_SPACING);

/// The serial of the next event, in all recordings of the process.
static SERIAL: AtomicU64 = AtomicU64::new(0);

/// How many events have been collected since the start of the process.
pub(crate) fn collected() -> u64 {
    SERIAL.load(Ordering::Relaxed)
}

/// The times of the markers that follow one at `from`, the last of them at `to`, in cycles.
pub(crate) fn marker_times(from: u64, to: u64) -> impl Iterator<Item = u64> {
    let between = to.saturating_sub(from).saturating_sub(1) / MARKER_SPACING;
    (1..=between).map(move |number| from + number * MARKER_SPACING).chain([to])
}

/// The event from which our reader knows the first serial of the stream, and whether events before
/// that serial are missing.
pub(crate) fn preamble(first_serial: u64, from_process_start: bool) -> Vec<u8> {
    let (pid, whole) = (os::process_id(), u32::from(from_process_start));
    let optimized = u32::from(!cfg!(unoptimized));
    let mut event = Vec::new();
    let (version, parent) = (1_u32, os::parent_process_id());
    let values = [
        version.into(),
        pid.into(),
        first_serial.into(),
        whole.into(),
        optimized.into(),
        parent.into(),
    ];
    stream_events::TRACE.append(&values, &mut event);
    event
}

/// The event that says that every event below `serial` has been sent.
pub(crate) fn settled_below(serial: u64) -> Vec<u8> {
    let mut event = Vec::new();
    stream_events::SETTLED.append(&[serial.into()], &mut event);
    event
}

/// The figures in the last event of a stream.
#[derive(Clone, Copy)]
pub(crate) struct Trailer {
    pub(crate) overhead_bytes: u64,
    pub(crate) scope_misuses: u64,
    pub(crate) failed_allocations: u64,
}

impl Trailer {
    /// The `Memledger.Report` event, with the serial of the next event, and the time.
    pub(super) fn report(&self, serial: u64, now: u64) -> Vec<u8> {
        let mut report = Vec::new();
        stream_events::REPORT.append(
            &[
                serial.into(),
                now.into(),
                self.overhead_bytes.into(),
                loss::total().into(),
                self.scope_misuses.into(),
                self.failed_allocations.into(),
                loss::in_flight().into(),
            ],
            &mut report,
        );
        report
    }
}

/// Which serials have been given to events, and which times have been written, in one recording.
#[derive(Clone, Copy)]
pub(super) struct Timeline {
    /// The start of the clock, in cycles.
    start: u64,
    from_process_start: bool,
    first_serial: u64,
    /// The serial of the next event.
    next_serial: u64,
    /// The stream says that every event below this serial has been sent.
    settled: u64,
    /// The serial after the last marker. While it equals `next_serial`, there have been no events
    /// since that marker.
    marked: u64,
    /// The time of the last marker, in cycles.
    marked_at: u64,
}

impl Timeline {
    /// A timeline that begins with the next event, or with the first of the process if
    /// `from_process_start`.
    pub(super) fn new(from_process_start: bool) -> Self {
        let start =
            if from_process_start { clock::process_start() } else { clock::now_since_start() };
        let first_serial = collected();
        Self {
            start,
            from_process_start,
            first_serial,
            next_serial: first_serial,
            settled: first_serial,
            marked: u64::MAX,
            marked_at: start,
        }
    }

    /// Continues the clock of another recording, which began at `start`, in cycles.
    pub(super) fn continue_from(&mut self, start: u64, from_process_start: bool) {
        self.start = start;
        self.from_process_start = from_process_start;
    }

    /// The start of the clock in cycles, and whether the recording has all events since the process
    /// began.
    pub(super) fn began(&self) -> (u64, bool) {
        (self.start, self.from_process_start)
    }

    pub(super) fn first_serial(&self) -> u64 {
        self.first_serial
    }

    pub(super) fn next_serial(&self) -> u64 {
        self.next_serial
    }

    /// Sets the serial of the next event, after events were numbered up to it.
    pub(super) fn set_next_serial(&mut self, serial: u64) {
        self.next_serial = serial;
    }

    /// The time of the last marker, in cycles.
    pub(super) fn marked_at(&self) -> u64 {
        self.marked_at
    }

    /// [`preamble`] of a stream that begins with the recording.
    pub(super) fn preamble(&self) -> Vec<u8> {
        preamble(self.first_serial, self.from_process_start)
    }

    /// Whether events were sent that the stream has not declared settled.
    pub(super) fn is_unsettled(&self) -> bool {
        self.next_serial > self.settled
    }

    /// The event that says that everything so far has been sent.
    pub(super) fn settle(&mut self) -> Vec<u8> {
        self.settled = self.next_serial;
        SERIAL.store(self.next_serial, Ordering::Relaxed);
        settled_below(self.next_serial)
    }

    /// Whether a marker at `now` is due: there were events since the last marker, or the last
    /// marker is long ago.
    pub(super) fn is_marker_due(&self, now: u64) -> bool {
        let idle = now.saturating_sub(self.marked_at);
        self.next_serial != self.marked || idle >= MARKER_AT_LEAST
    }

    /// A marker at `cycle`, preceded by others if the last one is long ago because the program was
    /// stopped.
    pub(super) fn mark(&mut self, cycle: u64) -> Vec<[u8; MARKER_BYTES]> {
        let times = marker_times(self.marked_at, cycle);
        let markers = times.zip(self.next_serial..);
        let markers: Vec<_> =
            markers.map(|(cycle, serial)| stream_events::marker(serial, cycle)).collect();
        self.next_serial += markers.len() as u64;
        self.marked_at = cycle;
        self.marked = self.next_serial;
        markers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_markers_are_more_than_50_seconds_apart() {
        const SECOND: u64 = clock::FREQUENCY;
        let mut timeline = Timeline::new(false);
        let (start, _) = timeline.began();
        let (mut now, mut times) = (start, vec![start]);
        let mut pass = |pause: u64| {
            now += pause;
            if timeline.is_marker_due(now) {
                for marker in timeline.mark(now) {
                    assert_eq!(marker[..2], stream_events::MARKER.wire().to_le_bytes());
                    times.push(u64::from_le_bytes(marker[5..].try_into().unwrap()));
                }
            }
            times.len() - 1
        };
        // Ten idle minutes, in which cycles are up to four seconds late.
        for number in 0..300 {
            pass(if number % 7 == 0 { 4 * SECOND } else { SECOND / 100 * 167 });
        }
        let idle = pass(0);
        assert!(idle < 30, "{idle} markers");
        // The program was stopped for an hour.
        pass(3600 * SECOND);
        let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(longest <= 50 * SECOND, "{longest} ns");
        assert!(times.is_sorted());
        assert_eq!(times.last(), Some(&now));
        assert_eq!(timeline.next_serial - timeline.first_serial, times.len() as u64 - 1);
    }
}
