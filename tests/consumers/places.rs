// The macros in the places where programs write them. Each crate of this workspace includes it, and calls
// memledger `ml`.

ml::group! {
    /// Everything.
    pub OWNER = "Owner";
    PART = "Part" in OWNER;
}
ml::events::channel! { GAME = "Game"; QUIET = "Quiet" [ReadOnly]; }
ml::events::channel_presets! { "all" = "default,game"; }
ml::events::event! {
    /// A number, with a text.
    Loaded = "Game"."Loaded" { Level: u32, Name: WideString, }
}
ml::perfetto::categories! { DRAWING = "drawing"; }

const TAG: ml::Tag = ml::tag!(OWNER, "constant");
static UNNAMED: ml::Tag = ml::tag!(group: PART);

macro_rules! marked {
    ($name:literal, $body:expr) => {
        ml::alloc_scope!($name, { $body })
    };
}

fn generic<T: ::core::default::Default>() -> T {
    ml::alloc_scope!("generic");
    ml::tagged(TAG, T::default)
}

fn fails(even: u32) -> ::core::result::Result<u32, ::core::num::ParseIntError> {
    ml::alloc_scope!(group: PART, "fails", {
        let parsed = "7".parse::<u32>()?;
        if parsed == even {
            return ::core::result::Result::Ok(even);
        }
        ::core::result::Result::Ok(parsed)
    })
}

fn loops() -> u32 {
    let mut found = 0;
    for number in 0..9_u32 {
        ml::alloc_scope!("round", {
            if number == 2 {
                continue;
            }
            if number == 5 {
                break;
            }
        });
        found = match number {
            0 => ml::alloc_scope!("arm", { number }),
            1 => found,
            _ => marked!("by a macro", found + number),
        };
    }
    found
}

async fn task() -> u32 {
    let answer = ml::AllocScope::alloc_scope(async { 42_u32 }, "task").await;
    ml::alloc_scope!("after", { answer })
}

struct Level(u32);

impl Level {
    fn load(&self) -> u32 {
        let number = self.0;
        let closure = |more: u32| ml::alloc_scope!("closure", { number + more });
        ml::events::log!(GAME, Loaded { Level: number, Name: "meadow" });
        ml::events::log!(GAME | QUIET, Loaded { Level: number, Name: "meadow" });
        ml::events::log_scope!(GAME, Loaded { Level: number, Name: "meadow" });
        ml::bookmark!("level {}", number);
        ml::perfetto::slice!(DRAWING, "load");
        ml::perfetto::instant!(DRAWING, "loaded", arg("level", number));
        closure(1)
    }
}

/// Calls all of them.
#[must_use]
pub fn places() -> u32 {
    let _ = (task(), UNNAMED.name(), generic::<::std::vec::Vec<u8>>());
    ::core::mem::drop(ml::tagged_box!(ml::tag!(OWNER, "box"), [0_u8; 8]));
    fails(7).unwrap_or_default() + loops() + Level(3).load()
}
