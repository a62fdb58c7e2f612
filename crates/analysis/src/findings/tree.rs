//! Sites by the functions that they are below, from the outermost one on; by scopes without stacks.

use super::sets::{Sets, Site};
use super::thresholds::is_share;
use memledger_document::internal::is_main;
use std::collections::HashMap;

/// Of what is divided, one function has at least this share for what it calls to be looked into, in percent.
const NEARLY_ALL: u64 = 95;

/// A site with the functions above it.
#[derive(Clone)]
struct Path<'a> {
    site: usize,
    weight: u64,
    /// Outermost first; with the line of the innermost one.
    names: Vec<&'a str>,
    line: Option<(&'a str, u32)>,
}

/// What sites have in common at one depth: the next function, or the line where the last one allocates.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Step<'a> {
    Below(&'a str),
    Line(Option<(&'a str, u32)>),
}

impl<'a> Path<'a> {
    fn step(&self, depth: usize) -> Step<'a> {
        self.names.get(depth).map_or(Step::Line(self.line), |name| Step::Below(name))
    }
}

impl Sets<'_> {
    fn paths(&self, sites: &[usize], weigh: impl Fn(&Site) -> u64) -> Vec<Path<'_>> {
        let report = self.calls.report;
        let path = |&site: &usize| {
            let of = &self.sites[site];
            let weight = weigh(of);
            let Some(stack) = of.stack else {
                let row = &report.by_bucket[of.first_bucket as usize];
                let names = report.by_scope[row.scope].path.iter().skip(1).map(String::as_str);
                return Path { site, weight, names: names.collect(), line: None };
            };
            let functions = self.calls.own_functions(stack);
            let line = functions.first().and_then(|(_, line)| *line);
            let name = |function| self.calls.name_and_file(function).0;
            let names = functions.iter().rev().map(|(function, _)| name(*function)).collect();
            Path { site, weight, names, line }
        };
        sites.iter().map(path).collect()
    }

    /// The parts into which sites divide below the innermost function that has nearly all of them.
    pub(super) fn parts(&self, sites: &[usize], weigh: impl Fn(&Site) -> u64) -> Vec<Vec<usize>> {
        let mut paths = self.paths(sites, weigh);
        let mut depth = 0;
        while let Some(step @ Step::Below(_)) = nearly_all(&paths, depth) {
            paths.retain(|path| path.step(depth) == step);
            depth += 1;
        }
        by_step(&paths, depth).into_iter().map(|paths| sites_of(&paths)).collect()
    }

    /// Sets that are enough, each of the sites below one function: the innermost that has nearly all of them.
    /// What lies below `main` only is divided further.
    pub(super) fn divided(
        &self,
        sites: Vec<usize>,
        weigh: impl Fn(&Site) -> u64,
        is_enough: &dyn Fn(&[usize]) -> bool,
    ) -> Vec<Vec<usize>> {
        let mut waiting = vec![(self.paths(&sites, weigh), 0)];
        let mut sets = Vec::new();
        while let Some((mut paths, mut depth)) = waiting.pop() {
            if !is_enough(&sites_of(&paths)) {
                continue;
            }
            while let Some(step @ Step::Below(_)) = nearly_all(&paths, depth) {
                paths.retain(|path| path.step(depth) == step);
                depth += 1;
            }
            let last = depth.checked_sub(1).and_then(|last| paths.first()?.names.get(last));
            let parts = by_step(&paths, depth);
            if parts.len() > 1 && last.is_none_or(|name| is_main(name)) {
                waiting.extend(parts.into_iter().map(|paths| (paths, depth + 1)));
            } else {
                sets.push(sites_of(&paths));
            }
        }
        sets
    }
}

fn sites_of(paths: &[Path<'_>]) -> Vec<usize> {
    paths.iter().map(|path| path.site).collect()
}

/// What nearly all of these sites have in common at this depth.
fn nearly_all<'a>(paths: &[Path<'a>], depth: usize) -> Option<Step<'a>> {
    let mut sums = HashMap::<_, u64>::new();
    let mut whole = 0_u64;
    for path in paths {
        let sum = sums.entry(path.step(depth)).or_default();
        *sum = sum.saturating_add(path.weight);
        whole = whole.saturating_add(path.weight);
    }
    let (step, most) = sums.into_iter().max_by_key(|(step, sum)| (*sum, *step))?;
    is_share(most, whole, NEARLY_ALL).then_some(step)
}

fn by_step<'a>(paths: &[Path<'a>], depth: usize) -> Vec<Vec<Path<'a>>> {
    let mut parts = HashMap::<_, Vec<Path<'a>>>::new();
    for path in paths {
        parts.entry(path.step(depth)).or_default().push(path.clone());
    }
    let mut parts: Vec<_> = parts.into_iter().collect();
    parts.sort_unstable_by_key(|(step, _)| *step);
    parts.into_iter().map(|(_, paths)| paths).collect()
}
