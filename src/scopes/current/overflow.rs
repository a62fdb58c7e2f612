//! Scopes without a node: scopes on a stack that is too deep, or entered while the tree is full.
//!
//! All of them have the stack [`OTHER`], so they are numbered from the outermost on. A large number
//! also shows that guards were skipped:
//!
//! ```text
//! scope with a node, scope with a node, (other) 0, (other) 1, (other) 2 ...
//!                                       ^ base stack and address of the first
//! ```

use crate::scopes::tree::{self, OTHER, ROOT};
use std::cell::Cell;

/// Marks the context of a scope without a node, whose number is this bit plus the number of such
/// scopes that are open, this one included. No node has a number this large, so leaving the scope
/// takes the slow path.
pub(super) const OVERFLOW: u32 = 1 << 31;

/// If this number of scopes without nodes are open, and the thread's call stack is no deeper than
/// at the first of them, guards were skipped. A recursion, in contrast, needs more call stack for
/// each scope.
pub(super) const MAX_OPEN: u32 = 256;
/// A loop or a `longjmp` returns to within this many bytes of the address of the first scope.
const SAME_FRAME: usize = 64 << 10;

/// The open scopes of a thread that have no node, from the first to the innermost.
#[derive(Clone, Copy)]
struct Open {
    count: u32,
    /// The stack in which the first of them was entered.
    base: u32,
    /// The address in the thread's call stack at which the first of them was entered.
    address: usize,
}

pub(super) struct Overflow(Cell<Open>);

/// Skipped scopes that were detected.
pub(super) struct Skipped {
    pub count: u32,
    /// The stack outside them.
    pub base: u32,
}

impl Overflow {
    pub(super) const fn new() -> Self {
        Self(Cell::new(Open { count: 0, base: ROOT, address: 0 }))
    }

    /// Counts one more scope, which is entered in `stack` at this `address` of the call stack.
    ///
    /// # Errors
    /// If the count shows that a loop forgot guards, or that a `longjmp` skipped them. Then the
    /// count of open scopes is set to 0.
    ///
    /// NOTE: skipped scopes are not detected here if a scope around them is left, because leaving
    /// that scope corrects the context. Coroutines have call stacks of their own, so equally deep
    /// scopes of several coroutines on one thread may be taken for skipped ones. If one function
    /// keeps more than 511 guards on purpose, they are taken for skipped ones.
    pub(super) fn enter(&self, stack: u32, address: usize) -> Result<(), Skipped> {
        let mut open = self.0.get();
        if stack != OTHER || open.count == 0 {
            open = Open { count: 0, base: stack, address };
        }
        // A larger distance means another call stack, on which a recursion may have any depth.
        let no_deeper = address.wrapping_sub(open.address) < SAME_FRAME;
        let skipped = open.count >= MAX_OPEN && no_deeper;
        let result = if skipped {
            let (base, removed) = tree::without_repeats(open.base);
            let count = removed + open.count;
            open.count = 0;
            Err(Skipped { count, base })
        } else {
            open.count = (open.count + 1).min(!OVERFLOW);
            Ok(())
        };
        self.0.set(open);
        result
    }

    /// Leaves the scope with this number, and the scopes inside it.
    pub(super) fn leave(&self, number: u32) {
        let open = self.0.get();
        // A number above the count belongs to scopes whose count was overwritten when a scope was
        // entered in another stack. Their base is no longer known, so counting restarts at 0.
        let count = if number > open.count { 0 } else { number.saturating_sub(1) };
        self.0.set(Open { count, ..open });
    }

    /// The number of open scopes.
    pub(super) fn count(&self) -> u32 {
        self.0.get().count
    }
}
