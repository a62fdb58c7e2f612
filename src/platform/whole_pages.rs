//! Values in pages of memory of their own.

use super::os::SMALLEST_PAGE;
use std::ops::Deref;

/// The largest page that the tracker is built for, in bytes. x86-64 has one size of pages, AArch64 has three,
/// and the system chooses. The build with `cfg(memledger_large_pages)` is for tests.
pub(crate) const LARGEST_PAGE: usize = align_of::<WholePages<()>>();

/// A value in whole pages, which have nothing else.
#[cfg_attr(all(target_arch = "x86_64", not(memledger_large_pages)), repr(C, align(4096)))]
#[cfg_attr(not(all(target_arch = "x86_64", not(memledger_large_pages))), repr(C, align(65536)))]
pub(crate) struct WholePages<T>(T);

/// Aligns what contains it to the least bytes that a page has ([`SMALLEST_PAGE`]), and has no size itself.
#[cfg_attr(not(wasm), repr(align(4096)))]
#[cfg_attr(wasm, repr(align(65536)))]
pub(crate) struct PageAligned;

const _: () = assert!(align_of::<PageAligned>() == SMALLEST_PAGE);

impl<T> WholePages<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for WholePages<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
