//! The debug information of one file, with the files that it refers to.

use super::debug_frame::DebugFrame;
use super::demangled::demangled;
use super::file_path::path_of;
use super::headers::Kind;
use super::object_file::{Bytes, ObjectFile};
use addr2line::{Context, LookupContinuation, LookupResult, SplitDwarfLoad};
use gimli::{AbbreviationsCacheStrategy, DwarfPackage, EndianReader, RunTimeEndian, SectionId};
use memledger_format::words::text_of;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

type Reader = EndianReader<RunTimeEndian, Bytes>;

/// Finds the file of a part of split debug information, from the path that the compiler wrote.
pub(super) type FindPart<'a> = &'a mut dyn FnMut(PathBuf) -> Option<ObjectFile>;

/// The debug information of one file.
pub(super) struct Dwarf {
    context: Context<Reader>,
    /// All parts of split debug information, in one file.
    package: Option<DwarfPackage<Reader>>,
    /// Whether paths in it can have the separators of Windows, which are shown as all others.
    is_of_windows: bool,
}

impl Dwarf {
    /// Reads what an index of functions needs. `alt` has what this file shares with others.
    ///
    /// # Errors
    /// One sentence, if a section cannot be read or its content is invalid.
    pub(super) fn open(
        file: &ObjectFile,
        alt: Option<&ObjectFile>,
        package: Option<&ObjectFile>,
    ) -> Result<Self, String> {
        let failed = |error: gimli::Error| {
            format!("the debug information of {} is damaged: {error}", file.path.display())
        };
        let mut dwarf = gimli::Dwarf::load(|id| section(file, id, Some(id.name())))?;
        if let Some(alt) = alt {
            dwarf.load_sup(|id| section(alt, id, Some(id.name())))?;
        }
        dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
        let context = Context::from_dwarf(dwarf).map_err(failed)?;
        let package = package.map(|file| {
            let empty = EndianReader::new(Rc::new([]) as Bytes, file.headers.endian);
            // Units of a package have ranges in all its sections, which must be there.
            let all = |id: SectionId| file.section(id.dwo_name().unwrap_or_default());
            let read = |id| Ok(EndianReader::new(all(id).map_err(Failed)?, file.headers.endian));
            DwarfPackage::load(read, empty)
        });
        let package = package.transpose().map_err(|Failed(sentence)| sentence)?;
        Ok(Self { context, package, is_of_windows: file.headers.kind == Kind::Pe })
    }

    /// The functions at an address, innermost first.
    ///
    /// # Errors
    /// The debug information is invalid.
    pub(super) fn frames(
        &self,
        address: u64,
        part: FindPart<'_>,
    ) -> Result<Vec<DebugFrame>, gimli::Error> {
        let mut lookup = self.context.find_frames(address);
        let mut found = loop {
            lookup = match lookup {
                LookupResult::Output(frames) => break frames?,
                LookupResult::Load { load, continuation } => {
                    continuation.resume(self.part(load, part))
                }
            };
        };
        let mut frames = Vec::new();
        while let Some(frame) = found.next()? {
            let function = frame.function.as_ref();
            frames.push(DebugFrame {
                function: function
                    .map(|name| demangled(&text_of(name.name.bytes()), name.language)),
                file: frame.location.as_ref().and_then(|at| Some(self.path(at.file?))),
                line: frame.location.and_then(|at| at.line).filter(|line| *line > 0),
            });
        }
        Ok(frames)
    }

    fn path(&self, written: &str) -> String {
        if self.is_of_windows { written.replace('\\', "/") } else { written.to_owned() }
    }

    /// One part of split debug information: from the package, or from a file of its own.
    fn part(
        &self,
        load: SplitDwarfLoad<Reader>,
        find: FindPart<'_>,
    ) -> Option<Arc<gimli::Dwarf<Reader>>> {
        if let Some(package) = &self.package
            && let Ok(Some(unit)) = package.find_cu(load.dwo_id, &load.parent)
        {
            return Some(shared(unit));
        }
        let folder = load.comp_dir.map_or_else(PathBuf::new, |folder| path_of(folder.bytes()));
        let file = find(folder.join(path_of(load.path?.bytes())))?;
        let mut dwarf = gimli::Dwarf::load(|id| section(&file, id, id.dwo_name())).ok()?;
        let header = dwarf.units().next().ok()??;
        if dwarf.unit(header).ok()?.dwo_id != Some(load.dwo_id) {
            return None;
        }
        dwarf.make_dwo(&load.parent);
        Some(shared(dwarf))
    }
}

/// `addr2line` asks for an `Arc`, though nothing here has a second thread.
#[expect(clippy::arc_with_non_send_sync)]
fn shared(dwarf: gimli::Dwarf<Reader>) -> Arc<gimli::Dwarf<Reader>> {
    Arc::new(dwarf)
}

/// A section, if the frames of an address can need it. Others stay unread.
fn section(file: &ObjectFile, id: SectionId, name: Option<&str>) -> Result<Reader, String> {
    const UNUSED: [SectionId; 6] = [
        SectionId::DebugLoc,
        SectionId::DebugLocLists,
        SectionId::DebugMacinfo,
        SectionId::DebugMacro,
        SectionId::DebugNames,
        SectionId::DebugTypes,
    ];
    let bytes = match name.filter(|_| !UNUSED.contains(&id)) {
        Some(name) => file.section(name)?,
        None => Rc::new([]),
    };
    Ok(EndianReader::new(bytes, file.headers.endian))
}

/// A sentence, as the error type that `DwarfPackage::load` asks for.
struct Failed(String);

impl From<gimli::Error> for Failed {
    fn from(error: gimli::Error) -> Self {
        Self(format!("the index of a package of debug information is damaged: {error}"))
    }
}
