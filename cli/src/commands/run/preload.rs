//! How a program is tracked: by the tracker that it has, or by a library that is loaded into it.

use super::embedded;
use memledger_format::words::system_text;
use object::elf::{EM_AARCH64, EM_X86_64, FileHeader64, SHT_DYNSYM};
use object::read::StringTable;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::read::pe::PeFile64;
use object::{Endianness, Object, ReadCache};
use std::env::consts::EXE_SUFFIX;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// The variable of the dynamic loader with the libraries that it loads first.
pub const VARIABLE: &str = "LD_PRELOAD";

/// The file of the library.
const LIBRARY: &str = "libmemledger_preload.so";

/// Why a program cannot be tracked without the library, and what cures it.
const NO_LIBRARY: &str = "this command was built without the library for other programs, and libmemledger_preload.so \
    is not beside it, in ../lib or in ../lib/memledger; install a command that has it with 'cargo install --path cli' in \
    memledger's sources, or name the library with --preload FILE (--preload off: only programs with the tracker are recorded)";

/// Why nothing is loaded into programs of Windows and macOS.
const LINUX_ONLY: &str = "programs without it are tracked on Linux only";

/// Where the library is looked for, from the folder of this command.
const FOLDERS: [&str; 3] = ["", "../lib", "../lib/memledger"];

/// The name in the ELF note of a program with the tracker.
const NOTE: &[u8] = b"memledger";

/// The section of such a program on Windows.
const SECTION: &[u8] = b".memlgr";
/// The same on macOS.
const SECTION_OF_MACHO: &str = "__memledger";

/// What programs with a sanitizer call before `main`, and why nothing is loaded into them.
const SANITIZERS: [(&[u8], &str); 5] = [
    (b"__asan_init", "it is built with AddressSanitizer, which has a malloc of its own"),
    (b"__hwasan_init", "it is built with HWAddressSanitizer, which has a malloc of its own"),
    (b"__lsan_init", "it is built with LeakSanitizer, which has a malloc of its own"),
    (b"__msan_init", "it is built with MemorySanitizer, which has a malloc of its own"),
    (b"__tsan_init", "it is built with ThreadSanitizer, which has a malloc of its own"),
];

/// How a program is tracked.
#[derive(Debug, PartialEq, Eq)]
pub enum Tracking {
    /// By the tracker that it has.
    Own,
    /// By the tracker that it may have or start: its file is no program for this machine's loader, or the
    /// user wants no library.
    Unknown,
    /// By a library: the value of [`VARIABLE`].
    Preloaded(OsString),
}

/// What the file of a program says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    HasTracker,
    Dynamic,
    /// The dynamic loader, which takes a program as an argument.
    Loader,
    /// Nothing can be loaded into it, for this reason.
    Closed(&'static str),
    /// No program for this machine's loader: the system says what is wrong, or runs it in its way.
    Other,
}

/// How the program of this command is tracked; `library` is what the user has given instead of the library
/// beside this command: a file, or `off`.
///
/// # Errors
/// A sentence, if nothing can be loaded into the program or the library is not there.
pub fn tracking(command: &[OsString], library: Option<&Path>) -> Result<Tracking, String> {
    let Some((name, arguments)) = command.split_first() else { return Ok(Tracking::Unknown) };
    let Some(path) = find(name) else { return Ok(Tracking::Unknown) };
    let refused = |why: &str| {
        Err(format!(
            "{} cannot be tracked: it does not use memledger::TrackingAllocator, and {why}",
            name.to_string_lossy()
        ))
    };
    match kind(&path) {
        Kind::HasTracker => Ok(Tracking::Own),
        Kind::Other => Ok(Tracking::Unknown),
        _ if library == Some(Path::new("off")) => Ok(Tracking::Unknown),
        Kind::Closed(why) => refused(why),
        Kind::Loader => tracking(started_by_loader(arguments), library),
        Kind::Dynamic => {
            let found = library.map(Path::to_owned).or_else(beside_this_command).map(Ok);
            match found.or_else(embedded::library) {
                Some(library) => preloaded(&library?),
                None => refused(NO_LIBRARY),
            }
        }
    }
}

