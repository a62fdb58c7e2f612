//! Which categories a session enables.

use super::category::Category;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

/// Which categories a session enables, and how it writes time. The names and rules are those of
/// Perfetto's `TrackEventConfig`, as its C library applies them.
///
/// ```
/// use memledger::perfetto::TrackEventConfig;
/// memledger::perfetto::categories! { STEPS = "physics.steps" ["slow"]; DRAW = "rendering"; }
///
/// let config = TrackEventConfig::default().enable("physics*").disable("*");
/// assert!(config.enables(&STEPS) && !config.enables(&DRAW));
/// ```
/// Names that are written out take precedence over patterns, which end in `*`. Among each of the
/// two, in this order: enabled categories, enabled tags, disabled categories, disabled tags. A
/// category that nothing names is disabled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "no category is enabled until a session has it"]
pub struct TrackEventConfig {
    pub(crate) enabled_categories: Vec<String>,
    pub(crate) disabled_categories: Vec<String>,
    pub(crate) enabled_tags: Vec<String>,
    pub(crate) disabled_tags: Vec<String>,
    pub(crate) absolute_timestamps: bool,
    pub(crate) timestamp_unit_ns: Option<NonZeroU64>,
}

impl TrackEventConfig {
    /// Enables all categories. [`TrackEvents`] has an example.
    pub fn all() -> Self {
        Self::default().enable("*")
    }

    /// Enables the categories of this name; `*` at its end matches any text.
    /// [`TrackEventConfig`] has an example.
    pub fn enable(mut self, pattern: impl Into<String>) -> Self {
        self.enabled_categories.push(pattern.into());
        self
    }

    /// Disables the categories of this name; `*` at its end matches any text.
    /// [`TrackEventConfig`] has an example.
    pub fn disable(mut self, pattern: impl Into<String>) -> Self {
        self.disabled_categories.push(pattern.into());
        self
    }

    /// Enables the categories with this tag; `*` at its end matches any text.
    ///
    /// ```
    /// use memledger::perfetto::TrackEventConfig;
    /// memledger::perfetto::categories! { STEPS = "physics.steps" ["slow"]; DRAW = "rendering"; }
    ///
    /// let slow = TrackEventConfig::default().enable_tag("slow");
    /// assert!(slow.enables(&STEPS) && !slow.enables(&DRAW));
    /// let others = TrackEventConfig::all().disable_tag("slow");
    /// assert!(!others.enables(&STEPS) && others.enables(&DRAW));
    /// ```
    pub fn enable_tag(mut self, pattern: impl Into<String>) -> Self {
        self.enabled_tags.push(pattern.into());
        self
    }

    /// Disables the categories with this tag; `*` at its end matches any text.
    /// [`enable_tag`](Self::enable_tag) has an example.
    pub fn disable_tag(mut self, pattern: impl Into<String>) -> Self {
        self.disabled_tags.push(pattern.into());
        self
    }

    /// Writes each time as it is, not as the distance to the time before
    /// (`disable_incremental_timestamps`). Files are larger.
    /// [`timestamp_unit_ns`](Self::timestamp_unit_ns) has an example.
    pub fn absolute_timestamps(mut self, absolute: bool) -> Self {
        self.absolute_timestamps = absolute;
        self
    }

    /// The unit of the times in the file, in nanoseconds (`timestamp_unit_multiplier`). Larger
    /// units make files smaller. Default: 1.
    ///
    /// ```
    /// # use memledger::perfetto::TrackEventConfig;
    /// # use std::num::NonZeroU64;
    /// const MICROSECOND: NonZeroU64 = NonZeroU64::new(1000).unwrap();
    /// let config = TrackEventConfig::all().timestamp_unit_ns(MICROSECOND).absolute_timestamps(true);
    /// # assert_ne!(config, TrackEventConfig::all());
    /// ```
    pub fn timestamp_unit_ns(mut self, unit: NonZeroU64) -> Self {
        self.timestamp_unit_ns = Some(unit);
        self
    }

    /// Whether it enables a category. [`TrackEventConfig`] has an example.
    pub fn enables(&self, category: &Category) -> bool {
        self.enables_name(category.name(), category.tags())
    }

    /// Whether it enables a category with this name and these tags.
    pub(crate) fn enables_name(&self, name: &str, tags: &[&str]) -> bool {
        let named = |patterns: &[String], names: &[&str], exact| {
            patterns.iter().any(|pattern| names.iter().any(|name| matches(pattern, name, exact)))
        };
        for exact in [true, false] {
            let rules = [
                (&self.enabled_categories, &[name][..], true),
                (&self.enabled_tags, tags, true),
                (&self.disabled_categories, &[name], false),
                (&self.disabled_tags, tags, false),
            ];
            if let Some((.., enabled)) =
                rules.into_iter().find(|(patterns, names, _)| named(patterns, names, exact))
            {
                return enabled;
            }
        }
        false
    }
}

