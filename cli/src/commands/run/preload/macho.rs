//! What a program of macOS is (`mach-o/loader.h`, `mach-o/fat.h`), and whether its signature lets libraries
//! in (`osfmk/kern/cs_blobs.h` of XNU).

use super::Kind;
use object::macho::{
    CPU_SUBTYPE_ARM64E, CPU_TYPE_ARM64, CPU_TYPE_X86_64, CpuType, LC_CODE_SIGNATURE,
    LC_LOAD_DYLINKER, MH_EXECUTE, MachHeader64,
};
use object::read::macho::{FatArch, MachHeader, MachOFatFile32, Section, Segment};
use object::{Endianness, FileKind, ReadCache, ReadRef};
use std::fs::File;

/// The section of a program with the tracker.
const SECTION: (&[u8], &[u8]) = (b"__DATA", b"__memledger");
/// A program with this section takes nothing from its environment (`man 1 dyld`).
const RESTRICTED: (&[u8], &[u8]) = (b"__RESTRICT", b"__restrict");

/// What the file is; `None` if it is none of macOS.
pub(super) fn of_macho(file: &File) -> Option<Kind> {
    let processor = if cfg!(target_arch = "aarch64") { CPU_TYPE_ARM64 } else { CPU_TYPE_X86_64 };
    of_data(&ReadCache::new(file), processor)
}

fn of_data<'data>(data: impl ReadRef<'data>, processor: CpuType) -> Option<Kind> {
    match FileKind::parse(data).ok()? {
        FileKind::MachO64 => of_header(data, 0, processor),
        FileKind::MachOFat32 => {
            let programs = MachOFatFile32::parse(data).ok()?;
            let own = programs.arches().iter().filter(|one| one.cputype() == processor);
            // Of two, the system takes that with signed pointers.
            let own = own.max_by_key(|one| one.cpusubtype().id() == CPU_SUBTYPE_ARM64E);
            own.map_or(Some(OTHER_PROCESSOR), |own| of_header(data, own.offset().into(), processor))
        }
        FileKind::MachO32 => Some(Kind::Closed("the library is for programs of 64 bits")),
        _ => None,
    }
}

const OTHER_PROCESSOR: Kind = Kind::Closed("it is for another processor than the library");

fn of_header<'data>(data: impl ReadRef<'data>, at: u64, processor: CpuType) -> Option<Kind> {
    let header = MachHeader64::<Endianness>::parse(data, at).ok()?;
    let endian = header.endian().ok()?;
    if header.filetype(endian) != MH_EXECUTE {
        return None;
    }
    let (mut has_loader, mut is_restricted, mut signature) = (false, false, None);
    let mut commands = header.load_commands(endian, data, at).ok()?;
    while let Some(command) = commands.next().ok()? {
        has_loader |= command.cmd() == LC_LOAD_DYLINKER;
        if command.cmd() == LC_CODE_SIGNATURE {
            let place = command.data::<object::macho::LinkeditDataCommand<Endianness>>().ok()?;
            let start = at.checked_add(place.dataoff.get(endian).into())?;
            signature = data.read_bytes_at(start, place.datasize.get(endian).into()).ok();
        }
        if let Some((segment, data_of_segment)) = command.segment_64().ok()? {
            for section in segment.sections(endian, data_of_segment).ok()? {
                let name = (section.segment_name(), section.name());
                if name == SECTION {
                    return Some(Kind::HasTracker);
                }
                is_restricted |= name == RESTRICTED;
            }
        }
    }
    Some(match header.cputype(endian) == processor {
        false => OTHER_PROCESSOR,
        true if processor == CPU_TYPE_ARM64
            && header.cpusubtype(endian).id() == CPU_SUBTYPE_ARM64E =>
        {
            Kind::Closed("it is for arm64e, but the library for arm64")
        }
        true if !has_loader => {
            Kind::Closed("it is linked statically, so nothing can be loaded into it")
        }
        true if is_restricted => Kind::Closed("its section __restrict keeps libraries out"),
        true if signature.is_some_and(|bytes| is_closed(bytes).unwrap_or(false)) => Kind::Closed(
            "its signature keeps libraries out (of a copy, codesign --force --sign - COPY makes one that does not)",
        ),
        true => Kind::Dynamic,
    })
}