/// From the program on, of the arguments of the dynamic loader (`man 8 ld.so`).
fn started_by_loader(arguments: &[OsString]) -> &[OsString] {
    /// The options with a value.
    const WITH_VALUE: [&str; 7] = [
        "--argv0",
        "--audit",
        "--glibc-hwcaps-mask",
        "--glibc-hwcaps-prepend",
        "--inhibit-rpath",
        "--library-path",
        "--preload",
    ];
    match arguments {
        [option, _, rest @ ..] if WITH_VALUE.iter().any(|name| option == name) => {
            started_by_loader(rest)
        }
        [option, rest @ ..] if option.as_encoded_bytes().starts_with(b"-") => {
            started_by_loader(rest)
        }
        program => program,
    }
}

/// The value of the loader's variable with the library before what it has, but for that of an outer
/// `memledger run`.
fn preloaded(library: &Path) -> Result<Tracking, String> {
    let shown = library.display();
    let library = fs::canonicalize(library)
        .map_err(|error| format!("the library {shown} cannot be used: {error}"))?;
    const ENDS: [char; 2] = [':', ' '];
    if library.to_string_lossy().contains(ENDS) {
        return Err(format!(
            "the library {shown} cannot be used: the loader takes a colon or a space in its path for the end of the path"
        ));
    }
    if !is_ours(&library) {
        return Err(format!(
            "the library {shown} cannot be used: it is not libmemledger_preload.so, which records programs"
        ));
    }
    let mut value = library.into_os_string();
    let others = std::env::var_os(VARIABLE).unwrap_or_default();
    let others = others.as_encoded_bytes().split(|byte| ENDS.contains(&char::from(*byte)));
    let others = others.map(|other| system_text(other.to_vec()));
    for other in others.filter(|other| !other.is_empty() && !is_ours(Path::new(other))) {
        value.push(":");
        value.push(other);
    }
    Ok(Tracking::Preloaded(value))
}

/// Whether the file has the tracker, as the library does.
fn is_ours(library: &Path) -> bool {
    File::open(library).is_ok_and(|file| of_file(file) == Some(Kind::HasTracker))
}

/// The library, if it is installed with this command.
fn beside_this_command() -> Option<PathBuf> {
    let command = std::env::current_exe().ok()?;
    let folder = command.parent()?;
    FOLDERS.iter().map(|other| folder.join(other).join(LIBRARY)).find(|path| path.is_file())
}

/// The file of a program, as the system looks for it.
pub fn find(name: &OsStr) -> Option<PathBuf> {
    // On Windows `program` means `program.exe`, if there is one.
    let whole = |path: PathBuf| {
        let mut whole = path.clone().into_os_string();
        whole.push(EXE_SUFFIX);
        Some(PathBuf::from(whole)).filter(|whole| whole.is_file()).unwrap_or(path)
    };
    if Path::new(name).components().count() > 1 {
        return Some(whole(name.into()));
    }
    let path = std::env::var_os("PATH")?;
    let is_program =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|it| it.is_file() && mode(&it) & 0o111 != 0);
    std::env::split_paths(&path).map(|folder| whole(folder.join(name))).find(is_program)
}

/// The mode of a file, as Unix has it.
fn mode(file: &Metadata) -> u32 {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::mode(file);
    #[cfg(not(unix))]
    return if file.is_file() { 0o755 } else { 0 };
}

/// Whether the file gives the program capabilities that its user lacks.
fn has_capabilities(_file: &File) -> bool {
    #[cfg(target_os = "linux")]
    return !rustix::process::geteuid().is_root()
        && rustix::fs::fgetxattr(_file, "security.capability", &mut [0_u8; 64]).is_ok();
    #[cfg(not(target_os = "linux"))]
    false
}

/// What the file is. Of a script, what its interpreter is.
fn kind(path: &Path) -> Kind {
    let interpreter = interpreter(path);
    let path = interpreter.as_deref().unwrap_or(path);
    let Ok(file) = File::open(path) else { return Kind::Other };
    // Set-user-id, set-group-id, or capabilities: the loader ignores its variables.
    let is_privileged =
        file.metadata().is_ok_and(|it| mode(&it) & 0o6000 != 0) || has_capabilities(&file);
    match of_file(file) {
        Some(Kind::Dynamic) if is_privileged => {
            Kind::Closed("it runs with more rights than its user, so nothing is loaded into it")
        }
        kind => kind.unwrap_or(Kind::Other),
    }
}

