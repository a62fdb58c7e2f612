//! The resident memory of the program.

/// The resident memory (RSS) of the program, as the system stated it while the trace was recorded.
///
/// Its source is `/proc/self/smaps` of Linux (`man 5 proc_pid_smaps`), which counts pages that this process
/// has in memory; pages that several processes share count in each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rss {
    /// The largest RSS, in bytes, as the kernel has counted it up to the last reading.
    pub most_bytes: u64,
    /// How much memory the control groups (cgroups) of the process allow, when that was last read: the
    /// smallest limit of its group and those around it; `None` if there is none. It counts more than RSS,
    /// such as the cache of files.
    pub limit_bytes: Option<u64>,
    /// What the memory was when the largest RSS was looked into. A larger one between two readings is in
    /// [`most_bytes`](Self::most_bytes) only.
    pub peak: Option<ResidentMemory>,
    /// RSS at the end of the recording, or when it was last read before that: less than a second, unless the
    /// program sets another interval.
    pub end_bytes: u64,
    /// What the memory was at the end of the recording: the pages as they were when they were last looked
    /// into ([`at_ns`](ResidentMemory::at_ns)), with the blocks that are live at the end. `None` if RSS has
    /// changed by more than an eighth since then, and 1 MiB.
    pub end: Option<ResidentMemory>,
    /// What the allocators of the program said of themselves at the end of the recording: glibc
    /// (`mallinfo2`), jemalloc, mimalloc, tcmalloc. Empty if there is none that says anything, and in a
    /// program that has crashed.
    pub allocators: Vec<AllocatorStatistics>,
    /// What no other process had of it at the last reading.
    pub private_bytes: u64,
    /// RSS over time: at most 512 points, each the largest of some consecutive readings.
    pub timeline: Vec<RssPoint>,
}

impl Rss {
    /// What was freed, and is resident at the end because glibc's malloc keeps it; `None` if malloc did not
    /// say what it has. At most what is resident beside live blocks.
    pub fn freed_bytes(&self) -> Option<u64> {
        let glibc = self.allocators.iter().find(|found| found.allocator == "glibc")?;
        let free = glibc.figures.iter().find(|(name, _)| name == "free")?.1;
        let end = self.end.as_ref()?;
        Some(free.min(end.allocator_bytes.saturating_add(end.anonymous_bytes)))
    }
}

/// The resident memory at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RssPoint {
    /// Nanoseconds since the trace began.
    pub at_ns: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What an allocator says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AllocatorStatistics {
    /// Its name.
    pub allocator: String,
    /// Its figures in bytes, with the names that it has for them.
    pub figures: Vec<(String, u64)>,
}

/// The resident bytes of live blocks in one root heap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResidentHeap {
    /// Its number in the trace.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
}

/// What is resident of mappings that one call stack has made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResidentMapping {
    /// Its row in [`Report::by_stack`](crate::Report::by_stack); `None` if the trace does not have it.
    pub stack: Option<usize>,
    /// Bytes.
    pub bytes: u64,
}

/// What the resident memory of the program was at one time. All figures are bytes, multiples of a page but
/// for the first four, and their sum is RSS ([`rss_bytes`](Self::rss_bytes)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResidentMemory {
    /// When it was looked into, in nanoseconds since the trace began.
    pub at_ns: u64,
    /// Live blocks. A block counts whole if all memory around it is resident, and otherwise at most what is.
    pub live_bytes: u64,
    /// The same by root heap, the largest first; without heaps that have none. The sum is
    /// [`live_bytes`](Self::live_bytes). Pages that the program has mapped count here if they are a heap of
    /// the trace and no other block is in them. Where blocks of several heaps are near each other and not all
    /// is resident, those of allocators count first, each heap's in proportion.
    pub live_by_heap: Vec<ResidentHeap>,
    /// What the allocator has beside live blocks: freed memory that it keeps, rounding, its own data.
    pub allocator_bytes: u64,
    /// Anonymous memory without a live block: mapped by the program or its libraries (`mmap`), blocks of C
    /// libraries, parts of the allocator in which everything was freed.
    pub anonymous_bytes: u64,
    /// Anonymous memory that the program has mapped and written without a reservation (`MAP_NORESERVE`),
    /// which is no block: see [`mapped_by`](Self::mapped_by).
    pub unreserved_bytes: u64,
    /// What the tracker has: its buffers and tables, and its blocks. The trace does not say where these
    /// blocks are: they count as resident, and as if the memory without a live block had them.
    pub tracker_bytes: u64,
    /// The stacks of threads.
    pub stack_bytes: u64,
    /// The stacks of threads that have ended, which the C library keeps for later ones.
    pub ended_stack_bytes: u64,
    /// The program and its libraries: code and constants. In traces of earlier versions it
    /// has the static variables, too.
    pub binary_bytes: u64,
    /// Static variables of the program and its libraries (`.data`, `.bss`), and what the loader has changed.
    pub data_bytes: u64,
    /// Other files that are mapped.
    pub file_bytes: u64,
    /// Pages of other files that are mapped privately and that the program has changed.
    pub changed_file_bytes: u64,
    /// Memory that can be shared with other processes.
    pub shared_bytes: u64,
    /// What the kernel maps, such as `[vdso]`.
    pub other_bytes: u64,
    /// Bytes of live blocks that are certainly not resident: never written, or swapped out. Not a part of
    /// RSS.
    pub live_not_resident_bytes: u64,
    /// Who has mapped what takes memory as it is written, and how much of it is resident, the largest first:
    /// [`unreserved_bytes`](Self::unreserved_bytes) and
    /// [`changed_file_bytes`](Self::changed_file_bytes).
    pub mapped_by: Vec<ResidentMapping>,
    /// Of the parts, what is in huge pages. Not a part of its own.
    pub huge_page_bytes: u64,
    /// What the system has swapped out. Not a part of RSS.
    pub swapped_bytes: u64,
    /// Of what the tracker has, its blocks, which its allocator has in use beside the live blocks.
    pub tracker_block_bytes: u64,
}

impl ResidentMemory {
    /// The parts of RSS, each with its key in JSON.
    pub fn parts(&self) -> [(&'static str, u64); 13] {
        [
            ("live_bytes", self.live_bytes),
            ("allocator_bytes", self.allocator_bytes),
            ("anonymous_bytes", self.anonymous_bytes),
            ("unreserved_bytes", self.unreserved_bytes),
            ("tracker_bytes", self.tracker_bytes),
            ("stack_bytes", self.stack_bytes),
            ("ended_stack_bytes", self.ended_stack_bytes),
            ("binary_bytes", self.binary_bytes),
            ("data_bytes", self.data_bytes),
            ("file_bytes", self.file_bytes),
            ("changed_file_bytes", self.changed_file_bytes),
            ("shared_bytes", self.shared_bytes),
            ("other_bytes", self.other_bytes),
        ]
    }

    /// The resident memory: the sum of all parts.
    pub fn rss_bytes(&self) -> u64 {
        self.parts().iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }
}
