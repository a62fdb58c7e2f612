//! Which categories there are, which sessions run, and who wants what.
//!
//! A category that is used for the first time joins the table and looks at the sessions; a session
//! that starts joins the list and looks at the categories. Both write first and look afterwards, so
//! at least one of them sees the other. Threads that emit take no lock: a session that ends removes
//! its configuration from the list, and frees it when no thread reads the list any more.
#![expect(unsafe_code, reason = "a table of pointers to boxes that are shared")]

use crate::error::{Error, ErrorKind};
use crate::events::channel::Channel;
use crate::perfetto::category::{Category, CategoryChange, DYNAMIC, NEW};
use crate::perfetto::config::TrackEventConfig;
use crate::platform::{os, static_table::StaticTable, ticks};
use crate::trace::write::untracked;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

/// Whether track events are in the traces of the program, besides the sessions.
pub(crate) static TRACK: Channel = Channel::watched("Track", set_traced);

const MAX_CATEGORIES: usize = 4096;
/// The most sessions at once.
pub(crate) const MAX_SESSIONS: usize = 16;
/// The bit of a category for the trace.
const TRACE: u32 = 1 << MAX_SESSIONS;

static TABLE: StaticTable<Category, MAX_CATEGORIES> = StaticTable::new();
/// Categories that found the table full, and stay off.
static REFUSED: AtomicU32 = AtomicU32::new(0);

/// The configurations of the sessions that run.
static SESSIONS: [AtomicPtr<TrackEventConfig>; MAX_SESSIONS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MAX_SESSIONS];
/// The threads that read `SESSIONS`.
static READERS: AtomicU32 = AtomicU32::new(0);
/// The process that holds the lock of [`Changes`], 0 if none does.
static HOLDER: AtomicU32 = AtomicU32::new(0);

pub(super) fn is_dynamic(category: &Category) -> bool {
    ptr::eq(category, &raw const DYNAMIC)
}

/// Held while a session starts or ends.
///
/// NOTE: not a mutex. The child of a fork has the lock as it was in its parent, and the thread that held it
/// there does not exist in the child, which would wait for ever. So the lock says whose it is.
struct Changes;

fn changes() -> Changes {
    let process = os::process_id();
    loop {
        match HOLDER.compare_exchange(0, process, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => return Changes,
            Err(holder) if holder != process => {
                let taken =
                    HOLDER.compare_exchange(holder, process, Ordering::SeqCst, Ordering::SeqCst);
                if taken.is_ok() {
                    return Changes;
                }
            }
            // Another thread of this process holds it, for about a millisecond at most.
            Err(_) => os::sleep(Duration::from_micros(100)),
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        HOLDER.store(0, Ordering::SeqCst);
    }
}

/// All categories that were used, in the order of their first use.
pub(crate) fn categories() -> impl Iterator<Item = &'static Category> {
    TABLE.iter()
}

/// The number of categories that are off because the table is full.
pub(crate) fn refused() -> u32 {
    REFUSED.load(Ordering::Relaxed)
}

/// The number of a category: that of its entry in the table.
pub(crate) fn number_of(category: &'static Category) -> Option<usize> {
    categories().position(|known| ptr::eq(known, category))
}

/// The most bytes of all patterns of a configuration, and the most patterns.
const MAX_BYTES: usize = 64 << 10;
const MAX_PATTERNS: usize = 4096;

impl TrackEventConfig {
    /// Refuses a configuration that is too large.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let all = [
            &self.enabled_categories,
            &self.disabled_categories,
            &self.enabled_tags,
            &self.disabled_tags,
        ];
        let patterns = all.map(Vec::len).iter().sum::<usize>();
        let bytes = all.into_iter().flatten().map(String::len).sum::<usize>();
        if patterns > MAX_PATTERNS || bytes > MAX_BYTES {
            return Err(Error::new(
                ErrorKind::InvalidSession,
                format!(
                    "it has {patterns} patterns of categories and tags with {bytes} bytes in all; \
                 at most {MAX_PATTERNS} patterns with {MAX_BYTES} bytes are possible"
                ),
            ));
        }
        Ok(())
    }
}

impl Category {
    /// Whether a session has enabled it, or the trace has track events. Costs one relaxed load.
    #[inline(always)]
    pub fn is_enabled(&'static self) -> bool {
        let wanted_by = self.wanted_by.load(Ordering::Relaxed);
        wanted_by != 0 && (wanted_by != NEW || register(self))
    }

    /// Calls `callback` when a session enables or disables this category: on the thread that starts
    /// or stops the session, after the change. For each session that has it enabled now, calls it
    /// at once. `None` ends this.
    ///
    /// ```
    /// use memledger::perfetto::TrackEventConfig;
    /// use memledger::{Destination, Ledger};
    /// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    ///
    /// memledger::perfetto::categories! { GAME = "game"; }
    /// static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    ///
    /// GAME.on_change(Some(|change| IS_WATCHED.store(change.enabled, Relaxed)));
    /// let ledger = Ledger::builder().start()?;
    /// let session = ledger.trace_to(Destination::track_event_ring(1 << 20, TrackEventConfig::all()))?;
    /// assert!(IS_WATCHED.load(Relaxed)); // until the session ends
    /// # session.stop();
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub fn on_change(&'static self, callback: Option<fn(CategoryChange)>) {
        let notifications = untracked(|| {
            let _changes = changes();
            self.is_enabled();
            let pointer = callback.map_or(ptr::null_mut(), |callback| callback as *mut ());
            self.callback.store(pointer, Ordering::SeqCst);
            let wanted_by = self.wanted_by.load(Ordering::SeqCst);
            let sessions = (0..MAX_SESSIONS).map(|session| 1 << session);
            let mut notifications = Notifications::default();
            for (index, bit) in sessions.filter(|bit| wanted_by & bit != 0).enumerate() {
                notifications.add(self, bit, true, index == 0);
            }
            notifications
        });
        notifications.run();
    }
}