/// What runs scripts that do not say what does.
pub const SHELL: &str = "/bin/sh";

fn of_file(file: File) -> Option<Kind> {
    if cfg!(windows) {
        of_pe(file)
    } else if cfg!(target_os = "macos") {
        of_macho(file)
    } else {
        of_elf(file)
    }
}

fn interpreter(path: &Path) -> Option<PathBuf> {
    /// What Linux reads of the first line.
    const MAX_INTERPRETER_BYTES: u64 = 256;
    let mut line = Vec::new();
    let file = File::open(path).ok()?;
    BufReader::new(std::io::Read::take(file, MAX_INTERPRETER_BYTES))
        .read_until(b'\n', &mut line)
        .ok()?;
    let Some(rest) = line.strip_prefix(b"#!") else {
        let is_text = cfg!(unix) && !line.contains(&0);
        let is_executable = || fs::metadata(path).is_ok_and(|it| mode(&it) & 0o111 != 0);
        return (is_text && is_executable()).then(|| SHELL.into());
    };
    let rest = rest.trim_ascii();
    let name = rest.split(|byte| byte.is_ascii_whitespace()).next()?;
    Some(system_text(name.to_vec()).into())
}

/// Whether a file without `#!` can be a script of the shell.
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub fn is_script(path: &Path) -> bool {
    interpreter(path).is_some_and(|interpreter| interpreter == Path::new(SHELL))
}

/// What a program of Windows is; `None` if it is none.
fn of_pe(file: File) -> Option<Kind> {
    let data = &ReadCache::new(file);
    let has_tracker = match object::FileKind::parse(data).ok()? {
        object::FileKind::Pe64 => {
            let program = PeFile64::parse(data).ok()?;
            program.section_table().iter().any(|section| section.raw_name() == SECTION)
        }
        object::FileKind::Pe32 => false,
        _ => return None,
    };
    Some(match has_tracker {
        true => Kind::HasTracker,
        false => Kind::Closed(LINUX_ONLY),
    })
}

/// What a program of macOS is, by any of its parts; `None` if it is none.
fn of_macho(file: File) -> Option<Kind> {
    let data = &ReadCache::new(file);
    let parsed = object::File::parse(data)
        .ok()
        .filter(|file| file.format() == object::BinaryFormat::MachO)?;
    let has_tracker = parsed.section_by_name(SECTION_OF_MACHO).is_some();
    Some(if has_tracker { Kind::HasTracker } else { Kind::Closed(LINUX_ONLY) })
}

