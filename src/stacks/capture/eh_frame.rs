//! From the unwind information of a file (`.eh_frame`) to a table of rules.
//!
//! Outside the hook: [`gimli`] parses the section, and nothing of it is needed afterwards.
//! Sources: the x86-64 psABI, section 3.7, and the Linux Standard Base, sections 10.6 and 10.7.

use super::rule::{Cfa, Packed, Rbp, Resumer, Rule};
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, Operation,
    Pointer, RegisterRule, UnwindContext, UnwindExpression, UnwindSection, UnwindTableRow, X86_64,
};
use std::ops::Range;

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
    let section = EhFrame::new(section, LittleEndian);
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
                    if let Some(push_end) = self.linkage_table(row) {
                        self.add_linkage_table(row.start_address(), reached, push_end);
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
        sort(self.rows)
    }

    /// Whether the frame is what the kernel leaves for a signal handler to return to: then the
    /// instruction pointer is 168 bytes above the stack pointer. Coroutine libraries mark other
    /// functions as frames of signals, too.
    fn is_return_to_kernel(&self, row: &UnwindTableRow<usize>) -> bool {
        let Some(RegisterRule::Expression(expression)) = row.register(X86_64::RA) else {
            return false;
        };
        let Ok(expression) = expression.get(&self.section) else { return false };
        matches!(
            expression.operations(ENCODING).next(),
            Ok(Some(Operation::RegisterOffset { register: X86_64::RSP, offset: 168, .. }))
        )
    }

    /// If the row is that of a procedure linkage table, the offset in an entry after its push.
    /// Linkers say for the whole table: the CFA is `rsp + 8`, and 8 more in the part of each 16
    /// bytes that is after the push. A signal can interrupt it.
    fn linkage_table(&self, row: &UnwindTableRow<usize>) -> Option<u64> {
        // breg7 (rsp) 8, breg16 (rip) 0, lit15, and, litN, ge, lit3, shl, plus
        let CfaRule::Expression(expression) = row.cfa() else { return None };
        match *expression.get(&self.section).ok()?.0.slice() {
            [0x77, 8, 0x80, 0, 0x3f, 0x1a, push_end @ 0x30..=0x3f, 0x2a, 0x33, 0x24, 0x22] => {
                Some(u64::from(push_end - 0x30))
            }
            _ => None,
        }
    }

    /// Adds two rows for each entry of a procedure linkage table.
    fn add_linkage_table(&mut self, start: u64, end: u64, push_end: u64) {
        const ENTRY: u64 = 16;
        let rule = |distance| Packed::new(Rule::Call { cfa: Cfa::Rsp(distance), rbp: Rbp::Kept });
        let entries = end.saturating_sub(start).div_ceil(ENTRY);
        // NOTE: a damaged section may claim tables of any size.
        if !start.is_multiple_of(ENTRY) || entries > self.linkage_entries_left {
            return self.rows.push((start, Packed::new(Rule::None)));
        }
        self.linkage_entries_left -= entries;
        for entry in (start..end).step_by(ENTRY as usize) {
            self.rows.push((entry, rule(8)));
            if end - entry > push_end {
                self.rows.push((entry + push_end, rule(16)));
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
            Some(Operation::RegisterOffset { register: X86_64::RBP, offset: link, .. }),
            Some(Operation::Deref { size: 8, space: false, .. }),
            Some(Operation::PlusConstant { value: plus }),
            None,
        ) = (next(), next(), next(), next())
        else {
            return None;
        };
        let Some(RegisterRule::Offset(return_address)) = row.register(X86_64::RA) else {
            return None;
        };
        let Some(RegisterRule::Offset(rbp)) = row.register(X86_64::RBP) else { return None };
        let rsp = i64::try_from(plus).ok()?;
        let resumer = Resumer {
            rsp: rsp.try_into().ok()?,
            return_address: rsp.checked_add(return_address)?.try_into().ok()?,
            rbp: rsp.checked_add(rbp)?.try_into().ok()?,
        };
        Some(Rule::Coroutine { link: link.try_into().ok()?, resumer })
    }

    fn rule(&self, row: &UnwindTableRow<usize>) -> Rule {
        if let Some(coroutine) = self.coroutine(row) {
            return coroutine;
        }
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

/// Sorts the rows by address. Where one function ends and another or data begins, the beginning counts.
fn sort(mut rows: Vec<(u64, Packed)>) -> Vec<(u64, Packed)> {
    let (between, none) = (Packed::new(Rule::FramePointer), Packed::new(Rule::None));
    rows.sort_by_key(|(address, rule)| (*address, *rule != between, *rule != none));
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

    // A function that the assembler marks as one that signal handlers return to, although it is
    // none: the first frame of a coroutine's stack in `corosensei` looks like this.
    std::arch::global_asm!(
        "memledger_test_marked_as_signal:",
        ".cfi_startproc",
        ".cfi_signal_frame",
        ".cfi_def_cfa_offset 64",
        ".cfi_offset rbp, -24",
        ".skip 16, 0x90",
        ".cfi_endproc",
        // Entries of a procedure linkage table, with what linkers say of them.
        ".balign 16",
        "memledger_test_plt:",
        ".cfi_startproc",
        ".cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22",
        ".skip 48, 0x90",
        ".cfi_endproc",
    );

    unsafe extern "C" {
        static memledger_test_marked_as_signal: u8;
        static memledger_test_plt: u8;
    }

    /// The rules of the module with this path, each at the address where it begins in memory.
    fn rows_of(is_wanted: impl Fn(&str) -> bool) -> Vec<(u64, Rule)> {
        let memory = Memory::open().unwrap();
        let (files, _) = loaded_files(&memory, |_, _| false).unwrap();
        let file = files.iter().find(|file| is_wanted(&file.path)).unwrap();
        let (section, address) = unwind_section(&memory, file).unwrap();
        let rows = rows(&section, address, &[]).into_iter();
        let in_memory = |address: u64| address.wrapping_sub(file.linked_base) + file.base;
        rows.map(|(address, rule)| (in_memory(address), rule.rule())).collect()
    }

    fn at(rows: &[(u64, Rule)], address: u64) -> Rule {
        rows[rows.partition_point(|(start, _)| *start <= address) - 1].1
    }

    #[test]
    fn only_the_form_of_the_kernels_frame_makes_a_signal_frame() {
        let program = std::env::current_exe().unwrap();
        let own = rows_of(|path| *path == *program.to_string_lossy());
        let marked = (&raw const memledger_test_marked_as_signal).addr() as u64;
        let rule = Rule::Call { cfa: Cfa::Rsp(64), rbp: Rbp::FromCfa(-24) };
        assert_eq!(at(&own, marked + 1), rule);
        let libc = rows_of(|path| path.contains("libc.so"));
        assert_eq!(libc.iter().filter(|(_, rule)| *rule == Rule::Signal).count(), 1);
    }

    #[test]
    fn an_entry_of_a_procedure_linkage_table_has_two_rules() {
        let program = std::env::current_exe().unwrap();
        let own = rows_of(|path| *path == *program.to_string_lossy());
        let plt = (&raw const memledger_test_plt).addr() as u64;
        for (offset, distance) in [(0, 8), (10, 8), (11, 16), (15, 16), (16, 8), (42, 8), (43, 16)]
        {
            let rule = Rule::Call { cfa: Cfa::Rsp(distance), rbp: Rbp::Kept };
            assert_eq!(at(&own, plt + offset), rule, "{offset}");
        }
    }

    /// Whatever a section holds, its rows are in the order of addresses.
    #[test]
    fn damaged_unwind_information_gives_rows_in_order() {
        let memory = Memory::open().unwrap();
        let (files, _) = loaded_files(&memory, |_, _| false).unwrap();
        let libc = files.iter().find(|file| file.path.contains("libc.so")).unwrap();
        let (section, address) = unwind_section(&memory, libc).unwrap();
        let whole = rows(&section, address, &[]);
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
            assert!(rows(&damaged, address, &[]).is_sorted_by_key(|(address, _)| *address));
        }
    }
}
