//! Room for a jump at the start of a function: which instructions are moved, and that no other code needs
//! them in their place.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, IcedError, Instruction,
    InstructionBlock, MemoryOperand, Mnemonic, OpKind, Register,
};
use std::fmt;
use std::ops::Range;

/// The bytes of a jump (`jmp rel32`, Intel's manual, volume 2, "JMP").
pub const JUMP: usize = 5;

/// Why a function cannot be redirected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has fewer bytes than a jump.
    Short,
    /// Its bytes are no instructions.
    Unreadable,
    /// A branch leads into the instructions that would be moved, or may do so: it has its address from a
    /// table.
    Entered,
    /// A call is among these, and not the last one: it would return to where no unwinder finds its way.
    Calls,
    /// An instruction cannot be encoded for another address.
    Fixed,
}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Short => "it has fewer bytes than a jump",
            Self::Unreadable => "its code cannot be decoded",
            Self::Entered => "a branch may lead into its first instructions",
            Self::Calls => "its first instructions call a function",
            Self::Fixed => "its first instructions only work at their address",
        })
    }
}

/// The instructions of a function that make room for a jump.
#[derive(Clone, Debug)]
pub struct Room {
    /// They are whole, one after the other.
    instructions: Vec<Instruction>,
    /// Where they are: the jump is written at the start.
    place: Range<u64>,
}

impl Room {
    /// The first instructions of the function with this code, which is whole, at this address; behind
    /// `endbr64`, which stays where it is. No branch of the function leads to them, except calls of the
    /// function itself.
    ///
    /// # Errors
    /// The function cannot be redirected.
    pub fn in_function(code: &[u8], address: u64) -> Result<Self, Refusal> {
        let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
        let mut instructions = Vec::new();
        let mut start = address;
        let mut targets = Vec::new();
        while decoder.can_decode() {
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                // Behind the part that is moved, a compiler may have put data.
                if end_of(&instructions, start) - start < JUMP as u64 {
                    return Err(Refusal::Unreadable);
                }
                break;
            }
            if instruction.ip() == address && instruction.code() == Code::Endbr64 {
                start = instruction.next_ip();
                continue;
            }
            if end_of(&instructions, start) - start < JUMP as u64 {
                if instructions.last().is_some_and(is_call) {
                    return Err(Refusal::Calls);
                }
                instructions.push(instruction);
            }
            if jumps_anywhere(&instruction) {
                return Err(Refusal::Entered);
            }
            targets.extend(target(&instruction));
        }
        let place = start..end_of(&instructions, start);
        if place.end - place.start < JUMP as u64 {
            return Err(Refusal::Short);
        }
        // NOTE: a jump to the start is a loop, which would go through the redirection at each turn.
        if targets.iter().any(|target| (address..place.end).contains(target)) {
            return Err(Refusal::Entered);
        }
        Ok(Self { instructions, place })
    }

    /// Where the function leads at once, if it does nothing else.
    pub fn leads_to(code: &[u8], address: u64) -> Option<u64> {
        let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
        let first = decoder.iter().find(|instruction| instruction.code() != Code::Endbr64)?;
        if first.mnemonic() == Mnemonic::Jmp { target(&first) } else { None }
    }

    /// Where the jump is to be written, and the bytes that are moved.
    pub fn place(&self) -> Range<u64> {
        self.place.clone()
    }

    /// Whether a call is among them. A jump takes its place, so a shadow stack does not know where it returns
    /// to.
    pub fn calls(&self) -> bool {
        self.instructions.iter().any(is_call)
    }

    /// The same instructions for another address, with a jump back behind them. A call returns to where it
    /// was.
    ///
    /// # Errors
    /// What they are relative to is too far from there.
    pub fn moved_to(&self, address: u64) -> Result<Vec<u8>, Refusal> {
        let mut moved = self.instructions.clone();
        let mut next = self.place.end;
        if let Some(call) = moved.pop_if(|last| is_call(last)) {
            if call.code() != Code::Call_rel32_64 {
                return Err(Refusal::Calls);
            }
            moved.extend(pushes(self.place.end)?);
            next = call.near_branch_target();
        }
        moved.push(Instruction::with_branch(Code::Jmp_rel32_64, next).map_err(fixed)?);
        let block = InstructionBlock::new(&moved, address);
        let encoded = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE);
        Ok(encoded.map_err(fixed)?.code_buffer)
    }
}

/// Instructions that push an address.
fn pushes(address: u64) -> Result<[Instruction; 2], Refusal> {
    let [low, high] = [address as i32, (address >> 32) as i32];
    // The first one extends its sign to 64 bits.
    let above = MemoryOperand::with_base_displ(Register::RSP, 4);
    Ok([
        Instruction::with1(Code::Pushq_imm32, low).map_err(fixed)?,
        Instruction::with2(Code::Mov_rm32_imm32, above, high).map_err(fixed)?,
    ])
}

