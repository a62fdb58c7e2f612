//! this is not a name
//! write a literal, a `&'static str` or a `Name`
memledger::group! { AUDIO = "Audio"; }
fn main() {
    let _ = memledger::tag!(AUDIO, 7);
}
