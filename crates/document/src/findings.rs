//! What is said of blocks beyond sums: facts, and findings.

use crate::figure::Unit;

/// A claim that something is wrong with a set of blocks, with a witness among these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What is wrong.
    pub kind: FindingKind,
    /// Where the blocks are allocated.
    pub place: Place,
    /// All numbers that are said of it, each a sum or a quantile over exactly these blocks.
    pub figures: Vec<FindingFigure>,
    /// Its share of all that the program does or holds, in millionths, by which findings are sorted.
    pub weight: u64,
    /// What it is a share of.
    pub weight_of: WeightOf,
    /// The function, or the scope, whose blocks stay beside those of a temporary set.
    pub beside: Option<String>,
    /// Who freed the blocks of a queue, the most first.
    pub freed_by: Vec<FreedBy>,
    /// Whether its figures are of the blocks of a sample only.
    pub is_of_sample: bool,
    /// The blocks. `None` if no live block lies between what an allocator keeps.
    pub set: Option<BlockSet>,
}

impl Finding {
    /// The figure with this key.
    pub fn figure(&self, key: &str) -> Option<u64> {
        self.figures.iter().find(|figure| figure.key == key).map(|figure| figure.value)
    }
}

/// The blocks that a rule of `memledger query` finds at some call stacks, or in some scopes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockSet {
    /// The name of the rule.
    pub rule: &'static str,
    /// Its positions A, B and so on. Those that are missing are at the end of the trace.
    pub positions: Vec<SetPosition>,
    /// What is freed after this event is freed as the program ends, and does not count as freed.
    pub freed_until: Option<u64>,
    /// Call stacks, as indices of `Report::by_stack`, in order.
    pub stacks: Vec<usize>,
    /// Scopes and names of blocks without a call stack, as indices of `Report::by_scope` and
    /// `Report::by_name`, in order.
    pub scopes: Vec<(usize, usize)>,
    /// All that is summed of these: indices of `Report::by_bucket`, in order.
    pub buckets: Vec<u32>,
}

/// A position of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetPosition {
    /// After this many events.
    Event(u64),
    /// After all events at this time, in nanoseconds, and before it.
    Time(u64),
}

/// What a finding claims. Each kind has a witness: `docs/reading.md` says which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// Blocks are live though most of their siblings, which have the same call stack, were freed.
    #[default]
    LeftBehind,
    /// Blocks of this place were freed until some moment, and none since, though as many came.
    NoLongerFreed,
    /// Blocks wait for another thread, which frees them.
    Queue,
    /// Blocks that are live at the peak only, beside others of about the same sizes which stay.
    Temporary,
    /// Much more is allocated, and freed, than is ever live at once.
    AgainAndAgain,
    /// Blocks grow step by step.
    GrowsStepwise,
    /// What was freed is resident still, because the allocator has kept it.
    Fragmentation,
}

impl FindingKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::LeftBehind,
        Self::NoLongerFreed,
        Self::Queue,
        Self::Temporary,
        Self::AgainAndAgain,
        Self::GrowsStepwise,
        Self::Fragmentation,
    ];

    /// Its key in JSON.
    pub const fn key(self) -> &'static str {
        match self {
            Self::LeftBehind => "left_behind",
            Self::NoLongerFreed => "no_longer_freed",
            Self::Queue => "queue",
            Self::Temporary => "temporary",
            Self::AgainAndAgain => "again_and_again",
            Self::GrowsStepwise => "grows_stepwise",
            Self::Fragmentation => "fragmentation",
        }
    }
}

/// One number that a finding says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FindingFigure {
    /// Its key in JSON, and in the sentence.
    pub key: &'static str,
    /// The number.
    pub value: u64,
    /// What it is a number of.
    pub unit: Unit,
    /// Where it is from.
    pub source: FigureSource,
}

impl FindingFigure {
    /// A figure of the finding's blocks.
    pub const fn of_blocks(key: &'static str, unit: Unit, value: u64) -> Self {
        Self { key, value, unit, source: FigureSource::Blocks }
    }

    /// The same, said by another one.
    pub const fn said_by(self, source: FigureSource) -> Self {
        Self { source, ..self }
    }
}

/// Where a figure is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureSource {
    /// The events of the trace.
    Blocks,
    /// What the system said of the pages of the process.
    Smaps,
    /// What the allocator said of itself.
    Allocator,
}

impl FigureSource {
    /// As it is in JSON.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Smaps => "smaps",
            Self::Allocator => "allocator",
        }
    }
}

