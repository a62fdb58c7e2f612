//! Random sequences of what a program and its tracker may do.

use crate::model::CONTEXTS;
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub enum Op {
    Alloc {
        stream: u16,
        address: u64,
        size: u64,
        stack: u32,
    },
    Huge {
        stream: u16,
        address: u64,
    },
    Free {
        stream: u16,
        address: u64,
    },
    /// A free of some block that is live.
    FreeLive {
        stream: u16,
        which: usize,
    },
    ReallocFree {
        stream: u16,
        which: usize,
    },
    ReallocAlloc {
        stream: u16,
        address: u64,
        size: u64,
        stack: u32,
        fails: bool,
    },
    Enter {
        stream: u16,
        context: usize,
    },
    Leave {
        stream: u16,
    },
    Retag {
        stream: u16,
        which: usize,
    },
    Marker {
        after: u64,
    },
    Thread {
        stream: u16,
        id: u32,
    },
    Report,
}

/// With the ids of stacks up to `stacks`.
pub fn ops(stacks: u32) -> impl Strategy<Value = Vec<Op>> {
    let stack = 0..=stacks;
    let stream = 2_u16..5;
    let address = (1_u64..24).prop_map(|n| n * 16);
    let size = prop_oneof![0_u64..40, 0_u64..5000];
    let which = 0_usize..64;
    let op = prop_oneof![
        8 => (stream.clone(), address.clone(), size.clone(), stack.clone())
            .prop_map(|(stream, address, size, stack)| Op::Alloc { stream, address, size, stack }),
        1 => (stream.clone(), address.clone())
            .prop_map(|(stream, address)| Op::Huge { stream, address }),
        1 => (stream.clone(), address.clone())
            .prop_map(|(stream, address)| Op::Free { stream, address }),
        6 => (stream.clone(), which.clone())
            .prop_map(|(stream, which)| Op::FreeLive { stream, which }),
        3 => (stream.clone(), which.clone())
            .prop_map(|(stream, which)| Op::ReallocFree { stream, which }),
        3 => (stream.clone(), address, size, stack, prop::bool::weighted(0.3))
            .prop_map(|(stream, address, size, stack, fails)| {
                Op::ReallocAlloc { stream, address, size, stack, fails }
            }),
        6 => (stream.clone(), 1..CONTEXTS.len())
            .prop_map(|(stream, context)| Op::Enter { stream, context }),
        5 => stream.clone().prop_map(|stream| Op::Leave { stream }),
        2 => (stream.clone(), which).prop_map(|(stream, which)| Op::Retag { stream, which }),
        2 => (0_u64..50).prop_map(|after| Op::Marker { after }),
        1 => (stream, 1_u32..5).prop_map(|(stream, id)| Op::Thread { stream, id }),
    ];
    // A report now and then, and something after it.
    (proptest::collection::vec(op, 1..120), prop::option::weighted(0.3, 0_usize..120)).prop_map(
        |(mut ops, report)| {
            if let Some(at) = report.filter(|at| *at < ops.len()) {
                ops.insert(at, Op::Report);
            }
            ops
        },
    )
}
