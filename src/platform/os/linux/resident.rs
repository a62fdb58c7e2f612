//! Which memory of this process is resident (RSS), and what it is.
#![expect(unsafe_code, reason = "system calls")]

use super::super::own_pages::own_pages;
use super::super::{AnonymousRange, ResidentMemory};
use super::pages::page_bytes;
use super::watched::shared_ranges;
use super::{Memory, loaded_files};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::FileExt;

/// The resident memory of this process now, and the largest so far, in bytes; `None` if the system does
/// not say.
///
/// NOTE: not `ru_maxrss`, which a program inherits from the one that has started it.
pub(crate) fn rss_now_and_most() -> Option<(u64, u64)> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    let kib = |key| {
        let mut lines = status.lines();
        let text = lines.find_map(|line| line.strip_prefix(key))?;
        text.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    Some((kib("VmRSS:")? << 10, kib("VmHWM:")? << 10))
}

/// What the resident memory of this process is. Takes time in proportion to mappings and resident pages;
/// threads that map memory may wait for it meanwhile. Calls `step` after each mapping.
///
/// # Errors
/// Those of `/proc`.
pub(crate) fn resident_memory(step: impl Fn()) -> io::Result<ResidentMemory> {
    let known = AddressRanges::now()?;
    let pages = Pages::open()?;
    let smaps = File::open("/proc/thread-self/smaps")?;
    let smaps = BufReader::with_capacity(64 << 10, smaps);
    classify(smaps, &known, |start, end| pages.resident(start, end), step)
}

/// What is known of addresses, whatever mapping they are in: the kernel makes one mapping of neighbouring
/// anonymous ones.
#[derive(Debug, Default)]
struct AddressRanges {
    /// Without overlaps, in their order.
    cuts: Vec<Cut>,
    /// Where stacks of threads end, in their order.
    stack_ends: Vec<u64>,
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
    Tracker,
    Stack,
    Binary,
    File,
    Shared,
    Other,
}

impl ResidentMemory {
    fn add(&mut self, kind: Kind, start: u64, end: u64, resident: u64) {
        let sum = match kind {
            Kind::Anonymous => {
                if resident > 0 {
                    let bytes = end - start;
                    let range = AnonymousRange { start, bytes, resident_bytes: resident };
                    self.anonymous.push(range);
                }
                return;
            }
            Kind::Tracker => &mut self.tracker,
            Kind::Stack => &mut self.stacks,
            Kind::Binary => &mut self.binaries,
            Kind::File => &mut self.files,
            Kind::Shared => &mut self.shared,
            Kind::Other => &mut self.other,
        };
        *sum += resident;
    }
}

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
        cuts.sort_unstable_by_key(|cut| cut.start);
        let mut stack_ends: Vec<_> = stack_ends().collect();
        stack_ends.sort_unstable();
        Ok(Self { cuts, stack_ends })
    }

    fn between(&self, start: u64, end: u64) -> impl Iterator<Item = &Cut> {
        let first = self.cuts.partition_point(|cut| cut.end <= start);
        self.cuts[first..].iter().take_while(move |cut| cut.start < end)
    }

    /// The parts of an anonymous mapping; `may_have_stack`: it can have the stack of a thread.
    fn parts(&self, start: u64, end: u64, may_have_stack: bool) -> Vec<Cut> {
        let mut parts = Vec::new();
        let mut at = start;
        let stack_end = self.stack_ends.partition_point(|stack_end| *stack_end <= start);
        let stack_end = self.stack_ends.get(stack_end).filter(|stack_end| **stack_end <= end);
        if let Some(&end) = stack_end.filter(|_| may_have_stack) {
            // A stack goes down to the start of its mapping, because an inaccessible page is below it.
            parts.push(Cut { start, end, kind: Kind::Stack });
            at = end;
        }
        for cut in self.between(start, end) {
            let (from, to) = (cut.start.max(at), cut.end.min(end));
            if from < to {
                if at < from {
                    parts.push(Cut { start: at, end: from, kind: Kind::Anonymous });
                }
                parts.push(Cut { start: from, end: to, kind: cut.kind });
                at = to;
            }
        }
        if at < end {
            parts.push(Cut { start: at, end, kind: Kind::Anonymous });
        }
        parts
    }
}

/// The ends of the stacks of all threads but the first.
///
/// A thread's descriptor is at the end of its stack (glibc's `allocate_stack`), and its list of robust
/// mutexes is in its descriptor. A thread of a C library that registers no such list is not found.
fn stack_ends() -> impl Iterator<Item = u64> {
    let first = std::process::id();
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let ids = threads.filter_map(|thread| thread.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(move |id| *id != first).filter_map(|id| {
        let (mut head, mut size) = (0_u64, 0_usize);
        // SAFETY: both are valid for writing.
        let failed = unsafe {
            libc::syscall(libc::SYS_get_robust_list, id, &raw mut head, &raw mut size) != 0
        };
        (!failed && head != 0).then(|| (head + 1).next_multiple_of(page_bytes() as u64))
    })
}

/// One mapping of `/proc/self/smaps`.
struct Mapping {
    start: u64,
    end: u64,
    kind: Kind,
    /// `[stack]` and `[heap]` have no stack of another thread.
    is_named: bool,
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
    Some(Mapping { start, end, kind, is_named: !path.is_empty() })
}

/// Sums up the mappings of `smaps`, and calls `step` after each. `resident` counts the resident bytes between
/// two addresses.
fn classify(
    smaps: impl BufRead,
    known: &AddressRanges,
    resident: impl Fn(u64, u64) -> u64,
    step: impl Fn(),
) -> io::Result<ResidentMemory> {
    let mut sums = ResidentMemory::default();
    let mut mapping = None;
    for line in smaps.split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        if let Some(next) = parse(&line) {
            mapping = Some(next);
        } else if let Some(kib) = line.strip_prefix("Rss:")
            && let Some(mapping) = mapping.take()
        {
            let kib = kib.trim().strip_suffix(" kB").and_then(|kib| kib.parse::<u64>().ok());
            let kib = kib.ok_or_else(|| {
                io::Error::other(format!("/proc/self/smaps has the line {line:?}"))
            })?;
            divide(&mapping, kib << 10, known, &resident, &mut sums);
            step();
        }
    }
    sums.anonymous.sort_unstable_by_key(|range| range.start);
    Ok(sums)
}

