//! Codes one event by the model, in either direction.

use super::blocks::MAX_RANK;
use super::event::{Event, Role};
use super::model::{BYTES, ENDS, KIND_BITS, Kind, MAX_KINDS, Model, NEW, Site, class};
use super::probs::PLACES;
use super::range::Coder;
use crate::compact::{Body, Shape};
use crate::protobuf::{unzigzag, zigzag};
use crate::schema::SERIAL_MASK;

/// The bits of a serial in an event.
const SERIALS: u32 = SERIAL_MASK as u32;

/// Where an address comes from: it is that of the block of its size that was freed last,
const FREED_LAST: usize = 0;
/// the address that was freed last,
const SAME: usize = 1;
/// after the last block at a new address,
const AFTER_LAST: usize = 2;
/// that of an earlier free block, or after an earlier one,
const EARLIER: usize = 3;
/// or another one.
const ELSEWHERE: usize = 4;
/// The number of an address elsewhere, among those of earlier blocks.
const NO_RANK: u32 = 31;

/// What the encoder knows of the next event, and the decoder does not.
#[derive(Clone, Copy, Default)]
pub(super) struct EncoderHints {
    /// The site, if the chunk has had it; [`NEW`] otherwise.
    pub site: u32,
    /// The block of the chunk that is freed, or 0.
    pub block: u32,
    /// The shape, and whether its blocks stay.
    pub shape: Shape,
    pub keeps: bool,
}

/// What was coded.
#[derive(Clone, Copy)]
pub(super) struct CodedEvent {
    pub event: Event,
    pub site: u32,
    /// The block that was allocated or freed, or 0.
    pub block: u32,
}

impl Model {
    /// Codes an event of a stream, or only that bytes without a shape come next.
    #[inline(always)]
    pub(super) fn event(
        &mut self,
        coder: &mut impl Coder,
        stream: usize,
        event: Event,
        known: EncoderHints,
    ) -> CodedEvent {
        let token = if known.site == NEW { NEW } else { known.site << KIND_BITS | event.kind };
        let mut coded = CodedEvent { event, site: 0, block: 0 };
        let hit = self.predicted(coder, stream, token);
        match hit {
            Some(token) => {
                coded.event.kind = token & ((1 << KIND_BITS) - 1);
                coded.site = token >> KIND_BITS;
            }
            None => self.name(coder, stream, &mut coded, &known),
        }
        self.learn(stream, coded.site << KIND_BITS | coded.event.kind);
        let kind = coded.event.kind as usize;
        if let Some(found) = self.kinds.get(kind) {
            let (role, shape) = (found.role, found.shape);
            if shape.synced {
                coded.event.serial = self.serial(coder, stream, event.serial);
            }
            match role {
                Role::None => {
                    coded.event.value =
                        self.sites.get(coded.site as usize).map_or(0, |site| site.value);
                }
                Role::Allocates => self.allocation(coder, stream, &mut coded),
                Role::Frees | Role::Keeps => {
                    self.end_of_block(coder, stream, &mut coded, hit.is_some(), known.block);
                }
            }
        }
        coded
    }

    /// Codes kind and site of an event that was not predicted. Of a free in the chunk, the block.
    fn name(
        &mut self,
        coder: &mut impl Coder,
        stream: usize,
        coded: &mut CodedEvent,
        known: &EncoderHints,
    ) {
        let last = self.last_kind(stream);
        coded.event.kind = self.probs.kinds[last % 16].code(coder, coded.event.kind);
        let kind = coded.event.kind as usize;
        if kind == BYTES as usize {
            return;
        }
        if kind == self.kinds.len() && kind < MAX_KINDS {
            self.announce(coder, known);
        }
        let Some(found) = self.kinds.get(kind) else {
            self.is_damaged = true;
            return;
        };
        match (found.role, found.shape.body) {
            (Role::Frees | Role::Keeps, _) => {
                let outside = known.block == 0;
                if coder.bit(&mut self.probs.block.is_outside, outside) {
                    return;
                }
                let next = self.blocks.next();
                let age = self.probs.block.age.code(coder, u64::from(next - known.block));
                coded.block = u64::from(next).wrapping_sub(age) as u32;
                match self.blocks.get(coded.block) {
                    Some((_, site, _)) => coded.site = site,
                    None => self.is_damaged = true,
                }
            }
            (Role::None, Body::None) => {}
            _ => self.name_site(coder, kind, coded, known.site),
        }
    }