/// Whether a signature keeps libraries of others out; `None` if it cannot be read.
fn is_closed(signature: &[u8]) -> Option<bool> {
    const CODE: u32 = 0;
    const ENTITLEMENTS: u32 = 5;
    const FLAGS_AT: usize = 12;
    /// `CS_RESTRICT`, `CS_REQUIRE_LV` and `CS_RUNTIME`.
    const NO_VARIABLES: u32 = 0x800 | 0x1_0000;
    const NO_LIBRARIES: u32 = 0x2000 | 0x1_0000;
    const MAY_HAVE_VARIABLES: &[u8] = b"com.apple.security.cs.allow-dyld-environment-variables";
    const MAY_HAVE_LIBRARIES: &[u8] = b"com.apple.security.cs.disable-library-validation";

    let number = |at: usize| Some(u32::from_be_bytes(*signature.get(at..)?.first_chunk()?));
    // After a magic number and the size: a list of kinds and places.
    let find = |kind| {
        let mut entries = (0..number(8)? as usize)
            .map_while(|one| Some((number(12 + one * 8)?, number(16 + one * 8)?)));
        entries.find(|(found, _)| *found == kind).map(|(_, at)| at as usize)
    };
    let flags = number(find(CODE)?.checked_add(FLAGS_AT)?)?;
    let entitlements = find(ENTITLEMENTS).and_then(|at| {
        let bytes = signature.get(at..)?;
        bytes.get(..number(at.checked_add(4)?)? as usize)
    });
    let may = |name: &[u8]| {
        entitlements.is_some_and(|text| text.windows(name.len()).any(|part| part == name))
    };
    Some(
        flags & NO_VARIABLES != 0 && !may(MAY_HAVE_VARIABLES)
            || flags & NO_LIBRARIES != 0 && !may(MAY_HAVE_LIBRARIES),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const HARDENED: u32 = 0x1_0000;
    const ONLY_OF_THE_SAME_SIGNER: u32 = 0x2000;
    const BY_ITS_LINKER: u32 = 0x2_0002;
    const VARIABLES: &str =
        "<key>com.apple.security.cs.allow-dyld-environment-variables</key><true/>";
    const LIBRARIES: &str = "<key>com.apple.security.cs.disable-library-validation</key><true/>";

    fn command(kind: u32, fields: &[u8]) -> Vec<u8> {
        [&kind.to_le_bytes(), &(fields.len() as u32 + 8).to_le_bytes(), fields].concat()
    }

    /// A segment with one section.
    fn segment(segment: &str, section: &str) -> Vec<u8> {
        let name = |name: &str| {
            let mut bytes = name.as_bytes().to_vec();
            bytes.resize(16, 0);
            bytes
        };
        let numbers: Vec<u8> =
            [0_u32; 8].into_iter().chain([0, 0, 1, 0]).flat_map(u32::to_le_bytes).collect();
        command(0x19, &[name(segment), numbers, name(section), name(segment), vec![0; 48]].concat())
    }

    fn loader() -> Vec<u8> {
        command(0xe, &[12, 0, 0, 0, b'/', b'd', 0, 0])
    }

    /// A signature with these flags and entitlements.
    fn signature(flags: u32, entitlements: &str) -> Vec<u8> {
        let be =
            |numbers: &[u32]| numbers.iter().flat_map(|one| one.to_be_bytes()).collect::<Vec<_>>();
        let code = be(&[0xfade_0c02, 16, 0x2_0400, flags]);
        let size = entitlements.len() as u32;
        let list = be(&[0xfade_0cc0, 60 + size, 2, 0, 28, 5, 44]);
        [list, code, be(&[0xfade_7171, 8 + size]), entitlements.into()].concat()
    }

    /// What a program with these commands is; the signature follows them.
    fn kind(processor: u32, commands: &[Vec<u8>], signature: Option<Vec<u8>>) -> Option<Kind> {
        let mut commands = commands.to_vec();
        let signature = signature.unwrap_or_default();
        if !signature.is_empty() {
            let start = 32 + commands.concat().len() as u32 + 16;
            let place = [start.to_le_bytes(), (signature.len() as u32).to_le_bytes()].concat();
            commands.push(command(0x1d, &place));
        }
        let all = commands.concat();
        let header = [0xfeed_facf, processor, 0, 2, commands.len() as u32, all.len() as u32, 0, 0];
        let header: Vec<u8> = header.into_iter().flat_map(u32::to_le_bytes).collect();
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[header, all, signature].concat()).expect("written");
        of_macho(&file)
    }

    #[test]
    fn a_program_of_macos_is_known_by_its_commands() {
        let [own, other] = match cfg!(target_arch = "aarch64") {
            true => [0x0100_000c, 0x0100_0007],
            false => [0x0100_0007, 0x0100_000c],
        };
        let closed = |kind: Option<Kind>, why: &str| {
            assert!(
                matches!(kind, Some(Kind::Closed(text)) if text.contains(why)),
                "{kind:?}, not {why}"
            );
        };
        let plain = [segment("__TEXT", "__text"), loader()];
        assert_eq!(kind(own, &plain, None), Some(Kind::Dynamic));
        let tracked = [segment("__DATA", "__memledger"), loader()];
        assert_eq!(kind(own, &tracked, None), Some(Kind::HasTracker));
        closed(kind(own, &plain[..1], None), "statically");
        closed(kind(other, &plain, None), "another processor");
        closed(kind(own, &[segment("__RESTRICT", "__restrict"), loader()], None), "__restrict");
        let this = std::env::current_exe().expect("a path");
        let of_this = of_macho(&File::open(this).expect("this program"));
        assert_eq!(of_this.is_some(), cfg!(target_os = "macos"));
    }

    #[test]
    fn of_a_program_for_arm64_the_part_with_signed_pointers_counts() {
        // Two programs without commands at 64 and 128, in a universal file.
        let of = |subtypes: [u32; 2]| {
            let part = |subtype: u32, at: u32| [0x0100_000c, subtype, at, 32, 0];
            let list = [0xcafe_babe, 2]
                .into_iter()
                .chain(part(subtypes[0], 64))
                .chain(part(subtypes[1], 128));
            let mut bytes: Vec<u8> = list.flat_map(u32::to_be_bytes).collect();
            for (subtype, at) in subtypes.into_iter().zip([64, 128]) {
                bytes.resize(at, 0);
                let header = [0xfeed_facf, 0x0100_000c, subtype, 2, 0, 0, 0, 0];
                bytes.extend(header.into_iter().flat_map(u32::to_le_bytes));
            }
            of_data(&*bytes, CPU_TYPE_ARM64)
        };
        let of_arm64e = Some(Kind::Closed("it is for arm64e, but the library for arm64"));
        assert_eq!(of([0, 2]), of_arm64e);
        assert_eq!(of([2, 0]), of_arm64e);
        assert_ne!(of([0, 0]), of_arm64e);
    }

    #[test]
    fn a_hardened_program_takes_a_library_only_if_it_says_so_for_both() {
        let is_open = |flags, entitlements: &str| {
            let whole = signature(flags, entitlements);
            // Whatever part of it there is.
            for end in 0..whole.len() {
                let _ = is_closed(&whole[..end]);
            }
            is_closed(&whole) == Some(false)
        };
        assert!(is_open(BY_ITS_LINKER, ""));
        assert!(!is_open(HARDENED, ""));
        assert!(is_open(HARDENED, &[VARIABLES, LIBRARIES].concat()));
        assert!(!is_open(HARDENED, VARIABLES));
        assert!(!is_open(HARDENED, LIBRARIES));
        assert!(!is_open(ONLY_OF_THE_SAME_SIGNER, VARIABLES));
        assert!(is_open(ONLY_OF_THE_SAME_SIGNER, LIBRARIES));
        let machine = if cfg!(target_arch = "aarch64") { 0x0100_000c } else { 0x0100_0007 };
        let plain = [segment("__TEXT", "__text"), loader()];
        assert_eq!(kind(machine, &plain, Some(signature(BY_ITS_LINKER, ""))), Some(Kind::Dynamic));
        let hardened = kind(machine, &plain, Some(signature(HARDENED, "")));
        assert!(matches!(hardened, Some(Kind::Closed(_))), "{hardened:?}");
    }
}
