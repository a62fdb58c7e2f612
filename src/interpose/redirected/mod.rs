//! Functions of allocators that lead here: those that are in the program itself, and those that only an
//! allocator has.
//!
//! ```text
//! program ──► function ──► its own code ──► [`stub`] ──► `before` ──► the moved instructions ──► the rest
//!             (a jump)     (the call)          ▲                                                    │
//!                                              └───────────────────── `after` ◄─────────────────────┘
//! ```
//! [`finding`] finds the functions by their names ([`roles`](super::roles)) and redirects them, before the
//! program's own code runs.
//!
//! The stub keeps the arguments on its stack. An exception passes its frame, which has nothing to clean
//! up: its personality routine only notes that the call has ended. A call within a call of the same
//! allocator is part of the outer one.
//!
//! The library of `preload/` is linked with `-z initfirst`, so this runs before the first function of
//! any other library. In a library that is opened later, functions are redirected before `dlopen`
//! returns.
#![expect(unsafe_code, reason = "calls functions of allocators")]

mod finding;
mod renamed;

pub(crate) use finding::{Opening, Outcome, begin, found, maps_unseen, outcome, outcome_within};

use super::roles::{Align, Kind, Role};
use super::sizes;
use crate::alloc::events::C;
use crate::alloc::hook::{self, FreeMode, Mode};
use crate::alloc::own_blocks;
use crate::platform::os::next_malloc::{self, MIN_ALIGN, Running};
use crate::stacks::capture::{self, Registers};
use crate::stacks::tree::NO_STACK;
use std::alloc::{GlobalAlloc, Layout};
use std::arch::naked_asm;
use std::cell::Cell;
use std::mem::transmute;
use std::ptr;

/// The most arguments that a function has here. All are passed on, also those that it does not have.
const ARGUMENTS: usize = 6;

type Function = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> usize;
type UsableSize = unsafe extern "C" fn(*mut u8) -> usize;

/// A function that leads here.
pub(crate) struct Redirected {
    /// The instructions that were moved, with a jump to the rest of the function.
    original: usize,
    role: Role,
    /// The function of the same allocator that says how many bytes of a block can be used.
    usable_size: Option<UsableSize>,
}

impl Redirected {
    /// `usable_size` is the address of that function.
    fn new(original: usize, role: Role, usable_size: Option<usize>) -> Self {
        let usable_size = usable_size.map(|address| {
            let function = ptr::with_exposed_provenance::<()>(address);
            // SAFETY: the function of this name has this type.
            unsafe { transmute::<*const (), UsableSize>(function) }
        });
        Self { original, role, usable_size }
    }
}

/// A call of such a function, on the stack of [`stub`], which has its layout.
#[repr(C)]
struct Call {
    function: &'static Redirected,
    /// An address in the stub.
    address: usize,
    part: Part,
    /// What ran before.
    before: Running,
    /// The stack pointer is a multiple of 16 at a call.
    padding: usize,
    arguments: [usize; ARGUMENTS],
    rbp: usize,
    return_address: usize,
}

/// What a call is to the recording.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Not recorded.
    None,
    /// A part of another call.
    Inner,
    Outer,
}

const _: () = {
    assert!(size_of::<Call>() == 112, "the stub has these bytes");
    assert!(std::mem::offset_of!(Call, address) == 8);
    assert!(std::mem::offset_of!(Call, arguments) == 48);
    assert!(std::mem::offset_of!(Call, rbp) == 96);
};

/// Where redirected functions lead. The register `r11`, which no caller keeps, has the [`Redirected`].
#[unsafe(naked)]
#[unsafe(link_section = "memledger_calls")]
unsafe extern "C" fn stub() {
    naked_asm!(
        ".cfi_startproc",
        // `DW_EH_PE_pcrel | DW_EH_PE_sdata4`
        ".cfi_personality 0x1b, {unwound}",
        "endbr64",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, 96",
        "mov [rsp], r11",
        "mov [rsp + 48], rdi",
        "mov [rsp + 56], rsi",
        "mov [rsp + 64], rdx",
        "mov [rsp + 72], rcx",
        "mov [rsp + 80], r8",
        "mov [rsp + 88], r9",
        "lea rax, [rip + 2f]",
        "mov [rsp + 8], rax",
        "mov rdi, rsp",
        "call {before}",
        "2:",
        "test rax, rax",
        "je 3f",
        "mov rdi, [rsp + 48]",
        "mov rsi, [rsp + 56]",
        "mov rdx, [rsp + 64]",
        "mov rcx, [rsp + 72]",
        "mov r8, [rsp + 80]",
        "mov r9, [rsp + 88]",
        "call rax",
        "mov rdi, rsp",
        "mov rsi, rax",
        "call {after}",
        "jmp 4f",
        "3:",
        "mov rax, [rsp + 48]",
        "4:",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        before = sym before,
        after = sym after,
        unwound = sym unwound,
    )
}

