//! What is kept in files beside a trace, and can be made again.
//!
//! ```text
//! magic                          16 bytes, which say what it is
//! u32 length, header             postcard: the version, the trace, how symbols were found
//! the rest                       as its own module has it
//! ```
//! A file that is stale, damaged or of another version is not used, and is written again. Nothing in it is
//! trusted: its memory is limited by its length, and its numbers are checked before they are indices.

use crate::cache::Cache;
use crate::commands::output::write_file;
use crate::error::CliError;
use crate::symbols::SymbolArgs;
use flate2::Crc;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How much of the start and of the end of a trace its identity has, in bytes.
const ENDS: u64 = 64 << 10;

/// The longest header.
const MAX_HEADER: u32 = 64 << 10;

/// One kind of file.
pub struct Kind {
    pub magic: &'static [u8; 16],
    /// The end of its name.
    pub suffix: &'static str,
    /// The version of its format and of what is in it: raised when either changes.
    pub version: u32,
}

/// Which trace it is, and that it is as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub bytes: u64,
    modified_ns: u64,
    /// Checksums of its first and its last bytes.
    start: u32,
    end: u32,
}

impl Identity {
    /// The identity of a file; `None` if it cannot be read.
    pub fn of(trace: &Path) -> Option<Self> {
        let mut file = File::open(trace).ok()?;
        let metadata = file.metadata().ok().filter(fs::Metadata::is_file)?;
        let modified = metadata.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let bytes = metadata.len();
        let start = checksum(&mut file)?;
        file.seek(SeekFrom::Start(bytes.saturating_sub(ENDS))).ok()?;
        let end = checksum(&mut file)?;
        Some(Self { bytes, modified_ns: modified.as_nanos() as u64, start, end })
    }
}

fn checksum(file: &mut File) -> Option<u32> {
    let mut bytes = Vec::new();
    file.take(ENDS).read_to_end(&mut bytes).ok()?;
    let mut crc = Crc::new();
    crc.update(&bytes);
    Some(crc.sum())
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    version: u32,
    memledger: String,
    trace: Identity,
    /// Where symbols are looked for, if that matters.
    symbols: Option<(Vec<PathBuf>, bool)>,
}

impl Header {
    fn new(kind: &Kind, trace: Identity, symbols: Option<&SymbolArgs>) -> Self {
        let symbols = symbols.map(|symbols| {
            let folders = symbols.folders.iter();
            let folders = folders.map(|folder| fs::canonicalize(folder).unwrap_or(folder.clone()));
            (folders.collect(), symbols.no_debuginfod)
        });
        Self {
            version: kind.version,
            memledger: env!("CARGO_PKG_VERSION").to_owned(),
            trace,
            symbols,
        }
    }
}

/// Where the file of a trace is: beside it, and where it is kept if that cannot be written.
fn places(kind: &Kind, trace: &Path) -> Vec<PathBuf> {
    let mut beside = OsString::from(trace);
    beside.push(kind.suffix);
    let mut places = vec![PathBuf::from(beside)];
    if let Some(cache) = Cache::from_environment() {
        let whole = fs::canonicalize(trace).unwrap_or_else(|_| trace.to_owned());
        let mut hasher = DefaultHasher::new();
        whole.hash(&mut hasher);
        let name = format!("{:016x}{}", hasher.finish(), kind.suffix);
        places.push(cache.indexes().join(name));
    }
    places
}

/// The file of the trace as it is now, after its header, if it is kept.
pub fn open(kind: &Kind, trace: &Path, symbols: Option<&SymbolArgs>) -> Option<File> {
    let header = Header::new(kind, Identity::of(trace)?, symbols);
    places(kind, trace).iter().find_map(|path| {
        let mut file = File::open(path).ok()?;
        file.metadata().ok().filter(fs::Metadata::is_file)?;
        let (mut magic, mut size) = ([0; 16], [0; 4]);
        file.read_exact(&mut magic).ok()?;
        file.read_exact(&mut size).ok()?;
        let size = Some(u32::from_le_bytes(size)).filter(|&size| size <= MAX_HEADER)?;
        let mut kept = vec![0; size as usize];
        file.read_exact(&mut kept).ok()?;
        let kept: Header = postcard::from_bytes(&kept).ok()?;
        (magic == *kind.magic && kept == header).then_some(file)
    })
}

/// Lets `body` write the rest of the file, beside the trace, or else where files are kept that can be made
/// again.
pub fn save(
    kind: &Kind,
    trace: &Path,
    symbols: Option<&SymbolArgs>,
    identity: &Identity,
    mut body: impl FnMut(&mut dyn Write) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let failed = |error: &dyn std::fmt::Display| CliError::Failed(format!("no index: {error:#}"));
    let header = postcard::to_stdvec(&Header::new(kind, identity.clone(), symbols));
    let header = header.map_err(|error| failed(&error))?;
    let mut result = Ok(());
    for place in places(kind, trace) {
        if let Some(folder) = place.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let _ = fs::create_dir_all(folder);
        }
        let mut has_begun = false;
        result = write_file(&place, |out| {
            has_begun = true;
            let size = (header.len() as u32).to_le_bytes();
            let head = [&kind.magic[..], &size, &header].concat();
            out.write_all(&head).map_err(|error| failed(&error))?;
            body(out)
        });
        if has_begun {
            break;
        }
    }
    result
}
