//! What debug information says of a function at an address.

/// A frame as the debug information has it.
pub(super) struct DebugFrame {
    /// The demangled name.
    pub(super) function: Option<String>,
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
}
