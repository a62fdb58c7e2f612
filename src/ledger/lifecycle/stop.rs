//! The end of a recording: the trailer of every stream, and the report.
//!
//! First it collects while threads still record, so that a thread inside the hook writes its event.
//! Then it turns the state off, passes a barrier, waits until no guard is set, drains all buffers, and
//! writes `Memledger.Report`, with the number of threads whose call came too late. The report covers
//! everything up to that event, in the process and from the file. A start waits longer, because it
//! takes all buffers away from the threads.

use crate::dump::write_report;
use crate::events::channel;
use crate::events::important;
use crate::ledger::destinations::running;
use crate::ledger::recording::stats::trailer;
use crate::ledger::recording::{self, Recording};
use crate::ledger::stats::Stats;
use crate::platform::os::{self, BlockedSignals};
use crate::problems::{self, ProblemKind};
use crate::scopes::tree;
use crate::stacks;
use crate::trace::entry::on_helper_thread;
use crate::trace::worker::{self, WORKER_TIMEOUT};
use crate::trace::write::{loss, quiesce, registry, state, untracked};
use memledger_format::words::nearest;

/// At most this many channels are listed in a sentence.
const MAX_LISTED: usize = 32;

/// Ends the recording `generation`, or any that is under way, and reports.
/// Returns its last figures, if one has ended.
pub(crate) fn finish(generation: Option<u64>) -> Option<Stats> {
    if state::is_forked() {
        return None;
    }
    let figures = untracked(|| end_current(generation))?;
    running::disable_all();
    Some(figures)
}

fn end_current(generation: Option<u64>) -> Option<Stats> {
    let _signals = BlockedSignals::new();
    let mut current = recording::current();
    let is_meant =
        |running: &mut Recording| generation.is_none_or(|number| number == running.generation);
    let recording = current.take_if(is_meant)?;
    // PERF: on a helper thread, because the end allocates blocks of several KiB. If the calling
    // thread has freed millions of small blocks, glibc first consolidates all of them: 0.3 s
    // after a JSON parse.
    Some(on_helper_thread(|| end(recording, generation.is_none())))
}

/// The program has no thread left, and its first one has ended with this status: ends the recording and the
/// process. Called by the worker.
pub(crate) fn left_alone(status: i32) -> ! {
    finish(None);
    os::end_process(status)
}

/// Ends a recording. The caller still holds the lock of the recording, with the guard set.
pub(crate) fn end(mut recording: Recording, process_ends: bool) -> Stats {
    let mut session = worker::session_within(WORKER_TIMEOUT);
    // PERF: after the session is locked. A worker that is woken earlier would lock the session
    // first.
    worker::dismiss();
    // NOTE: before the pause, so that threads inside the hook write their events: taking a call stack can
    // last long enough for a thread to be preempted there. What comes later is counted.
    if let Some(session) = session.as_mut().and_then(|session| session.as_mut()) {
        worker::cycle(session, quiesce::HOOK_TIMEOUT);
    }
    loss::begin_end();
    let quiet = quiesce::pause(quiesce::HOOK_TIMEOUT);
    let Some(mut session) = session else {
        return end_stuck(recording);
    };
    // The report is made at the last event.
    if let (Some(output), Some(analyzer)) = (&recording.report, &recording.analyzer) {
        output.prepare(analyzer);
    }
    if let Some(mut session) = session.take() {
        worker::finish(&mut session, &trailer());
        loss::finish_end();
        if let Some(watch) = &recording.watch {
            watch.note_traced();
        }
        drop_unless(process_ends, session);
    }
    drop(session);
    let figures = Stats::of_last_cycle();
    report_lost(figures.lost_events);
    if quiet {
        registry::discard_buffers();
    }
    running::wait_for_all();
    report(&mut recording);
    if let Some(watch) = recording.watch {
        watch.dismiss();
    }
    // PERF: nor does the process wait for the end of the two threads of its table.
    drop_unless(process_ends, (recording.analyzer, recording.late_analyzer, recording.table));
    // NOTE: after the end of the streams, which otherwise would report that the channels are off.
    report_missing_channels(&channel::clear_setting());
    report_refusals();
    state::turn_off();
    figures
}

