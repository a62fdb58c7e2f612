//! The live set against a map, and the bytes that it takes.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;
use std::ops::Range;

fn block(size: u64, time: u64, bucket: u32) -> Block {
    let mut block = Block::new(size);
    (block.allocated_at, block.bucket) = (time, bucket);
    block
}

fn insert(set: &mut LiveSet, address: u64, block: Block) -> Option<Block> {
    set.insert(address, u32::MAX, block)
}

fn remove(set: &mut LiveSet, address: u64) -> Option<Block> {
    set.remove(address, set.prefetch(address).0)
}

/// Addresses: few different ones, so that they collide, and some that need more bits than a chunk
/// has.
fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => (1u64..1200).prop_map(|i| 0x7f00_0000_0000 + i * 8),
        1 => (1u64..3000).prop_map(|i| 0x7f00_0000_0000 + i),
        1 => 1u64..4,
        1 => (1u64 << 48) - 2..(1 << 48) + 2,
        1 => u64::MAX - 1..=u64::MAX,
    ]
}

fn any_block() -> impl Strategy<Value = Block> {
    let size = prop_oneof![
        6 => 0u64..5000,
        1 => (1u64 << 35) - 2..(1 << 35) + 2,
        1 => (1u64 << 56) - 2..=u64::MAX,
    ];
    let time = prop_oneof![6 => any::<u32>().prop_map(u64::from), 1 => any::<u64>()];
    (size, time, any::<u32>()).prop_map(|(size, time, bucket)| block(size, time, bucket))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn it_is_a_map(ops in vec((address(), any_block(), 0u8..8, 0u8..100), 0..3000)) {
        let mut set = LiveSet::default();
        let mut model = HashMap::new();
        for (address, block, op, switches) in ops {
            if switches == 0 {
                set.switch();
            }
            match op {
                0..4 => {
                    prop_assert_eq!(insert(&mut set, address, block), model.insert(address, block));
                }
                4..7 => prop_assert_eq!(remove(&mut set, address), model.remove(&address)),
                _ => {
                    set.replace(address, block);
                    model.entry(address).and_modify(|old| *old = block);
                }
            }
            prop_assert_eq!(set.get(address), model.get(&address).copied());
        }
        let mut all = set.iter().collect::<Vec<_>>();
        all.sort_unstable_by_key(|entry| entry.0);
        let mut expected = model.into_iter().collect::<Vec<_>>();
        expected.sort_unstable_by_key(|entry| entry.0);
        prop_assert_eq!(all, expected);
    }
}

/// Where an allocator puts the block with this number: each has 64 bytes, in an order without a
/// pattern.
fn spread(index: u64) -> u64 {
    0x5500_0000_0000 + (index.wrapping_mul(0x9e37_79b1) & 0xf_ffff) * 64
}

#[test]
fn a_block_takes_at_most_40_bytes_at_any_size() {
    let mut set = LiveSet::default();
    assert_eq!(set.bytes(), 0, "nothing for a heap without blocks");
    const BLOCKS: u64 = 500_000;
    let check = |set: &LiveSet, blocks: u64, more: usize| {
        let most = 40 * blocks as usize + more;
        assert!(set.bytes() <= most, "{} bytes for {blocks} blocks", set.bytes());
        assert_eq!(set.blocks as u64, blocks);
    };
    // A program that builds something, block by block.
    for index in 0..BLOCKS {
        assert_eq!(insert(&mut set, 0x7f00_0000_0000 + index * 48, block(index, 7, 1)), None);
        if index % 97 == 0 {
            check(&set, index + 1, 192 << 10);
        }
    }
    assert!(set.bytes() as u64 <= 28 * BLOCKS, "{}", set.bytes());
    for index in 0..BLOCKS {
        let removed = remove(&mut set, 0x7f00_0000_0000 + index * 48);
        assert_eq!(removed, Some(block(index, 7, 1)));
        if index % 97 == 0 {
            check(&set, BLOCKS - index - 1, RETAINED_BYTES + (320 << 10));
        }
    }
    assert_eq!(set.iter().count(), 0);
    // Blocks are allocated and freed, and the memory for them does not grow.
    for index in 0..2 * BLOCKS {
        assert_eq!(insert(&mut set, spread(index), block(index, 7, 1)), None);
        if let Some(oldest) = index.checked_sub(BLOCKS) {
            assert_eq!(remove(&mut set, spread(oldest)), Some(block(oldest, 7, 1)));
        }
    }
    check(&set, BLOCKS, 0);
    // The fewer blocks are left, the farther they are from one another.
    for index in BLOCKS..2 * BLOCKS {
        assert_eq!(remove(&mut set, spread(index)), Some(block(index, 7, 1)));
        let left = 2 * BLOCKS - index - 1;
        if index % 97 == 0 {
            check(&set, left, left.min(BLOCKS / 4) as usize * 64 + RETAINED_BYTES + (320 << 10));
        }
    }
    assert_eq!(set.iter().count(), 0);
    assert!(set.bytes() < RETAINED_BYTES + (320 << 10), "{}", set.bytes());
}

#[test]
fn only_a_small_live_set_has_young_blocks() {
    let mut set = LiveSet::default();
    let fill = |set: &mut LiveSet, blocks: Range<u64>| {
        for index in blocks {
            set.prepare();
            insert(set, spread(index), block(index, 7, 1));
        }
    };
    assert!(!set.prepare());
    for index in 0..100_000 {
        assert_eq!(insert(&mut set, spread(index % 7), block(index, 7, 1)), None);
        assert_eq!(remove(&mut set, spread(index % 7)), Some(block(index, 7, 1)));
    }
    assert_eq!(set.bytes(), set.young.bytes(), "neither pages nor chunks");
    let most = MANY as u64;
    fill(&mut set, 0..most);
    assert!(set.young.is_used(), "some of them are not in chunks");
    fill(&mut set, most..2 * most);
    assert!(set.prepare() && !set.young.is_used());
    assert_eq!(set.blocks, 2 * MANY);
    for index in FEW as u64..2 * most {
        assert_eq!(remove(&mut set, spread(index)), Some(block(index, 7, 1)));
        assert!(set.prepare());
    }
    assert_eq!(remove(&mut set, spread(0)), Some(block(0, 7, 1)));
    assert!(!set.prepare());
}
