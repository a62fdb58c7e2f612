//! Memory events with any values, in whole streams: the accounts add up at every moment.
//!
//! ```text
//! u8 which types, then for each event: u8 type and thread, its fields
//! ```

use crate::figures::{add_up, print};
use memledger_test_support::wire::{AUX, NO_SYNC, TERMINAL, aux, plain, synced, type_record};
use arbitrary::{Result, Unstructured};
use memledger_analysis::Analyzer;
use memledger_format::schema::FieldType as T;
use memledger_analysis::read::Decoder;
use std::sync::LazyLock;

type Type = (&'static str, bool, &'static [(&'static str, T)]);

const SIZED: &[(&str, T)] = &[
    ("Address", T::U64),
    ("CallstackId", T::U32),
    ("Size", T::U32),
    ("AlignmentPow2_SizeLower", T::U8),
    ("RootHeap", T::U8),
];
const SYSTEM: &[(&str, T)] = SIZED.split_at(4).0;
const ADDRESS: &[(&str, T)] = &[("Address", T::U64)];
const ADDRESSED: &[(&str, T)] = &[("Address", T::U64), ("RootHeap", T::U8)];

/// The event types: name, whether an event has a serial, fields. The first uid is 16.
const TYPES: &[Type] = &[
    ("Memory.AllocSystem", true, SYSTEM),
    ("Memory.FreeSystem", true, ADDRESS),
    ("Memory.ReallocFreeSystem", true, ADDRESS),
    ("Memory.ReallocAllocSystem", true, SYSTEM),
    ("Memory.Alloc", true, SIZED),
    ("Memory.Free", true, ADDRESSED),
    ("Memory.ReallocFree", true, ADDRESSED),
    ("Memory.ReallocAlloc", true, SIZED),
    ("Memory.UpdateAlloc", true, ADDRESSED),
    ("Memory.HeapMarkAlloc", true, &[("Address", T::U64), ("Flags", T::U16), ("Heap", T::U32)]),
    ("Memory.HeapUnmarkAlloc", true, &[("Address", T::U64), ("Heap", T::U32)]),
    ("Memory.Marker", true, &[("Cycle", T::U64)]),
    ("Memory.MemoryScope", false, &[("Tag", T::I32)]),
    ("Memory.MemoryScopePtr", false, &[("Ptr", T::U64)]),
    ("Memledger.LargeSize", false, &[("Address", T::U64), ("Size", T::U64)]),
    ("Memledger.ReallocFailed", false, ADDRESS),
    ("Memledger.Lost", false, &[("ThreadId", T::U32), ("Events", T::U64)]),
    (
        "Memledger.Report",
        false,
        &[
            ("Serial", T::U64),
            ("Cycle", T::U64),
            ("OverheadBytes", T::U64),
            ("LostEvents", T::U64),
            ("ScopeMisuses", T::U64),
        ],
    ),
    ("Memory.Init", false, &[("SizeShift", T::U8)]),
    ("$Trace.NewTrace", false, &[("StartCycle", T::U64), ("CycleFrequency", T::U64)]),
    (
        "Memledger.Trace",
        false,
        &[("Version", T::U8), ("Pid", T::U32), ("FirstSerial", T::U64), ("FromProcessStart", T::U8)],
    ),
    ("Memledger.Alive", false, &[("Blocks", T::U64)]),
    ("Misc.Bookmark", false, &[("Cycle", T::U64), ("BookmarkPoint", T::U64), ("FormatArgs", T::U8Array)]),
    ("Misc.BookmarkSpec", false, &[("BookmarkPoint", T::U64), ("FormatString", T::AnsiString)]),
    ("Memory.TagSpec", false, &[("Tag", T::I32), ("Parent", T::I32), ("Display", T::AnsiString), ("Kind", T::U8), ("Owner", T::I32)]),
    ("Memledger.ThreadStart", false, &[("Id", T::U32), ("SystemId", T::U32), ("Name", T::AnsiString)]),
];
/// Types of stacks, behind the others: chosen by a byte of their own, after the last number of a type.
const STACK_TYPES: &[Type] = &[
    ("Memory.CallstackSpec", false, &[("CallstackId", T::U32), ("Frames", T::U64Array)]),
    ("Memory.CallstackSpecXORAndRLE", false, COMPRESSED),
    ("Memory.CallstackSpecDelta7bit", false, COMPRESSED),
    ("Memory.CallstackSpecDeltaVarInt", false, COMPRESSED),
    ("Memledger.CallstackEnd", false, &[("CallstackId", T::U32), ("Reason", T::U8)]),
    ("Memledger.StackSampling", false, &[("MeanBytes", T::U64)]),
    ("Diagnostics.ModuleInit", false, &[("ModuleBaseShift", T::U8)]),
    (
        "Diagnostics.ModuleLoad",
        false,
        &[("Name", T::WideString), ("Base", T::U64), ("Size", T::U32), ("ImageId", T::U8Array)],
    ),
    ("Diagnostics.ModuleUnload", false, &[("Base", T::U64)]),
    ("Memledger.Callstacks", false, &[("First", T::U32), ("Stacks", T::U8Array)]),
    ("Memledger.CallstackGuess", false, &[("CallstackId", T::U32), ("From", T::U8)]),
];
const COMPRESSED: &[(&str, T)] = &[("CallstackId", T::U32), ("CompressedFrames", T::U8Array)];
const FIRST: u16 = 16;
/// The number of a type that is drawn in place of the types of stacks.
const STACK: usize = 31;

/// The type records of these types.
static RECORDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let record = |(index, &(name, is_synced, fields)): (usize, &Type)| {
        let sync = if is_synced { 0 } else { NO_SYNC };
        let array = if fields.iter().any(|(_, field)| field.fixed_size() == 0) { AUX } else { 0 };
        type_record(7, FIRST + index as u16, name, sync | array, fields)
    };
    TYPES.iter().chain(STACK_TYPES).enumerate().map(record).collect()
});

/// A number from the input, usually one that other events also have.
fn number(u: &mut Unstructured<'_>, name: &str, size: usize) -> Result<Vec<u8>> {
    let small = u64::from(u.arbitrary::<u8>()?);
    let value = match (name, small) {
        (_, 0xff) => u64::MAX,
        (_, 0xfe) => u.arbitrary()?,
        ("Address" | "Ptr", _) => 0x10_0000 + 16 * (small & 63) + (small >> 6 << 14),
        ("RootHeap", _) => small & 1,
        ("Cycle" | "Size", _) => small * 100,
        _ => small & 7,
    };
    Ok(value.to_le_bytes()[..size].to_vec())
}

/// The stream, the index of the type, and the bytes of the next event.
fn event(u: &mut Unstructured<'_>, serial: &mut u64) -> Result<(u16, Vec<u8>)> {
    let first: u8 = u.arbitrary()?;
    let stream = 2 + u16::from(first >> 5 & 3);
    let mut of = usize::from(first & 31);
    if of == STACK {
        of = TYPES.len() + usize::from(u.arbitrary::<u8>()?) % STACK_TYPES.len();
    }
    let Some(&(_, is_synced, fields)) = TYPES.iter().chain(STACK_TYPES).nth(of) else {
        // The end of a scope.
        return Ok((stream, vec![10]));
    };
    let (mut fixed, mut arrays) = (Vec::new(), Vec::new());
    for (index, (name, field)) in fields.iter().enumerate() {
        match field.fixed_size() {
            0 => arrays.extend(aux(index as u8, u.bytes(usize::from(first >> 5) % u.len().max(1))?)),
            size => fixed.extend(number(u, name, size)?),
        }
    }
    if fields.iter().any(|(_, field)| field.fixed_size() == 0) {
        arrays.extend(TERMINAL);
    }
    let uid = FIRST + of as u16;
    let scope = first & 0x80 != 0 && matches!(of, 12 | 13);
    let enter: &[u8] = if scope { &[8] } else { &[] };
    let own = match is_synced {
        true => {
            *serial += 1;
            synced(uid, *serial, &fixed)
        }
        false => plain(uid, &fixed),
    };
    Ok((stream, [enter, &own, &arrays].concat()))
}

/// Makes events from `data` and checks the accounts in the middle and at the end.
pub fn run(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let skip = u.arbitrary::<u8>().unwrap_or(0);
    let (mut decoder, mut analyzer) = (Decoder::new(7), Analyzer::new());
    let types = RECORDS.iter().enumerate().filter(|(index, _)| usize::from(skip) != 128 + index);
    let types = types.flat_map(|(_, record)| record.iter().copied());
    decoder.packet(0, &types.collect::<Vec<_>>(), &mut analyzer);
    let mut serial = u64::from(skip & 1) * 0x00ff_fff8;
    let middle = u.len() / 2;
    let mut looked = false;
    while !u.is_empty()
        && let Ok((stream, bytes)) = event(&mut u, &mut serial)
    {
        decoder.packet(stream, &bytes, &mut analyzer);
        if !looked && u.len() < middle && skip & 2 != 0 {
            looked = true;
            analyzer.flush();
            add_up(&analyzer.report());
        }
    }
    decoder.finish(&mut analyzer);
    let report = analyzer.report();
    add_up(&report);
    if skip & 4 != 0 {
        print(&report);
    }
}

/// Some events of each type, on two threads.
pub fn seeds() -> Vec<Vec<u8>> {
    let all = |skip: u8, second: u8| {
        let mut seed = vec![skip];
        for of in 0..31_u8 {
            let of = of | if of % 3 == 0 { second } else { 0 };
            seed.extend([of, 1, 2, 3, 4, 5, 6]);
        }
        // Two stacks, each in a form of its own, before and after an allocation with each.
        for kind in 0..18_u8 {
            seed.extend([31 | 0x60, kind, 1 + kind % 2, 3, 1, 2, 3, 4, 5, 6, 7, 8]);
            seed.extend([second, kind, 1 + kind % 2, 9, 0]);
        }
        seed
    };
    let pairs = |i: u8| [[0, i, 0, 9, 0], [1 | 32, i, 3, i, 0]].concat();
    vec![all(0, 0), all(2, 32), all(7, 0xa0), (0..60).flat_map(pairs).collect()]
}
