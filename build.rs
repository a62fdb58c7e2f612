//! Sets what `cfg` does not say by itself:
//!
//! | name | when |
//! |---|---|
//! | `unoptimized` | the library is built without optimisation: a profile may have debug assertions and optimise, or neither |
//! | `thread_sanitizer` | it is built with the thread sanitizer, for which only an unstable `cfg` exists |
//! | `tracking` | the tracker is compiled: the feature `enable`, on 64-bit Linux, macOS and Windows, and on `wasm` where programs have one thread, but not in Miri |
//! | `wasm` | the target is `wasm32-unknown-unknown` |
//! | `takes_stacks` | the tracker takes call stacks: it is compiled, for a system and a processor that it knows |
//! | `elf`, `pdata`, `compact_unwind` | where files of the target have their unwind information: on Linux in `.eh_frame`, which is DWARF; on Windows in `.pdata`; on macOS in `__unwind_info`, and in DWARF for what that has no form for |
//! | `report` | the program analyses its own events: the feature `report`, where the tracker is compiled |
//! | `preload` | the tracker is the library of `preload/` for Linux |
//! | `own_values` | the system's thread-local values are no good for the hook, so the tracker has its own |
//! | `by_distance` | thread-local values are found by their distance from the thread's control block: only in the library of `preload/` |
//! | `c_malloc`, `c_mmap`, `c_identity`, `c_filter`, `other_allocators`, `redirects` | what the feature `c-malloc` can do on the target: `malloc`, `mmap`, what changes a process's user, what filters its system calls, other allocators, and what only the library of `preload/` does, as redirecting them |

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!(
        "cargo::rustc-check-cfg=cfg(unoptimized, thread_sanitizer, wasm, tracking, takes_stacks, elf, pdata, compact_unwind, report, preload, by_distance, own_values, c_malloc, c_mmap, c_identity, c_filter, \
         other_allocators, redirects)"
    );
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    let has = |name: &str, part: &str| {
        std::env::var(name).is_ok_and(|found| found.split(',').any(|one| one == part))
    };
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let set = |name: &str, condition: bool| {
        if condition {
            println!("cargo::rustc-cfg={name}");
        }
        condition
    };
    set("unoptimized", is("OPT_LEVEL", "0"));
    set("thread_sanitizer", has("CARGO_CFG_SANITIZE", "thread"));
    let wasm =
        set("wasm", is("CARGO_CFG_TARGET_ARCH", "wasm32") && is("CARGO_CFG_TARGET_OS", "unknown"));
    // With atomic instructions, a program can have threads, of which the tracker does not know.
    let one_thread = wasm && !has("CARGO_CFG_TARGET_FEATURE", "atomics");
    let tracking = set(
        "tracking",
        is_set("CARGO_FEATURE_ENABLE")
            && (one_thread
                || ["linux", "macos", "windows"]
                    .iter()
                    .any(|name| is("CARGO_CFG_TARGET_OS", name))
                    && is("CARGO_CFG_TARGET_POINTER_WIDTH", "64"))
            && !is_set("CARGO_CFG_MEMLEDGER_PORTABLE")
            && !is_set("CARGO_CFG_MIRI"),
    );
    set("report", tracking && is_set("CARGO_FEATURE_REPORT"));
    let x86_64 = is("CARGO_CFG_TARGET_ARCH", "x86_64");
    let aarch64 = is("CARGO_CFG_TARGET_ARCH", "aarch64");
    let linux = is("CARGO_CFG_TARGET_OS", "linux");
    let macos = is("CARGO_CFG_TARGET_OS", "macos");
    let preload = set("preload", tracking && linux && is_set("CARGO_FEATURE_PRELOAD"));
    set("by_distance", preload && (x86_64 || aarch64));
    set("own_values", tracking && !linux && !wasm);
    set("elf", linux);
    let pdata = set("pdata", is("CARGO_CFG_TARGET_OS", "windows"));
    let compact_unwind = set("compact_unwind", macos);
    let with_dwarf = linux || compact_unwind;
    set("takes_stacks", tracking && (with_dwarf && (x86_64 || aarch64) || pdata && x86_64));
    let gnu = linux && is("CARGO_CFG_TARGET_ENV", "gnu");
    let c_malloc = tracking && gnu && is_set("CARGO_FEATURE_C_MALLOC");
    set("c_malloc", c_malloc);
    set("c_mmap", c_malloc && (x86_64 || aarch64));
    // In a static program there is no next library.
    let c_identity = set("c_identity", c_malloc && !has("CARGO_CFG_TARGET_FEATURE", "crt-static"));
    set("c_filter", c_identity && x86_64);
    let other_allocators = set("other_allocators", c_identity && x86_64);
    set("redirects", other_allocators && preload);
}