/// Adds the parts of a mapping.
fn divide(
    mapping: &Mapping,
    rss: u64,
    known: &AddressRanges,
    resident: impl Fn(u64, u64) -> u64,
    sums: &mut ResidentMemory,
) {
    let Mapping { start, end, kind, is_named } = *mapping;
    if kind != Kind::Anonymous {
        let is_own = || known.between(start, end).any(|cut| cut.kind == Kind::Tracker);
        if kind == Kind::Shared && is_own() {
            // What a watcher shares. NOTE: the kernel makes no mapping of this one and another.
            return sums.add(Kind::Tracker, start, end, rss);
        }
        let is_binary = || known.between(start, end).any(|cut| cut.kind == Kind::Binary);
        let is_binary = kind == Kind::File && is_binary();
        let kind = if is_binary { Kind::Binary } else { kind };
        return sums.add(kind, start, end, rss);
    }
    if rss == 0 {
        return;
    }
    // The largest part gets what the others leave. So the parts have the sum that the kernel states, and
    // the pages of a huge mapping are not looked at.
    let mut parts = known.parts(start, end, !is_named);
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
    fn open() -> io::Result<Self> {
        File::open("/proc/thread-self/pagemap").map(Self)
    }

    /// The resident bytes between two addresses; 0 if the system does not say.
    fn resident(&self, start: u64, end: u64) -> u64 {
        const ENTRY: u64 = 8;
        const AT_ONCE: u64 = 1024;
        /// `Documentation/admin-guide/mm/pagemap.rst`.
        const PRESENT: u64 = 1 << 63;
        let mut entries = [0; (ENTRY * AT_ONCE) as usize];
        let page_bytes = page_bytes() as u64;
        let (mut page, last) = (start / page_bytes, end / page_bytes);
        let mut present = 0;
        while page < last {
            let count = (last - page).min(AT_ONCE);
            let entries = &mut entries[..(count * ENTRY) as usize];
            if self.0.read_exact_at(entries, page * ENTRY).is_err() {
                break;
            }
            let words = entries.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
            present += words.filter(|word| word & PRESENT != 0).count() as u64;
            page += count;
        }
        present * page_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    impl ResidentMemory {
        fn sum(&self) -> u64 {
            let Self { tracker, stacks, binaries, files, shared, other, anonymous } = self;
            let anonymous: u64 = anonymous.iter().map(|range| range.resident_bytes).sum();
            tracker + stacks + binaries + files + shared + other + anonymous
        }
    }

    const SMAPS: &str = "\
1000-3000 r-xp 00000000 fe:00 7    /usr/bin/a program
Size:                  8 kB
Rss:                   8 kB
3000-9000 rw-p 00000000 00:00 0
Rss:                  20 kB
9000-a000 rw-p 00000000 00:00 0    [heap]
Rss:                   4 kB
b000-c000 rw-s 00000000 00:05 9    /memfd:x (deleted)
Rss:                   4 kB
c000-d000 r--p 00000000 fe:00 8    /tmp/data
Rss:                   4 kB
d000-f000 rw-p 00000000 00:00 0    [stack]
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
        let known = AddressRanges { cuts, stack_ends: Vec::new() };
        let steps = Cell::new(0);
        let step = || steps.set(steps.get() + 1);
        let sums = classify(SMAPS.as_bytes(), &known, |from, to| to - from, step).unwrap();
        assert_eq!(steps.get(), 7);
        let expected = ResidentMemory {
            stacks: 4 << 10,
            // With the page of zeroed data behind it.
            binaries: 12 << 10,
            files: 4 << 10,
            shared: 4 << 10,
            other: 4 << 10,
            tracker: 0,
            anonymous: vec![range(0x4000, 0x5000, 16 << 10), range(0x9000, 0x1000, 4 << 10)],
        };
        assert_eq!(sums, expected);
        assert_eq!(sums.sum(), 48 << 10);
    }

    #[test]
    fn one_mapping_can_have_several_parts() {
        // A stack from the start of the mapping on, then pages of the tracker, then others.
        let cuts = vec![Cut { start: 0x6000, end: 0x7000, kind: Kind::Tracker }];
        let known = AddressRanges { cuts, stack_ends: vec![0x5000] };
        let lines = "3000-9000 rw-p 00000000 00:00 0\nRss:                  16 kB\n";
        // All pages are resident but that of the tracker, and one of the last two.
        let resident = |from: u64, to: u64| if from == 0x6000 { 0 } else { to - from };
        let sums = classify(lines.as_bytes(), &known, resident, || {}).unwrap();
        let anonymous = vec![range(0x5000, 0x1000, 4 << 10), range(0x7000, 0x2000, 4 << 10)];
        assert_eq!((sums.stacks, sums.tracker, sums.sum()), (8 << 10, 0, 16 << 10));
        assert_eq!(sums.anonymous, anonymous);
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
        let (now, most) = rss_now_and_most().unwrap();
        assert!(now > 1 << 20 && most >= now);
    }
}
