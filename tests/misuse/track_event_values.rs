//! a track event has 32 values at most
memledger::perfetto::categories! { GAME = "game"; }
fn main() {
    memledger::perfetto::slice!(GAME, "frame", correlation(1), correlation(2), correlation(3), correlation(4), correlation(5), correlation(6), correlation(7), correlation(8), correlation(9), correlation(10), correlation(11), correlation(12), correlation(13), correlation(14), correlation(15), correlation(16), correlation(17), correlation(18), correlation(19), correlation(20), correlation(21), correlation(22), correlation(23), correlation(24), correlation(25), correlation(26), correlation(27), correlation(28), correlation(29), correlation(30), correlation(31), correlation(32), correlation(33));
}
