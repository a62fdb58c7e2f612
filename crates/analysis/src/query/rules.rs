//! The rules: which blocks a query finds.
//!
//! The positions divide the trace into eras: the first is before A, the next from A to B, and so on.
//! Counting stops at the last position. So a rule says which blocks it wants of three kinds (those
//! live at the last position, those that ended in the last era, those that began in it), and in which
//! era these must have begun.

/// Which blocks are wanted, of those that began in the right era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Live at the last position.
    Live,
    /// Freed in the last era.
    Freed,
    /// Allocated in the last era.
    Allocated,
    /// Live when the run of a scope in which it was allocated was over.
    Left,
}

/// Blocks that a rule finds: of this kind, begun in this era, or in any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) kind: Kind,
    begun_in: Option<usize>,
}

/// What a rule asks of a block, in numbers of events or of steps of an index. The largest number is later
/// than all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span<N> {
    pub(super) begun: N,
    /// See [`BlockLife`](super::BlockLife) for these.
    pub(super) since: N,
    pub(super) ended: N,
    pub(super) allocation_until: N,
    pub(super) free_until: N,
}

impl<N: Copy + Ord + Default> Span<N> {
    /// Which part of a rule finds the block. `at` has the first number after each position, in their order:
    /// the largest there is for positions that are not reached.
    #[inline]
    pub(super) fn found_by(&self, parts: &[Part], at: &[N]) -> Option<usize> {
        let (&last, before) = at.split_last()?;
        let since = before.last().copied().unwrap_or_default();
        let is_in_last_era = |number: N| since <= number && number < last;
        let is = |kind| match kind {
            Kind::Live => self.since < last && last <= self.ended,
            Kind::Freed => is_in_last_era(self.ended) && last <= self.free_until,
            Kind::Allocated => {
                is_in_last_era(self.begun) && self.since < last && last <= self.allocation_until
            }
            // No rule is about runs by itself.
            Kind::Left => false,
        };
        let begun_in = |era: usize| (era == 0 || at[era - 1] <= self.begun) && self.begun < at[era];
        parts.iter().position(|part| is(part.kind) && part.begun_in.is_none_or(begun_in))
    }
}

impl Part {
    /// Whether it finds blocks because they were freed.
    pub(super) fn is_freed(&self) -> bool {
        self.kind == Kind::Freed
    }
}

/// Which blocks a query finds. A reallocation ends a block and begins another.
///
/// "Before", "between" and "after" are about the order of events: an event that is exactly at a
/// position is before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// Live at A.
    AliveAtA,
    /// Freed before A.
    FreedBefore,
    /// Allocated after A.
    AllocatedAfter,
    /// Allocated between A and B.
    AllocatedBetween,
    /// Freed between A and B.
    FreedBetween,
    /// Allocated and freed between A and B.
    ShortLived,
    /// Allocated before A, live at B.
    LongLived,
    /// Allocated between A and B, live at B.
    Grown,
    /// Live at A, freed between A and B.
    Declined,
    /// Those of `Grown` and those of `Declined`, each for itself.
    GrownAndDeclined,
    /// Allocated between A and B, live at C.
    Leaked,
    /// Allocated between A and B, freed between B and C.
    LimitedLifetime,
    /// Allocated before A, live at B, freed between B and C.
    DeclinedLongLived,
    /// Allocated between A and B, freed between C and D.
    SpecificLifetime,
}

