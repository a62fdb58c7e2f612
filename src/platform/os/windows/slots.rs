//! The slots that the system keeps for each thread. The first 64 are in the thread's own block (the "TEB",
//! `TlsSlots` of `winternl.h`), so to find what is in one takes a few instructions.

use std::ffi::c_void;
use std::ptr;
use windows_sys::Win32::System::Threading::{
    TLS_OUT_OF_INDEXES, TlsAlloc, TlsFree, TlsGetValue, TlsSetValue,
};

/// The number of no slot.
pub(in crate::platform::os) const NONE: u32 = u32::MAX;

/// A new slot. The system takes nothing out of it at the end of a thread, so `_keep` is not called.
pub(in crate::platform::os) fn take(_keep: extern "C" fn(*mut c_void)) -> Option<u32> {
    // SAFETY: takes a number, here and below.
    let new = unsafe { TlsAlloc() };
    (new != TLS_OUT_OF_INDEXES).then_some(new)
}

/// Gives back a slot that nothing uses.
pub(in crate::platform::os) fn give_back(slot: u32) {
    // SAFETY: as above.
    unsafe { TlsFree(slot) };
}

/// What a slot has for this thread; null for nothing.
pub(in crate::platform::os) fn value(slot: u32) -> *mut u8 {
    // SAFETY: as above.
    unsafe { TlsGetValue(slot) }.cast()
}

pub(in crate::platform::os) fn set_value(slot: u32, value: *const u8) -> bool {
    // SAFETY: the value is not dereferenced.
    unsafe { TlsSetValue(slot, value.cast()) != 0 }
}

/// The address in a slot, if it is one of the first 64 and has one.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(in crate::platform::os) fn find(slot: u32) -> *const u8 {
    /// Where a thread's block has its slots, and how many.
    const SLOTS: usize = 0x1480;
    const COUNT: u32 = 64;
    if slot >= COUNT {
        return ptr::null();
    }
    let found: *const u8;
    // SAFETY: reads a word of the block that every thread has.
    unsafe {
        std::arch::asm!("mov {}, gs:[{} + 8 * {}]", out(reg) found, const SLOTS, in(reg) u64::from(slot),
            options(pure, readonly, nostack, preserves_flags));
    }
    found
}

/// Elsewhere the system's function is asked each time.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(in crate::platform::os) fn find(_slot: u32) -> *const u8 {
    ptr::null()
}