/// Adds a category to the table, and enables it for the sessions that run. Returns whether it is
/// enabled.
#[cold]
#[inline(never)]
fn register(category: &'static Category) -> bool {
    ticks::choose();
    let is_known = TABLE.find_or_add(category, |known| ptr::eq(known, category)).is_some();
    let wanted_by = &category.wanted_by;
    if is_known {
        READERS.fetch_add(1, Ordering::SeqCst);
        let mut wanted = if TRACK.is_enabled() { TRACE } else { 0 };
        for (session, config) in SESSIONS.iter().enumerate() {
            // SAFETY: a configuration is freed after it was removed from the list, once there were
            // no readers.
            let config = unsafe { config.load(Ordering::SeqCst).as_ref() };
            if config.is_some_and(|config| is_dynamic(category) || config.enables(category)) {
                wanted |= 1 << session;
            }
        }
        wanted_by.fetch_or(wanted, Ordering::SeqCst);
        READERS.fetch_sub(1, Ordering::SeqCst);
    } else if wanted_by.load(Ordering::SeqCst) == NEW {
        REFUSED.fetch_add(1, Ordering::Relaxed);
    }
    wanted_by.fetch_and(!NEW, Ordering::SeqCst) & !NEW != 0
}

/// Calls of callbacks that are due. They are made when no lock is held, so a callback can do what it likes,
/// and without the guard, so what it emits is recorded.
#[must_use]
#[derive(Default)]
pub(crate) struct Notifications(Vec<(fn(CategoryChange), CategoryChange)>);

impl Notifications {
    fn add(&mut self, category: &Category, bit: u32, enabled: bool, is_global: bool) {
        let callback = category.callback.load(Ordering::SeqCst);
        if !callback.is_null() {
            // SAFETY: `set_callback` stores only pointers to functions of this type.
            let callback = unsafe { std::mem::transmute::<*mut (), fn(CategoryChange)>(callback) };
            let session = bit.trailing_zeros();
            self.0.push((callback, CategoryChange { session, enabled, is_global }));
        }
    }

    /// Calls the callbacks, in order.
    pub(crate) fn run(self) {
        self.0.iter().for_each(|(callback, change)| callback(*change));
        untracked(move || drop(self));
    }
}

/// Sets or clears a bit of all categories that `wants` selects.
fn switch(bit: u32, enabled: bool, wants: impl Fn(&Category) -> bool) -> Notifications {
    let mut notifications = Notifications::default();
    for category in categories().filter(|category| wants(category)) {
        let wanted_by = &category.wanted_by;
        let before = if enabled {
            wanted_by.fetch_or(bit, Ordering::SeqCst)
        } else {
            wanted_by.fetch_and(!bit, Ordering::SeqCst)
        };
        if (before & bit != 0) != enabled && bit != TRACE {
            let others = before & (TRACE - 1) & !bit;
            notifications.add(category, bit, enabled, others == 0);
        }
    }
    notifications
}

/// A session that has its categories enabled until it is stopped.
#[derive(Debug)]
pub(crate) struct Active {
    session: usize,
}

impl Active {
    /// Enables the categories of `config`.
    pub(crate) fn start(config: TrackEventConfig) -> Result<(Self, Notifications), Error> {
        config.check()?;
        let _changes = changes();
        let free = SESSIONS.iter().position(|entry| entry.load(Ordering::SeqCst).is_null());
        let Some(session) = free else {
            return Err(Error::new(
                ErrorKind::InvalidSession,
                format!("{MAX_SESSIONS} sessions are running, the maximum"),
            ));
        };
        let config = Box::into_raw(Box::new(config));
        SESSIONS[session].store(config, Ordering::SeqCst);
        // SAFETY: only `stop` frees it.
        let config = unsafe { &*config };
        let wants = |category: &Category| is_dynamic(category) || config.enables(category);
        let notifications = switch(1 << session, true, wants);
        Ok((Self { session }, notifications))
    }

    /// Disables its categories.
    pub(crate) fn stop(self) -> Notifications {
        let _changes = changes();
        let config = SESSIONS[self.session].swap(ptr::null_mut(), Ordering::SeqCst);
        // A thread reads the list for some microseconds, when it first uses a category, and then
        // switches the category on. What a thread that was killed meanwhile reads is never freed.
        let mut patience = 2000;
        while READERS.load(Ordering::SeqCst) != 0 && patience > 0 {
            match patience {
                1000.. => std::thread::yield_now(),
                _ => os::sleep(Duration::from_millis(1)),
            }
            patience -= 1;
        }
        if patience > 0 && !config.is_null() {
            // SAFETY: it is from `Box::into_raw`, it is no longer in the list, and no thread that
            // has read the list before is still reading it.
            drop(unsafe { Box::from_raw(config) });
        }
        switch(1 << self.session, false, |_| true)
    }
}

/// Enables all categories for the trace, or disables them for it.
fn set_traced(traced: bool) {
    let _changes = changes();
    let _ = switch(TRACE, traced, |_| true);
}

#[cfg(test)]
mod tests;
