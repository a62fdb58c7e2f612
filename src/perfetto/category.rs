//! Categories: named sets of track events that sessions enable.
//!
//! A category is a static of the program. Its first use adds it to an append-only table, which all
//! threads share without locks, and compares it with the configurations of the sessions that run.
//! One word says who wants its events:
//!
//! ```text
//! bit 0..=15  the sessions
//! bit 16      the trace: the channel `track` is on
//! bit 31      the category was not used yet
//! ```

#[cfg(tracking)]
use super::active;
#[cfg(tracking)]
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The bit of a category that is not in the table yet.
#[cfg(tracking)]
pub(super) const NEW: u32 = 1 << 31;

/// A named set of track events. [`categories!`](crate::categories) declares it.
#[derive(Debug)]
pub struct Category {
    name: &'static str,
    description: &'static str,
    tags: &'static [&'static str],
    #[cfg(tracking)]
    wanted_by: AtomicU32,
    #[cfg(tracking)]
    pub(super) callback: AtomicPtr<()>,
}

/// Declares categories of track events, for [`track_event!`](crate::track_event).
///
/// ```
/// memledger::categories! {
///     /// What the renderer does.
///     pub RENDERING = "rendering": "Frames, passes and draw calls" ["graphics"];
///     PHYSICS = "physics";
///     STEPS = "physics.steps": "Each step of the solver" ["physics", "slow"];
/// }
/// assert_eq!((RENDERING.name(), STEPS.tags()), ("rendering", &["physics", "slow"][..]));
/// ```
/// After the name come a description and up to four tags, by which a session can enable or disable
/// a category ([`TrackEventConfig`](super::TrackEventConfig)). A program can use 4096 categories.
#[macro_export]
macro_rules! categories {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis $name:ident = $text:literal $(: $description:literal)? $([ $($tag:literal),* $(,)? ])?;
    )*) => { $(
        $(#[$attribute])*
        #[allow(dead_code)]
        $visibility static $name: $crate::perfetto::Category = $crate::perfetto::Category::new(
            $text,
            ::core::concat!($($description)?),
            &[$($($tag),*)?],
        );
    )* };
}

/// The category of events whose category is a text of their own
/// ([`category`](crate::track_event)). It is enabled while any session runs.
pub static DYNAMIC: Category = Category::new("dynamic", "", &[]);

/// A session has enabled or disabled a category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CategoryChange {
    /// The session: a number below 16, which a later session can have again.
    pub session: u32,
    /// Whether the session has enabled the category; it disables it when it ends.
    pub enabled: bool,
    /// Whether this is the first session that enables the category, or the last one to disable it.
    pub is_global: bool,
}

impl Category {
    #[doc(hidden)]
    pub const fn new(
        name: &'static str,
        description: &'static str,
        tags: &'static [&'static str],
    ) -> Self {
        assert!(!name.is_empty() && name.len() < 256, "a category has a name of 1 to 255 bytes");
        assert!(description.len() < 1024, "the description of a category has 1023 bytes at most");
        assert!(tags.len() <= 4, "a category has 4 tags at most");
        Self {
            name,
            description,
            tags,
            #[cfg(tracking)]
            wanted_by: AtomicU32::new(NEW),
            #[cfg(tracking)]
            callback: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What it is about; empty if the declaration does not say.
    pub const fn description(&self) -> &'static str {
        self.description
    }

    /// Its tags.
    pub const fn tags(&self) -> &'static [&'static str] {
        self.tags
    }

    /// Whether a session has enabled it, or the trace has track events. Costs one relaxed load.
    #[inline(always)]
    pub fn is_enabled(&'static self) -> bool {
        #[cfg(tracking)]
        {
            let wanted_by = self.wanted_by.load(Ordering::Relaxed);
            wanted_by != 0 && (wanted_by != NEW || active::register(self))
        }
        #[cfg(not(tracking))]
        false
    }

    /// Calls `callback` when a session enables or disables this category: on the thread that starts
    /// or stops the session, after the change. For each session that has it enabled now, calls it
    /// at once. `None` ends this.
    pub fn on_change(&'static self, callback: Option<fn(CategoryChange)>) {
        #[cfg(tracking)]
        active::set_callback(self, callback);
        #[cfg(not(tracking))]
        let _ = callback;
    }

    #[cfg(tracking)]
    pub(super) fn wanted_by(&self) -> &AtomicU32 {
        &self.wanted_by
    }
}
