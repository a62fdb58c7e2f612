//! C's functions for mapped memory, which record what takes memory of the system.
//!
//! What counts is what the kernel counts as committed: pages that can be written to and that are not those of
//! a file, unless the program asks not to (`MAP_NORESERVE`). Other addresses are reserved: they count once
//! `mprotect` lets the program write to them. Private pages of files, and those of `MAP_NORESERVE`, take
//! memory as they are written: who has mapped them is recorded, but they do not count.
//!
//! An allocator also maps memory, which contains its blocks. So what is called from the library of the next
//! `malloc`, or by Rust's allocator, is no event. It is noted which pages these are, and which are the
//! tracker's.
//!
//! NOTE: a mapping is recorded after the system has made it, and a part that is given back before: as with
//! blocks, no other thread can get the addresses in between. Each of these events joins the
//! global clock, so they have one order.

/// Defines the functions in the program.
///
/// They are naked. The return address says who calls, and only at the first instruction of a function is it
/// where the processor has put it.
#[cfg(c_mmap)]
#[doc(hidden)]
#[macro_export]
macro_rules! __define_c_mmap {
    ($($name:ident)*) => {
        const _: () = { $($crate::__define_c_mapping! { $name })* };
    };
}

#[cfg(all(c_mmap, target_arch = "x86_64"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __define_c_mapping {
    ($name:ident) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            ::core::arch::naked_asm!(
                "mov rax, [rsp]",
                "mov r11, qword ptr [rip + {allocator}@GOTPCREL]",
                "sub rax, [r11]",
                "cmp rax, [r11 + 8]",
                "jb {next}@PLT",
                "jmp {recorded}@PLT",
                allocator = sym $crate::__private::c_malloc::mmap::ALLOCATOR,
                next = sym $crate::__private::c_malloc::mmap::of_allocator::$name,
                recorded = sym $crate::__private::c_malloc::mmap::recorded::$name,
            )
        }
    };
}

#[cfg(all(c_mmap, target_arch = "aarch64"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __define_c_mapping {
    ($name:ident) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            ::core::arch::naked_asm!(
                "adrp x16, :got:{allocator}",
                "ldr x16, [x16, :got_lo12:{allocator}]",
                "ldp x16, x17, [x16]",
                "sub x16, x30, x16",
                "cmp x16, x17",
                "b.lo 2f",
                "b {recorded}",
                "2:",
                "b {next}",
                allocator = sym $crate::__private::c_malloc::mmap::ALLOCATOR,
                next = sym $crate::__private::c_malloc::mmap::of_allocator::$name,
                recorded = sym $crate::__private::c_malloc::mmap::recorded::$name,
            )
        }
    };
}

#[cfg(not(c_mmap))]
#[doc(hidden)]
#[macro_export]
macro_rules! __define_c_mmap {
    ($($anything:tt)*) => {};
}

#[cfg(c_mmap)]
pub use crate::platform::os::next_malloc::{ALLOCATOR, mapped as next};

/// The functions, as the library of the next `malloc` calls them.
#[cfg(c_mmap)]
#[expect(unsafe_code, reason = "the functions of C")]
pub mod of_allocator {
    pub use super::next::{brk, mprotect, pthread_create, shmat, shmdt};
    use super::recorded;
    use crate::platform::os::next_malloc::in_allocator;
    use std::ffi::{c_int, c_void};

    macro_rules! noted {
        ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
            $(
                pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                    // SAFETY: the caller makes the promise of C's function.
                    in_allocator(|| unsafe { recorded::$name($($argument),*) })
                }
            )*
        };
    }
    noted! {
        mmap(address: *mut c_void, bytes: usize, access: c_int, flags: c_int, file: c_int, offset: i64) -> *mut c_void;
        munmap(address: *mut c_void, bytes: usize) -> c_int;
        mremap(address: *mut c_void, bytes: usize, new_bytes: usize, flags: c_int, new_address: *mut c_void) -> *mut c_void;
        sbrk(more: isize) -> *mut c_void;
    }
    pub use self::mmap as mmap64;
}

/// The functions, with an event each.
#[cfg(c_mmap)]
#[expect(unsafe_code, reason = "the functions of C")]
pub mod recorded {
    use super::next;
    use crate::alloc::events::MAPPED;
    use crate::alloc::hook::{self, Mode};
    use crate::alloc::record::Writer;
    use crate::alloc::stats;
    pub use crate::interpose::c_threads::pthread_create;
    #[cfg(preload)]
    pub use crate::interpose::c_threads::thrd_create;
    use crate::platform::os::next_malloc::is_in_allocator;
    use crate::platform::os::{self, Mappings, page_bytes, pages};
    use crate::scopes;
    use crate::stacks::capture::{self, Registers};
    use crate::stacks::tree::NO_STACK;
    use crate::trace::write::{self, SlowEntry, ThreadSlot, sync};
    use memledger_format::schema::mapping;
    use std::ffi::{c_int, c_void};

