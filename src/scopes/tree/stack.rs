//! Scope stacks: a stack is the path from a scope's node to the root.

use super::{NONE, Node, NodeKind, OTHER, ROOT, Table};
use std::sync::atomic::Ordering;

/// The maximum number of nested scopes that have nodes; a deeper stack is `(other)`.
const MAX_DEPTH: usize = 255;

/// The stack of the scope `name` inside `stack`; adds it if it is new.
///
/// # Errors
/// If the scope gets no node; this counts as a refusal. The error is the stack to use instead: the
/// innermost measurement around the scope, so that measured code stays inside its measurement, or
/// [`OTHER`] if there is no measurement.
pub(in crate::scopes) fn find_or_add_scope(stack: u32, name: &'static str) -> Result<u32, u32> {
    let found = if stack == OTHER || scopes_of(stack).count() >= MAX_DEPTH {
        super::count_refused();
        None
    } else {
        super::find_or_add(NodeKind::Scope, stack, NONE, name)
    };
    found.ok_or_else(|| scopes_of(stack).find(|&stack| is_measurement(stack)).unwrap_or(OTHER))
}

fn is_measurement(stack: u32) -> bool {
    super::node(stack).is_some_and(|node| node.owner.load(Ordering::Relaxed) != NONE)
}

/// The scopes of a stack from the innermost to the outermost, without the root.
fn scopes_of(stack: u32) -> impl Iterator<Item = u32> {
    let table = Table::get();
    let below_root = |stack: u32| (stack != ROOT).then_some(stack);
    std::iter::successors(below_root(stack), move |&stack| {
        below_root(table.as_ref()?.node(stack)?.parent.load(Ordering::Relaxed))
    })
}

/// Whether `stack` is `outer` or inside it. Returns `true` if `stack` is [`OTHER`], which may be
/// inside any stack.
pub(crate) fn is_within(stack: u32, outer: u32) -> bool {
    stack == OTHER || outer == ROOT || scopes_of(stack).any(|stack| stack == outer)
}

/// Removes the repeating scopes at the inner end of `stack`, which a loop has entered in each round
/// and never left. Returns the remaining stack and the number of removed scopes.
///
/// If less than half of the scopes repeat, the loop must have given each scope another name, so all
/// scopes are removed. If the stack is less than [`MAX_DEPTH`] deep, the table is full, so the
/// scopes of the loop have no nodes and none are removed.
pub(in crate::scopes) fn without_repeats(stack: u32) -> (u32, u32) {
    /// The maximum number of scopes that a loop enters in one round.
    const ROUND: usize = 16;
    let mut path = [ROOT; MAX_DEPTH];
    let depth = path.iter_mut().zip(scopes_of(stack)).map(|(at, stack)| *at = stack).count();
    if depth < MAX_DEPTH {
        return (stack, 0);
    }
    let table = Table::get();
    let name = |stack: &u32| table.as_ref().and_then(|table| table.node(*stack)).map(Node::text);
    let repeats = |round: usize| {
        let pairs = path.iter().zip(path.iter().skip(round));
        round + pairs.take_while(|(inner, outer)| name(inner) == name(outer)).count()
    };
    let longest = (1..=ROUND).map(repeats).max().unwrap_or(0);
    let removed = if longest > ROUND && 2 * longest >= depth { longest } else { depth };
    (path.get(removed).copied().unwrap_or(ROOT), removed as u32)
}

pub(in crate::scopes) fn stack_of(context: u32) -> u32 {
    let is_pair = |node: &&Node| node.kind.load(Ordering::Relaxed) == NodeKind::Context as u32;
    let node = super::node(context).filter(is_pair);
    node.map_or(context, |node| node.parent.load(Ordering::Relaxed))
}
