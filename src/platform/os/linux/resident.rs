//! Which memory of this process is resident (RSS), and what it is.

#[cfg(c_mmap)]
use super::super::OF_ALLOCATORS;
use super::super::own_pages::own_pages;
use super::super::{AnonymousRange, PageBits, ResidentMemory};
use super::pages::page_bytes;
use super::thread_stacks::{ThreadStack, thread_stacks};
use super::watched::shared_ranges;
use super::{Memory, clocks, loaded_files};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// The resident memory of this process now, the largest so far, and what of the first is anonymous, in bytes;
/// `None` if the system does not say.
///
/// NOTE: not `ru_maxrss`, which a program inherits from the one that has started it.
pub(crate) fn rss_sums() -> Option<[u64; 3]> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    let kib = |key| {
        let mut lines = status.lines();
        let text = lines.find_map(|line| line.strip_prefix(key))?;
        text.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    Some([kib("VmRSS:")? << 10, kib("VmHWM:")? << 10, kib("RssAnon:").unwrap_or(0) << 10])
}

/// What the resident memory of this process is. Takes time in proportion to mappings and resident pages;
/// threads that map memory may wait for it meanwhile. Calls `step` after each mapping.
///
/// # Errors
/// Those of `/proc`.
pub(crate) fn resident_memory(step: impl Fn()) -> io::Result<ResidentMemory> {
    let time = || Duration::from_nanos(clocks::read_clock(libc::CLOCK_THREAD_CPUTIME_ID));
    let began = time();
    let known = AddressRanges::now()?;
    let pages = Pages::open()?;
    let smaps = File::open("/proc/thread-self/smaps")?;
    let smaps = BufReader::with_capacity(64 << 10, smaps);
    let mut memory = classify(smaps, &known, |start, end| pages.resident(start, end), step)?;
    memory.static_pages.retain(|of| !known.own.contains(&of.start));
    for of in &mut memory.static_pages {
        of.end = of.end.min(of.start + MOST_STATIC_BYTES);
        of.bits = pages.bits(of);
    }
    memory.took = time().saturating_sub(began);
    Ok(memory)
}

/// What is known of addresses, whatever mapping they are in: the kernel makes one mapping of neighbouring
/// anonymous ones.
#[derive(Debug, Default)]
struct AddressRanges {
    /// Without overlaps, in their order.
    cuts: Vec<Cut>,
    /// In the order of their ends.
    stacks: Vec<ThreadStack>,
    /// The file of the tracker, if it is a library of its own.
    own: Range<u64>,
}

/// A part of the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    start: u64,
    end: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Anonymous,
    /// Anonymous memory that an allocator has mapped.
    #[cfg_attr(
        not(any(c_mmap, test)),
        expect(dead_code, reason = "they map memory by functions that are not seen")
    )]
    Allocator,
    Tracker,
    Stack,
    EndedStack,
    Binary,
    Data,
    File,
    Shared,
    Other,
}

impl ResidentMemory {
    fn add(&mut self, kind: Kind, start: u64, end: u64, resident: u64) {
        let sum = match kind {
            Kind::Anonymous => return push(&mut self.anonymous, start, end, resident),
            Kind::Allocator => return push(&mut self.of_allocators, start, end, resident),
            Kind::Tracker => &mut self.tracker,
            Kind::Stack => &mut self.stacks,
            Kind::EndedStack => &mut self.ended_stacks,
            Kind::Binary => &mut self.binaries,
            Kind::Data => {
                if resident >= STATIC_BYTES && self.static_pages.len() < MAX_STATIC_RANGES {
                    let bits = Vec::new();
                    self.static_pages.push(PageBits { start, end, resident_bytes: resident, bits });
                }
                &mut self.data
            }
            Kind::File => &mut self.files,
            Kind::Shared => {
                push(&mut self.shared_ranges, start, end, resident);
                &mut self.shared
            }
            Kind::Other => &mut self.other,
        };
        *sum += resident;
    }
}

/// The pages of static variables are looked at where a file has this many bytes of them, up to this distance
/// from the first one, in this many files.
const STATIC_BYTES: u64 = 256 << 10;
const MOST_STATIC_BYTES: u64 = 1 << 30;
const MAX_STATIC_RANGES: usize = 16;

