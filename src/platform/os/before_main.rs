//! What runs before `main`: what a program declares is known then, and a recording may start.

/// What the system's call before `main` leads to. The layer above implements it for [`Process`], so that the
/// platform names nothing of that layer.
#[cfg(not(wasm))]
pub(crate) trait StartBeforeMain {
    fn start_before_main();
}

#[cfg(not(wasm))]
pub(crate) enum Process {}

/// Runs an expression before `main`, before a recording starts there. It must not panic or allocate.
// SAFETY: the section holds pointers to functions of this form, called once each when the program or the
// library is loaded. The number, or the last letter, puts them before the function that starts a recording;
// on macOS, the order is that of the linker. An attribute has no effect on code that forbids `unsafe`: the
// compiler does not apply that lint to macros of other crates.
#[doc(hidden)]
#[macro_export]
macro_rules! __before_main {
    ($body:expr) => {
        #[cfg(not(target_family = "wasm"))]
        #[used]
        #[cfg_attr(windows, unsafe(link_section = ".CRT$XCT"))]
        #[cfg_attr(
            not(any(windows, target_os = "macos")),
            unsafe(link_section = ".init_array.00098")
        )]
        #[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
        static BEFORE_MAIN: extern "C" fn() = {
            extern "C" fn before_main() {
                $body
            }
            before_main
        };
    };
}
