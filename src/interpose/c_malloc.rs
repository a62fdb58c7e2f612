//! The functions of `malloc`, which record each call and forward it to the next library's.
//!
//! [`track_c_malloc!`](crate::track_c_malloc) defines them in the program, because only the program's
//! own definitions hide those of libraries.
//!
//! Where a library other than glibc defines the next functions, a flag of the thread says that they
//! run. A call that comes from such a library meanwhile is passed on unrecorded: it is part of the call
//! that runs.
//!
//! In the analyzer, the heap is part of the context, so every row can be divided by it, and a trace
//! with one heap costs nothing more.

/// Records the memory of `malloc`, as a heap of its own that reports call "C", and that of `mmap`, as
/// "Mapped".
///
/// Written once in a program, outside functions, it defines `malloc`, `calloc`, `realloc`,
/// `reallocarray`, `free`, `posix_memalign`, `aligned_alloc`, `memalign`, `valloc` and `pvalloc` in
/// the program. The dynamic loader then binds every library's calls to them, those of the C library
/// (`strdup`, `getline`, `fopen`) and of C++ (`new`) included. Each call is recorded with its size,
/// scope, tag, call stack and thread, and forwarded to the allocator that the program would have
/// without the macro: that of glibc, or of a library that replaces it.
///
/// ```
/// use memledger::TrackingAllocator;
///
/// #[global_allocator]
/// static ALLOC: TrackingAllocator = TrackingAllocator::system();
/// memledger::track_c_malloc!();
///
/// fn main() {}
/// ```
///
/// On x86-64 and AArch64 it also defines `mmap`, `munmap`, `mremap`, `mprotect`, `brk`, `sbrk`, `shmat` and
/// `shmdt`: what the program maps from the system itself is a heap that reports call "Mapped". It has pages
/// that are not those of a file and that the program may write to, unless it maps them with `MAP_NORESERVE`:
/// what Linux counts as committed. Parts can be unmapped and moved. What an allocator maps for its blocks is
/// not recorded. `pthread_create` is defined, too: it counts threads, so that the last one can end the
/// process.
///
/// Last, it defines the functions that change the user, the groups and the namespaces of a process, for
/// which the tracker's threads end for a moment: see [`without_threads`](crate::without_threads); and, on
/// x86-64, `prctl` and `syscall`, to know of a filter of system calls that the program asks for.
///
/// Rust's own memory is in the heap "Rust", also where `System` gets it from `malloc`: no block is
/// recorded twice. A block that one language allocates and the other frees, which is an error in any
/// program, is live at the end in the heap of its allocation.
///
/// # Costs
/// An event of C has 18 to 23 bytes, where one of Rust has 13 to 22. A free and a reallocation also ask
/// `malloc_usable_size` for the size. An allocation and its free execute some 46 instructions more than
/// in Rust. Rust's own events cost what they cost without the feature if the allocator below is `System`;
/// with another one, each call also sets and clears a flag of its thread. An event of a mapping has 27
/// bytes and takes less time than the system call.
///
/// # Limits
/// - It needs glibc on 64-bit Linux; elsewhere the macro expands to nothing.
/// - In a static program (`target-feature=+crt-static`), glibc defines `malloc`, too. The linker takes the
///   program's definition, which comes first, with `println!("cargo::rustc-link-arg-bins=-Wl,-z,muldefs")` in
///   the program's build script.
/// - A program whose own code, or a static library in it, defines `malloc` already cannot have another:
///   the linker says so.
/// - In a `cdylib` that is loaded with `dlopen`, the program's `malloc` stays the one that is called.
/// - In a static program, the functions that change the user are glibc's; `without_threads` is for these.
/// - If a reallocation fails, the block counts from then on with the bytes that the program may use
///   (`malloc_usable_size`), which are at least those that it asked for.
#[macro_export]
macro_rules! track_c_malloc {
    () => {
        $crate::__c_malloc_functions! { $crate::__define_c_malloc }
        $crate::__define_c_identity! {
            setuid(id: u32);
            setgid(id: u32);
            seteuid(id: u32);
            setegid(id: u32);
            setreuid(real: u32, effective: u32);
            setregid(real: u32, effective: u32);
            setresuid(real: u32, effective: u32, saved: u32);
            setresgid(real: u32, effective: u32, saved: u32);
            setgroups(count: usize, groups: *const u32);
            initgroups(user: *const ::core::ffi::c_char, group: u32);
            unshare(flags: i32);
            setns(file: i32, kinds: i32);
        }
        $crate::__define_c_filter! {}
        $crate::__define_c_mmap! { mmap mmap64 munmap mremap mprotect brk sbrk shmat shmdt pthread_create }
    };
}

