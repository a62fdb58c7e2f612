//! From the unwind information of a file (`.eh_frame`) to a table of rules.
//!
//! Outside the hook: [`gimli`] parses the section, and nothing of it is needed afterwards.
//! Sources: the Linux Standard Base, sections 10.6 and 10.7, and those of the processor.

use super::lookup::in_order;
use super::processor::{self, FP, Packed, RETURN_ADDRESS, SP};
use super::rule::{Cfa, Fp, Resumer, Rule};
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EndianSlice, LittleEndian, Operation, RegisterRule,
    UnwindContext, UnwindExpression, UnwindSection, UnwindTableRow,
};
use std::ops::Range;

#[cfg(elf)]
pub(super) mod elf;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

const ENCODING: gimli::Encoding =
    gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 4 };

/// The maximum number of functions in the procedure linkage tables of a module.
const MAX_LINKAGE_ENTRIES: u64 = 1 << 16;

struct Builder<'a> {
    rows: Vec<(u64, Packed)>,
    section: EhFrame<Bytes<'a>>,
    linkage_entries_left: u64,
}

/// The rules of all functions of `section`, which begins at `address`, in the order of addresses: each row
/// has the first address at which its rule holds. Damaged parts have [`Rule::None`]; what else is in the
/// `code` of the file, [`Rule::FramePointer`].
pub(super) fn rows(section: &[u8], address: u64, code: &[Range<u64>]) -> Vec<(u64, Packed)> {
    let mut section = EhFrame::new(section, LittleEndian);
    section.set_vendor(processor::VENDOR);
    let linkage_entries_left = MAX_LINKAGE_ENTRIES;
    let ends = |code: &Range<u64>| {
        [(code.start, Packed::new(Rule::FramePointer)), (code.end, Packed::new(Rule::None))]
    };
    Builder { rows: code.iter().flat_map(ends).collect(), section, linkage_entries_left }
        .build(&BaseAddresses::default().set_eh_frame(address))
}

