//! What a finding says.

/// Something at one place that is worth a look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What it is, with its figures.
    pub kind: FindingKind,
    /// Where it is.
    pub place: Place,
    /// The bytes that it is about: copied, held or rounded up.
    pub bytes: u64,
    /// The calls of the allocator that it is about: allocations and reallocations.
    pub calls: u64,
    /// Its share of all that the program does, in millionths, by which findings are sorted.
    pub weight: u64,
    /// What it is a share of.
    pub weight_of: WeightOf,
    /// Whether its figures are of the blocks of a sample only.
    pub is_of_sample: bool,
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

/// Where a finding is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Place {
    /// The function that allocates, if the trace has its call stack.
    pub function: Option<String>,
    /// The source file of its call, if symbols say it.
    pub file: Option<String>,
    /// The line in it that has most of what the finding is weighed by.
    pub line: Option<u32>,
    /// The functions that call it, from the inside, of the stack of that line with the most blocks; no more
    /// than three.
    pub callers: Vec<String>,
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

/// What a finding is. A *growth* is a reallocation to a larger size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// Blocks grow again and again: a container that gets its elements one by one.
    Grows {
        /// Blocks that grew.
        blocks: u64,
        /// How often they did, all together.
        growths: u64,
        /// Growths after which the block was elsewhere.
        moved: u64,
        /// The sizes of these blocks before: what was copied, at most. The system can move a large
        /// block without copying it.
        copied_bytes: u64,
        /// The largest of the blocks at its end.
        largest_bytes: u64,
        /// A power of two of bytes, or `largest_bytes`: at least nine in ten of the blocks never needed
        /// more.
        reserve_bytes: u64,
        /// What is live at the peak of the program of all blocks of the place, in millionths of that peak.
        peak_millionths: u64,
    },
    /// The same in a report without single blocks.
    Reallocates {
        /// Reallocations of its blocks.
        reallocations: u64,
        /// Blocks that were allocated.
        allocations: u64,
    },
    /// Blocks are freed by the thread that allocated them before it allocates again.
    ShortLived {
        /// These blocks.
        blocks: u64,
        /// All blocks of this place that were freed.
        of: u64,
        /// The bytes of these blocks; unknown in a report without single blocks.
        bytes: Option<u64>,
    },
    /// The last change of size of these blocks made them smaller.
    Shrinks {
        /// These blocks.
        blocks: u64,
        /// Their sizes before.
        bytes_before: u64,
        /// Their sizes after.
        bytes_after: u64,
    },
    /// A few blocks are live at the end and old, while nearly all others of this place were freed soon.
    LeftBehind {
        /// The blocks that are live.
        blocks: u64,
        /// Their bytes.
        bytes: u64,
        /// How many others were freed.
        freed: u64,
        /// The mean age of the live ones.
        mean_age_ns: u64,
        /// 95 in 100 of the freed ones lived less than this.
        freed_within_ns: u64,
    },
    /// Live bytes were more at each of these moments than at the one before.
    OnlyGrows {
        /// The moments, at equal numbers of events, or after equal times.
        moments: Vec<LiveAt>,
        /// How many blocks are live at the last of them.
        blocks: u64,
        /// What the last moment is.
        until: GrowsUntil,
    },
    /// Most of what is live at the peak is of two parts of the program: one stayed as it was while all of
    /// the other came.
    HoldsPeak {
        /// The one that was there first.
        first: PeakPart,
        /// The one that came.
        second: PeakPart,
    },
    /// Most of what was live at the peak was freed soon after it; what came with it at this place stays.
    StaysAfterPeak {
        /// The bytes that stay.
        bytes: u64,
        /// The blocks.
        blocks: u64,
        /// All live bytes at the end, before the program freed what it had.
        live_bytes: u64,
        /// The peak of the program.
        peak_bytes: u64,
        /// When that was, in nanoseconds.
        peak_at_ns: u64,
    },
    /// What was freed while the program ran is resident still, because the allocator has kept it.
    KeptByMalloc {
        /// The bytes that are kept.
        kept_bytes: u64,
        /// Of these, what is in pages without a live block: an estimate of what could be returned to the
        /// system.
        returnable_bytes: u64,
        /// The resident memory of the program.
        resident_bytes: u64,
        /// Its live blocks.
        live_bytes: u64,
        /// When that was, in nanoseconds, if the program has then freed what it had; `None` at the end.
        before_end_ns: Option<u64>,
        /// Whether malloc did not say what it keeps: it does so at the end only. Then it is what is resident
        /// beside the live blocks and their rounding, but no more than live bytes have fallen by since the
        /// peak.
        is_estimate: bool,
        /// The live blocks of the place, which is the one with blocks in most pages.
        blocks: u64,
        /// These pages.
        pages: u64,
    },
    /// Most blocks have one small size, and many are live at once.
    OneSize {
        /// The size.
        size: u64,
        /// Blocks allocated with it. Of a bucket, the first four sizes are counted, so it can be more.
        blocks: u64,
        /// All blocks that were allocated at this place.
        of: u64,
        /// Blocks of the place that were live at the peak of the program.
        at_peak: u64,
        /// What the allocator added to these, if it rounds up as glibc does: 8 bytes more for each
        /// block, then to a multiple of 16, at least 32.
        overhead_bytes: u64,
    },
    /// Most blocks have one size that is just above a size class.
    RoundsUp {
        /// The size.
        size: u64,
        /// The class below it.
        class_below: u64,
        /// The class that it is rounded up to, if there are four classes in each doubling, as in jemalloc.
        class: u64,
        /// Blocks allocated with this size.
        blocks: u64,
        /// All blocks that were allocated at this place.
        of: u64,
        /// Blocks of the place that were live at the peak of the program.
        at_peak: u64,
    },
    /// Blocks wait for other threads, which free them. What was freed when the program ended is left out.
    FreedElsewhere {
        /// Blocks that other threads freed.
        blocks: u64,
        /// All blocks of the place that were freed.
        of: u64,
        /// Blocks of the place that were live at the peak of the program.
        waiting: u64,
        /// Their bytes.
        waiting_bytes: u64,
        /// Half of the blocks lived at least this long.
        median_ns: u64,
        /// Who freed blocks of this place, the most first.
        freed_by: Vec<FreedBy>,
        /// In which scopes, the most first; empty in a trace without the scopes of frees.
        freed_in: Vec<FreedIn>,
    },
}