/// What an ELF file is; `None` if it is none that this machine runs.
fn of_elf(file: File) -> Option<Kind> {
    let data = &ReadCache::new(file);
    let Ok(header) = FileHeader64::<Endianness>::parse(data) else {
        // A program of 32 bits, or no program.
        let is_32 = object::FileKind::parse(data).is_ok_and(|kind| kind == object::FileKind::Elf32);
        return is_32.then_some(Kind::Closed("the library is for programs of 64 bits"));
    };
    let endian = header.endian().ok()?;
    let mut loader = None;
    for part in header.program_headers(endian, data).ok()? {
        if let Some(mut notes) = part.notes(endian, data).ok()? {
            while let Some(note) = notes.next().ok()? {
                if note.name() == NOTE {
                    return Some(Kind::HasTracker);
                }
            }
        }
        loader = loader.or(part.interpreter(endian, data).ok()?);
    }
    let sections = header.sections(endian, data).unwrap_or_default();
    let symbols = sections.symbols(endian, data, SHT_DYNSYM).unwrap_or_default();
    // PERF: in one piece. Each name would be a read of its own: 6,000 system calls for Python.
    let names = sections.section(symbols.string_section());
    let names = names.and_then(|section| section.data(endian, data)).unwrap_or_default();
    let names = StringTable::new(names, 0, names.len() as u64);
    let has = |name: &[u8]| symbols.iter().any(|symbol| symbol.name(endian, names) == Ok(name));
    if let Some((_, why)) = SANITIZERS.into_iter().find(|(function, _)| has(function)) {
        return Some(Kind::Closed(why));
    }
    let machine = if cfg!(target_arch = "aarch64") { EM_AARCH64 } else { EM_X86_64 };
    let is_musl = |loader: &[u8]| loader.windows(7).any(|name| name == b"ld-musl");
    Some(match loader {
        _ if header.e_machine(endian) != machine => {
            Kind::Closed("it is for another processor than the library")
        }
        None if has(b"_rtld_global") => Kind::Loader,
        None => Kind::Closed("it is linked statically, so nothing can be loaded into it"),
        Some(loader) if is_musl(loader) => {
            Kind::Closed("it is linked with musl, but the library with glibc")
        }
        Some(_) => Kind::Dynamic,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// What a file of Windows with one section is.
    fn kind_of_pe(magic: u16, section: &[u8; 8]) -> Option<Kind> {
        const HEADERS: usize = 0x40;
        const OPTIONAL_HEADER: (usize, u16) = (HEADERS + 24, 240);
        let mut bytes = vec![0; 0x400];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, b"MZ");
        put(0x3c, &(HEADERS as u32).to_le_bytes());
        put(HEADERS, b"PE\0\0");
        put(HEADERS + 4, &0x8664_u16.to_le_bytes());
        put(HEADERS + 6, &1_u16.to_le_bytes());
        put(HEADERS + 20, &OPTIONAL_HEADER.1.to_le_bytes());
        put(OPTIONAL_HEADER.0, &magic.to_le_bytes());
        put(OPTIONAL_HEADER.0 + 108, &16_u32.to_le_bytes());
        put(OPTIONAL_HEADER.0 + usize::from(OPTIONAL_HEADER.1), section);
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&bytes).expect("written");
        of_pe(file)
    }

    #[test]
    fn a_program_of_windows_has_the_tracker_in_a_section() {
        const PE64: u16 = 0x20b;
        let without = Some(Kind::Closed(LINUX_ONLY));
        assert_eq!(kind_of_pe(PE64, b".memlgr\0"), Some(Kind::HasTracker));
        assert_eq!(kind_of_pe(PE64, b".text\0\0\0"), without);
        assert_eq!(kind_of_pe(0x10b, b".memlgr\0"), without, "of 32 bits");
        let this = std::env::current_exe().expect("a path");
        let of_this = of_pe(File::open(this).expect("this program"));
        assert_eq!(of_this.is_some(), cfg!(windows));
    }

    #[test]
    fn a_program_of_macos_has_the_tracker_in_a_section() {
        /// A header, and one command: a segment with one section.
        fn kind_of_macho(section: &[u8; 16]) -> Option<Kind> {
            const SIZES: [u32; 2] = [72, 80];
            let mut bytes = Vec::new();
            let words = |bytes: &mut Vec<u8>, words: &[u32]| {
                bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            };
            words(&mut bytes, &[0xfeed_facf, 0x0100_000c, 0, 2, 1, SIZES[0] + SIZES[1], 0, 0]);
            words(&mut bytes, &[0x19, SIZES[0] + SIZES[1]]);
            bytes.extend(b"__DATA\0\0\0\0\0\0\0\0\0\0");
            words(&mut bytes, &[0; 10]);
            words(&mut bytes, &[1, 0]);
            bytes.extend(section);
            bytes.extend(b"__DATA\0\0\0\0\0\0\0\0\0\0");
            words(&mut bytes, &[0; 12]);
            let mut file = tempfile::tempfile().expect("a file");
            file.write_all(&bytes).expect("written");
            of_macho(file)
        }
        assert_eq!(kind_of_macho(b"__memledger\0\0\0\0\0"), Some(Kind::HasTracker));
        assert_eq!(kind_of_macho(b"__data\0\0\0\0\0\0\0\0\0\0"), Some(Kind::Closed(LINUX_ONLY)));
        let this = std::env::current_exe().expect("a path");
        let of_this = of_macho(File::open(this).expect("this program"));
        assert_eq!(of_this.is_some(), cfg!(target_os = "macos"));
    }
}
