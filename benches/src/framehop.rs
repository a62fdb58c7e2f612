//! An allocator that takes the call stack of each allocation with `framehop`, the fastest unwinder in Rust
//! that reads `.eh_frame` and does not allocate. It does nothing with the frames but add them up.
#![expect(unsafe_code, reason = "an allocator, and the registers of its caller")]

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, MustNotAllocateDuringUnwind, Unwinder};
use object::{File, Object, ObjectSection};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::RefCell;
use std::hint::black_box;
use std::ops::Range;
use std::sync::OnceLock;

/// See the top of the file. Its stacks have at most this many frames.
pub struct Framehop {
    /// The maximum number of frames.
    pub frames: usize,
}

type ProgramUnwinder = UnwinderX86_64<Vec<u8>, MustNotAllocateDuringUnwind>;

static UNWINDER: OnceLock<ProgramUnwinder> = OnceLock::new();

thread_local! {
    static CACHE: RefCell<CacheX86_64<MustNotAllocateDuringUnwind>> =
        RefCell::new(CacheX86_64::new_in());
}

/// The unwinder, which knows the program's own file only.
fn unwinder() -> ProgramUnwinder {
    let bytes = std::fs::read("/proc/self/exe").expect("the program's file");
    let file = File::parse(&*bytes).expect("an ELF file");
    let section = |name: &str| {
        let section = file.section_by_name(name)?;
        let data = section.uncompressed_data().ok()?.into_owned();
        Some((section.address()..section.address() + section.size(), data))
    };
    let split = |found: Option<(Range<u64>, Vec<u8>)>| found.unzip();
    let (text_svma, text) = split(section(".text"));
    let (eh_frame_svma, eh_frame) = split(section(".eh_frame"));
    let (eh_frame_hdr_svma, eh_frame_hdr) = split(section(".eh_frame_hdr"));
    let info = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: text_svma.clone(),
        text,
        eh_frame_svma,
        eh_frame,
        eh_frame_hdr_svma,
        eh_frame_hdr,
        ..ExplicitModuleSectionInfo::default()
    };
    let text = text_svma.expect("a program has code");
    let base = base();
    let mut unwinder = ProgramUnwinder::new();
    let range = base + text.start..base + text.end;
    unwinder.add_module(Module::new("program".into(), range, base, info));
    unwinder
}

/// Where the program's file was loaded: the first that the loader names.
fn base() -> u64 {
    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        base: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the loader passes valid information, and `base` is the variable below.
        unsafe { *base.cast::<u64>() = (*info).dlpi_addr };
        1
    }
    let mut base = 0_u64;
    // SAFETY: `first` writes a `u64` to where its last argument points.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut base).cast()) };
    base
}

impl Framehop {
    /// The sum of the addresses of the caller's frames, and their number.
    #[inline(always)]
    fn frames(&self) -> (u64, usize) {
        let (ip, sp, bp): (u64, u64, u64);
        // SAFETY: only reads registers.
        unsafe {
            std::arch::asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp",
                out(reg) ip, out(reg) sp, out(reg) bp, options(nomem, nostack, preserves_flags));
        }
        let unwinder = UNWINDER.get_or_init(unwinder);
        CACHE.with_borrow_mut(|cache| {
            // SAFETY: frames of this program, whose unwind information is right, are on this stack.
            let mut read = |address: u64| Ok(unsafe { *(address as *const u64) });
            let regs = UnwindRegsX86_64::new(ip, sp, bp);
            let mut frames = unwinder.iter_frames(ip, regs, cache, &mut read);
            let mut sum = (0, 0);
            // One frame more: the first is of this allocator.
            while sum.1 <= self.frames
                && let Ok(Some(frame)) = frames.next()
            {
                sum = (sum.0 ^ frame.address(), sum.1 + 1);
            }
            sum
        })
    }
}

// SAFETY: all blocks are those of `System`.
unsafe impl GlobalAlloc for Framehop {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (sum, frames) = self.frames();
        assert!(frames > self.frames, "framehop has found {frames} frames");
        black_box(sum);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) };
    }
}