fn fixed(_: IcedError) -> Refusal {
    Refusal::Fixed
}

fn is_call(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Call
}

/// Whether it is a jump to an address that is not in the code.
fn jumps_anywhere(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Jmp && target(instruction).is_none()
}

/// The address behind the last of these instructions.
fn end_of(instructions: &[Instruction], start: u64) -> u64 {
    instructions.last().map_or(start, Instruction::next_ip)
}

/// Where a branch leads that is no call.
fn target(instruction: &Instruction) -> Option<u64> {
    let is_near = matches!(
        instruction.op0_kind(),
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
    );
    (is_near && instruction.mnemonic() != Mnemonic::Call).then(|| instruction.near_branch_target())
}

/// Where code branches to with 32 bits, as a part of a function does that a compiler has moved away from it.
/// Takes every byte for the start of an instruction, so it may find a branch where there is none, but misses
/// none.
pub fn branches(code: &[u8], address: u64) -> impl Iterator<Item = u64> {
    code.windows(6).enumerate().filter_map(move |(at, bytes)| {
        // `jmp rel32` and `jcc rel32` (Intel's manual, volume 2).
        let after = match bytes {
            [0xe9, ..] => 1,
            [0x0f, condition, ..] if condition & 0xf0 == 0x80 => 2,
            _ => return None,
        };
        let distance = i32::from_le_bytes(bytes[after..].first_chunk().copied()?);
        let next = address.wrapping_add((at + after + 4) as u64);
        Some(next.wrapping_add_signed(i64::from(distance)))
    })
}

