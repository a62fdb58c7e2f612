//! The rows of a report.

use crate::analysis::columns::Figures;

/// One scope stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeRow {
    /// Names from the outermost scope inwards.
    pub path: Vec<String>,
    /// How often this very scope was entered while it was recorded, on all threads; a future or a
    /// span counts once. `None` for the outermost scope, which is never entered; in traces of
    /// writers that do not count entries; and in a trace without its end that has no count yet,
    /// because our writer reports counts once a second.
    pub entries: Option<u64>,
    /// What was allocated in this very scope.
    pub figures: Figures,
    /// The same together with all scopes inside it.
    pub inclusive: Figures,
    /// The size of the largest live block of this very scope.
    pub largest_live_bytes: u64,
}

/// One group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupRow {
    /// Names from the outermost group inwards.
    pub group: Vec<String>,
    /// The memory with a tag of this very group.
    pub figures: Figures,
    /// The same together with all groups inside it.
    pub inclusive: Figures,
}

/// One name of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NameRow {
    /// Names of the groups from the outermost inwards.
    pub group: Vec<String>,
    /// The name.
    pub name: String,
    /// The memory with this name.
    pub figures: Figures,
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadRow {
    /// Its id in the trace, never used for another thread.
    pub id: u32,
    /// Its name, empty if it has none.
    pub name: String,
    /// The operating system's id, if the trace says it.
    pub system_id: Option<u32>,
    /// What it allocated.
    pub figures: Figures,
}

/// One class of sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SizeRow {
    /// The smallest size in it.
    pub min_bytes: u64,
    /// The largest; `None` in the last class.
    pub max_bytes: Option<u64>,
    /// Blocks of this size class. A block that grows or shrinks into another class moves: its old
    /// class counts it in `moved_out` with the old size, and its new class counts it in `moved_in`
    /// with the new size. The new class also counts the reallocation and all later changes.
    pub figures: Figures,
}

/// One live block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveBlock {
    /// Where it is now.
    pub address: u64,
    /// Its size now.
    pub bytes: u64,
    /// The name of the thread that first allocated it, empty if it has none.
    pub thread: String,
    /// That thread's id.
    pub thread_id: u32,
    /// Its group.
    pub group: Vec<String>,
    /// Its name within the group.
    pub name: String,
    /// The scope stack it was first allocated in.
    pub path: Vec<String>,
    /// When it was first allocated: the last time in the trace before that.
    pub allocated_at_ns: u64,
}
