//! `malloc` and `mmap` beside Rust's allocator: `scripts/check_preload.sh` links it in two ways.
#[global_allocator]
static ALLOC: memledger::TrackingAllocator = memledger::TrackingAllocator::system();
memledger::track_c_malloc!();
unsafe extern "C" {
    fn strdup(text: *const std::ffi::c_char) -> *mut std::ffi::c_char;
    fn mmap(at: *mut u8, bytes: usize, access: i32, flags: i32, file: i32, offset: i64) -> *mut u8;
    fn munmap(at: *mut u8, bytes: usize) -> i32;
}
fn main() {
    let vector = std::hint::black_box(vec![1_u8; 1_000_003]);
    let text = std::ffi::CString::new(vec![b'x'; 2_000_003]).unwrap();
    // SAFETY: it ends with a NUL.
    std::hint::black_box(unsafe { strdup(text.as_ptr()) });
    std::mem::forget((vector, text));
    // SAFETY: the kernel chooses where, and nothing else uses these pages.
    unsafe {
        let pages = mmap(std::ptr::null_mut(), 10 << 20, 3, 0x22, -1, 0);
        assert_eq!(munmap(pages.add(4 << 20), 3 << 20), 0);
    }
}
