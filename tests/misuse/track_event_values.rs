//! a track event has 32 values at most
memledger::perfetto::categories! { GAME = "game"; }
fn main() {
    memledger::perfetto::slice!(GAME, "frame", flow(1), flow(2), flow(3), flow(4), flow(5), flow(6), flow(7), flow(8), flow(9), flow(10), flow(11), flow(12), flow(13), flow(14), flow(15), flow(16), flow(17), flow(18), flow(19), flow(20), flow(21), flow(22), flow(23), flow(24), flow(25), flow(26), flow(27), flow(28), flow(29), flow(30), flow(31), flow(32), flow(33));
}
