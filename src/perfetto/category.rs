//! Categories: named sets of track events that sessions enable.
//!
//! A category is a static of the program. Its first use adds it to an append-only table, which all
//! threads share without locks, and compares it with the configurations of the sessions that run
//! (`tracker/active.rs`). One word says who wants its events:
//!
//! ```text
//! bit 0..=15  the sessions
//! bit 16      the trace: the channel `track` is on
//! bit 31      the category was not used yet
//! ```

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32};

/// The bit of a category that is not in the table yet.
pub(super) const NEW: u32 = 1 << 31;

/// A named set of track events. [`categories!`](crate::perfetto::categories) declares it.
///
/// [`categories!`](crate::perfetto::categories) has an example.
#[derive(Debug)]
pub struct Category {
    name: &'static str,
    description: &'static str,
    tags: &'static [&'static str],
    pub(crate) wanted_by: AtomicU32,
    /// The program's callback, or null.
    pub(crate) callback: AtomicPtr<()>,
}

/// Declares categories of track events, for [`track_event!`](crate::perfetto::track_event).
///
/// ```
/// memledger::perfetto::categories! {
///     /// What the renderer does.
///     pub RENDERING = "rendering": "Frames, passes and draw calls" ["graphics"];
///     PHYSICS = "physics";
///     STEPS = "physics.steps": "Each step of the solver" ["physics", "slow"];
/// }
/// assert_eq!((RENDERING.name(), STEPS.tags()), ("rendering", &["physics", "slow"][..]));
/// ```
/// After the name come a description and up to four tags, by which a session can enable or disable
/// a category ([`TrackEventConfig`](super::TrackEventConfig)). A program can use 4096 categories.
#[doc(hidden)]
#[macro_export]
macro_rules! __perfetto_categories {
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
/// ([`category`](crate::perfetto::track_event)). It is enabled while any session runs.
///
/// ```
/// use memledger::perfetto::{DYNAMIC, instant};
///
/// let plugin = String::from("plugins.audio");
/// instant!(DYNAMIC, "loaded", category(&plugin));
/// ```
pub static DYNAMIC: Category = Category::new("dynamic", "", &[]);

/// A session has enabled or disabled a category.
///
/// [`Category::on_change`] has an example.
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
    /// What [`categories!`](crate::perfetto::categories) declares, for generated code: a static.
    ///
    /// ```
    /// use memledger::perfetto::{Category, instant};
    ///
    /// static STEPS: Category = Category::new("physics.steps", "Each step of the solver", &["slow"]);
    ///
    /// instant!(STEPS, "step");
    /// ```
    /// # Panics
    /// If the name has not 1 to 255 bytes, the description more than 1023, or there are more than 4 tags: in
    /// a static, when it is compiled.
    pub const fn new(
        name: &'static str,
        description: &'static str,
        tags: &'static [&'static str],
    ) -> Self {
        assert!(!name.is_empty() && name.len() < 256, "a category has a name of 1 to 255 bytes");
        assert!(description.len() < 1024, "the description of a category has 1023 bytes at most");
        assert!(tags.len() <= 4, "a category has 4 tags at most");
        let callback = AtomicPtr::new(ptr::null_mut());
        Self { name, description, tags, wanted_by: AtomicU32::new(NEW), callback }
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
}