/// The functions of `malloc`, for another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __c_malloc_functions {
    ($($macro:tt)*) => {
        $($macro)*! {
            malloc(size: usize) -> *mut u8;
            calloc(count: usize, size: usize) -> *mut u8;
            realloc(block: *mut u8, size: usize) -> *mut u8;
            reallocarray(block: *mut u8, count: usize, size: usize) -> *mut u8;
            free(block: *mut u8) -> ();
            free_sized(block: *mut u8, size: usize) -> ();
            free_aligned_sized(block: *mut u8, align: usize, size: usize) -> ();
            posix_memalign(block: *mut *mut u8, align: usize, size: usize) -> i32;
            aligned_alloc(align: usize, size: usize) -> *mut u8;
            memalign(align: usize, size: usize) -> *mut u8;
            valloc(size: usize) -> *mut u8;
            pvalloc(size: usize) -> *mut u8;
        }
    };
}

/// Defines the functions, and one that runs before `main`.
#[cfg(c_malloc)]
#[doc(hidden)]
#[macro_export]
macro_rules! __define_c_malloc {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        const _: () = {
            $($crate::__define_c_function! { $name($($argument: $type),*) -> $result })*
            #[used]
            // The number puts it before the function that starts a recording.
            #[unsafe(link_section = ".init_array.00099")]
            static BEGIN: extern "C" fn() = $crate::__private::c_malloc::begin;
        };
    };
}

/// Defines a function of `malloc` in the program.
///
/// It is naked, for the return address: where calls can be [nested](IS_NESTED), it is one more argument. It
/// says whether the call is a part of another one.
#[cfg(all(c_mmap, target_arch = "x86_64"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __define_c_function {
    ($name:ident($first:ident: $type:ty) -> $result:ty) => {
        $crate::__define_c_function! { $name "mov rsi, [rsp]" }
    };
    ($name:ident($first:ident: $type:ty, $second:ident: $other:ty) -> $result:ty) => {
        $crate::__define_c_function! { $name "mov rdx, [rsp]" }
    };
    ($name:ident($first:ident: $type:ty, $second:ident: $other:ty, $third:ident: $last:ty) -> $result:ty) => {
        $crate::__define_c_function! { $name "mov rcx, [rsp]" }
    };
    ($name:ident $return_address_to_argument:literal) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            ::core::arch::naked_asm!(
                "mov r11, qword ptr [rip + {is_nested}@GOTPCREL]",
                "cmp byte ptr [r11], 0",
                "je {outer}@PLT",
                $return_address_to_argument,
                "jmp {nested}@PLT",
                is_nested = sym $crate::__private::c_malloc::IS_NESTED,
                outer = sym $crate::__private::c_malloc::outer::$name,
                nested = sym $crate::__private::c_malloc::nested::$name,
            )
        }
    };
}

#[cfg(all(c_mmap, target_arch = "aarch64"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __define_c_function {
    ($name:ident($first:ident: $type:ty) -> $result:ty) => {
        $crate::__define_c_function! { $name "mov x1, x30" }
    };
    ($name:ident($first:ident: $type:ty, $second:ident: $other:ty) -> $result:ty) => {
        $crate::__define_c_function! { $name "mov x2, x30" }
    };
    ($name:ident($first:ident: $type:ty, $second:ident: $other:ty, $third:ident: $last:ty) -> $result:ty) => {
        $crate::__define_c_function! { $name "mov x3, x30" }
    };
    ($name:ident $return_address_to_argument:literal) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            ::core::arch::naked_asm!(
                "adrp x16, :got:{is_nested}",
                "ldr x16, [x16, :got_lo12:{is_nested}]",
                "ldrb w16, [x16]",
                "cbnz w16, 2f",
                "b {outer}",
                "2:",
                $return_address_to_argument,
                "b {nested}",
                is_nested = sym $crate::__private::c_malloc::IS_NESTED,
                outer = sym $crate::__private::c_malloc::outer::$name,
                nested = sym $crate::__private::c_malloc::nested::$name,
            )
        }
    };
}

#[cfg(all(c_malloc, not(c_mmap)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __define_c_function {
    ($name:ident($($argument:ident: $type:ty),*) -> $result:ty) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            // SAFETY: the caller makes the promise of C's function.
            unsafe { $crate::__private::c_malloc::outer::$name($($argument),*) }
        }
    };
}