    /// Codes a new shape.
    fn announce(&mut self, coder: &mut impl Coder, known: &EncoderHints) {
        let mut bytes = Vec::new();
        known.shape.append(&mut bytes);
        bytes.resize(4, 0);
        for byte in &mut bytes {
            *byte = self.probs.shape.code(coder, (*byte).into()) as u8;
        }
        let keeps = coder.bit(&mut self.probs.keeps, known.keeps);
        match Shape::read(&bytes) {
            Some((shape, _)) => {
                let role = Role::of(&shape, keeps);
                self.kinds.push(Kind { shape, role, value: 0, stack: 0 });
            }
            None => self.is_damaged = true,
        }
    }

    /// Codes the site of an allocation or a value: one that the chunk has had, or a new one.
    fn name_site(
        &mut self,
        coder: &mut impl Coder,
        kind: usize,
        coded: &mut CodedEvent,
        known: u32,
    ) {
        if coder.bit(&mut self.probs.site.is_known[kind % 16], known != NEW) {
            let distance = u64::from(known).wrapping_sub(u64::from(self.named));
            let distance = unzigzag(self.probs.site.site.code(coder, zigzag(distance)));
            coded.site = u64::from(self.named).wrapping_add(distance) as u32;
            self.is_damaged |= coded.site as usize >= self.sites.len();
        } else {
            let site = self.new_site(coder, kind, &coded.event);
            coded.site = self.sites.len() as u32;
            self.sites.push(site);
        }
        self.named = coded.site;
    }

    /// Codes what makes a site.
    fn new_site(&mut self, coder: &mut impl Coder, kind: usize, event: &Event) -> Site {
        let mut site = Site::default();
        if self.kinds[kind].role != Role::Allocates {
            let last = self.kinds[kind].value;
            let distance = zigzag(event.value.wrapping_sub(last));
            site.value = last.wrapping_add(unzigzag(self.probs.site.value.code(coder, distance)));
            self.kinds[kind].value = site.value;
            return site;
        }
        let next = self.highest_stack.wrapping_add(1);
        let is_next = coder.bit(&mut self.probs.site.is_next_stack, event.stack == next);
        let stack = if is_next {
            next
        } else {
            let distance =
                zigzag(i64::from(event.stack.wrapping_sub(self.newest_stack) as i32) as u64);
            let distance = unzigzag(self.probs.site.stack.code(coder, distance)) as u32;
            self.newest_stack.wrapping_add(distance)
        };
        (self.newest_stack, site.value) = (stack, stack.into());
        self.highest_stack = self.highest_stack.max(stack);
        if stack == 0 {
            site.by_layout = true;
            site.layouts[0] = self.layout(coder, 0, 0, event.layout);
        }
        site
    }

    /// Codes a serial: the next one of the stream, unless the packet has others.
    #[inline(always)]
    fn serial(&mut self, coder: &mut impl Coder, stream: usize, serial: u32) -> u32 {
        let Self { streams, probs, .. } = self;
        let state = &mut streams[stream];
        let mut next = state.serial.wrapping_add(1) & SERIALS;
        if self.skips_serials {
            let skips = coder.bit(&mut probs.skips[state.has_skipped], serial != next);
            state.has_skipped = usize::from(skips);
            if skips {
                // The sign of a number of 24 bits.
                let distance = i64::from((serial.wrapping_sub(next) << 8) as i32 >> 8);
                let distance = unzigzag(probs.skipped.code(coder, zigzag(distance as u64)));
                next = next.wrapping_add(distance as u32) & SERIALS;
            }
        }
        state.serial = next;
        next
    }

    /// Codes a layout that was not expected.
    fn layout(&mut self, coder: &mut impl Coder, order: usize, last: u64, layout: u64) -> u64 {
        let size = layout >> 8 << 3 | layout & 7;
        let size = self.probs.layout.sizes[order].code(coder, size);
        let [last, alignment] = [last, layout].map(|layout| layout as u32 >> 3 & 31);
        let same = coder.bit(&mut self.probs.layout.same_alignment, alignment == last);
        let alignment =
            if same { last } else { self.probs.layout.alignment.code(coder, alignment) };
        size >> 3 << 8 | u64::from(alignment) << 3 | size & 7
    }

