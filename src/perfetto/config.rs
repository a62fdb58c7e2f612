//! Which categories a session enables.

use super::category::Category;
#[cfg(tracking)]
use crate::error::Error;
#[cfg(tracking)]
use memledger_format::protobuf::perfetto::clock;

/// The most bytes of all patterns of a configuration, and the most patterns.
#[cfg(tracking)]
const MAX_BYTES: usize = 64 << 10;
#[cfg(tracking)]
const MAX_PATTERNS: usize = 4096;

/// Which categories a session enables, and how it writes time. The names and rules are those of
/// Perfetto's `TrackEventConfig`, as its C library applies them.
///
/// ```
/// use memledger::perfetto::TrackEventConfig;
/// memledger::categories! { STEPS = "physics.steps" ["slow"]; DRAW = "rendering"; }
///
/// let config = TrackEventConfig::default().enable("physics*").disable("*");
/// assert!(config.enables(&STEPS) && !config.enables(&DRAW));
/// ```
/// Names that are written out take precedence over patterns, which end in `*`. Among each of the
/// two, in this order: enabled categories, enabled tags, disabled categories, disabled tags. A
/// category that nothing names is disabled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackEventConfig {
    pub(crate) enabled_categories: Vec<String>,
    pub(crate) disabled_categories: Vec<String>,
    pub(crate) enabled_tags: Vec<String>,
    pub(crate) disabled_tags: Vec<String>,
    pub(crate) absolute_timestamps: bool,
    pub(crate) timestamp_unit_ns: u64,
}

impl TrackEventConfig {
    /// Enables all categories.
    pub fn all() -> Self {
        Self::default().enable("*")
    }

    /// Enables the categories of this name; `*` at its end matches any text.
    pub fn enable(mut self, pattern: impl Into<String>) -> Self {
        self.enabled_categories.push(pattern.into());
        self
    }

    /// Disables the categories of this name; `*` at its end matches any text.
    pub fn disable(mut self, pattern: impl Into<String>) -> Self {
        self.disabled_categories.push(pattern.into());
        self
    }

    /// Enables the categories with this tag; `*` at its end matches any text.
    pub fn enable_tag(mut self, pattern: impl Into<String>) -> Self {
        self.enabled_tags.push(pattern.into());
        self
    }

    /// Disables the categories with this tag; `*` at its end matches any text.
    pub fn disable_tag(mut self, pattern: impl Into<String>) -> Self {
        self.disabled_tags.push(pattern.into());
        self
    }

    /// Writes each time as it is, not as the distance to the time before
    /// (`disable_incremental_timestamps`). Files are larger.
    pub fn absolute_timestamps(mut self, absolute: bool) -> Self {
        self.absolute_timestamps = absolute;
        self
    }

    /// The unit of the times in the file, in nanoseconds (`timestamp_unit_multiplier`). Larger
    /// units make files smaller. Default: 1.
    pub fn timestamp_unit_ns(mut self, unit: u64) -> Self {
        self.timestamp_unit_ns = unit;
        self
    }

    /// Whether it enables a category.
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

    /// Refuses a configuration that is too large.
    #[cfg(tracking)]
    pub(crate) fn check(&self) -> Result<(), Error> {
        let all = || {
            [
                &self.enabled_categories,
                &self.disabled_categories,
                &self.enabled_tags,
                &self.disabled_tags,
            ]
            .into_iter()
            .flatten()
        };
        let (patterns, bytes) = (all().count(), all().map(String::len).sum::<usize>());
        if patterns > MAX_PATTERNS || bytes > MAX_BYTES {
            return Err(Error::InvalidSession(format!(
                "it has {patterns} patterns of categories and tags with {bytes} bytes in all; \
                 at most {MAX_PATTERNS} patterns with {MAX_BYTES} bytes are possible"
            )));
        }
        Ok(())
    }

    /// The clock of times.
    #[cfg(tracking)]
    pub(crate) fn clock(&self) -> u64 {
        match (self.absolute_timestamps, self.unit_ns()) {
            (false, _) => clock::OF_SEQUENCE,
            (true, 1) => clock::BOOTTIME,
            (true, _) => clock::OF_SEQUENCE_IN_UNITS,
        }
    }

    /// The unit of times, in nanoseconds.
    #[cfg(tracking)]
    pub(crate) fn unit_ns(&self) -> u64 {
        self.timestamp_unit_ns.max(1)
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

    #[cfg(tracking)]
    #[test]
    fn a_large_configuration_is_refused() {
        let sentence = |config: TrackEventConfig| config.check().unwrap_err().to_string();
        let long = TrackEventConfig::default().enable("x".repeat(1 << 20));
        assert!(sentence(long).contains("1 patterns of categories and tags with 1048576 bytes"));
        let many =
            (0..10_000).fold(TrackEventConfig::default(), |all, n| all.disable(n.to_string()));
        assert!(sentence(many).contains("it has 10000 patterns"));
        assert!(TrackEventConfig::all().check().is_ok());
    }
}
