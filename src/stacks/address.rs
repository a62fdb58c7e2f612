//! The addresses of code that stacks have.

/// The number of lower bits that are 0 in the address of each instruction.
pub(crate) const ALIGNMENT_BITS: u32 = if cfg!(target_arch = "aarch64") { 2 } else { 0 };

/// The number of bits of a compact address of a program: of 47 bits on x86-64, and of 48 on ARM.
pub(crate) const ADDRESS_BITS: u32 = 47;

/// The compact form of an address, without the bits that are always 0. If they are not 0, they are the
/// highest bits, so an address that is none of an instruction stays another one.
#[inline(always)]
pub(crate) fn compact(address: u64) -> u64 {
    address.rotate_right(ALIGNMENT_BITS)
}

/// The address of a compact form.
#[inline(always)]
pub(crate) fn expand(compact: u64) -> u64 {
    compact.rotate_left(ALIGNMENT_BITS)
}
