//! Functions that are inlined into others, for a PDB file.
#![no_std]
#![no_main]
use core::hint::black_box;
use core::panic::PanicInfo;

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    loop {}
}

#[inline(always)]
fn innermost(value: u32) -> u32 {
    black_box(value) + 1
}

#[inline(always)]
fn inlined(value: u32) -> u32 {
    let first = innermost(value);
    black_box(first) * 3
}

struct Pair<T>(T, T);

impl Pair<u32> {
    #[inline(never)]
    fn sum(&self) -> u32 {
        black_box(self.0)
            + inlined(self.1)
    }
}

#[inline(never)]
fn outer(value: u32) -> u32 {
    let pair = Pair(value, black_box(value));
    pair.sum()
        + inlined(value)
}

#[unsafe(no_mangle)]
extern "system" fn start() -> u32 {
    outer(black_box(7))
}