fn push(to: &mut Vec<AnonymousRange>, start: u64, end: u64, resident_bytes: u64) {
    if resident_bytes > 0 {
        to.push(AnonymousRange { start, bytes: end - start, resident_bytes });
    }
}

/// Its address is in the tracker's file.
static IN_OWN_FILE: u8 = 0;

impl AddressRanges {
    fn now() -> io::Result<Self> {
        let (files, _) = loaded_files(&Memory::open()?, |_, _| false)?;
        let cut = |kind| {
            move |(start, bytes): (u64, u64)| Cut { start, end: start.saturating_add(bytes), kind }
        };
        let page = page_bytes() as u64;
        let binaries = files.iter().map(|file| (file.base, file.size.next_multiple_of(page)));
        let mut cuts: Vec<_> = own_pages().map(cut(Kind::Tracker)).collect();
        let shared = shared_ranges().map(|(start, bytes)| (start as u64, bytes as u64));
        // What was shared where it is, is among the pages already.
        let is_new = |range: &(u64, u64)| cuts.iter().all(|cut| cut.start != range.0);
        let shared: Vec<_> = shared.filter(is_new).collect();
        cuts.extend(shared.into_iter().map(cut(Kind::Tracker)));
        cuts.extend(binaries.map(cut(Kind::Binary)));
        #[cfg(c_mmap)]
        cuts.extend(OF_ALLOCATORS.ranges().map(cut(Kind::Allocator)));
        cuts.sort_unstable_by_key(|cut| cut.start);
        let here = (&raw const IN_OWN_FILE).addr() as u64;
        let mut own = files.iter().map(|file| file.base..file.base.saturating_add(file.size));
        let own = own.find(|range| cfg!(preload) && range.contains(&here)).unwrap_or_default();
        Ok(Self { cuts, stacks: thread_stacks(), own })
    }

    fn between(&self, start: u64, end: u64) -> impl Iterator<Item = &Cut> {
        let first = self.cuts.partition_point(|cut| cut.end <= start);
        self.cuts[first..].iter().take_while(move |cut| cut.start < end)
    }

    /// The stacks in an anonymous mapping.
    fn stacks_in(&self, mapping: &Mapping) -> impl Iterator<Item = Cut> {
        let Mapping { start, end, is_guarded, .. } = *mapping;
        let first = self.stacks.partition_point(|stack| stack.end <= start);
        let stacks = self.stacks[first..].iter().take_while(move |stack| stack.end <= end);
        // A stack of the C library is a mapping after an inaccessible page. NOTE: if its size is no number of
        // pages, the descriptor can be in the last page but one.
        let is_whole = move |stack: &ThreadStack| {
            is_guarded && end - stack.end <= page_bytes() as u64 && stack.start() <= start
        };
        // That of an ended thread is kept as it was. What has another form has taken its place.
        stacks.filter(move |stack| !stack.is_ended || is_whole(stack)).map(move |stack| {
            let kind = if stack.is_ended { Kind::EndedStack } else { Kind::Stack };
            let end = if is_whole(stack) { end } else { stack.end };
            Cut { start: stack.start().max(start), end, kind }
        })
    }

    /// The parts of an anonymous mapping.
    fn parts(&self, mapping: &Mapping) -> Vec<Cut> {
        let Mapping { start, end, .. } = *mapping;
        let mut cuts: Vec<_> = self.between(start, end).copied().collect();
        if mapping.may_have_stack {
            cuts.extend(self.stacks_in(mapping));
            cuts.sort_unstable_by_key(|cut| cut.start);
        }
        let mut parts = Vec::with_capacity(cuts.len() + 1);
        let mut at = start;
        for cut in cuts {
            let (from, to) = (cut.start.max(at), cut.end.min(end));
            if from < to {
                if at < from {
                    parts.push(Cut { start: at, end: from, kind: Kind::Anonymous });
                }
                // The zeroed data of a binary is after what is of its file.
                let kind = if cut.kind == Kind::Binary { Kind::Data } else { cut.kind };
                parts.push(Cut { start: from, end: to, kind });
                at = to;
            }
        }
        if at < end {
            parts.push(Cut { start: at, end, kind: Kind::Anonymous });
        }
        parts
    }
}

