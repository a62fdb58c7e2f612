//! The largest rows of a tree and the rows around them.
//!
//! A row without figures of its own and with one row inside would show the figures of that row
//! again. The two become one row, `outer > inner`, so that a deep chain of scopes takes one line.

use memledger_document::Figures;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// One row of a tree.
#[derive(Clone, Debug)]
pub(super) struct Node<'a> {
    /// Names from the outermost row inwards.
    pub(super) path: Vec<Cow<'a, str>>,
    pub(super) own: Figures,
    /// The same with all rows inside.
    pub(super) inclusive: Figures,
    pub(super) entries: Option<u64>,
    pub(super) largest: u64,
    /// Whether the row is the name of a tag, which is written after a `/`.
    pub(super) is_tag: bool,
}

/// A row to show.
#[derive(Debug)]
pub(super) struct Picked<'n, 'a> {
    pub(super) level: usize,
    pub(super) name: String,
    pub(super) node: &'n Node<'a>,
}

/// The `top` largest of `nodes` by `key` among those that `shows` accepts, with the rows around
/// them, in the order of the tree, the largest first at each level. Also returns how many more
/// there are.
pub(super) fn pick<'n, 'a, K: Ord + Clone>(
    nodes: &'n [Node<'a>],
    top: usize,
    key: impl Fn(&Node<'_>) -> K,
    shows: impl Fn(&Node<'_>) -> bool,
) -> (Vec<Picked<'n, 'a>>, usize) {
    let all: BTreeMap<&[Cow<'a, str>], &'n Node<'a>> =
        nodes.iter().map(|node| (&node.path[..], node)).collect();
    let mut inside = HashMap::<&[Cow<'a, str>], usize>::new();
    for node in nodes {
        if let Some((_, outer)) = node.path.split_last() {
            *inside.entry(outer).or_default() += 1;
        }
    }
    let is_merged = |path: &[Cow<'a, str>]| {
        inside.get(path) == Some(&1)
            && all.get(path).is_none_or(|node| node.own == Figures::default())
    };
    let mut chosen: Vec<_> =
        nodes.iter().filter(|node| !is_merged(&node.path) && shows(node)).collect();
    chosen.sort_by_cached_key(|node| (Reverse(key(node)), &node.path));
    let further = chosen.split_off(top.min(chosen.len()));

    let around = chosen.iter().flat_map(|node| (1..=node.path.len()).map(|n| &node.path[..n]));
    let shown_paths: BTreeSet<&[Cow<'a, str>]> =
        around.filter(|path| all.contains_key(path)).collect();
    let left = further.iter().filter(|node| !shown_paths.contains(&node.path[..])).count();
    let mut shown: Vec<_> = shown_paths.into_iter().collect();
    // Rows compare by key at each level, then by name: inner rows follow their outer one.
    shown.sort_by_cached_key(|path| {
        let level = |n: usize| (Reverse(all.get(&path[..n]).map(|node| key(node))), &path[n - 1]);
        (1..=path.len()).map(level).collect::<Vec<_>>()
    });
    let picked = shown.into_iter().filter(|path| !is_merged(path)).map(|path| {
        let node = all[path];
        let outer = (1..path.len()).rev().map(|n| &path[..n]);
        let merged = outer.clone().take_while(|outer| is_merged(outer)).count();
        let first = path.len() - 1 - merged;
        let level = (1..=first).filter(|&n| !is_merged(&path[..n])).count();
        Picked { level, name: joined(&path[first..], node.is_tag), node }
    });
    (picked.collect(), left)
}

/// The names of a row, joined to one line.
pub(super) fn joined(path: &[Cow<'_, str>], is_tag: bool) -> String {
    match path.split_last() {
        Some((name, group)) if is_tag && !group.is_empty() => {
            format!("{} / {name}", group.join(" > "))
        }
        _ => path.join(" > "),
    }
}