    /// Codes what follows the site of an allocation.
    #[inline(always)]
    fn allocation(&mut self, coder: &mut impl Coder, stream: usize, coded: &mut CodedEvent) {
        let index = coded.site as usize;
        let Some(&site) = self.sites.get(index) else {
            self.is_damaged = true;
            return;
        };
        let event = &mut coded.event;
        event.stack = site.value as u32;
        event.layout = if site.by_layout {
            site.layouts[0]
        } else {
            self.site_layout(coder, stream, coded.site, event.layout)
        };
        if self.kinds[event.kind as usize].shape.heap {
            let same = coder.bit(&mut self.probs.same_heap[0], event.heap == site.heap);
            event.heap = match same {
                true => site.heap,
                false => self.probs.heap.code(coder, event.heap.into()) as u8,
            };
        }
        let class = class(event.layout);
        let place = self.address(coder, stream, site.places.into(), class, &mut event.value);
        let Some(site) = self.sites.get_mut(index) else { return };
        site.heap = event.heap;
        site.places = site.places % 6 * 6 + place as u8 + 1;
        coded.block = self.blocks.add(event.value, coded.site, class, &mut site.blocks);
    }

    /// Codes the layout of a block, by the layouts of its site before.
    #[inline(always)]
    fn site_layout(
        &mut self,
        coder: &mut impl Coder,
        stream: usize,
        index: u32,
        layout: u64,
    ) -> u64 {
        let expected = *self.expected_layout(stream, index);
        let [last, before] = self.sites[index as usize].layouts;
        let context = usize::from(last == 0)
            | usize::from(last == before) << 1
            | usize::from(last == expected) << 2;
        let layout = if coder.bit(&mut self.probs.layout.same[context], layout == last) {
            last
        } else {
            self.sites[index as usize].layouts[1] = last;
            let often = *self.after_layout(last);
            let others = [expected, before, often];
            let mut hit = None;
            for (order, other) in others.into_iter().enumerate() {
                if other == last || others[..order].contains(&other) {
                    continue;
                }
                if coder.bit(&mut self.probs.layout.other[order], layout == other) {
                    hit = Some(other);
                    break;
                }
            }
            hit.unwrap_or_else(|| self.layout(coder, 1, last, layout))
        };
        *self.after_layout(last) = layout;
        self.sites[index as usize].layouts[0] = layout;
        *self.expected_layout(stream, index) = layout;
        layout
    }

    /// Codes the address of an allocation; returns where it came from.
    #[inline(always)]
    fn address(
        &mut self,
        coder: &mut impl Coder,
        stream: usize,
        places: usize,
        class: u32,
        address: &mut u64,
    ) -> usize {
        let Self { streams, blocks, probs, .. } = self;
        let state = &mut streams[stream];
        let wanted = *address;
        let head = *state.free(class);
        let first = blocks.first(head);
        let context = (places % 36 * 6 + state.place) * 3 + usize::from(first.is_some());
        let probs_of_place = &mut probs.address.places[context % PLACES];
        let place;
        if let Some(first) = first
            && coder.bit(&mut probs_of_place[0], wanted == first)
        {
            *address = first;
            blocks.take(state.free(class), 0);
            place = FREED_LAST;
        } else if coder.bit(&mut probs_of_place[1], wanted == state.ends[0]) {
            *address = state.ends[0];
            place = AFTER_LAST;
        } else if state.has_just_freed
            && first != Some(state.freed)
            && coder.bit(&mut probs_of_place[2], wanted == state.freed)
        {
            *address = state.freed;
            // It was freed to be moved or resized, and is no longer free.
            if let Some((_, _, class)) = blocks.get(state.freed_block)
                && *state.free(class) == state.freed_block
            {
                blocks.take(state.free(class), 0);
            }
            place = SAME;
        } else {
            place = self.other_address(coder, stream, class, address);
        }
        let state = &mut self.streams[stream];
        if place == AFTER_LAST {
            state.ends[0] = address.wrapping_add(u64::from(class) << 4);
        }
        (state.place, state.has_just_freed) = (place + 1, false);
        place
    }

