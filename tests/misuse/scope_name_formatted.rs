//! a name is not a format string: write `Name::intern(&format!(..))`
memledger::group! { AUDIO = "Audio"; }
fn main() {
    let level = 7;
    memledger::alloc_scope!("level {level}");
    let _ = memledger::alloc_scope!(group: AUDIO, "level {}", level);
}
