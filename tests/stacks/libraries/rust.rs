//! A library of Rust that is loaded while the program runs.

use std::ffi::c_void;
use std::hint::black_box;

type Callback = extern "C" fn(*mut c_void);

#[unsafe(no_mangle)]
pub extern "C" fn stack_library_work(callback: Callback, data: *mut c_void, depth: usize) {
    match depth {
        0 => callback(data),
        1..4 => {
            let array = black_box([depth; 100]);
            stack_library_work(callback, data, depth - 1);
            black_box(array);
        }
        _ => {
            let call: &dyn Fn() = &|| stack_library_work(callback, data, depth - 1);
            black_box(call)();
            // Not a tail call.
            black_box(depth);
        }
    }
}
