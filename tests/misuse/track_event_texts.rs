//! a track event has 8 texts at most
memledger::perfetto::categories! { GAME = "game"; }
fn main() {
    let text = "text";
    memledger::perfetto::instant!(GAME, "frame", arg("a", text), arg("a", text), arg("a", text), arg("a", text), arg("a", text), arg("a", text), arg("a", text), arg("a", text), arg("a", text));
}