/// An exception goes through [`stub`], in the innermost call that has not returned: that ends ("Itanium C++
/// ABI: Exception Handling", 1.6.3, `__personality_routine`).
unsafe extern "C" fn unwound(_: i32, actions: i32, _: u64, _: *const (), _: *const ()) -> i32 {
    const CLEANUP_PHASE: i32 = 2;
    const CONTINUE_UNWIND: i32 = 8;
    if actions & CLEANUP_PHASE != 0
        && let Some(running) = next_malloc::running()
        && let now = running.get()
        && now.is_call()
    {
        running.set(match now.inner.checked_sub(1) {
            Some(inner) => Running { inner, ..now },
            // SAFETY: where a call of the stub runs, it is at this address.
            None => unsafe { (*ptr::with_exposed_provenance::<Call>(now.frame)).before },
        });
    }
    CONTINUE_UNWIND
}

/// *Hook.* What is to be called; null if that was done, and its result is the first argument.
unsafe extern "C" fn before(call: &mut Call) -> *const () {
    let original = ptr::without_provenance(call.function.original);
    call.part = Part::None;
    let Some(running) = next_malloc::running() else { return original };
    let now = running.get();
    if next_malloc::is_inner(call.return_address) {
        call.part = Part::Inner;
        running.set(Running { inner: now.inner + 1, ..now });
        return original;
    }
    call.part = Part::Outer;
    call.before = now;
    running.set(Running { frame: ptr::from_mut(call).expose_provenance(), inner: 0 });
    if hook::mode() == Mode::Off || matches!(call.function.role.kind, Kind::Allocate | Kind::Copy) {
        return original;
    }
    call.arguments[0] = call.run();
    running.set(now);
    ptr::null()
}

/// *Hook.* What the function returns, which has returned this.
unsafe extern "C" fn after(call: &mut Call, result: usize) -> usize {
    let Some(running) = next_malloc::running() else { return result };
    match call.part {
        Part::None => {}
        Part::Inner => {
            let now = running.get();
            running.set(Running { inner: now.inner.saturating_sub(1), ..now });
        }
        Part::Outer => {
            running.set(call.before);
            let block = ptr::with_exposed_provenance_mut::<u8>(result);
            match call.function.role.kind {
                Kind::Allocate => call.record(block, call.size()),
                Kind::Copy if !block.is_null() => {
                    call.record(block, call.usable_size(block));
                }
                // The recording is off.
                _ => {}
            }
        }
    }
    result
}

impl Call {
    /// The size that the program asks for.
    fn size(&self) -> usize {
        let Role { size, count, .. } = self.function.role;
        let count = count.map_or(1, |count| self.arguments[count]);
        // NOTE: where the product is too large, no block is returned.
        self.arguments[size].wrapping_mul(count)
    }

    fn align(&self) -> usize {
        let align = match self.function.role.align {
            Align::Least => MIN_ALIGN,
            Align::Argument(at) => self.arguments[at],
            // `MALLOCX_LG_ALIGN`: 0 is the least.
            Align::Flags(at) => match self.arguments[at] & 63 {
                0 => MIN_ALIGN,
                power => 1 << power,
            },
        };
        if align.is_power_of_two() { align } else { MIN_ALIGN }
    }

    /// The bytes of a live block that can be used; 1 for a small one whose size is not known.
    fn usable_size(&self, block: *mut u8) -> usize {
        match self.function.usable_size {
            // SAFETY: a block that the function takes or has returned is one of its allocator.
            Some(function) => unsafe { function(block) },
            None => sizes::of(block).unwrap_or(1),
        }
    }

    fn layout_of(&self, block: *mut u8) -> Layout {
        // SAFETY: no block is as large as half of all addresses.
        unsafe { Layout::from_size_align_unchecked(self.usable_size(block), 1) }
    }

    /// The registers in the stub, whose caller's frame is the first of a stack.
    fn registers(&self) -> Registers {
        Registers::at(self.address, ptr::from_ref(self).addr(), (&raw const self.rbp).addr())
    }

    /// Records a block that was just allocated, or the failure to do so.
    fn record(&self, block: *mut u8, size: usize) {
        let mode = hook::mode();
        if mode == Mode::Off {
            return;
        }
        if block.is_null() {
            hook::failed(size);
            return;
        }
        if self.function.usable_size.is_none() {
            sizes::add(block, size);
        }
        // SAFETY: the block exists, so it is smaller than half of all addresses.
        let layout = unsafe { Layout::from_size_align_unchecked(size, self.align()) };
        match mode {
            Mode::Off => {}
            Mode::Recorded => hook::allocated_in::<C>(block, layout, |_| NO_STACK),
            Mode::WithStacks => {
                let at = self.registers();
                hook::allocated_in::<C>(block, layout, |slot| capture::take(slot, size, &at));
            }
        }
    }

