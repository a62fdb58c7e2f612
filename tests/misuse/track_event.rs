//! `instnt("drawn")` is no track event
//! `argh("number", 7), flush` is no extra of a track event here
memledger::perfetto::categories! { GAME = "game"; }
fn main() {
    memledger::perfetto::track_event!(GAME, instnt("drawn"));
    memledger::perfetto::slice!(GAME, "drawn", arg("of", 8), argh("number", 7), flush);
}
