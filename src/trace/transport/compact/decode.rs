//! From a compact packet to the payload it was made of.

use super::bits::{BitReader, low, zeroed};
use super::model::{
    ALIGNMENT, BY_AGE, DISTANCE_BITS, FAR, FAR_BITS, GAP, GAP_BITS, LITERAL, LITERAL_BITS, Model,
    NEWEST, RECENT, SERIAL_MASK, SIZE_BITS, STACK, STACK_BITS, Slot, VALUE_BITS, side, unzigzag,
};
use super::shape::{Kind, LARGEST_EVENT, Shape};
use super::{CHECKSUM, COMPACT_HEADER, LARGEST, SLACK, checksum};

/// Decodes compact packets, each by itself.
///
/// Costs about 5 ns an event, and 140 KiB.
pub struct Decoder {
    model: Model,
    slots: Vec<Slot>,
    bits: BitReader,
    payload: Box<[u8; LARGEST + SLACK]>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder.
    pub fn new() -> Self {
        Self { model: Model::new(), slots: Vec::new(), bits: BitReader::new(), payload: zeroed() }
    }

    /// Whether `packet`, with its header, carries the checksum of its bytes. A packet by chance
    /// does once in 4 billion.
    pub fn is_whole(packet: &[u8]) -> bool {
        packet.get(CHECKSUM).is_some_and(|sum| sum == checksum(packet).to_le_bytes())
    }

    /// The payload of `packet`, which is given with its header.
    ///
    /// # Errors
    /// One clause that says what is wrong with the packet.
    pub fn decode(&mut self, packet: &[u8]) -> Result<&[u8], String> {
        let Some((header, body)) = packet.split_at_checked(COMPACT_HEADER) else {
            return Err("it has no body".to_owned());
        };
        if !Self::is_whole(packet) {
            return Err("its checksum does not fit".to_owned());
        }
        let size = usize::from(u16::from_le_bytes([header[4], header[5]]));
        let body = self.shapes(body).ok_or("the shapes of its events make no sense")?;
        self.bits.load(body);
        let mut at = 0;
        while at < size {
            at = self.event(at, size).map_err(|what| format!("byte {at} of its payload {what}"))?;
        }
        if !self.bits.is_at_end() {
            return Err(format!("its payload of {size} bytes ends before the packet does"));
        }
        Ok(self.payload.get(..size).unwrap_or_default())
    }