/// A jump from one address to another; `None` if they are 2 GiB apart.
pub fn jump(from: u64, to: u64) -> Option<[u8; JUMP]> {
    let distance = to.wrapping_sub(from.wrapping_add(JUMP as u64)).cast_signed();
    let [a, b, c, d] = i32::try_from(distance).ok()?.to_le_bytes();
    Some([0xe9, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x1000;

    fn room(code: &[u8]) -> Result<Room, Refusal> {
        Room::in_function(code, AT)
    }

    /// The instructions of some code, in Intel's syntax without addresses.
    fn shown(code: &[u8], address: u64) -> Vec<String> {
        let decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
        decoder
            .into_iter()
            .map(|it| {
                format!("{:?} {:x}", it.code(), target(&it).unwrap_or(it.memory_displacement64()))
            })
            .collect()
    }

    #[test]
    fn whole_instructions_are_moved_behind_endbr64() {
        // endbr64; push rbx; mov rbx, rdi; sub rsp, 16; ret
        let code = [0xf3, 0x0f, 0x1e, 0xfa, 0x53, 0x48, 0x89, 0xfb, 0x48, 0x83, 0xec, 0x10, 0xc3];
        let room = room(&code).unwrap();
        assert_eq!(room.place(), AT + 4..AT + 12);
        let moved = room.moved_to(0x9000).unwrap();
        assert_eq!(moved[..8], code[4..12]);
        assert_eq!(shown(&moved[8..], 0x9008), ["Jmp_rel32_64 100c"]);
    }

    #[test]
    fn what_is_relative_is_encoded_anew() {
        // test rdi, rdi; je +0x20; mov rax, [rip + 0x100]
        let code = [0x48, 0x85, 0xff, 0x74, 0x20, 0x48, 0x8b, 0x05, 0, 1, 0, 0, 0xc3];
        let moved = room(&code).unwrap().moved_to(0x9000).unwrap();
        assert_eq!(shown(&moved, 0x9000)[1..], ["Je_rel32_64 1025", "Jmp_rel32_64 1005"]);
        let code = &code[5..];
        let moved = room(code).unwrap().moved_to(0x9000).unwrap();
        assert_eq!(shown(&moved, 0x9000), ["Mov_r64_rm64 1107", "Jmp_rel32_64 1007"]);
        // 1 TiB away, it cannot be.
        let room = Room::in_function(code, 1 << 40).unwrap();
        assert_eq!(room.moved_to(1 << 41), Err(Refusal::Fixed));
    }

    #[test]
    fn a_call_returns_to_its_place() {
        // sub rsp, 8; call +0x100
        let code = [0x48, 0x83, 0xec, 8, 0xe8, 0, 1, 0, 0, 0x90, 0xc3];
        assert!(room(&code).unwrap().calls());
        let moved = room(&code).unwrap().moved_to(0x7000).unwrap();
        let expected =
            ["Sub_rm64_imm8 0", "Pushq_imm32 0", "Mov_rm32_imm32 4", "Jmp_rel32_64 1109"];
        assert_eq!(shown(&moved, 0x7000), expected);
        // In front of others, it is refused: call rax; mov rax, rbx
        assert_eq!(room(&[0xff, 0xd0, 0x48, 0x89, 0xd8, 0xc3]).unwrap_err(), Refusal::Calls);
    }

    #[test]
    fn what_cannot_be_redirected_is_refused() {
        // ret
        assert_eq!(room(&[0xc3]).unwrap_err(), Refusal::Short);
        assert_eq!(room(&[]).unwrap_err(), Refusal::Short);
        // No instruction; one that is cut off.
        assert_eq!(room(&[0x06; 16]).unwrap_err(), Refusal::Unreadable);
        assert_eq!(room(&[0x48, 0x8b, 0x05, 0]).unwrap_err(), Refusal::Unreadable);
        // nop; dec edi; nop; nop; jne to the second
        assert_eq!(
            room(&[0x90, 0xff, 0xcf, 0x90, 0x90, 0x75, 0xfa, 0xc3]).unwrap_err(),
            Refusal::Entered
        );
        // The same to the first: each turn would be a call.
        assert_eq!(
            room(&[0x90, 0xff, 0xcf, 0x90, 0x90, 0x75, 0xf9, 0xc3]).unwrap_err(),
            Refusal::Entered
        );
        // Five nops; jmp [rax * 8 + 0x1000]
        assert_eq!(
            room(&[0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0x24, 0xc5, 0, 0x10, 0, 0]).unwrap_err(),
            Refusal::Entered
        );
    }

    #[test]
    fn branches_of_other_code_are_found() {
        let to = |next: i64, target: i64| ((target - next) as i32).to_le_bytes();
        for (code, target) in [
            ([&[0x90, 0x0f, 0x84][..], &to(0x2007, 0x1002)].concat(), Some(0x1002)),
            ([&[0xe9][..], &to(0x2005, 0x1004), &[0x90]].concat(), Some(0x1004)),
            ([&[0xe8][..], &to(0x2005, 0x1002), &[0x90]].concat(), None),
        ] {
            assert_eq!(branches(&code, 0x2000).next(), target, "{code:x?}");
        }
    }

    #[test]
    fn any_bytes_are_moved_whole_or_refused() {
        // A linear congruential generator, as in C's standard.
        let mut state = 1_u32;
        let mut moved = 0;
        for _ in 0..200_000 {
            let code: [u8; 24] = std::array::from_fn(|_| {
                state = state.wrapping_mul(1_103_515_245).wrapping_add(12345);
                (state >> 16) as u8
            });
            let Ok(room) = room(&code) else { continue };
            assert!(room.place().end - room.place().start >= JUMP as u64);
            assert!(room.place().end <= AT + code.len() as u64);
            let Ok(bytes) = room.moved_to(0x9000) else { continue };
            // The same instructions with the same targets, but for a call, and for branches that have 8 bits
            // and no other form.
            let place = room.place();
            let before = &code[(place.start - AT) as usize..(place.end - AT) as usize];
            let names = |code: &[u8], address| {
                let decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
                let of = |it: Instruction| (it.mnemonic(), target(&it), it.ip_rel_memory_address());
                decoder.into_iter().map(of).collect::<Vec<_>>()
            };
            let has_no_form = |mnemonic| {
                use Mnemonic::{Call, Jcxz, Jecxz, Jrcxz, Loop, Loope, Loopne, Xbegin};
                matches!(mnemonic, Call | Jcxz | Jecxz | Jrcxz | Loop | Loope | Loopne | Xbegin)
            };
            let (before, mut after) = (names(before, place.start), names(&bytes, 0x9000));
            if before.iter().any(|(mnemonic, ..)| has_no_form(*mnemonic)) {
                continue;
            }
            assert_eq!(
                after.pop().map(|it| (it.0, it.1)),
                Some((Mnemonic::Jmp, Some(place.end))),
                "{code:x?}"
            );
            assert_eq!(before, after, "{code:x?}");
            moved += 1;
        }
        assert!(moved > 10_000, "{moved}");
    }

    #[test]
    fn jumps_reach_2_gib() {
        assert_eq!(jump(0x1000, 0x1005), Some([0xe9, 0, 0, 0, 0]));
        assert_eq!(jump(0x1000, 0x1000), Some([0xe9, 0xfb, 0xff, 0xff, 0xff]));
        assert_eq!(jump(0, (1 << 31) + 4), Some([0xe9, 0xff, 0xff, 0xff, 0x7f]));
        assert_eq!(jump(0, (1 << 31) + 5), None);
    }
}
