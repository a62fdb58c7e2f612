//! Writes traces of Unreal's form with one allocation and its call stack.

use memledger_analysis::Module;

/// A trace of Unreal's form with one allocation, in the making.
pub struct Trace {
    bytes: Vec<u8>,
    uid: u16,
}

/// Flags of types.
const IMPORTANT: u8 = 1 | NO_SYNC;
const NO_SYNC: u8 = 4;
/// Codes of the types of fields.
const U8: u8 = 0;
const U32: u8 = 2;
const U64: u8 = 3;
const TEXT: u8 = 0x88;
const BYTES: u8 = 0x80;
const WORDS: u8 = 0x83;

impl Trace {
    fn new() -> Self {
        let bytes = [b"2CRT", &[4, 0, 2, 0, 255, 255, 4, 7][..]].concat();
        Self { bytes, uid: 16 }
    }

    fn packet(&mut self, stream: u16, payload: &[u8]) {
        self.bytes.extend((payload.len() as u16 + 4).to_le_bytes());
        self.bytes.extend(stream.to_le_bytes());
        self.bytes.extend(payload);
    }

    /// Declares a type, and writes one event of it: on stream 1 if it is important, else on 2.
    fn event(&mut self, name: (&str, &str), flags: u8, fields: &[(&str, u8, &[u8])], serial: u32) {
        let size = |code: u8| if code & 0x80 != 0 { 0 } else { 1_u16 << (code & 3) };
        let has_aux = fields.iter().any(|(_, code, _)| code & 0x80 != 0);
        let lengths = [name.0.len() as u8, name.1.len() as u8];
        let mut record = [&self.uid.to_le_bytes()[..], &[fields.len() as u8]].concat();
        record.extend([flags | if has_aux { 2 } else { 0 }]);
        record.extend(lengths);
        let mut offset = 0_u16;
        for (name, code, _) in fields {
            record.extend([0, 0]);
            record.extend(offset.to_le_bytes());
            record.extend(size(*code).to_le_bytes());
            record.extend([*code, name.len() as u8]);
            offset += size(*code);
        }
        record.extend([name.0, name.1].concat().bytes());
        fields.iter().for_each(|(name, ..)| record.extend(name.bytes()));
        let head = [[0, 0], (record.len() as u16).to_le_bytes()].concat();
        self.packet(0, &[head, record].concat());

        let important = flags == IMPORTANT;
        let mut body = Vec::new();
        if flags & NO_SYNC == 0 {
            body.extend(&serial.to_le_bytes()[..3]);
        }
        let fixed = fields.iter().filter(|(_, code, _)| code & 0x80 == 0);
        fixed.for_each(|(_, _, value)| body.extend(*value));
        let shift = u32::from(!important);
        for (index, (_, code, value)) in fields.iter().enumerate() {
            if code & 0x80 != 0 {
                let head = 1_u32 << shift | (index as u32) << 8 | (value.len() as u32) << 13;
                body.extend(head.to_le_bytes());
                body.extend(*value);
            }
        }
        body.extend(has_aux.then_some(3_u8 << shift));
        if important {
            let head = [self.uid.to_le_bytes(), (body.len() as u16).to_le_bytes()].concat();
            self.packet(1, &[head, body].concat());
        } else {
            self.packet(2, &[(self.uid << 1 | 1).to_le_bytes().to_vec(), body].concat());
        }
        self.uid += 1;
    }

    /// One allocation of 64 bytes, whose stack has these return addresses, in this form.
    pub fn with_stack(module: &Module, frames: &[u64], form: &str) -> Vec<u8> {
        Self::new().allocation(module, frames, form)
    }

    /// The same of this process, by memledger.
    pub fn of_process(pid: u32, module: &Module, frames: &[u64]) -> Vec<u8> {
        let mut trace = Self::new();
        let pid = pid.to_le_bytes();
        let fields =
            [("Pid", U32, &pid[..]), ("Version", U8, &[0]), ("FromProcessStart", U8, &[1])];
        trace.event(("Memledger", "Trace"), IMPORTANT, &fields, 0);
        trace.allocation(module, frames, "")
    }

    fn allocation(mut self, module: &Module, frames: &[u64], form: &str) -> Vec<u8> {
        let trace = &mut self;
        let frequency = 1_000_000_000_u64.to_le_bytes();
        let clock = [("StartCycle", U64, &[0; 8][..]), ("CycleFrequency", U64, &frequency)];
        trace.event(("$Trace", "NewTrace"), IMPORTANT, &clock, 0);
        let format = [("SymbolFormat", TEXT, &b"dwarf"[..]), ("ModuleBaseShift", U8, &[0])];
        trace.event(("Diagnostics", "ModuleInit"), IMPORTANT, &format, 0);
        let (base, size) = (module.base.to_le_bytes(), 0x100_0000_u32.to_le_bytes());
        let fields = [
            ("Name", TEXT, module.path.as_bytes()),
            ("Base", U64, &base),
            ("Size", U32, &size),
            ("ImageId", BYTES, &module.build_id),
        ];
        trace.event(("Diagnostics", "ModuleLoad"), IMPORTANT, &fields, 0);
        let init = [("MarkerPeriod", U32, &[0, 16, 0, 0][..]), ("Version", U8, &[1])];
        let init = [&init[..], &[("MinAlignment", U8, &[8]), ("SizeShift", U8, &[3])]].concat();
        trace.event(("Memory", "Init"), IMPORTANT, &init, 0);
        let (field, code) =
            if form.is_empty() { ("Frames", WORDS) } else { ("CompressedFrames", BYTES) };
        let frames = written(form, frames);
        let spec = [("CallstackId", U32, &[7, 0, 0, 0][..]), (field, code, &frames)];
        trace.event(("Memory", &format!("CallstackSpec{form}")), NO_SYNC, &spec, 0);
        let fields = [
            ("Address", U64, &[0, 16, 0, 0, 0, 0, 0, 0][..]),
            ("CallstackId", U32, &[7, 0, 0, 0]),
            ("Size", U32, &[8, 0, 0, 0]),
            ("AlignmentPow2_SizeLower", U8, &[3 << 3]),
        ];
        trace.event(("Memory", "AllocSystem"), 0, &fields, 1);
        trace.packet(0x3fff, &[]);
        self.bytes
    }
}

/// The frames as Unreal's writers write them in the event `CallstackSpec` with this ending.
fn written(form: &str, frames: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut last = 0;
    for &frame in frames {
        let delta = frame.wrapping_sub(last) as i64;
        let mut zigzag = (delta << 1 ^ delta >> 63) as u64;
        match form {
            "XORAndRLE" => {
                let zeros = (frame ^ last).leading_zeros();
                bytes.push(zeros as u8);
                bytes.extend(&(frame ^ last).to_le_bytes()[..(64 - zeros).div_ceil(8) as usize]);
            }
            "Delta7bit" => {
                while zigzag > 0x7f {
                    bytes.push(zigzag as u8 | 0x80);
                    zigzag >>= 7;
                }
                bytes.push(zigzag as u8);
            }
            // The longest of these numbers: nothing but ones in the first byte.
            "DeltaVarInt" => {
                bytes.push(0xff);
                bytes.extend(zigzag.to_be_bytes());
            }
            _ => bytes.extend(frame.to_le_bytes()),
        }
        last = frame;
    }
    bytes
}