    /// Reads the shapes at the start of `body`; returns what follows.
    fn shapes<'a>(&mut self, body: &'a [u8]) -> Option<&'a [u8]> {
        let (&first, mut rest) = body.split_first()?;
        let shift = u32::from(first >> 4);
        if shift > 4 {
            return None;
        }
        self.model.reset(shift);
        self.slots.clear();
        for _ in 0..first & 15 {
            let (shape, after) = Shape::read(rest)?;
            self.slots.push(Slot::new(shape));
            rest = after;
        }
        Some(rest)
    }

    /// Writes the next event to `at`; returns where it ends.
    #[inline(always)]
    fn event(&mut self, at: usize, size: usize) -> Result<usize, &'static str> {
        let mut word = self.bits.peek();
        let (index, mut used) = match word & 1 {
            0 => ((word >> 1) as usize & 15, 5),
            _ => (usize::from(self.model.next[self.model.last & 15]), 1),
        };
        self.model.follow(index);
        if index == LITERAL {
            self.bits.skip(used);
            return self.literal(at, size);
        }
        let Some(slot) = self.slots.get(index) else {
            return Err("belongs to an event without a shape");
        };
        let shape = slot.shape;
        word >>= used;
        used += 1;
        if word & 1 != 0 {
            self.bits.skip(used);
        }
        let (gap, alignment) = match word & 1 {
            0 => (0, None),
            _ => {
                used = 0;
                let unexpected = self.unexpected(index);
                word = self.bits.peek() << 1;
                unexpected
            }
        };
        word >>= 1;
        let end = at + usize::from(shape.size);
        if end > size || !self.bits.is_inside() {
            return Err("begins an event that does not fit");
        }
        let Some(slot) = self.slots.get_mut(index) else { return Ok(end) };
        let at = at & (LARGEST - 1);
        self.payload[at..at + LARGEST_EVENT].copy_from_slice(&slot.template);
        if shape.synced {
            let serial = self.model.serial.wrapping_add(1).wrapping_add(gap) & SERIAL_MASK;
            self.model.serial = serial;
            let [a, b, c, _] = serial.to_le_bytes();
            let place = at + usize::from(shape.head_size & 3);
            self.payload[place..place + 3].copy_from_slice(&[a, b, c]);
        }
        match shape.kind {
            Kind::Bare => self.bits.skip(used),
            Kind::Value => {
                self.bits.skip(used);
                let value = self.value(index);
                let bytes = value.to_le_bytes();
                let place = at + usize::from(shape.value & 31);
                match shape.value_size {
                    8 => self.payload[place..place + 8].copy_from_slice(&bytes),
                    _ => self.payload[place..place + 4].copy_from_slice(&bytes[..4]),
                }
            }
            Kind::Free | Kind::Alloc => {
                let side = side(shape.kind);
                let code = word & 7;
                let bits = DISTANCE_BITS[side][code as usize];
                let value = low(word >> 3, bits);
                word = word >> 3 >> bits;
                used += 3 + bits;
                let address = match code {
                    NEWEST | BY_AGE => {
                        let others = self.model.others(side);
                        if value as u32 >= others || value as usize >= RECENT {
                            return Err("begins an event with an address before the first");
                        }
                        self.model.other(side, others - 1 - value as u32)
                    }
                    FAR => {
                        self.bits.skip(used);
                        used = 0;
                        let address = self.far(side);
                        word = self.bits.peek();
                        address
                    }
                    _ => self.at_distance(side, value),
                };
                let place = at + usize::from(shape.address & 31);
                self.payload[place..place + 8].copy_from_slice(&address.to_le_bytes());
                let mut block_size = 0;
                if shape.kind == Kind::Alloc {
                    let code = word & 7;
                    let bits = SIZE_BITS[code as usize];
                    if used + 3 + bits > super::bits::STEP {
                        self.bits.skip(used);
                        used = 0;
                        word = self.bits.peek();
                    }
                    used += 3 + bits;
                    block_size = match code {
                        0 => self.model.block_size,
                        _ => low(word >> 3, bits),
                    };
                    self.model.block_size = block_size;
                    let expected = self.model.alignment(block_size);
                    let alignment = alignment.unwrap_or(*expected);
                    *expected = alignment;
                    let place = at + usize::from(shape.block_size & 31);
                    let upper = (block_size >> 3) as u32;
                    self.payload[place..place + 4].copy_from_slice(&upper.to_le_bytes());
                    let place = at + usize::from(shape.alignment & 31);
                    self.payload[place] = alignment << 3 | block_size as u8 & 7;
                }
                self.model.saw(side, address, block_size);
                self.bits.skip(used);
            }
        }
        Ok(end)
    }

    #[inline(always)]
    fn at_distance(&self, side: usize, code: u64) -> u64 {
        let distance = unzigzag(code) << self.model.shift;
        self.model.expected(side).wrapping_add(distance)
    }

    #[cold]
    #[inline(never)]
    fn far(&mut self, side: usize) -> u64 {
        let code = self.bits.take(2);
        match FAR_BITS[code as usize & 3] {
            64 => self.take_64(),
            bits => {
                let distance = self.bits.take(bits);
                self.at_distance(side, distance)
            }
        }
    }

    fn value(&mut self, index: usize) -> u64 {
        let code = self.bits.take(2);
        let distance = match VALUE_BITS[code as usize & 3] {
            64 => self.take_64(),
            bits => self.bits.take(bits),
        };
        let Some(slot) = self.slots.get_mut(index) else { return 0 };
        slot.value = slot.value.wrapping_add(unzigzag(distance));
        if slot.shape.value_size != 8 {
            slot.value = low(slot.value, 32);
        }
        slot.value
    }

    fn take_64(&mut self) -> u64 {
        let lower = self.bits.take(32);
        lower | self.bits.take(32) << 32
    }

    /// What an event of this slot has that was not expected of it: serials passed over, alignment.
    #[inline(never)]
    fn unexpected(&mut self, index: usize) -> (u32, Option<u8>) {
        let what = self.bits.take(3);
        let mut gap = 0;
        if what & GAP != 0 {
            let code = self.bits.take(2) as usize & 3;
            gap = self.bits.take(GAP_BITS[code]) as u32;
        }
        let alignment = (what & ALIGNMENT != 0).then(|| self.bits.take(5) as u8);
        if what & STACK != 0 {
            let code = self.bits.take(2) as usize & 3;
            let bits = self.bits.take(STACK_BITS[code]);
            if let Some(slot) = self.slots.get_mut(index) {
                let heap = if code == 3 { 0 } else { slot.stack >> 32 << 32 };
                slot.stack = heap | bits;
                let Shape { stack, heap, .. } = slot.shape;
                if stack > 0 {
                    let place = usize::from(stack);
                    slot.template[place..place + 4]
                        .copy_from_slice(&(slot.stack as u32).to_le_bytes());
                }
                if heap > 0 {
                    slot.template[usize::from(heap)] = (slot.stack >> 32) as u8;
                }
            }
        }
        (gap, alignment)
    }

    #[inline(never)]
    fn literal(&mut self, at: usize, size: usize) -> Result<usize, &'static str> {
        let code = self.bits.take(1) as usize & 1;
        let length = self.bits.take(LITERAL_BITS[code]) as usize;
        let bytes = self.bits.take_bytes(length).filter(|bytes| !bytes.is_empty());
        let bytes = bytes.ok_or("is in a run of bytes that are not there")?;
        let room = self.payload.get_mut(at..at + length).filter(|_| at + length <= size);
        room.ok_or("begins a run of bytes that does not fit")?.copy_from_slice(bytes);
        Ok(at + length)
    }
}
