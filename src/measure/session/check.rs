//! Whether a measurement is within a budget, and who holds the most if it is not.

use super::{MeasureSession, Outcome, Text};
use crate::dump::Figures;
use crate::dump::symbols::find_functions;
use crate::error::{UnmeasuredKind, unmeasured};
use crate::measure::{Budget, BudgetError};
use memledger_analysis::in_process::Holders;
use memledger_analysis::{Figures as Held, Report};
use memledger_export::parts::{HolderColumn as Column, functions, holders};
use memledger_export::text::{count, tag};
use std::collections::BTreeMap;

impl MeasureSession {
    /// Ends the measurement.
    ///
    /// # Errors
    /// As [`Budget::try_run`].
    pub(in crate::measure) fn check(self, budget: Budget) -> Result<Figures, BudgetError> {
        let (figures, text) =
            self.end(|found| budget.check(found)).map_err(BudgetError::Unmeasured)?;
        match text {
            _ if !budget.has_limit() => {
                let why = format!(
                    "the budget {:?} has no limit, so nothing can go over it",
                    budget.name.as_str()
                );
                Err(BudgetError::Unmeasured(unmeasured(UnmeasuredKind::NoLimit, why)))
            }
            Some(text) => Err(BudgetError::Over { figures, text }),
            None => Ok(figures),
        }
    }
}

impl Budget {
    /// The names, the figures, their units and the limits.
    fn limits(&self, figures: &Figures) -> [(&'static str, u64, &'static str, Option<u64>); 7] {
        [
            ("peak_bytes", figures.peak_bytes, " bytes", self.peak_bytes),
            ("live_bytes", figures.live_bytes, " bytes", self.live_bytes),
            ("live_blocks", figures.live_blocks, "", self.live_blocks),
            ("allocated_bytes", figures.allocated_bytes, " bytes", self.allocated_bytes),
            ("allocations", figures.allocations, "", self.allocations),
            ("frees", figures.frees, "", self.frees),
            ("reallocations", reallocated(figures), "", self.reallocations),
        ]
    }

    fn has_limit(&self) -> bool {
        self.limits(&Figures::default()).iter().any(|(.., limit)| limit.is_some())
    }

    /// The text of a budget that is exceeded.
    fn check(self, found: &mut Outcome<'_>) -> Option<Text> {
        let figures = found.figures;
        let over = |(what, found, unit, limit): (&str, u64, &str, Option<u64>)| {
            let over = found.checked_sub(limit?).filter(|&over| over > 0)?;
            let [found, over, limit] = [found, over, limit?].map(count);
            Some(format!("\n  {what:<15} {found}{unit}, {over} more than {limit}"))
        };
        let mut lines: String = self.limits(&figures).into_iter().filter_map(over).collect();
        if lines.is_empty() {
            return None;
        }
        let foreign = figures.foreign_reallocations;
        if foreign > 0 && self.reallocations.is_some_and(|limit| reallocated(&figures) > limit) {
            // This extends the last line, which is the one about reallocations.
            lines += &format!("; {} of them of blocks from outside", count(foreign));
        }
        let found = found.holders();
        Some(Box::new(move || {
            let who = self.who(&figures, found);
            format!("the budget {:?} is exceeded{lines}\n{who}", self.name.as_str())
        }))
    }

    /// The scopes, tags and stacks with the largest share of the first figure that is over its
    /// budget.
    fn who(&self, figures: &Figures, found: Holders) -> String {
        let is_over = |(_, found, _, limit): (_, u64, _, Option<u64>)| {
            limit.is_some_and(|limit| found > limit)
        };
        let [peak, live, live_blocks, allocated, allocations, frees, reallocations] =
            self.limits(figures).map(is_over);
        let key = |held: &Held| {
            if peak {
                (held.live_bytes_at_peak, held.live_bytes)
            } else if live {
                (held.live_bytes, held.allocated_bytes)
            } else if live_blocks {
                (held.live_blocks, held.live_bytes)
            } else if allocated {
                (held.allocated_bytes, held.allocations)
            } else if allocations {
                (held.allocations, held.allocated_bytes)
            } else if frees {
                (held.frees, held.allocated_bytes)
            } else {
                (held.reallocations, held.allocated_bytes)
            }
        };
        let columns: [(bool, Column); 7] = [
            (peak, ("at peak", |held| held.live_bytes_at_peak)),
            (true, ("live bytes", |held| held.live_bytes)),
            (true, ("blocks", |held| held.live_blocks)),
            (true, ("allocated", |held| held.allocated_bytes)),
            (true, ("count", |held| held.allocations)),
            (frees, ("frees", |held| held.frees)),
            (reallocations, ("reallocations", |held| held.reallocations)),
        ];
        let shown = columns.into_iter().filter(|(is_shown, _)| *is_shown);
        let columns: Vec<_> = shown.map(|(_, column)| column).collect();
        let Holders { scopes, tags, by_stack, stacks } = found;
        let scope = |path: &[String]| path.join(" > ");
        let mut text = holders("Within it, by scope", scope, scopes, &columns, key);
        // Without tags the table would have one row, "Unnamed".
        if tags.iter().any(|(path, _)| path != &["Unknown", "Unnamed"]) {
            let name = |path: &[String]| {
                path.split_last().map_or_else(String::new, |(name, group)| tag(group, name))
            };
            text += &holders("By name", name, tags, &columns, key);
        }
        if !by_stack.is_empty() {
            text += &by_function(stacks, &by_stack, &columns, key);
        }
        text
    }
}

/// The table of the functions of stacks.
fn by_function(
    mut stacks: Report,
    by_stack: &[Held],
    columns: &[Column],
    key: impl Fn(&Held) -> (u64, u64),
) -> String {
    find_functions(&mut stacks);
    // Stacks that differ only further out are one row.
    let mut rows = BTreeMap::<_, Held>::new();
    for (path, held) in functions(&stacks).into_iter().zip(by_stack) {
        rows.entry(path).or_default().add(held);
    }
    let row = |(path, held)| (vec![path], held);
    let title = match stacks.stack_sampling_bytes {
        None => "By stack",
        Some(_) => "By stack, of a sample",
    };
    let name = |path: &[String]| path.concat();
    holders(title, name, rows.into_iter().map(row).collect(), columns, key)
}

/// Reallocations in the measured code, of any block.
fn reallocated(figures: &Figures) -> u64 {
    figures.reallocations + figures.foreign_reallocations
}