    /// Codes an address that is none of the most likely ones.
    fn other_address(
        &mut self,
        coder: &mut impl Coder,
        stream: usize,
        class: u32,
        address: &mut u64,
    ) -> usize {
        let Self { streams, blocks, probs, .. } = self;
        let state = &mut streams[stream];
        let wanted = *address;
        let rank = blocks.rank(*state.free(class), wanted);
        let end = state.ends.iter().position(|end| *end == wanted);
        let rank = match (rank, end) {
            (Some(rank), _) => rank,
            (None, Some(end)) => MAX_RANK + end as u32,
            (None, None) => NO_RANK,
        };
        let rank = probs.address.ranks[state.place % 6].code(coder, rank);
        if rank < MAX_RANK {
            match blocks.take(state.free(class), rank) {
                Some(found) => *address = found,
                None => self.is_damaged = true,
            }
            return EARLIER;
        }
        let end = (rank - MAX_RANK) as usize;
        *address = match state.ends.get(end) {
            Some(end) => *end,
            None => {
                let distance = wanted.wrapping_sub(state.ends[0]);
                state.ends[0].wrapping_add(probs.address.distance.code(coder, distance))
            }
        };
        // The block is the last one at a new address.
        state.ends.copy_within(0..end.min(ENDS - 1), 1);
        state.ends[0] = address.wrapping_add(u64::from(class) << 4);
        if end < ENDS { EARLIER } else { ELSEWHERE }
    }

    /// Codes what follows the site of a free.
    #[inline(always)]
    fn end_of_block(
        &mut self,
        coder: &mut impl Coder,
        stream: usize,
        coded: &mut CodedEvent,
        is_predicted: bool,
        known: u32,
    ) {
        if coded.site == 0 {
            self.outside(coder, &mut coded.event.value);
        } else if is_predicted {
            coded.block = self.which(coder, coded.site, known);
        }
        let kind = coded.event.kind as usize;
        let (shape, frees) = (self.kinds[kind].shape, self.kinds[kind].role == Role::Frees);
        let mut heap = 0;
        if coded.block > 0 {
            let Some((address, site, class)) = self.blocks.get(coded.block) else {
                self.is_damaged = true;
                return;
            };
            coded.event.value = address;
            if let Some(site) = self.sites.get_mut(site as usize) {
                heap = site.heap;
                if frees {
                    let head = self.streams[stream].free(class);
                    self.blocks.free(coded.block, &mut site.blocks, head);
                }
            }
        }
        if frees {
            let state = &mut self.streams[stream];
            (state.freed, state.freed_block) = (coded.event.value, coded.block);
            state.has_just_freed = true;
        }
        if shape.stack {
            let last = self.kinds[kind].stack;
            let event = &mut coded.event;
            if coder.bit(&mut self.probs.same_stack, event.stack == last) {
                event.stack = last;
            } else {
                event.stack = self.probs.site.stack.code(coder, event.stack.into()) as u32;
            }
            self.kinds[kind].stack = event.stack;
        }
        if shape.heap {
            let same = coder.bit(&mut self.probs.same_heap[1], coded.event.heap == heap);
            coded.event.heap = match same {
                true => heap,
                false => self.probs.heap.code(coder, coded.event.heap.into()) as u8,
            };
        }
    }

    /// Codes a freed address that is of no block of the chunk.
    fn outside(&mut self, coder: &mut impl Coder, address: &mut u64) {
        let step = address.wrapping_sub(self.outside);
        let step = match coder.bit(&mut self.probs.block.same_step, step == self.outside_step) {
            true => self.outside_step,
            false => self.probs.block.step.code(coder, step),
        };
        *address = self.outside.wrapping_add(step);
        (self.outside, self.outside_step) = (*address, step);
    }

    /// Codes which block of a site is freed.
    #[inline(always)]
    fn which(&mut self, coder: &mut impl Coder, site: u32, known: u32) -> u32 {
        let Self { sites, probs, .. } = self;
        let Some(site) = sites.get_mut(site as usize) else { return 0 };
        let list = site.blocks;
        if list.newest == list.oldest {
            site.how = 0;
            return list.newest;
        }
        let probs_of_list = &mut probs.block.which[usize::from(site.how) % 5];
        let (how, block) = if coder.bit(&mut probs_of_list[0], known == list.newest) {
            (1, list.newest)
        } else if coder.bit(&mut probs_of_list[1], known == list.oldest) {
            (2, list.oldest)
        } else if list.following > 0 && coder.bit(&mut probs_of_list[2], known == list.following) {
            (3, list.following)
        } else {
            let distance = zigzag(u64::from(known).wrapping_sub(list.freed.into()));
            let distance = unzigzag(probs.block.distance.code(coder, distance));
            (4, u64::from(list.freed).wrapping_add(distance) as u32)
        };
        site.how = how;
        block
    }
}