    /// Calls the function, with what the program calls it with.
    #[inline(never)]
    #[unsafe(link_section = "memledger_calls")]
    fn original(&self) -> usize {
        let [a, b, c, d, e, f] = self.arguments;
        let original = ptr::with_exposed_provenance::<()>(self.function.original);
        // SAFETY: integers and addresses are passed in the same registers. The program makes the function's
        // promises: only its call makes such a value.
        let result = unsafe { transmute::<*const (), Function>(original)(a, b, c, d, e, f) };
        // NOTE: no tail call, for the return address is what says where a call is from.
        std::hint::black_box(result)
    }

    /// Calls a function that does not throw, and records it; returns its result.
    fn run(&self) -> usize {
        let Role { kind, block, .. } = self.function.role;
        let block = ptr::with_exposed_provenance_mut::<u8>(self.arguments[block]);
        match kind {
            Kind::Allocate | Kind::Copy => self.original(),
            Kind::Store => {
                let result = self.original();
                let block = match result {
                    // SAFETY: the first argument is where the function has stored the block.
                    0 => unsafe { block.cast::<*mut u8>().read() },
                    _ => ptr::null_mut(),
                };
                self.record(block, self.size());
                result
            }
            Kind::Free if block.is_null() => self.original(),
            Kind::Free => self.free(block, self.layout_of(block)),
            Kind::Reallocate | Kind::ReallocateOrFree | Kind::Resize if block.is_null() => {
                let result = self.original();
                self.record(ptr::with_exposed_provenance_mut(result), self.size());
                result
            }
            Kind::Reallocate | Kind::ReallocateOrFree | Kind::Resize => self.reallocate(block),
        }
    }

    fn free(&self, block: *mut u8, layout: Layout) -> usize {
        if own_blocks::remove(block) {
            return self.original();
        }
        if self.function.usable_size.is_none() {
            sizes::remove(block);
        }
        let original = Original { call: self, result: Cell::new(0) };
        match hook::free_mode() {
            FreeMode::Off => return self.original(),
            // SAFETY: the program has a live block.
            FreeMode::Recorded => unsafe { hook::free::<_, false, C>(&original, block, layout) },
            // SAFETY: the program has a live block.
            FreeMode::WithScope => unsafe { hook::free::<_, true, C>(&original, block, layout) },
        }
        original.result.get()
    }

    fn reallocate(&self, block: *mut u8) -> usize {
        let kind = self.function.role.kind;
        let size = self.size();
        if own_blocks::remove(block) {
            let result = self.original();
            self.record(ptr::with_exposed_provenance_mut(result), size);
            return result;
        }
        let layout = self.layout_of(block);
        if size == 0 && kind != Kind::Resize {
            // Some allocators free the block, others return one: a free and, if there is a block then, an
            // allocation.
            let result = self.free(block, layout);
            if result != 0 {
                self.record(ptr::with_exposed_provenance_mut(result), 0);
            }
            return result;
        }
        let original = Original { call: self, result: Cell::new(0) };
        let at = self.registers();
        let new = match hook::mode() {
            Mode::Off => return self.original(),
            // SAFETY: the program has a live block.
            Mode::Recorded => unsafe { hook::realloc::<_, C>(&original, block, layout, size) },
            // SAFETY: the program has a live block.
            Mode::WithStacks => unsafe {
                hook::realloc_with_stack::<_, C>(&original, block, layout, size, &at)
            },
        };
        if !new.is_null() && self.function.usable_size.is_none() {
            sizes::remove(block);
            sizes::add(new, size);
        }
        if new.is_null() && kind != Kind::Resize {
            hook::failed(size);
            if kind == Kind::ReallocateOrFree {
                // SAFETY: the function has freed the block; nothing is called.
                unsafe { hook::free::<_, false, C>(&Gone, block, layout) };
            }
        }
        original.result.get()
    }
}

/// The function, as the hook calls it.
struct Original<'a> {
    call: &'a Call,
    result: Cell<usize>,
}

// SAFETY: forwards to a function that is called with a live block. Nothing is allocated.
unsafe impl GlobalAlloc for Original<'_> {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {
        self.result.set(self.call.original());
    }

    unsafe fn realloc(&self, block: *mut u8, _: Layout, size: usize) -> *mut u8 {
        let result = self.call.original();
        self.result.set(result);
        match self.call.function.role.kind {
            Kind::Resize if result < size => ptr::null_mut(),
            Kind::Resize => block,
            _ => ptr::with_exposed_provenance_mut(result),
        }
    }
}

/// Where the block is freed already.
struct Gone;

// SAFETY: nothing is called.
unsafe impl GlobalAlloc for Gone {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