impl Builder<'_> {
    fn build(mut self, bases: &BaseAddresses) -> Vec<(u64, Packed)> {
        let mut context = UnwindContext::new();
        let mut last_cie = None;
        let section = self.section;
        let mut entries = section.entries(bases);
        // An entry that cannot be parsed ends the table: the next one cannot be found.
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            // PERF: consecutive functions have the same CIE, as a rule.
            let fde = partial.parse(|section, bases, offset| match &last_cie {
                Some((at, cie)) if *at == offset => Ok(Clone::clone(cie)),
                _ => {
                    let cie = section.cie_from_offset(bases, offset)?;
                    last_cie = Some((offset, cie.clone()));
                    Ok(cie)
                }
            });
            let Ok(fde) = fde else { continue };
            // The linker leaves functions that it has removed at address 0.
            if fde.initial_address() == 0 || fde.len() == 0 {
                continue;
            }
            let is_signal = fde.is_signal_trampoline();
            let mut reached = fde.initial_address();
            if let Ok(mut table) = fde.rows(&section, bases, &mut context) {
                while let Ok(Some(row)) = table.next_row() {
                    reached = row.end_address();
                    if let Some(entry) = self.linkage_table(row) {
                        self.add_linkage_table(row.start_address(), reached, &entry);
                        continue;
                    }
                    let is_kernels = is_signal && self.is_return_to_kernel(row);
                    let rule = if is_kernels { Rule::Signal } else { self.rule(row) };
                    self.rows.push((row.start_address(), Packed::new(rule)));
                }
            }
            let end = fde.end_address();
            if reached < end {
                self.rows.push((reached, Packed::new(Rule::None)));
            }
            self.rows.push((end, Packed::new(Rule::FramePointer)));
        }
        in_order(self.rows)
    }

    /// Whether the frame is what the kernel leaves for a signal handler to return to. Coroutine libraries
    /// mark other functions as frames of signals, too.
    fn is_return_to_kernel(&self, row: &UnwindTableRow<usize>) -> bool {
        let Some(RegisterRule::Expression(expression)) = row.register(RETURN_ADDRESS) else {
            return false;
        };
        let Ok(expression) = expression.get(&self.section) else { return false };
        let operation = expression.operations(ENCODING).next();
        matches!(operation, Ok(Some(operation)) if processor::is_saved_by_kernel(&operation))
    }

    /// If the row is that of a procedure linkage table, the rules of an entry.
    fn linkage_table(&self, row: &UnwindTableRow<usize>) -> Option<[(u64, Rule); 2]> {
        let CfaRule::Expression(expression) = row.cfa() else { return None };
        processor::linkage_table(expression.get(&self.section).ok()?.0.slice())
    }

    /// Adds the rows of each entry of a procedure linkage table.
    fn add_linkage_table(&mut self, start: u64, end: u64, rows: &[(u64, Rule)]) {
        const ENTRY: u64 = processor::LINKAGE_ENTRY;
        let entries = end.saturating_sub(start).div_ceil(ENTRY);
        // NOTE: a damaged section may claim tables of any size.
        if !start.is_multiple_of(ENTRY) || entries > self.linkage_entries_left {
            return self.rows.push((start, Packed::new(Rule::None)));
        }
        self.linkage_entries_left -= entries;
        for entry in (start..end).step_by(ENTRY as usize) {
            for (offset, rule) in rows.iter().filter(|(offset, _)| end - entry > *offset) {
                self.rows.push((entry + offset, Packed::new(*rule)));
            }
        }
    }

    /// The rule of the first function on a coroutine's stack, as `corosensei` describes its own: the
    /// CFA is a word of memory and a number more, and the return address is saved below it.
    fn coroutine(&self, row: &UnwindTableRow<usize>) -> Option<Rule> {
        let CfaRule::Expression(expression) = row.cfa() else { return None };
        let expression = expression.get(&self.section).ok()?;
        let mut operations = expression.operations(ENCODING);
        let mut next = || operations.next().ok().flatten();
        let (
            Some(Operation::RegisterOffset { register: FP, offset: link, .. }),
            Some(Operation::Deref { size: 8, space: false, .. }),
            Some(Operation::PlusConstant { value: plus }),
            None,
        ) = (next(), next(), next(), next())
        else {
            return None;
        };
        let Some(RegisterRule::Offset(return_address)) = row.register(RETURN_ADDRESS) else {
            return None;
        };
        let Some(RegisterRule::Offset(fp)) = row.register(FP) else { return None };
        let sp = i64::try_from(plus).ok()?;
        let resumer = Resumer {
            sp: sp.try_into().ok()?,
            return_address: sp.checked_add(return_address)?.try_into().ok()?,
            fp: sp.checked_add(fp)?.try_into().ok()?,
        };
        Some(Rule::Coroutine { link: link.try_into().ok()?, resumer })
    }

    fn rule(&self, row: &UnwindTableRow<usize>) -> Rule {
        if let Some(coroutine) = self.coroutine(row) {
            return coroutine;
        }
        let ra = match processor::return_address(row.register(RETURN_ADDRESS)) {
            Ok(ra) => ra,
            Err(rule) => return rule,
        };
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                let Ok(offset) = i32::try_from(*offset) else { return Rule::None };
                match *register {
                    SP => Some(Cfa::Sp(offset)),
                    FP => Some(Cfa::Fp(offset)),
                    _ => None,
                }
            }
            CfaRule::Expression(expression) => {
                self.distance_from_fp(expression, true).map(Cfa::AtFp)
            }
        };
        let small = |distance: i64| i16::try_from(distance).ok();
        let fp = match row.register(FP) {
            None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => Some(Fp::Kept),
            Some(RegisterRule::Offset(distance)) => small(distance).map(Fp::FromCfa),
            Some(RegisterRule::Expression(expression)) => self
                .distance_from_fp(&expression, false)
                .and_then(|distance| small(distance.into()))
                .map(Fp::FromOwn),
            Some(_) => None,
        };
        match (cfa, fp) {
            (Some(cfa), Some(fp)) => Rule::Call { cfa, ra, fp },
            _ => Rule::None,
        }
    }

    /// The distance, if the expression is `fp + distance`, and then a load if `is_loaded`. GCC
    /// describes functions that align their stack by such expressions.
    fn distance_from_fp(
        &self,
        expression: &UnwindExpression<usize>,
        is_loaded: bool,
    ) -> Option<i32> {
        let expression = expression.get(&self.section).ok()?;
        let mut operations = expression.operations(ENCODING);
        let Operation::RegisterOffset { register: FP, offset, .. } = operations.next().ok()??
        else {
            return None;
        };
        if is_loaded {
            let Operation::Deref { size: 8, space: false, .. } = operations.next().ok()?? else {
                return None;
            };
        }
        operations.next().ok()?.is_none().then(|| i32::try_from(offset).ok())?
    }
}

// They read ELF files.
#[cfg(test)]
#[cfg(elf)]
mod tests;