impl Finding {
    /// Whether it is about memory that is held, and not about time.
    pub fn is_of_peak(&self) -> bool {
        !matches!(self.weight_of, WeightOf::Calls | WeightOf::AllocatedBytes)
    }

    /// Its kind as one word, as in JSON.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            FindingKind::Grows { .. } => "grows",
            FindingKind::Reallocates { .. } => "reallocates",
            FindingKind::ShortLived { .. } => "short_lived",
            FindingKind::Shrinks { .. } => "shrinks",
            FindingKind::LeftBehind { .. } => "left_behind",
            FindingKind::OnlyGrows { .. } => "only_grows",
            FindingKind::HoldsPeak { .. } => "holds_peak",
            FindingKind::KeptByMalloc { .. } => "kept_by_malloc",
            FindingKind::StaysAfterPeak { .. } => "stays_after_peak",
            FindingKind::OneSize { .. } => "one_size",
            FindingKind::RoundsUp { .. } => "rounds_up",
            FindingKind::FreedElsewhere { .. } => "freed_elsewhere",
        }
    }
}

impl Default for FindingKind {
    fn default() -> Self {
        Self::Reallocates { reallocations: 0, allocations: 0 }
    }
}

/// Up to when live bytes rose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrowsUntil {
    /// To the end, where the blocks are live.
    End {
        /// The age of the youngest of them.
        youngest_ns: u64,
        /// Half of them are at least this old.
        median_ns: u64,
    },
    /// To the peak of the program. Nearly all of the blocks were freed when it ended, or are still live.
    Peak,
}

/// A function or a scope, with all below it, and what of it is live at the peak of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeakPart {
    /// The function, if the trace has call stacks, otherwise the scope.
    pub name: String,
    /// The source file of its call with the most bytes, if symbols say it.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
    /// The bytes.
    pub bytes: u64,
    /// The blocks.
    pub blocks: u64,
}

/// Live bytes at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveAt {
    /// The number of events before it.
    pub event: u64,
    /// When it was: the last time in the trace before it.
    pub at_ns: u64,
    /// The live bytes of the place.
    pub live_bytes: u64,
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
