//! `String` is not a value of a track event
memledger::perfetto::categories! { GAME = "game"; }
fn main() {
    memledger::perfetto::instant!(GAME, "joined", arg("player", "Ümit".to_owned()));
}
