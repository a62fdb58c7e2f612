//! What `.eh_frame` says in terms of this processor.

use super::super::rule::{Cfa, Fp, Rule};
use super::Ra;
use gimli::{Operation, Reader, Register, RegisterRule, Vendor, X86_64};

pub(in super::super) const VENDOR: Vendor = Vendor::Default;
pub(in super::super) const SP: Register = X86_64::RSP;
pub(in super::super) const FP: Register = X86_64::RBP;
pub(in super::super) const RETURN_ADDRESS: Register = X86_64::RA;

/// Whether unwind information that begins with this operation, for the return address, is that of the code to
/// which signal handlers return: the instruction pointer is then 168 bytes above the stack pointer.
pub(in super::super) fn is_saved_by_kernel<R: Reader>(operation: &Operation<R>) -> bool {
    matches!(operation, Operation::RegisterOffset { register: X86_64::RSP, offset: 168, .. })
}

/// On x86-64, gimli knows all letters of a CIE's augmentation.
pub(in super::super) fn replace_unknown_augmentations(_: &mut [u8]) {}

/// Where the return address is, by the unwind information.
pub(in super::super) fn return_address(rule: Option<RegisterRule<usize>>) -> Result<Ra, Rule> {
    match rule {
        Some(RegisterRule::Offset(-8)) => Ok(Ra),
        None | Some(RegisterRule::Undefined) => Err(Rule::Outermost),
        Some(_) => Err(Rule::None),
    }
}

/// The bytes of an entry of a procedure linkage table.
pub(in super::super) const LINKAGE_ENTRY: u64 = 16;

/// If this is the CFA of a procedure linkage table: where in an entry which rule begins.
/// Linkers say for the whole table: the CFA is `rsp + 8`, and 8 more in the part of each 16
/// bytes that is after the push. A signal can interrupt it.
pub(in super::super) fn linkage_table(expression: &[u8]) -> Option<[(u64, Rule); 2]> {
    let rule = |distance| Rule::Call { cfa: Cfa::Sp(distance), ra: Ra, fp: Fp::Kept };
    // breg7 (rsp) 8, breg16 (rip) 0, lit15, and, litN, ge, lit3, shl, plus
    match *expression {
        [0x77, 8, 0x80, 0, 0x3f, 0x1a, push_end @ 0x30..=0x3f, 0x2a, 0x33, 0x24, 0x22] => {
            Some([(0, rule(8)), (u64::from(push_end - 0x30), rule(16))])
        }
        _ => None,
    }
}
