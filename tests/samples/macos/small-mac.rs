//! Functions that are inlined into others, for a file of macOS.
#![no_std]
#![no_main]
use core::hint::black_box;
use core::panic::PanicInfo;

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    loop {}
}

#[inline(always)]
fn inlined(value: u32) -> u32 {
    black_box(value) * 3
}

#[inline(never)]
fn outer(value: u32) -> u32 {
    let first = black_box(value);
    first
        + inlined(value)
}

#[unsafe(no_mangle)]
extern "C" fn start() -> u32 {
    outer(black_box(7))
}
