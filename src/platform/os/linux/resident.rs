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
mod tests {
    use super::*;
    use std::cell::Cell;

    impl ResidentMemory {
        fn sum(&self) -> u64 {
            let anonymous = self.anonymous.iter().chain(&self.of_allocators);
            let anonymous: u64 = anonymous.map(|range| range.resident_bytes).sum();
            let stacks = self.stacks + self.ended_stacks;
            let files = self.binaries + self.data + self.files + self.changed_files;
            self.tracker + stacks + files + self.shared + self.other + anonymous
        }
    }

    const SMAPS: &str = "\
1000-3000 r-xp 00000000 fe:00 7    /usr/bin/a program
Size:                  8 kB
Rss:                   8 kB
Anonymous:             4 kB
3000-9000 rw-p 00000000 00:00 0
Rss:                  20 kB
Anonymous:            20 kB
AnonHugePages:         8 kB
Private_Dirty:        16 kB
Private_Clean:         4 kB
Swap:                 12 kB
SwapPss:              12 kB
9000-a000 rw-p 00000000 00:00 0    [heap]
Rss:                   4 kB
b000-c000 rw-s 00000000 00:05 9    /memfd:x (deleted)
Rss:                   4 kB
c000-d000 rw-p 00000000 fe:00 8    /tmp/data
Rss:                   4 kB
Anonymous:             4 kB
d000-d400 rw-p 00000000 fe:00 8    /tmp/data
Rss:                   1 kB
d400-f000 rw-p 00000000 00:00 0    [stack]
Rss:                   4 kB
f000-10000 r-xp 00000000 00:00 0   [vdso]
Rss:                   4 kB
VmFlags: rd ex
";

    fn range(start: u64, bytes: u64, resident_bytes: u64) -> AnonymousRange {
        AnonymousRange { start, bytes, resident_bytes }
    }

    #[test]
    fn each_mapping_is_of_one_kind() {
        let cuts = vec![Cut { start: 0x1000, end: 0x4000, kind: Kind::Binary }];
        let known = AddressRanges { cuts, ..AddressRanges::default() };
        let steps = Cell::new(0);
        let step = || steps.set(steps.get() + 1);
        let sums = classify(SMAPS.as_bytes(), &known, |from, to| to - from, step).unwrap();
        assert_eq!(steps.get(), 8);
        let expected = ResidentMemory {
            took: Duration::ZERO,
            rss: 49 << 10,
            stacks: 4 << 10,
            binaries: 4 << 10,
            // A changed page, and that of zeroed data after it.
            data: 8 << 10,
            files: 1 << 10,
            changed_files: 4 << 10,
            changed_ranges: vec![range(0xc000, 0x1000, 4 << 10)],
            shared: 4 << 10,
            shared_ranges: vec![range(0xb000, 0x1000, 4 << 10)],
            other: 4 << 10,
            huge_pages: 8 << 10,
            swap: 12 << 10,
            private: 20 << 10,
            tracker: 0,
            ended_stacks: 0,
            of_allocators: Vec::new(),
            static_pages: Vec::new(),
            anonymous: vec![range(0x4000, 0x5000, 16 << 10), range(0x9000, 0x1000, 4 << 10)],
        };
        assert_eq!(sums, expected);
        assert_eq!(sums.sum(), sums.rss);
    }

    #[test]
    fn one_mapping_can_have_several_parts() {
        // A stack from the start of the mapping on, then pages of the tracker, then others, of which the last
        // one is an allocator's.
        let cut = |start, end, kind| Cut { start, end, kind };
        let cuts = vec![cut(0x6000, 0x7000, Kind::Tracker), cut(0x8000, 0x9000, Kind::Allocator)];
        let living = ThreadStack { end: 0x5000, bytes: u64::MAX, is_ended: false };
        let known = AddressRanges { cuts, stacks: vec![living], ..AddressRanges::default() };
        let lines = "3000-9000 rw-p 00000000 00:00 0\nRss:                  20 kB\n";
        // All pages are resident but that of the tracker.
        let resident = |from: u64, to: u64| if from == 0x6000 { 0 } else { to - from };
        let sums = classify(lines.as_bytes(), &known, resident, || {}).unwrap();
        let anonymous = vec![range(0x5000, 0x1000, 4 << 10), range(0x7000, 0x1000, 4 << 10)];
        assert_eq!(sums.of_allocators, [range(0x8000, 0x1000, 4 << 10)]);
        assert_eq!((sums.stacks, sums.tracker, sums.sum()), (8 << 10, 0, 20 << 10));
        assert_eq!(sums.anonymous, anonymous);
    }