/// Writes the report, if there is to be one.
fn report(recording: &mut Recording) {
    if let Some(output) = recording.report.take() {
        let events = worker::collected() - recording.events_before;
        let analyzer = recording.analyzer.as_ref();
        write_report(output, recording.unlinked, analyzer, (events, recording.initial.names()));
    }
}

/// Drops what holds memory of the tracker.
///
/// NOTE: not at the end of the process. Large blocks that are freed can make the allocator consolidate all
/// its memory: 0.3 s with millions of blocks of the program in its free lists.
fn drop_unless<T>(process_ends: bool, value: T) {
    if process_ends {
        std::mem::forget(value);
    }
}

/// Ends a recording whose worker does not give the session back.
fn end_stuck(mut recording: Recording) -> Stats {
    problems::add(
        ProblemKind::Output,
        format!(
            "the trace and the report end early: the worker has been stuck in a write for {} s",
            WORKER_TIMEOUT.as_secs()
        ),
    );
    report(&mut recording);
    let figures = Stats::of_last_cycle();
    report_lost(figures.lost_events);
    channel::clear_setting();
    loss::finish_end();
    state::turn_off();
    figures
}

/// Reports that events are lost. The report says so, too.
fn report_lost(events: u64) {
    if events > 0 {
        let are = if events == 1 { "event is" } else { "events are" };
        let sentence = format!("{events} {are} lost: the figures lack what they held");
        problems::add_quietly(ProblemKind::Incomplete, sentence);
    }
}

/// Reports what the tracker has left out because it had no room for it, or no thread.
fn report_refusals() {
    if let Some(group) = tree::too_deep_group() {
        problems::add(
            ProblemKind::Incomplete,
            format!(
                "the group {group} is in itself, or in more than 63 others, so it is shown as an outermost one"
            ),
        );
    }
    if channel::refused() > 0 {
        problems::add(
            ProblemKind::Incomplete,
            format!(
                "{} channels of the program stayed off: it can have 1024, and had these before",
                channel::refused()
            ),
        );
    }
    #[cfg(feature = "perfetto")]
    if crate::perfetto::refused() > 0 {
        problems::add(
            ProblemKind::Incomplete,
            format!(
                "{} categories of the program stayed off: it can have 4096, and had used these before",
                crate::perfetto::refused()
            ),
        );
    }
    let unanswered = os::take_unanswered();
    if unanswered > 0 {
        problems::add(
            ProblemKind::Incomplete,
            format!(
                "the tracker's thread for calls of the program has ended, or did not begin within 5 s: {unanswered} requests were skipped"
            ),
        );
    }
    let refused = [tree::take_full(), important::take_refused(), stacks::events::take_refused()];
    refused.into_iter().flatten().for_each(|why| problems::add(ProblemKind::Incomplete, why));
}

/// Reports the names in the setting of channels that no channel has.
fn report_missing_channels(missing: &[&str]) {
    if !missing.is_empty() {
        problems::add(
            ProblemKind::Setting,
            format!(
                "this program has no channel {missing:?}, which the setting of channels names; {}",
                instead(missing)
            ),
        );
    }
}

/// Suggestions for unknown channel names: the nearest channels, or all channels if none is near.
fn instead(missing: &[&str]) -> String {
    let known: Vec<_> = channel::known().map(|(name, _)| name).take(MAX_LISTED).collect();
    let near: Option<Vec<_>> =
        missing.iter().map(|name| nearest(name, known.iter().copied())).collect();
    match near {
        Some(near) => format!("likely meant: {near:?}"),
        None => format!("it has {known:?}"),
    }
}