/// One mapping of `/proc/self/smaps`.
#[derive(Clone, Copy)]
struct Mapping {
    start: u64,
    end: u64,
    kind: Kind,
    /// `[stack]` and `[heap]` have no stack of another thread.
    may_have_stack: bool,
    is_inaccessible: bool,
    /// Inaccessible addresses are before it.
    is_guarded: bool,
    /// What is resident, and how much of it is in no file.
    rss: u64,
    anonymous: u64,
}

/// The head of a mapping; `None` for any other line.
fn parse(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let hex = |word| u64::from_str_radix(word, 16).ok();
    let (start, end) = (hex(start)?, hex(end)?);
    let access = words.next()?;
    let (_, _, inode) = (words.next()?, words.next()?, words.next()?);
    let path = words.next().unwrap_or_default();
    let is_shared = access.as_bytes().get(3) == Some(&b's');
    // Memory that is shared without a file has an inode, but of no file system that a path leads to.
    let is_memory = ["/memfd:", "/dev/shm/", "/dev/zero", "/SYSV", "[anon_shmem"]
        .iter()
        .any(|memory| path.starts_with(memory));
    let kind = match path {
        "[stack]" => Kind::Stack,
        "" | "[heap]" => Kind::Anonymous,
        _ if path.starts_with("[anon:") => Kind::Anonymous,
        _ if is_memory && is_shared => Kind::Shared,
        _ if inode != "0" => Kind::File,
        _ => Kind::Other,
    };
    Some(Mapping {
        start,
        end,
        kind,
        may_have_stack: kind == Kind::Anonymous && path != "[heap]",
        is_inaccessible: access.starts_with("---"),
        is_guarded: false,
        rss: 0,
        anonymous: 0,
    })
}

/// The bytes of a line such as `Rss: 8 kB`; `None` for another one.
fn bytes_of(line: &str, key: &str) -> io::Result<Option<u64>> {
    let Some(kib) = line.strip_prefix(key) else { return Ok(None) };
    let kib = kib.trim().strip_suffix(" kB").and_then(|kib| kib.parse::<u64>().ok());
    let kib =
        kib.ok_or_else(|| io::Error::other(format!("/proc/self/smaps has the line {line:?}")))?;
    Ok(Some(kib << 10))
}

/// Sums up the mappings of `smaps`, and calls `step` after each. `resident` counts the resident bytes between
/// two addresses.
fn classify(
    mut smaps: impl BufRead,
    known: &AddressRanges,
    resident: impl Fn(u64, u64) -> u64,
    step: impl Fn(),
) -> io::Result<ResidentMemory> {
    let mut sums = ResidentMemory::default();
    let mut mapping = None::<Mapping>;
    let mut line = Vec::new();
    loop {
        line.clear();
        let is_end = smaps.read_until(b'\n', &mut line)? == 0;
        let text = String::from_utf8_lossy(&line);
        let next = parse(&text);
        if (is_end || next.is_some())
            && let Some(mapping) = &mapping
        {
            divide(mapping, known, &resident, &mut sums);
            step();
        }
        if is_end {
            break;
        }
        if let Some(next) = next {
            let guard = mapping.filter(|last| last.is_inaccessible && last.end == next.start);
            mapping = Some(Mapping { is_guarded: guard.is_some(), ..next });
        } else if let Some(mapping) = &mut mapping {
            if let Some(bytes) = bytes_of(&text, "Rss:")? {
                mapping.rss = bytes;
                sums.rss += bytes;
            } else if let Some(bytes) = bytes_of(&text, "Anonymous:")? {
                mapping.anonymous = bytes.min(mapping.rss);
            } else if let Some(bytes) = bytes_of(&text, "AnonHugePages:")? {
                sums.huge_pages += bytes;
            } else if let Some(bytes) = bytes_of(&text, "Swap:")? {
                sums.swap += bytes;
            }
            for key in ["Private_Clean:", "Private_Dirty:", "Private_Hugetlb:"] {
                sums.private += bytes_of(&text, key)?.unwrap_or(0);
            }
        }
    }
    sums.anonymous.sort_unstable_by_key(|range| range.start);
    sums.of_allocators.sort_unstable_by_key(|range| range.start);
    Ok(sums)
}