/// What is said of a rule.
struct Words {
    name: &'static str,
    /// A second name.
    alias: Option<&'static str>,
    /// Unreal Insights' name of the rule, and what its window calls it.
    insights: [&'static str; 2],
    about: &'static str,
    parts: &'static [Part],
    /// How many positions may be given.
    times: usize,
}

const LIVE: Part = Part { kind: Kind::Live, begun_in: None };
const FREED: Part = Part { kind: Kind::Freed, begun_in: None };
const ALLOCATED: Part = Part { kind: Kind::Allocated, begun_in: Some(1) };
const OLD_LIVE: Part = Part { kind: Kind::Live, begun_in: Some(0) };
const OLD_FREED: Part = Part { kind: Kind::Freed, begun_in: Some(0) };
const LEFT: Part = Part { kind: Kind::Left, begun_in: None };
const NEW_LIVE: Part = Part { kind: Kind::Live, begun_in: Some(1) };
const NEW_FREED: Part = Part { kind: Kind::Freed, begun_in: Some(1) };

/// By rule, in the order of their declaration.
#[rustfmt::skip]
static WORDS: [Words; Rule::ALL.len()] = [
    words("live", ["aAf", "Active Allocs"], 1, &[LIVE],
        "live at A").or("alive-at-a"),
    words("freed-before", ["afA", "Before"], 1, &[FREED],
        "freed before A"),
    words("allocated-after", ["Aaf", "After"], 1, &[ALLOCATED],
        "allocated after A"),
    words("allocated-between", ["AaB", "Alloc Events"], 2, &[ALLOCATED],
        "allocated between A and B"),
    words("freed-between", ["AfB", "Free Events"], 2, &[FREED],
        "freed between A and B"),
    words("short-lived", ["AafB", "Short Living Allocs"], 2, &[NEW_FREED],
        "allocated and freed between A and B"),
    words("long-lived", ["aABf", "Long Living Allocs"], 2, &[OLD_LIVE],
        "allocated before A, live at B"),
    words("grown", ["AaBf", "Growth"], 2, &[NEW_LIVE],
        "allocated between A and B, live at B").or("growth"),
    words("declined", ["aAfB", "Decline"], 2, &[OLD_FREED],
        "live at A, freed between A and B"),
    words("grown-and-declined", ["aAfaBf", "Growth vs. Decline"], 2, &[NEW_LIVE, OLD_FREED],
        "what grown and declined find, side by side"),
    words("leaked", ["AaBCf", "Memory Leaks"], 3, &[NEW_LIVE],
        "allocated between A and B, live at C"),
    words("limited-lifetime", ["AaBfC", "Limited Lifetime"], 3, &[NEW_FREED],
        "allocated between A and B, freed between B and C"),
    words("declined-long-lived", ["aABfC", "Decline of Long Living Allocs"], 3, &[OLD_FREED],
        "allocated before A, freed between B and C"),
    words("specific-lifetime", ["AaBCfD", "Specific Lifetime"], 4, &[NEW_FREED],
        "allocated between A and B, freed between C and D"),
];

const fn words(
    name: &'static str,
    insights: [&'static str; 2],
    times: usize,
    parts: &'static [Part],
    about: &'static str,
) -> Words {
    Words { name, alias: None, insights, about, parts, times }
}

impl Words {
    /// The same, with a second name.
    const fn or(self, alias: &'static str) -> Self {
        Self { alias: Some(alias), ..self }
    }
}

impl Rule {
    /// All rules.
    pub const ALL: &[Self] = &[
        Self::AliveAtA,
        Self::FreedBefore,
        Self::AllocatedAfter,
        Self::AllocatedBetween,
        Self::FreedBetween,
        Self::ShortLived,
        Self::LongLived,
        Self::Grown,
        Self::Declined,
        Self::GrownAndDeclined,
        Self::Leaked,
        Self::LimitedLifetime,
        Self::DeclinedLongLived,
        Self::SpecificLifetime,
    ];

    fn words(self) -> &'static Words {
        &WORDS[self as usize]
    }

    /// Its name: `live`.
    pub fn name(self) -> &'static str {
        self.words().name
    }

    /// The names besides [`name`](Self::name) by which it is found.
    pub fn aliases(self) -> impl Iterator<Item = &'static str> {
        self.words().alias.into_iter().chain([self.insights()])
    }

    /// The short name that Unreal Insights has for the same rule: `aAf`.
    pub fn insights(self) -> &'static str {
        self.words().insights[0]
    }

    /// What the window of Unreal Insights calls it: `Active Allocs`.
    pub fn insights_title(self) -> &'static str {
        self.words().insights[1]
    }

    /// Which blocks it finds, in some words.
    pub fn about(self) -> &'static str {
        self.words().about
    }

    /// How many of the positions A, B, C and D it has: 1 to 4.
    pub fn times(self) -> usize {
        self.words().times
    }

    /// How many positions there are, with one at the end that is not given.
    pub(super) fn positions(self) -> usize {
        // What is allocated after A is allocated between A and the end.
        self.times() + usize::from(self == Self::AllocatedAfter)
    }

    pub(super) fn parts(self) -> &'static [Part] {
        self.words().parts
    }

    /// The parts if A and B are the beginning and the end of each run of a scope: blocks of runs that are
    /// open when counting stops are live.
    pub(super) fn parts_in_each(self) -> &'static [Part] {
        match self {
            Self::Grown => &[LEFT, LIVE],
            Self::ShortLived => &[FREED],
            _ => &[],
        }
    }

    /// Whether it can be asked about each run of a scope ([`Query::in_each`](super::Query::in_each)).
    pub fn has_runs(self) -> bool {
        !self.parts_in_each().is_empty()
    }

    /// Whether it finds blocks by what became of them: the others, by their allocation alone, find
    /// blocks that have no age yet.
    pub fn has_ages(self) -> bool {
        self.parts().iter().all(|part| part.kind != Kind::Allocated)
    }

    /// The rule with this name, or with this second name: an older one, or that of Unreal Insights.
    pub fn by_name(name: &str) -> Option<Self> {
        let is_it = |rule: &&Self| rule.name() == name || rule.aliases().any(|alias| alias == name);
        Self::ALL.iter().find(is_it).copied()
    }
}