/// Track events as a destination: [`Destination::track_events`](crate::Destination::track_events) and its
/// siblings make it, and `trace_to` takes it.
///
/// A session writes the track events of the categories that it enables, to a file or to a ring in memory. Up
/// to 16 sessions run at once, each with a configuration, a thread and a queue of at most 64 MiB of its own.
/// A thread that emits does the same work for one session as for all of them.
///
/// ```
/// use memledger::perfetto::TrackEventConfig;
/// use memledger::{Destination, Ledger};
/// use std::time::Duration;
/// # let path = std::env::temp_dir().join(format!("memledger-session-{}.pftrace", std::process::id()));
///
/// let ledger = Ledger::builder().analyze_in_process(true).start()?;
/// // A minute, with a heap profile each second, of which each 5 s can be understood by themselves.
/// let events = Destination::track_events(&path, TrackEventConfig::all())
///     .duration(Duration::from_secs(60))
///     .clear_period(Duration::from_secs(5));
/// # if cfg!(report) {
/// let session = ledger.trace_to(events.memory(Duration::from_secs(1)))?;
/// # session.stop();
/// # }
/// # let _ = std::fs::remove_file(path);
/// # Ok::<(), memledger::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "nothing is written until `trace_to` takes it"]
pub struct TrackEvents {
    pub(crate) config: TrackEventConfig,
    /// The file; of a session with a ring, what is written to it at the end.
    pub(crate) file: Option<PathBuf>,
    /// The bytes of the ring; `None`: everything is written to the file.
    pub(crate) ring: Option<usize>,
    pub(crate) clear_period: Option<Duration>,
    pub(crate) duration: Option<Duration>,
    /// There is memory in it, with a heap profile after each such time.
    pub(crate) memory: Option<Duration>,
}

impl TrackEvents {
    /// Keeps the last `bytes` of packets in memory, at least 64 KiB, which are written to the file when the
    /// session ends. [`DestinationHandle::dump`](crate::DestinationHandle::dump) writes them at any time, and
    /// all that is in that file can be understood.
    /// [`Destination::track_events`](crate::Destination::track_events) has an example.
    pub fn ring(mut self, bytes: usize) -> Self {
        self.ring = Some(bytes);
        self
    }

    /// Starts each thread's part of the output anew after this time: with all descriptions, so that a
    /// reader who has only the end understands it (`incremental_state_config.clear_period_ms`). A ring
    /// does so by itself. Default: never. [`TrackEvents`] has an example.
    pub fn clear_period(mut self, period: Duration) -> Self {
        self.clear_period = Some(period);
        self
    }

    /// Ends the session by itself after this time (`duration_ms`): it has the track events before its end,
    /// and none after it. That it has ended is noticed when later events arrive. Default: never.
    /// [`TrackEvents`] has an example.
    pub fn duration(mut self, duration: Duration) -> Self {
        self.duration = Some(duration);
        self
    }

    /// Adds the program's memory to the session, from the reports of the ledger: counters of live bytes,
    /// a heap profile each `interval` (10 ms at least) and at the end, what was live at the peak, and each
    /// [`alloc_scope!`](crate::alloc_scope) as a slice with the bytes that were allocated in it. The first
    /// heap profile has what was allocated before the session.
    ///
    /// Costs a report each interval and ten shorter ones, whose time is in proportion to the rows and stacks
    /// of the program, not to its blocks. The worker waits while a report is made. Costs the thread that
    /// allocates nothing. [`TrackEvents`] has an example.
    pub fn memory(mut self, interval: Duration) -> Self {
        self.memory = Some(interval);
        self
    }
}

/// Whether `pattern` is `name` (if `exact`), or ends with `*` and begins as `name` does (if not).
fn matches(pattern: &str, name: &str, exact: bool) -> bool {
    match pattern.split_once('*') {
        None => exact && pattern == name,
        Some((start, _)) => !exact && name.starts_with(start),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_precede_patterns_and_enabled_precedes_disabled() {
        let enabled =
            |config: &TrackEventConfig, name, tags: &[&str]| config.enables_name(name, tags);
        let none = TrackEventConfig::default();
        assert!(!enabled(&none, "a", &[]), "nothing names it");
        assert!(enabled(&TrackEventConfig::all(), "a", &[]));
        let config = none.clone().enable("a").disable("*");
        assert!(enabled(&config, "a", &[]) && !enabled(&config, "ab", &[]));
        // A disabled name precedes an enabled pattern.
        let config = TrackEventConfig::all().disable("a");
        assert!(!enabled(&config, "a", &[]) && enabled(&config, "ab", &[]));
        // An enabled tag precedes a disabled category; a disabled tag is the last.
        let config = none.clone().enable_tag("t").disable("a");
        assert!(enabled(&config, "a", &["s", "t"]) && !enabled(&config, "a", &["s"]));
        let config = none.clone().enable("a").disable_tag("t");
        assert!(enabled(&config, "a", &["t"]) && !enabled(&config, "b", &["t"]));
        // Of a pattern, what comes after the first `*` does not count.
        let config = none.enable("a*b");
        assert!(enabled(&config, "axc", &[]) && !enabled(&config, "xa", &[]));
    }
}