/// Adds the parts of a mapping.
fn divide(
    mapping: &Mapping,
    known: &AddressRanges,
    resident: impl Fn(u64, u64) -> u64,
    sums: &mut ResidentMemory,
) {
    let Mapping { start, end, kind, rss, anonymous, .. } = *mapping;
    let has = |kind| known.between(start, end).any(|cut| cut.kind == kind);
    match kind {
        Kind::Anonymous => {}
        // What a watcher shares. NOTE: the kernel makes no mapping of this one and another.
        Kind::Shared if has(Kind::Tracker) => return sums.add(Kind::Tracker, start, end, rss),
        Kind::File => {
            let is_binary = has(Kind::Binary);
            if is_binary {
                sums.add(Kind::Data, start, end, anonymous);
            } else {
                sums.changed_files += anonymous;
                push(&mut sums.changed_ranges, start, end, anonymous);
            }
            let kind = if is_binary { Kind::Binary } else { Kind::File };
            return sums.add(kind, start, end, rss - anonymous);
        }
        _ => return sums.add(kind, start, end, rss),
    }
    if rss == 0 {
        return;
    }
    // The largest part gets what the others leave. So the parts have the sum that the kernel states, and
    // the pages of a huge mapping are not looked at.
    let mut parts = known.parts(mapping);
    parts.sort_unstable_by_key(|part| part.end - part.start);
    let mut left = rss;
    let largest = parts.pop();
    for part in parts {
        let bytes = resident(part.start, part.end).min(left);
        left -= bytes;
        sums.add(part.kind, part.start, part.end, bytes);
    }
    if let Some(largest) = largest {
        // The system may have taken pages between the two looks.
        let bytes = left.min(largest.end - largest.start);
        sums.add(largest.kind, largest.start, largest.end, bytes);
        sums.other += left - bytes;
    }
}

/// `/proc/self/pagemap`.
struct Pages(File);

impl Pages {
    /// Of an entry: `Documentation/admin-guide/mm/pagemap.rst`.
    const PRESENT: u64 = 1 << 63;
    const OF_FILE: u64 = 1 << 61;
    const OWN: u64 = 1 << 56;

    fn open() -> io::Result<Self> {
        File::open("/proc/thread-self/pagemap").map(Self)
    }

    /// The resident bytes between two addresses; 0 if the system does not say.
    fn resident(&self, start: u64, end: u64) -> u64 {
        let mut present = 0;
        self.read(start, end, |entry| present += u64::from(entry & Self::PRESENT != 0));
        present * page_bytes() as u64
    }

    /// Which pages of a range are resident and in no file.
    fn bits(&self, of: &PageBits) -> Vec<u8> {
        let mut entries = Vec::new();
        self.read(of.start, of.end, |entry| entries.push(entry));
        let mut is_resident: fn(&u64) -> bool =
            |entry| entry & Self::PRESENT != 0 && entry & Self::OF_FILE == 0;
        let count = entries.iter().filter(|entry| is_resident(entry)).count();
        // What was read only has the one page of zeros that all processes share, which is not counted as
        // resident. NOTE: after a fork, pages of the program are shared, too.
        if (count * page_bytes()) as u64 > of.resident_bytes {
            is_resident = |entry| entry & Self::PRESENT != 0 && entry & Self::OWN != 0;
        }
        let byte = |pages: &[u64]| {
            pages.iter().rev().fold(0, |byte, page| byte << 1 | u8::from(is_resident(page)))
        };
        entries.chunks(8).map(byte).collect()
    }

    /// The entries of the pages between two addresses, up to the first one that cannot be read.
    fn read(&self, start: u64, end: u64, mut entry: impl FnMut(u64)) {
        const ENTRY: u64 = 8;
        const AT_ONCE: u64 = 1024;
        let mut entries = [0; (ENTRY * AT_ONCE) as usize];
        let page_bytes = page_bytes() as u64;
        let (mut page, last) = (start / page_bytes, end / page_bytes);
        while page < last {
            let count = (last - page).min(AT_ONCE);
            let entries = &mut entries[..(count * ENTRY) as usize];
            if self.0.read_exact_at(entries, page * ENTRY).is_err() {
                break;
            }
            entries.as_chunks().0.iter().for_each(|word| entry(u64::from_le_bytes(*word)));
            page += count;
        }
    }
}

#[cfg(test)]
mod tests;
