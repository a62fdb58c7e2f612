//! What must compile, so that the other files of this folder fail for their own reasons.
#![forbid(unsafe_code)]
#![deny(warnings)]
use memledger::perfetto::TrackValue;
use memledger::{AllocScope, ScopeContext, Name, Tag, alloc_scope, tag};

#[cfg(feature = "c-malloc")]
memledger::track_c_malloc!();
#[global_allocator]
static ALLOC: memledger::TrackingAllocator = memledger::TrackingAllocator::system();

type Number = u64;
mod names {
    memledger::events::channel! { pub GAME = "Game"; pub NETWORK = "Network"; }
    memledger::perfetto::categories! { pub TRACK = "game"; }
    memledger::group! { pub AUDIO = "Audio"; }
}
use names::{AUDIO, TRACK};
memledger::events::event! { Many = "Game"."Many" { F1: u8, F2: u8, F3: u8, F4: u8, F5: u8, F6: u8, F7: u8, F8: u8, F9: u8, F10: u8, F11: u8, F12: u8, F13: u8, F14: u8, F15: u8, F16: u8, F17: u8, F18: u8, F19: u8, F20: u8, F21: u8, F22: u8, F23: u8, F24: u8, F25: u8, F26: u8, F27: u8, F28: u8, F29: u8, F30: u8, F31: u8, F32: u8, F33: u8, F34: u8, F35: u8, F36: u8, F37: u8, F38: u8, F39: u8, F40: u8, F41: u8, F42: u8, F43: u8, F44: u8, F45: u8, F46: u8, F47: u8, F48: u8, F49: u8, F50: u8, F51: u8, F52: u8, F53: u8, F54: u8, F55: u8, F56: u8, F57: u8, F58: u8, F59: u8, F60: u8, F61: u8, F62: u8, F63: u8, F64: u8, F65: u8, F66: u8, F67: u8, F68: u8, F69: u8, F70: u8, F71: u8, F72: u8, F73: u8, F74: u8, F75: u8, F76: u8, F77: u8, F78: u8, F79: u8, F80: u8, F81: u8, F82: u8, F83: u8, F84: u8, F85: u8, F86: u8, F87: u8, F88: u8, F89: u8, F90: u8, F91: u8, F92: u8, F93: u8, F94: u8, F95: u8, F96: u8, F97: u8, F98: u8, F99: u8, F100: u8, F101: u8, F102: u8, F103: u8, F104: u8, F105: u8, F106: u8, F107: u8, F108: u8, F109: u8, F110: u8, F111: u8, F112: u8, F113: u8, F114: u8, F115: u8, F116: u8, F117: u8, F118: u8, F119: u8, F120: u8, F121: u8, F122: u8, F123: u8, F124: u8, F125: u8, F126: u8, F127: u8, F128: u8, F129: u8, F130: u8, F131: u8, F132: u8, F133: u8, F134: u8, F135: u8, F136: u8, F137: u8, F138: u8, F139: u8, F140: u8, F141: u8, F142: u8, F143: u8, F144: u8, F145: u8, F146: u8, F147: u8, F148: u8, F149: u8, F150: u8, F151: u8, F152: u8, F153: u8, F154: u8, F155: u8, F156: u8, F157: u8, F158: u8, F159: u8, F160: u8, F161: u8, F162: u8, F163: u8, F164: u8, F165: u8, F166: u8, F167: u8, F168: u8, F169: u8, F170: u8, F171: u8, F172: u8, F173: u8, F174: u8, F175: u8, F176: u8, F177: u8, F178: u8, F179: u8, F180: u8, F181: u8, F182: u8, F183: u8, F184: u8, F185: u8, F186: u8, F187: u8, F188: u8, F189: u8, F190: u8, F191: u8, F192: u8, F193: u8, F194: u8, F195: u8, F196: u8, F197: u8, F198: u8, F199: u8, F200: u8, F201: u8, F202: u8, F203: u8, F204: u8, F205: u8, F206: u8, F207: u8, F208: u8, F209: u8, F210: u8, F211: u8, F212: u8, F213: u8, F214: u8, F215: u8, F216: u8, F217: u8, F218: u8, F219: u8, F220: u8, F221: u8, F222: u8, F223: u8, F224: u8, F225: u8, F226: u8, F227: u8, F228: u8, F229: u8, F230: u8, F231: u8, F232: u8, F233: u8, F234: u8, F235: u8, F236: u8, F237: u8, F238: u8, F239: u8, F240: u8, F241: u8, F242: u8, F243: u8, F244: u8, F245: u8, F246: u8, F247: u8, F248: u8, F249: u8, F250: u8, F251: u8, F252: u8, F253: u8, F254: u8, F255: u8, } }
memledger::events::event! { Frame = "Game"."Frame" [NoSync] { Number: Number, Name: AnsiString } }
memledger::events::event! { Kind = "Game"."Kind" [Important, NoSync,] { Id: DefinitionId<u32> } }
memledger::events::event! { Spawned = "Game"."Spawned" { Kind: Reference<Kind>, At: [Pointer], Of: [f32] } }
memledger::events::event! { Empty = "Game"."Empty" {} }

const LOADING: &str = "loading";
const TAGS: [Tag; 3] = [tag!(AUDIO), tag!(AUDIO, LOADING,), tag!(names::AUDIO, Name::new("{x}"))];

fn spawn(_task: impl Future + Send + 'static) {}
async fn receive() {}

fn log<T: TrackValue>(value: T) {
    #[allow(non_snake_case)]
    let Number = 7;
    memledger::events::log!(names::GAME, Many { F1: 1, F255: 2 });
    memledger::events::log!(names::GAME | names::NETWORK, Frame { Number, Name: &format!("{}", 8) });
    memledger::events::log!(names::GAME, Spawned { Kind: 1, At: &[1], },);
    memledger::events::log_scope!(timed: names::GAME, Frame { Number });
    memledger::events::log_scope!(names::GAME, Empty {}, { memledger::events::log!(names::GAME, Kind { Id: 1 }) });
    memledger::perfetto::instant!(TRACK, "value", arg("value", value));
}

fn main() {
    let context = ScopeContext::current();
    std::thread::spawn(move || context.run(|| ()));
    spawn(async { receive().alloc_scope("receive").await }.alloc_scope("load"));
    spawn(async {
        alloc_scope!("parse", {});
        receive().await;
    });
    spawn(alloc_scope!(group: AUDIO, "play", async { receive().await }));
    alloc_scope!(Name::new("level {}"));
    alloc_scope!(group: AUDIO, LOADING,);
    let sum = alloc_scope!(group: AUDIO, "sum", u32::max(1, 2));
    log(sum);
    let text = &format!("{} tags", TAGS.len());
    memledger::perfetto::slice!(TRACK, "frame", arg("a", text), arg("a", text), arg("a", text), arg("a", text), arg("a", text), arg("a", text), arg("a", text), arg("a", text), correlation(1), correlation(2), correlation(3), correlation(4), correlation(5), correlation(6), correlation(7), correlation(8), correlation(9), correlation(10), correlation(11), correlation(12), correlation(13), correlation(14), correlation(15), correlation(16), correlation(17), correlation(18), correlation(19), correlation(20), correlation(21), correlation(22), correlation(23), correlation(24));
}
