//! The debug information of a module, of either kind.

use super::debug_frame::DebugFrame;
use super::dwarf::{Dwarf, FindPart};
use super::object_file::ObjectFile;
use super::symbol_table::SymbolTable;

pub(super) trait DebugInfo {
    /// The functions at an address, innermost first.
    ///
    /// # Errors
    /// What is damaged.
    fn frames(&mut self, address: u64, part: FindPart<'_>) -> Result<Vec<DebugFrame>, String>;
}

impl DebugInfo for Dwarf {
    fn frames(&mut self, address: u64, part: FindPart<'_>) -> Result<Vec<DebugFrame>, String> {
        Self::frames(self, address, part).map_err(|error| error.to_string())
    }
}

#[cfg(any(windows, feature = "read"))]
impl DebugInfo for super::pdb::Pdb {
    fn frames(&mut self, address: u64, _: FindPart<'_>) -> Result<Vec<DebugFrame>, String> {
        Self::frames(self, address)
    }
}

/// Debug information, and the names of functions that other object files can use, where it has them.
type Opened = (Box<dyn DebugInfo>, Option<SymbolTable>);

/// Opens the debug information of `file`, if there is some. `alt` has what it shares with other files,
/// `package` its parts.
///
/// # Errors
/// One sentence, if it cannot be read.
pub(super) fn open(
    file: &ObjectFile,
    alt: Option<&ObjectFile>,
    package: Option<&ObjectFile>,
) -> Result<Option<Opened>, String> {
    #[cfg(any(windows, feature = "read"))]
    if file.headers.kind == super::headers::Kind::Pdb {
        let (pdb, exported) = super::pdb::Pdb::open(file.file()).map_err(|what| {
            format!("the debug information of {} is damaged: {what}", file.path.display())
        })?;
        return Ok(Some((Box::new(pdb), Some(SymbolTable::of_functions(exported)))));
    }
    if !file.has_debug_info() {
        return Ok(None);
    }
    Ok(Some((Box::new(Dwarf::open(file, alt, package)?), None)))
}