    #[test]
    fn a_stack_of_an_ended_thread_counts_while_its_mapping_is_as_it_was() {
        let stack = |end, is_ended| ThreadStack { end, bytes: 0x4000, is_ended };
        let stacks = vec![stack(0x5000, true), stack(0x9000, true), stack(0xc000, false)];
        let known = AddressRanges { stacks, ..AddressRanges::default() };
        let sums =
            |lines: &str| classify(lines.as_bytes(), &known, |from, to| to - from, || {}).unwrap();
        let kept = sums(
            "1000-2000 ---p 00000000 00:00 0\n2000-5000 rw-p 00000000 00:00 0\nRss: 8 kB\n\
             5000-6000 ---p 00000000 00:00 0\n6000-9000 rw-p 00000000 00:00 0\nRss: 4 kB\n\
             9000-c000 rw-p 00000000 00:00 0\nRss: 4 kB\n",
        );
        assert_eq!((kept.ended_stacks, kept.stacks, kept.sum()), (12 << 10, 4 << 10, 16 << 10));
        // With a descriptor in the last page but one.
        let unaligned =
            sums("5000-6000 ---p 00000000 00:00 0\n6000-a000 rw-p 00000000 00:00 0\nRss: 16 kB\n");
        assert_eq!((unaligned.ended_stacks, unaligned.sum()), (16 << 10, 16 << 10));
        // Something is in its place: without an inaccessible page, longer, or with a larger start.
        let others = sums(
            "2000-5000 rw-p 00000000 00:00 0\nRss: 8 kB\n\
             5000-6000 ---p 00000000 00:00 0\n6000-b000 rw-p 00000000 00:00 0\nRss: 4 kB\n",
        );
        assert_eq!((others.ended_stacks, others.anonymous.len()), (0, 2));
    }

    #[test]
    fn pages_of_static_variables_are_told_apart() {
        static mut TABLE: [u8; 4 << 20] = [0; 4 << 20];
        let page = page_bytes();
        let table = (&raw mut TABLE).cast::<u8>();
        // From the first whole page on, every third one.
        let start = table.addr().next_multiple_of(page);
        let written = (0..300).map(|number| number * 3);
        for at in written.clone() {
            // SAFETY: within the variable, which nothing else names. The page after it is read only.
            unsafe {
                table.add(start - table.addr() + at * page).write(1);
                std::hint::black_box(
                    table.add(start - table.addr() + (at + 1) * page).read_volatile(),
                );
            }
        }
        let memory = resident_memory(|| {}).unwrap();
        let is_in = |pages: &&PageBits| (pages.start..pages.end).contains(&(start as u64));
        let pages = memory.static_pages.iter().find(is_in).unwrap();
        let first = (start - pages.start as usize) / page;
        let bit = |at: usize| pages.bits[(first + at) / 8] >> ((first + at) % 8) & 1;
        assert!(written.clone().all(|at| bit(at) == 1));
        assert!(
            written.clone().all(|at| bit(at + 1) == 0)
                && written.skip(1).all(|at| bit(at - 1) == 0)
        );
    }

    #[test]
    fn what_is_resident_here_is_told_apart() {
        let map = |pages: usize, flags| {
            let size = pages * page_bytes();
            let access = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: a new mapping; its pages are written, within it.
            unsafe {
                let at = libc::mmap(std::ptr::null_mut(), size, access, flags, -1, 0);
                assert_ne!(at, libc::MAP_FAILED);
                let at = at.cast::<u8>();
                (0..pages / 2).for_each(|page| at.add(page * page_bytes()).write(1));
                at.addr() as u64
            }
        };
        let (began, wait) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let frame = [1_u8; 256 << 10];
                std::hint::black_box(&frame);
                began.wait();
                wait.wait();
            });
            began.wait();
            let before = resident_memory(|| {}).unwrap();
            let own = map(2000, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            map(1000, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
            let after = resident_memory(|| {}).unwrap();
            wait.wait();
            assert_eq!(after.sum(), after.rss);
            assert!(before.stacks >= 256 << 10, "{before:?}");
            assert!(before.binaries >= 100 << 10, "{before:?}");
            // Other tests run meanwhile, but they map no shared memory.
            assert_eq!(after.shared - before.shared, 500 * page_bytes() as u64);
            let range = after
                .anonymous
                .iter()
                .find(|range| (range.start..range.start + range.bytes).contains(&own));
            assert!(range.unwrap().resident_bytes >= 1000 * page_bytes() as u64, "{after:?}");
        });
        let [now, most, anonymous] = rss_sums().unwrap();
        assert!(now > 1 << 20 && most >= now && (1..now).contains(&anonymous));
    }
}