#[cfg(not(c_identity))]
#[doc(hidden)]
#[macro_export]
macro_rules! __define_c_identity {
    ($($anything:tt)*) => {};
}

#[cfg(not(c_filter))]
#[doc(hidden)]
#[macro_export]
macro_rules! __define_c_filter {
    () => {};
}

#[cfg(not(c_malloc))]
#[doc(hidden)]
#[macro_export]
macro_rules! __define_c_malloc {
    ($($anything:tt)*) => {};
}

#[cfg(c_mmap)]
pub use crate::platform::os::next_malloc::IS_NESTED;
#[cfg(c_mmap)]
pub use functions::nested;
#[cfg(redirects)]
pub use functions::other_names;
#[cfg(c_malloc)]
pub use functions::{begin, outer};

#[cfg(c_mmap)]
pub use super::c_mmap as mmap;

#[cfg(c_malloc)]
#[expect(unsafe_code, reason = "the functions of C")]
mod functions {
    use crate::alloc::events::{self, C};
    use crate::alloc::hook::{self, FreeMode, Mode};
    use crate::alloc::own_blocks;
    use crate::platform::os::next_malloc::{self, MIN_ALIGN, usable_size};
    #[cfg(other_allocators)]
    use crate::platform::os::other_allocators;
    use crate::platform::os::{self, page_bytes};
    use crate::stacks::capture::{self, Registers};
    use crate::stacks::tree::NO_STACK;
    use std::alloc::{GlobalAlloc, Layout};
    use std::cell::Cell;
    use std::ptr;

    const EINVAL: i32 = 22;
    const ENOMEM: i32 = 12;

    /// The next `malloc`, as the hook calls it.
    struct Next;

    // SAFETY: forwards to C's functions. Only `dealloc` and `realloc` are called with blocks; those
    // need no layout.
    unsafe impl GlobalAlloc for Next {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the alignment is a power of two.
            let block = unsafe { next_malloc::aligned(layout.align(), layout.size()) };
            block.unwrap_or(ptr::null_mut())
        }

