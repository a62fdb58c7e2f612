//! From the unwind information of a file (`.eh_frame`) to a table of rules.
//!
//! Outside the hook: [`gimli`] parses the section, and nothing of it is needed afterwards.
//! Sources: the x86-64 psABI, section 3.7, and the Linux Standard Base, sections 10.6 and 10.7.

use super::rule::{Cfa, Packed, Rbp, Rule};
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, Operation,
    Pointer, RegisterRule, UnwindContext, UnwindExpression, UnwindSection, UnwindTableRow, X86_64,
};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

const ENCODING: gimli::Encoding =
    gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 4 };

/// The address of `.eh_frame`, from the bytes of `.eh_frame_hdr`, which begins at `address`.
pub(super) fn section_address(header: &[u8], address: u64) -> Option<u64> {
    let bases = BaseAddresses::default().set_eh_frame_hdr(address);
    let header = EhFrameHdr::new(header, LittleEndian).parse(&bases, 8).ok()?;
    match header.eh_frame_ptr() {
        Pointer::Direct(address) => Some(address),
        Pointer::Indirect(_) => None,
    }
}

struct Builder<'a> {
    rows: Vec<(u64, Packed)>,
    section: EhFrame<Bytes<'a>>,
}

/// The rules of all functions of `section`, which begins at `address`, in the order of addresses:
/// each row has the first address at which its rule holds. Damaged parts have [`Rule::None`].
pub(super) fn rows(section: &[u8], address: u64) -> Vec<(u64, Packed)> {
    let section = EhFrame::new(section, LittleEndian);
    Builder { rows: Vec::new(), section }.build(&BaseAddresses::default().set_eh_frame(address))
}

impl Builder<'_> {
    fn build(mut self, bases: &BaseAddresses) -> Vec<(u64, Packed)> {
        let mut context = UnwindContext::new();
        let mut last_cie = None;
        let mut entries = self.section.entries(bases);
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
            if let Ok(mut table) = fde.rows(&self.section, bases, &mut context) {
                while let Ok(Some(row)) = table.next_row() {
                    let rule = if is_signal { Rule::Signal } else { self.rule(row) };
                    self.rows.push((row.start_address(), Packed::new(rule)));
                    reached = row.end_address();
                }
            }
            let end = fde.end_address();
            if reached < end {
                self.rows.push((reached, Packed::new(Rule::None)));
            }
            self.rows.push((end, Packed::new(Rule::None)));
        }
        sort(self.rows)
    }

    fn rule(&self, row: &UnwindTableRow<usize>) -> Rule {
        match row.register(X86_64::RA) {
            Some(RegisterRule::Offset(-8)) => {}
            None | Some(RegisterRule::Undefined) => return Rule::Outermost,
            Some(_) => return Rule::None,
        }
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                let Ok(offset) = i32::try_from(*offset) else { return Rule::None };
                match *register {
                    X86_64::RSP => Some(Cfa::Rsp(offset)),
                    X86_64::RBP => Some(Cfa::Rbp(offset)),
                    _ => None,
                }
            }
            CfaRule::Expression(expression) => {
                self.distance_from_rbp(expression, true).map(Cfa::AtRbp)
            }
        };
        let small = |distance: i64| i16::try_from(distance).ok();
        let rbp = match row.register(X86_64::RBP) {
            None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => Some(Rbp::Kept),
            Some(RegisterRule::Offset(distance)) => small(distance).map(Rbp::FromCfa),
            Some(RegisterRule::Expression(expression)) => self
                .distance_from_rbp(&expression, false)
                .and_then(|distance| small(distance.into()))
                .map(Rbp::FromOwn),
            Some(_) => None,
        };
        match (cfa, rbp) {
            (Some(cfa), Some(rbp)) => Rule::Call { cfa, rbp },
            _ => Rule::None,
        }
    }

    /// The distance, if the expression is `rbp + distance`, and then a load if `is_loaded`. GCC
    /// describes functions that align their stack by such expressions.
    fn distance_from_rbp(
        &self,
        expression: &UnwindExpression<usize>,
        is_loaded: bool,
    ) -> Option<i32> {
        let expression = expression.get(&self.section).ok()?;
        let mut operations = expression.operations(ENCODING);
        let Operation::RegisterOffset { register: X86_64::RBP, offset, .. } =
            operations.next().ok()??
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

/// Sorts the rows by address. Where one function ends and another begins, the beginning counts.
fn sort(mut rows: Vec<(u64, Packed)>) -> Vec<(u64, Packed)> {
    let none = Packed::new(Rule::None);
    rows.sort_by_key(|(address, rule)| (*address, *rule != none));
    rows.dedup_by(|later, earlier| {
        let same_address = later.0 == earlier.0;
        if same_address {
            earlier.1 = later.1;
        }
        same_address || later.1 == earlier.1
    });
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::os::{Memory, loaded_files};
    use crate::stacks::capture::modules::unwind_section;

    /// Whatever a section holds, its rows are in the order of addresses.
    #[test]
    fn damaged_unwind_information_gives_rows_in_order() {
        let memory = Memory::open().unwrap();
        let (files, _) = loaded_files(&memory, |_, _| false).unwrap();
        let libc = files.iter().find(|file| file.path.contains("libc.so")).unwrap();
        let (section, address) = unwind_section(&memory, libc).unwrap();
        let whole = rows(&section, address);
        assert!(whole.len() > 1_000 && whole.is_sorted_by_key(|(address, _)| *address));
        let mut random = 1_u64;
        for _ in 0..200 {
            let mut damaged = section.get(..20_000).unwrap().to_vec();
            for _ in 0..20 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (random >> 33) as usize % damaged.len();
                damaged[at] = (random >> 20) as u8;
            }
            damaged.truncate((random >> 40) as usize % damaged.len() + 1);
            assert!(rows(&damaged, address).is_sorted_by_key(|(address, _)| *address));
        }
    }
}
