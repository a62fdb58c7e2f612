//! The files of a program, and what finds the functions in them.

use std::ops::Range;

/// A binary file that was loaded into the program's memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Module {
    /// The path of the file, as the program loaded it.
    pub path: String,
    /// The address of its first byte in memory.
    pub base: u64,
    /// Its size in memory, in bytes.
    pub size: u64,
    /// The GNU build id (usually 20 bytes); empty if the file has none.
    pub build_id: Vec<u8>,
    /// Which state of the file was loaded, if it has no build id and this is known.
    pub stamp: Option<FileStamp>,
}

/// What is different after a file was changed or replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct FileStamp {
    /// Its inode.
    pub inode: u64,
    /// When its inode was last changed, in nanoseconds since 1970; 0 if the path was that of another file
    /// already.
    pub changed_ns: u64,
}

impl Module {
    /// A module without a [stamp](Self::stamp).
    pub fn new(path: String, base: u64, size: u64, build_id: Vec<u8>) -> Self {
        Self { path, base, size, build_id, stamp: None }
    }

    /// The last part of its path.
    #[doc(hidden)]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Whether it is a library, by its name: `libz.so`, `libstdc++.so.6`, `KERNEL32.DLL`, `libz.1.dylib`.
    #[doc(hidden)]
    pub fn is_library(&self) -> bool {
        let name = self.name();
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        matches!(ending, "so" | "dylib")
            || ending.eq_ignore_ascii_case("dll")
            || name.contains(".so.")
    }
}

/// One function on a call stack, inlined or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SourceFrame {
    /// The demangled name of the function.
    pub function: String,
    /// The path of the source file, if known.
    pub file: Option<String>,
    /// The line in `file`, counted from 1, if known.
    pub line: Option<u32>,
}

impl SourceFrame {
    /// A function, and where its code is, if that is known.
    pub fn new(function: impl Into<String>, file: Option<String>, line: Option<u32>) -> Self {
        Self { function: function.into(), file, line }
    }
}

/// Finds the functions at an address.
pub trait Symbolizer {
    /// The functions at `offset` bytes from the module's base, innermost first: the inlined
    /// functions, then the one they were inlined into. Empty if nothing is known.
    ///
    /// For a return address, `offset` is that of the byte before it, which is part of the call.
    fn frames(&mut self, module: &Module, offset: u64) -> Vec<SourceFrame>;

    /// The function at an address in no module, in code that the process with this id has made at run time.
    /// Empty if nothing is known.
    fn made_at_run_time(&mut self, _pid: u32, _address: u64) -> Vec<SourceFrame> {
        Vec::new()
    }

    /// Where the module's static variables of at least 4 KiB are, in bytes from its base, with their
    /// demangled names, in any order. Empty if nothing is known.
    fn variables(&mut self, _module: &Module) -> Vec<(Range<u64>, String)> {
        Vec::new()
    }

    /// The parts of the module's file that are loaded as code. Empty if the file is not known.
    fn code(&mut self, _module: &Module) -> Vec<CodeRange> {
        Vec::new()
    }
}

/// A part of a file that is loaded as code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CodeRange {
    /// Where it begins in memory: bytes from the base of the module.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Where it begins in the file, in bytes.
    pub file_offset: u64,
}

impl CodeRange {
    /// A range that begins `offset` bytes after the base of the module.
    pub fn new(offset: u64, size: u64, file_offset: u64) -> Self {
        Self { offset, size, file_offset }
    }
}