    /// The slot in which the calls of this thread are recorded; `None` if they are not.
    fn enter() -> Option<SlowEntry> {
        if hook::mode() == Mode::Off || not_of_program().is_some() {
            return None;
        }
        write::enter_cold()
    }

    /// Where the pages are noted that this thread maps now, if they are an allocator's or the tracker's.
    fn not_of_program() -> Option<&'static Mappings> {
        if is_in_allocator() {
            Some(&os::OF_ALLOCATORS)
        } else {
            write::is_untracked().then(os::own_mappings)
        }
    }

    /// Records what has happened to addresses, with the call stack of the function that this is inlined into.
    ///
    /// PERF: nothing here is fast. A system call takes longer.
    #[inline(always)]
    fn record(state: u8, address: usize, bytes: usize) {
        let at = Registers::here();
        if let Some(mappings) = not_of_program() {
            match state {
                mapping::FREED => mappings.remove(address, bytes),
                mapping::COMMITTED => {}
                _ => mappings.add(address, bytes),
            }
            return;
        }
        let Some(entry) = enter() else { return };
        let slot = entry.slot;
        let stack = match state {
            mapping::MAPPED | mapping::COMMITTED | mapping::LAZY => call_stack(slot, bytes, &at),
            _ => NO_STACK,
        };
        write(slot, state, address, bytes, MAPPED, stack);
        entry.leave();
    }

    /// The call stack at these registers, if the recording has call stacks.
    #[inline(always)]
    fn call_stack(slot: &ThreadSlot, bytes: usize, at: &Registers) -> u32 {
        match hook::mode() {
            Mode::WithStacks => capture::take(slot, bytes, at),
            Mode::Recorded | Mode::Off => NO_STACK,
        }
    }

    /// Writes an event, unless the recording has ended; returns whether it has not.
    #[inline(never)]
    fn write(
        slot: &ThreadSlot,
        state: u8,
        address: usize,
        bytes: usize,
        heap: u8,
        stack: u32,
    ) -> bool {
        // NOTE: as a block of a size that joins the global clock.
        if !sync::synchronize(slot, address, bytes.max(sync::WINDOW)) {
            return false;
        }
        // SAFETY: `enter` has checked the room, which includes a change of context and both halves of a move;
        // a new buffer that `synchronize` may have taken has the room, too.
        let mut writer = unsafe { Writer::new(scopes::switch(slot)) };
        writer.mapping(slot.stamp(), address, bytes, stack, heap, state);
        slot.commit(writer.end());
        true
    }

    /// The bytes of the pages that `bytes` are in.
    fn whole_pages(bytes: usize) -> usize {
        bytes.saturating_add(page_bytes() - 1) & !(page_bytes() - 1)
    }

    pub unsafe extern "C" fn mmap(
        address: *mut c_void,
        bytes: usize,
        access: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void {
        // SAFETY: the caller makes the promise of C's function, here and below.
        let pages = unsafe { next::mmap(address, bytes, access, flags, file, offset) };
        if pages == libc::MAP_FAILED {
            return pages;
        }
        let is_memory = flags & libc::MAP_ANONYMOUS != 0 || pages::is_in_memory(file);
        let can_write = access & libc::PROT_WRITE != 0;
        let is_private = flags & libc::MAP_TYPE == libc::MAP_PRIVATE;
        let state = match is_memory {
            true if !can_write => mapping::RESERVED,
            true if flags & libc::MAP_NORESERVE != 0 => mapping::LAZY,
            true => mapping::MAPPED,
            false if can_write && is_private => mapping::LAZY,
            false => mapping::FREED,
        };
        if state != mapping::MAPPED && not_of_program().is_none() {
            stats::note_mapped_beside(whole_pages(bytes));
        }
        // A file takes the place of what was at fixed addresses.
        if state != mapping::FREED || flags & libc::MAP_FIXED != 0 {
            record(state, pages.addr(), whole_pages(bytes));
        }
        pages
    }

    pub use mmap as mmap64;

    pub unsafe extern "C" fn munmap(address: *mut c_void, bytes: usize) -> c_int {
        let is_valid = address.addr().is_multiple_of(page_bytes()) && bytes > 0;
        if is_valid {
            record(mapping::FREED, address.addr(), whole_pages(bytes));
        }
        // SAFETY: as above.
        let result = unsafe { next::munmap(address, bytes) };
        // SAFETY: every thread has an `errno`.
        if is_valid && result != 0 && unsafe { *libc::__errno_location() } == libc::ENOMEM {
            // There are too many mappings to divide one: it is still there. Other errors are of addresses
            // that no mapping can have.
            record(mapping::MAPPED, address.addr(), whole_pages(bytes));
        }
        result
    }

    pub unsafe extern "C" fn mremap(
        address: *mut c_void,
        bytes: usize,
        new_bytes: usize,
        flags: c_int,
        new_address: *mut c_void,
    ) -> *mut c_void {
        let at = Registers::here();
        // SAFETY: as above.
        let remap = || unsafe { next::mremap(address, bytes, new_bytes, flags, new_address) };
        if flags & libc::MREMAP_DONTUNMAP != 0 {
            // Only what was written moves: both addresses are mapped then.
            let pages = remap();
            if pages != libc::MAP_FAILED {
                record(mapping::MAPPED, pages.addr(), whole_pages(new_bytes));
            }
            return pages;
        }
        // Without a size, it is a second mapping of shared memory, of which nothing is known here.
        if bytes == 0 || !address.addr().is_multiple_of(page_bytes()) {
            return remap();
        }
        if let Some(mappings) = not_of_program() {
            let pages = remap();
            if pages != libc::MAP_FAILED {
                mappings.remove(address.addr(), whole_pages(bytes));
                mappings.add(pages.addr(), whole_pages(new_bytes));
            }
            return pages;
        }
        let Some(entry) = enter() else { return remap() };
        let slot = entry.slot;
        let old_bytes = whole_pages(bytes);
        if !write(slot, mapping::MOVED_FROM, address.addr(), old_bytes, MAPPED, NO_STACK) {
            entry.leave();
            return remap();
        }
        write::pause_inside(slot);
        let pages = remap();
        write::resume_inside(slot);
        let (start, size) = if pages == libc::MAP_FAILED {
            (address.addr(), old_bytes)
        } else {
            (pages.addr(), whole_pages(new_bytes))
        };
        let stack = call_stack(slot, size, &at);
        write(slot, mapping::MOVED_TO, start, size, MAPPED, stack);
        entry.leave();
        pages
    }

    pub unsafe extern "C" fn mprotect(address: *mut c_void, bytes: usize, access: c_int) -> c_int {
        // SAFETY: as above.
        let result = unsafe { next::mprotect(address, bytes, access) };
        if result == 0 && access & libc::PROT_WRITE != 0 {
            record(mapping::COMMITTED, address.addr(), whole_pages(bytes));
        }
        result
    }

    pub unsafe extern "C" fn shmat(id: c_int, address: *const c_void, flags: c_int) -> *mut c_void {
        // SAFETY: as above.
        let pages = unsafe { next::shmat(id, address, flags) };
        if pages != libc::MAP_FAILED {
            let can_write = flags & libc::SHM_RDONLY == 0;
            let state = if can_write { mapping::MAPPED } else { mapping::RESERVED };
            record(state, pages.addr(), whole_pages(pages::segment_bytes(id)));
        }
        pages
    }

    pub unsafe extern "C" fn shmdt(address: *const c_void) -> c_int {
        // Without a size, all of it is given back.
        record(mapping::FREED, address.addr(), 0);
        // SAFETY: as above.
        unsafe { next::shmdt(address) }
    }

    pub unsafe extern "C" fn sbrk(more: isize) -> *mut c_void {
        if more < 0 {
            // SAFETY: as above.
            let end = unsafe { next::sbrk(0) }.addr();
            record(mapping::FREED, end.wrapping_add_signed(more), more.unsigned_abs());
        }
        // SAFETY: as above.
        let start = unsafe { next::sbrk(more) };
        if more > 0 && start != libc::MAP_FAILED {
            record(mapping::MAPPED, start.addr(), more.unsigned_abs());
        }
        start
    }

    pub unsafe extern "C" fn brk(end: *mut c_void) -> c_int {
        // SAFETY: as above.
        let before = unsafe { next::sbrk(0) };
        if end < before {
            record(mapping::FREED, end.addr(), before.addr() - end.addr());
        }
        // SAFETY: as above.
        let result = unsafe { next::brk(end) };
        if result == 0 && end > before {
            record(mapping::MAPPED, before.addr(), end.addr() - before.addr());
        }
        result
    }
}
