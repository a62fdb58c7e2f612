//! Who holds most of the live bytes, found without an allocation: the memory for it is set aside before.

use crate::accounts::Bucket;
use crate::apply::Model;
use crate::attribution::{ROOT, Tree};
use crate::callstacks::{NO_FILE, NO_STACK};
use memledger_document::Module;
use memledger_document::internal::{GLOBAL_SCOPE, WHOLE_PROGRAM};
use memledger_format::words::steers_terminal;
use std::fmt::{self, Display, Formatter, Write};

/// At most this many scopes of a path are shown, the innermost.
const MAX_SCOPES: usize = 32;

/// What the live bytes are listed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBy {
    /// By scope.
    Scope,
    /// By thread.
    Thread,
    /// By call stack.
    Stack,
}

/// Live bytes and blocks of one row, now or at the peak.
#[derive(Clone, Copy, Debug, Default)]
struct HeldMemory {
    bytes: u64,
    blocks: u64,
}

/// Memory that is set aside for the rows.
#[derive(Debug, Default)]
pub struct TopLive {
    rows: Vec<HeldMemory>,
}

impl TopLive {
    /// Sets aside memory for the rows that there are now, and for some more. Allocates only where there are
    /// more rows than ever; without memory, what there was stays.
    pub(crate) fn reserve(&mut self, model: &Model) {
        let rows = [HeldBy::Scope, HeldBy::Thread, HeldBy::Stack].map(|by| len(model, by));
        let most = rows.into_iter().max().unwrap_or(0);
        if self.rows.capacity() < most {
            self.rows.clear();
            let _ = self.rows.try_reserve_exact(most + most / 2 + 256);
        }
    }

    /// Calls `visit` for the `most` rows with the most live bytes, the largest first, with the bytes, the
    /// blocks and who holds them. Returns `false` if less memory was set aside than all rows need.
    pub(crate) fn visit(
        &mut self,
        (model, by, at_peak): (&Model, HeldBy, bool),
        most: usize,
        visit: &mut dyn FnMut(u64, u64, &TopHolder<'_>) -> fmt::Result,
    ) -> Result<bool, fmt::Error> {
        let rows = len(model, by);
        if rows > self.rows.capacity() {
            return Ok(false);
        }
        self.rows.clear();
        self.rows.resize(rows, HeldMemory::default());
        let generation = model.accounts().total().generation;
        for bucket in model.accounts().buckets() {
            let (blocks, bytes) = match at_peak {
                true => bucket.counts.at_peak(generation),
                false => (bucket.counts.live_blocks, bucket.counts.live_bytes),
            };
            if let Some(row) = self.rows.get_mut(row_of(model, &bucket, by) as usize) {
                row.bytes = row.bytes.wrapping_add(bytes);
                row.blocks = row.blocks.wrapping_add(blocks);
            }
        }
        if by == HeldBy::Stack
            && let Some(row) = self.rows.get_mut(NO_STACK as usize)
        {
            *row = HeldMemory::default();
        }
        for _ in 0..most {
            let rows = self.rows.iter_mut().enumerate();
            let Some((number, row)) = rows.max_by_key(|(_, row)| row.bytes) else { break };
            if row.bytes == 0 {
                break;
            }
            let HeldMemory { bytes, blocks } = std::mem::take(row);
            visit(bytes, blocks, &TopHolder { model, by, number: number as u32 })?;
        }
        Ok(true)
    }
}

fn len(model: &Model, by: HeldBy) -> usize {
    match by {
        HeldBy::Scope => model.contexts().scopes().nodes().len(),
        HeldBy::Thread => model.threads().all().len(),
        HeldBy::Stack if model.accounts().has_stacks() => model.callstacks().len(),
        HeldBy::Stack => 0,
    }
}

fn row_of(model: &Model, bucket: &Bucket, by: HeldBy) -> u32 {
    match by {
        HeldBy::Scope => model.contexts().get(bucket.context).scope,
        HeldBy::Thread => bucket.thread,
        HeldBy::Stack => bucket.stack,
    }
}

/// A scope, a thread or a stack.
#[expect(missing_debug_implementations, reason = "for our own crates only")]
pub struct TopHolder<'a> {
    model: &'a Model,
    by: HeldBy,
    number: u32,
}

impl<'a> TopHolder<'a> {
    /// The frames of a stack, the innermost first: the number of the file, bytes from the base of that, or an
    /// address in no file, and whether it is a guess.
    pub fn frames(&self) -> impl Iterator<Item = (u32, u64, bool)> + use<'a> {
        let stacks = self.model.callstacks();
        let is_stack = self.by == HeldBy::Stack;
        let node = is_stack.then(|| stacks.node(self.number)).flatten();
        node.into_iter().flat_map(|node| stacks.locations(node)).map(|location| {
            let location = stacks.location(location);
            (location.file, location.offset, location.is_guess)
        })
    }

    /// The file of a frame.
    pub fn file(&self, number: u32) -> Option<&'a Module> {
        let file = self.model.callstacks().files().get(number as usize);
        file.filter(|_| number != NO_FILE)
    }
}

/// After the figures, the name of a scope with those around it, or of a thread; nothing for a stack.
impl Display for TopHolder<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.by {
            HeldBy::Scope => {
                f.write_str(": ")?;
                write_path(self.model.contexts().scopes(), self.number, f)
            }
            HeldBy::Thread => {
                f.write_str(": ")?;
                let thread = self.model.threads().get(self.number);
                write_plain(&thread.name, f)?;
                match thread.system_id {
                    Some(id) => write!(f, " (thread {}, system {id})", thread.id),
                    None => write!(f, " (thread {})", thread.id),
                }
            }
            HeldBy::Stack => Ok(()),
        }
    }
}

/// Writes the names of a scope and of those around it, the outermost first.
fn write_path(tree: &Tree, node: u32, f: &mut Formatter<'_>) -> fmt::Result {
    let mut path = [ROOT; MAX_SCOPES];
    let (mut depth, mut at) = (0, node);
    while at != ROOT && depth < MAX_SCOPES {
        path[depth] = at;
        depth += 1;
        at = tree.nodes()[at as usize].parent;
    }
    match at {
        ROOT => match tree.nodes()[ROOT as usize].name() {
            GLOBAL_SCOPE => f.write_str(WHOLE_PROGRAM)?,
            name => write_plain(name, f)?,
        },
        _ => f.write_str("...")?,
    }
    for node in path[..depth].iter().rev() {
        f.write_str(" / ")?;
        write_plain(tree.nodes()[*node as usize].name(), f)?;
    }
    Ok(())
}

/// Writes a text from outside, with `?` for each character that [`escape`](memledger_format::words::escape),
/// which allocates, would replace.
pub fn write_plain(text: &str, f: &mut dyn Write) -> fmt::Result {
    text.chars().try_for_each(|char| f.write_char(if steers_terminal(char) { '?' } else { char }))
}
