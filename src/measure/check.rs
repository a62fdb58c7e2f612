//! Whether a measurement is within a budget, and who holds the most if it is not.

use super::Budget;
use super::session::{Failure, MeasureSession, Outcome};
use crate::error::{Error, Unmeasured};
use crate::ledger::reports::symbols::find_functions;
use memledger_analysis::dump::text::{count, tag};
use memledger_analysis::in_process::{
    Holder, HolderColumn as Column, Holders, MeasuredFigures, functions, holders,
};
use std::collections::BTreeMap;

impl MeasureSession {
    /// Ends the measurement.
    ///
    /// # Errors
    /// As [`Budget::try_run`].
    pub(super) fn check(self, budget: Budget) -> Result<(), Error> {
        self.end(|found| budget.check(found)).map(drop)
    }
}

impl Budget {
    fn check(self, found: &mut Outcome<'_>) -> Result<(), Failure> {
        let Self { name, peak, live, allocated, allocations, reallocations } = self;
        let figures = found.figures;
        let limits = [
            ("peak", figures.peak_bytes, " bytes", peak),
            ("live", figures.live_bytes, " bytes", live),
            ("allocated", figures.tally.allocated_bytes, " bytes", allocated),
            ("allocations", figures.tally.allocations, "", allocations),
            ("reallocations", reallocated(&figures), "", reallocations),
        ];
        if limits.iter().all(|(.., limit)| limit.is_none()) {
            let error = Error::Unmeasured(Unmeasured::NoLimit(name.as_str()));
            return Err(Box::new(|| error));
        }
        let over = |(what, found, unit, limit): (&str, u64, &str, Option<u64>)| {
            let over = found.checked_sub(limit?).filter(|&over| over > 0)?;
            let [found, over, limit] = [found, over, limit?].map(count);
            Some(format!("\n  {what:<14} {found}{unit}, {over} more than {limit}"))
        };
        let mut lines: String = limits.into_iter().filter_map(over).collect();
        if lines.is_empty() {
            return Ok(());
        }
        let foreign = figures.foreign_reallocations;
        if foreign > 0 && reallocations.is_some_and(|limit| reallocated(&figures) > limit) {
            // This extends the last line, which is the one about reallocations.
            lines += &format!("; {} of them of blocks from outside", count(foreign));
        }
        let found = found.holders();
        Err(Box::new(move || {
            let who = self.who(&figures, found);
            Error::OverBudget(format!("the budget {:?} is exceeded{lines}\n{who}", name.as_str()))
        }))
    }

    /// The scopes, tags and stacks with the largest share of the first figure that is over its
    /// budget.
    fn who(&self, figures: &MeasuredFigures, found: Holders) -> String {
        let is_over = |found: u64, limit: Option<u64>| limit.is_some_and(|limit| found > limit);
        let peak = is_over(figures.peak_bytes, self.peak);
        let live = is_over(figures.live_bytes, self.live);
        let allocated = is_over(figures.tally.allocated_bytes, self.allocated);
        let allocations = is_over(figures.tally.allocations, self.allocations);
        let reallocations = is_over(reallocated(figures), self.reallocations);
        let key = |holder: &Holder| {
            if peak {
                (holder.bytes_at_peak, holder.live_bytes)
            } else if live {
                (holder.live_bytes, holder.tally.allocated_bytes)
            } else if allocated {
                (holder.tally.allocated_bytes, holder.tally.allocations)
            } else if allocations {
                (holder.tally.allocations, holder.tally.allocated_bytes)
            } else {
                (holder.tally.reallocations, holder.tally.allocated_bytes)
            }
        };
        let columns: [(bool, Column); 6] = [
            (peak, ("at peak", |holder| holder.bytes_at_peak)),
            (true, ("live bytes", |holder| holder.live_bytes)),
            (true, ("blocks", |holder| holder.live_blocks)),
            (true, ("allocated", |holder| holder.tally.allocated_bytes)),
            (true, ("count", |holder| holder.tally.allocations)),
            (reallocations, ("reallocations", |holder| holder.tally.reallocations)),
        ];
        let shown = columns.into_iter().filter(|(is_shown, _)| *is_shown);
        let columns: Vec<_> = shown.map(|(_, column)| column).collect();
        let Holders { scopes, tags, by_stack, mut stacks } = found;
        let scope = |path: &[String]| path.join(" > ");
        let mut text = holders("Within it, by scope", scope, scopes, &columns, key);
        // Without tags the table would have one row, "Unnamed".
        if tags.iter().any(|tag| tag.path != ["Unknown", "Unnamed"]) {
            let name = |path: &[String]| {
                path.split_last().map_or_else(String::new, |(name, group)| tag(group, name))
            };
            text += &holders("By name", name, tags, &columns, key);
        }
        if !by_stack.is_empty() {
            find_functions(&mut stacks);
            // Stacks that differ only further out are one row.
            let mut rows = BTreeMap::<_, Holder>::new();
            for (path, holder) in functions(&stacks).into_iter().zip(&by_stack) {
                rows.entry(path).or_default().add_holder(holder);
            }
            let row = |(path, holder)| Holder { path: vec![path], ..holder };
            let title = match stacks.stack_sampling_bytes {
                None => "By stack",
                Some(_) => "By stack, of a sample",
            };
            let name = |path: &[String]| path.concat();
            text += &holders(title, name, rows.into_iter().map(row).collect(), &columns, key);
        }
        text
    }
}

/// Reallocations in the measured code, of any block.
fn reallocated(figures: &MeasuredFigures) -> u64 {
    figures.tally.reallocations + figures.foreign_reallocations
}
