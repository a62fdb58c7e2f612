//! All adaptive probabilities of events.

use super::range::{Coder, Number, Prob, Tree};
use crate::protobuf::{unzigzag, zigzag};

/// The probabilities that a predicted token is right: by its place in its slot, its confidence, how
/// many were wrong before it, and its kind.
pub(super) const HITS: usize = 4 * 8 * 4 * 4;
/// By where the last two addresses of the site came from, and the last one of the thread; and
/// whether a block of the size is free.
pub(super) const PLACES: usize = 36 * 6 * 3;

/// All of them, by what they are about.
#[derive(Clone)]
pub(super) struct Probs {
    pub hits: [Prob; HITS],
    /// The kind of an event that was not predicted, by the kind before.
    pub kinds: [Tree<16>; 16],
    pub shape: Tree<256>,
    pub keeps: Prob,
    pub skips: [Prob; 2],
    pub skipped: Number,
    pub site: SiteProbs,
    pub layout: LayoutProbs,
    pub same_heap: [Prob; 2],
    pub heap: Tree<256>,
    pub same_stack: Prob,
    pub address: AddressProbs,
    pub block: BlockProbs,
}

/// The site of an event that was not predicted.
#[derive(Clone)]
pub(super) struct SiteProbs {
    /// Whether the chunk has had it, by kind.
    pub is_known: [Prob; 16],
    pub site: Number,
    pub is_next_stack: Prob,
    pub stack: Number,
    pub value: Number,
}

/// The size and the alignment of a block.
#[derive(Clone)]
pub(super) struct LayoutProbs {
    pub same: [Prob; 8],
    pub other: [Prob; 3],
    /// For a site without a stack, and for others.
    pub sizes: [Number; 2],
    pub same_alignment: Prob,
    pub alignment: Tree<32>,
}

/// The address of an allocation.
#[derive(Clone)]
pub(super) struct AddressProbs {
    pub places: [[Prob; 3]; PLACES],
    pub ranks: [Tree<32>; 6],
    pub distance: DistanceProbs,
}

/// The block of a free.
#[derive(Clone)]
pub(super) struct BlockProbs {
    pub is_outside: Prob,
    pub same_step: Prob,
    pub step: DistanceProbs,
    /// By how the last free of the site took its block.
    pub which: [[Prob; 3]; 5],
    pub distance: Number,
    pub age: Number,
}

/// The distance of an address from another one.
#[derive(Clone)]
pub(super) struct DistanceProbs {
    low: Tree<16>,
    high: Number,
}

impl DistanceProbs {
    const EVEN: Self = Self { low: Tree::EVEN, high: Number::EVEN };

    pub(super) fn code(&mut self, coder: &mut impl Coder, distance: u64) -> u64 {
        let low = self.low.code(coder, distance as u32 & 15);
        let high = ((distance as i64) >> 4) as u64;
        let high = unzigzag(self.high.code(coder, zigzag(high)));
        high << 4 | u64::from(low)
    }
}

impl Probs {
    /// All are one half.
    pub(super) fn new() -> Box<Self> {
        let half = Prob::HALF;
        Box::new(Self {
            hits: [half; HITS],
            kinds: [Tree::EVEN; 16],
            shape: Tree::EVEN,
            keeps: half,
            skips: [half; 2],
            skipped: Number::EVEN,
            site: SiteProbs {
                is_known: [half; 16],
                site: Number::EVEN,
                is_next_stack: half,
                stack: Number::EVEN,
                value: Number::EVEN,
            },
            layout: LayoutProbs {
                same: [half; 8],
                other: [half; 3],
                sizes: [const { Number::EVEN }; 2],
                same_alignment: half,
                alignment: Tree::EVEN,
            },
            same_heap: [half; 2],
            heap: Tree::EVEN,
            same_stack: half,
            address: AddressProbs {
                places: [[half; 3]; PLACES],
                ranks: [Tree::EVEN; 6],
                distance: DistanceProbs::EVEN,
            },
            block: BlockProbs {
                is_outside: half,
                same_step: half,
                step: DistanceProbs::EVEN,
                which: [[half; 3]; 5],
                distance: Number::EVEN,
                age: Number::EVEN,
            },
        })
    }
}