/// What the weight of a finding is a share of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightOf {
    /// Of all allocations and reallocations.
    #[default]
    Calls,
    /// Of all allocated bytes.
    AllocatedBytes,
    /// Of the peak of the program.
    Peak,
    /// Of its resident memory.
    Resident,
}

impl WeightOf {
    /// Whether it is memory that is held, and not work.
    pub const fn is_held(self) -> bool {
        matches!(self, Self::Peak | Self::Resident)
    }
}

/// Where the blocks of a set are allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Place {
    /// The innermost function of the program's own code through which at least 95 % of the set goes; without
    /// such a function, the one that has most. `None` in a trace without call stacks.
    pub function: Option<String>,
    /// Where it calls, the line with most of the set first; at most two lines.
    pub source: SourceLines,
    /// The functions that call it, from the inside, as long as each has 95 % of the set; at most three.
    pub callers: Vec<Caller>,
    /// If `function` has less than 95 %: its share, and the next ones, in millionths; at most three.
    pub shares: Vec<(String, u64)>,
    /// The scope stack, outermost first: the part that is the same for all blocks.
    pub scope: Vec<String>,
    /// Whether some blocks are of scopes inside that one.
    pub has_inner_scopes: bool,
    /// The group and name of the blocks, if all have the same.
    pub group: Vec<String>,
    /// See `group`.
    pub name: Option<String>,
    /// The id and the name of the thread that allocates, if it is one.
    pub thread: Option<(u32, String)>,
}

/// Lines of one source file; empty if they are not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct SourceLines {
    /// The file.
    pub file: Option<String>,
    /// The lines.
    pub lines: Vec<u32>,
}

/// A function that calls another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Caller {
    /// Its name.
    pub function: String,
    /// Where it calls; at most two lines.
    pub source: SourceLines,
}

/// Who has most of the peak: a fact, and no finding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeakBy {
    /// Where the blocks are allocated.
    pub place: Place,
    /// Their share of the peak, in millionths.
    pub weight: u64,
    /// Their bytes at the peak.
    pub bytes: u64,
    /// Their number.
    pub blocks: u64,
    /// What is known if each block was looked at.
    pub course: Option<Course>,
    /// Other sets, each with a quarter of the peak at least.
    pub next: Vec<PeakBy>,
    /// The stacks that they have, indices of `Report::by_stack`; without stacks, the scopes. In order.
    #[doc(hidden)]
    pub rows: Vec<usize>,
}

/// How the live bytes of a set went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Course {
    /// The size of all blocks of the set, if it is one.
    pub size: Option<u64>,
    /// From when on it had 5 % of what it has at the peak, in nanoseconds.
    pub since_ns: u64,
    /// Blocks that were freed before the program began to end.
    pub freed: u64,
    /// Half of these lived at most this long.
    pub median_ns: u64,
    /// What became of it.
    pub trend: Trend,
}

/// What the live bytes of a set did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trend {
    /// They were about as many from the beginning on.
    #[default]
    Flat,
    /// They rose to the end.
    Rising {
        /// Since when, in nanoseconds.
        since_ns: u64,
        /// By how many bytes a second.
        bytes_per_s: u64,
    },
    /// They rose to this time, in nanoseconds, and stayed.
    RoseUntil(u64),
    /// They are less at the end than they were: these bytes.
    Falls(u64),
}

impl Trend {
    /// As it is in JSON.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Rising { .. } => "rising_to_the_end",
            Self::RoseUntil(_) => "rose_then_flat",
            Self::Falls(_) => "falls",
        }
    }
}

/// What was freed in one scope of the blocks that were allocated in one scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FreedIn {
    /// The scope stack of the allocation, outermost first.
    pub allocated_in: Vec<String>,
    /// The scope stack of the free, outermost first.
    pub freed_in: Vec<String>,
    /// The blocks.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl FreedIn {
    /// Whether both scopes are the same.
    pub fn is_same(&self) -> bool {
        self.allocated_in == self.freed_in
    }
}

/// What one thread has freed of the blocks of a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FreedBy {
    /// The id of the thread.
    pub thread: u32,
    /// Its name, empty if it has none.
    pub name: String,
    /// The blocks.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether it also allocated them.
    pub is_own: bool,
}

/// `part` of `whole` in millionths.
pub fn millionths(part: u64, whole: u64) -> u64 {
    let share = u128::from(part) * 1_000_000 / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// Whether `part` is at least `percent` of `whole`, and not nothing.
pub fn is_share(part: u64, whole: u64, percent: u64) -> bool {
    part > 0 && u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}
