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
            std::hint::black_box(table.add(start - table.addr() + (at + 1) * page).read_volatile());
        }
    }
    let memory = resident_memory(|| {}).unwrap();
    let is_in = |pages: &&PageBits| (pages.start..pages.end).contains(&(start as u64));
    let pages = memory.static_pages.iter().find(is_in).unwrap();
    let first = (start - pages.start as usize) / page;
    let bit = |at: usize| pages.bits[(first + at) / 8] >> ((first + at) % 8) & 1;
    assert!(written.clone().all(|at| bit(at) == 1));
    assert!(
        written.clone().all(|at| bit(at + 1) == 0) && written.skip(1).all(|at| bit(at - 1) == 0)
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