        #[inline(always)]
        unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
            // SAFETY: the caller makes the same promise.
            unsafe { next_malloc::free(block) };
        }

        #[inline(always)]
        unsafe fn realloc(&self, block: *mut u8, _: Layout, size: usize) -> *mut u8 {
            // SAFETY: the caller makes the same promise.
            unsafe { next_malloc::realloc(block, size) }
        }
    }

    /// Runs before `main`.
    pub extern "C" fn begin() {
        events::use_c_heap();
        #[cfg(other_allocators)]
        other_allocators::begin((begin as extern "C" fn() as *const ()).cast());
    }

    /// The layout of a live block whose size is not known: what the program may use of it.
    #[inline(always)]
    unsafe fn layout_of(block: *mut u8) -> Layout {
        // SAFETY: the caller has a live block, and no block is as large as half of all addresses.
        unsafe { Layout::from_size_align_unchecked(usable_size(block), 1) }
    }

    /// Records a block that was just allocated, or the failure to do so; nothing if the call is a part of
    /// another one.
    ///
    /// NOTE: inlined into the program's `malloc`, so that its caller is the innermost frame of the
    /// stack.
    #[inline(always)]
    fn record<const INNER: bool>(block: *mut u8, size: usize, align: usize) -> *mut u8 {
        let mode = hook::mode();
        if INNER || mode == Mode::Off {
            return block;
        }
        if block.is_null() {
            return hook::failed(size);
        }
        // SAFETY: the block exists, so it is smaller than half of all addresses.
        let layout = unsafe { Layout::from_size_align_unchecked(size, align) };
        if mode == Mode::Recorded {
            hook::allocated_in::<C>(block, layout, |_| NO_STACK);
        } else {
            let at = Registers::here();
            hook::allocated_in::<C>(block, layout, |slot| capture::take(slot, size, &at));
        }
        block
    }

    #[inline(always)]
    unsafe fn malloc<const INNER: bool>(size: usize) -> *mut u8 {
        // SAFETY: the caller makes the promise of C's function, here and below.
        record::<INNER>(unsafe { next_malloc::malloc(size) }, size, MIN_ALIGN)
    }

    #[inline(always)]
    unsafe fn calloc<const INNER: bool>(count: usize, size: usize) -> *mut u8 {
        // SAFETY: as above. If the product overflows, the result is null.
        record::<INNER>(
            unsafe { next_malloc::calloc(count, size) },
            count.wrapping_mul(size),
            MIN_ALIGN,
        )
    }

    #[inline(always)]
    unsafe fn free<const INNER: bool>(block: *mut u8) {
        if block.is_null() || next_malloc::is_early(block) {
            return;
        }
        match hook::free_mode() {
            // SAFETY: as above.
            _ if INNER => unsafe { next_malloc::free(block) },
            // SAFETY: as above.
            _ if own_blocks::remove(block) => unsafe { next_malloc::free(block) },
            // SAFETY: as above.
            FreeMode::Off => unsafe { next_malloc::free(block) },
            // SAFETY: as above.
            FreeMode::Recorded => unsafe {
                hook::free::<_, false, C>(&Next, block, layout_of(block));
            },
            // SAFETY: as above.
            FreeMode::WithScope => unsafe {
                hook::free::<_, true, C>(&Next, block, layout_of(block));
            },
        }
    }

    #[inline(always)]
    unsafe fn free_sized<const INNER: bool>(block: *mut u8, _: usize) {
        // SAFETY: as above.
        unsafe { free::<INNER>(block) };
    }

    #[inline(always)]
    unsafe fn free_aligned_sized<const INNER: bool>(block: *mut u8, _: usize, _: usize) {
        // SAFETY: as above.
        unsafe { free::<INNER>(block) };
    }

    #[inline(always)]
    unsafe fn realloc<const INNER: bool>(block: *mut u8, size: usize) -> *mut u8 {
        if block.is_null() {
            // SAFETY: as above.
            return unsafe { malloc::<INNER>(size) };
        }
        if next_malloc::is_early(block) {
            // SAFETY: as above.
            return unsafe { realloc_early::<INNER>(block, size) };
        }
        if size == 0 {
            // SAFETY: as above.
            return unsafe { realloc_to_0::<INNER>(block) };
        }
        if own_blocks::remove(block) {
            // What becomes of it is recorded as a block that was just allocated.
            // SAFETY: as above.
            let new = unsafe { next_malloc::realloc(block, size) };
            if new.is_null() {
                own_blocks::add(block);
            }
            return record::<INNER>(new, size, MIN_ALIGN);
        }
        match hook::mode() {
            // SAFETY: as above.
            _ if INNER => unsafe { next_malloc::realloc(block, size) },
            // SAFETY: as above.
            Mode::Off => unsafe { next_malloc::realloc(block, size) },
            // SAFETY: as above.
            Mode::Recorded => unsafe {
                counted(hook::realloc::<_, C>(&Next, block, layout_of(block), size), size)
            },
            // SAFETY: as above.
            Mode::WithStacks => unsafe {
                let (layout, at) = (layout_of(block), Registers::here());
                counted(hook::realloc_with_stack::<_, C>(&Next, block, layout, size, &at), size)
            },
        }
    }

    /// The reallocation of a block that was allocated before the next `malloc` was known.
    #[cold]
    unsafe fn realloc_early<const INNER: bool>(block: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: C's `malloc` has no condition.
        let new = unsafe { malloc::<INNER>(size) };
        if !new.is_null() {
            // NOTE: the old size is not known, so bytes that follow the block are copied, too.
            // SAFETY: what is copied is in the area of such blocks, and the new block was just made.
            unsafe { block.copy_to(new, size.min(next_malloc::early_bytes_from(block))) };
        }
        new
    }

    /// glibc frees a block that is reallocated to 0 bytes, and returns null; other libraries return a
    /// block. So it is a free and, if there is a block then, an allocation.
    unsafe fn realloc_to_0<const INNER: bool>(block: *mut u8) -> *mut u8 {
        /// A free is a reallocation to 0 bytes, whose result is kept.
        struct ToZero(Cell<*mut u8>);

        // SAFETY: forwards to C's functions; the hook calls only `dealloc`.
        unsafe impl GlobalAlloc for ToZero {
            unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
                // SAFETY: the caller makes the same promise, here and below.
                unsafe { Next.alloc(layout) }
            }

            unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
                // SAFETY: as above.
                self.0.set(unsafe { next_malloc::realloc(block, 0) });
            }
        }

        if INNER || hook::mode() == Mode::Off {
            // SAFETY: the caller has a live block, here and below.
            return unsafe { next_malloc::realloc(block, 0) };
        }
        let to_zero = ToZero(Cell::new(ptr::null_mut()));
        // NOTE: with the scope, which is written for nothing where frees have none.
        // SAFETY: as above.
        unsafe { hook::free::<_, true, C>(&to_zero, block, layout_of(block)) };
        let new = to_zero.0.get();
        if new.is_null() { new } else { record::<INNER>(new, 0, MIN_ALIGN) }
    }

    #[inline(always)]
    fn counted(block: *mut u8, size: usize) -> *mut u8 {
        if block.is_null() { hook::failed(size) } else { block }
    }

    #[inline(always)]
    unsafe fn reallocarray<const INNER: bool>(
        block: *mut u8,
        count: usize,
        size: usize,
    ) -> *mut u8 {
        match count.checked_mul(size) {
            // SAFETY: as above.
            Some(size) => unsafe { realloc::<INNER>(block, size) },
            None => refuse(ENOMEM),
        }
    }

    #[inline(always)]
    unsafe fn posix_memalign<const INNER: bool>(
        block: *mut *mut u8,
        align: usize,
        size: usize,
    ) -> i32 {
        if !align.is_power_of_two() || align < size_of::<usize>() {
            return EINVAL;
        }
        // SAFETY: as above.
        match unsafe { next_malloc::aligned(align, size) } {
            // SAFETY: as above.
            Ok(new) => unsafe { block.write(record::<INNER>(new, size, align)) },
            Err(error) => {
                record::<INNER>(ptr::null_mut(), size, align);
                return error;
            }
        }
        0
    }

    #[inline(always)]
    unsafe fn aligned_alloc<const INNER: bool>(align: usize, size: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { memalign::<INNER>(align, size) }
    }

    /// As glibc's, takes the next power of two for an alignment that is none.
    #[inline(always)]
    unsafe fn memalign<const INNER: bool>(align: usize, size: usize) -> *mut u8 {
        let Some(align) = align.max(MIN_ALIGN).checked_next_power_of_two() else {
            return refuse(EINVAL);
        };
        // SAFETY: as above.
        record::<INNER>(unsafe { next_malloc::memalign(align, size) }, size, align)
    }

    #[inline(always)]
    unsafe fn valloc<const INNER: bool>(size: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { memalign::<INNER>(page_bytes(), size) }
    }

    #[inline(always)]
    unsafe fn pvalloc<const INNER: bool>(size: usize) -> *mut u8 {
        match size.checked_next_multiple_of(page_bytes()) {
            // SAFETY: as above.
            Some(size) => unsafe { memalign::<INNER>(page_bytes(), size) },
            None => refuse(ENOMEM),
        }
    }

    macro_rules! entries {
        ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
            /// Calls that are part of no other one.
            pub mod outer {
                $(
                    /// # Safety
                    /// That of C's function.
                    pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                        // SAFETY: the caller makes the promise of C's function.
                        unsafe { super::$name::<false>($($argument),*) }
                    }
                )*
            }

            /// Calls that may be, with the address that they return to.
            #[cfg(c_mmap)]
            pub mod nested {
                use crate::platform::os::next_malloc::is_inner;

                $(
                    /// # Safety
                    /// As above.
                    pub unsafe extern "C" fn $name($($argument: $type,)* caller: usize) -> $result {
                        if is_inner(caller) {
                            // SAFETY: as above.
                            unsafe { super::$name::<true>($($argument),*) }
                        } else {
                            // SAFETY: as above.
                            unsafe { super::$name::<false>($($argument),*) }
                        }
                    }
                )*
            }
        };
    }
    __c_malloc_functions! { entries }

    #[cfg(redirects)]
    macro_rules! other_names {
        ($($other:ident $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
            /// The functions by glibc's other names.
            pub mod other_names {
                use crate::platform::os::next_malloc::other_names as next;

                $(
                    /// # Safety
                    /// That of C's function.
                    #[inline(always)]
                    pub unsafe fn $other($($argument: $type),*) -> $result {
                        match next::$other() {
                            // SAFETY: the caller makes the promise of C's function, here and below.
                            Some(next) => unsafe { next($($argument),*) },
                            // SAFETY: as above.
                            None => unsafe { super::$name::<false>($($argument),*) },
                        }
                    }
                )*
            }
        };
    }
    #[cfg(redirects)]
    next_malloc::for_other_names! { other_names }

    #[cold]
    fn refuse(error: i32) -> *mut u8 {
        // SAFETY: every thread has one.
        unsafe { *os::errno() = error };
        ptr::null_mut()
    }
}
