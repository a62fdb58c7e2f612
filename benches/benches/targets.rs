//! Every target beside what the other benches, and the `overhead` command, have measured last.

use memledger_benches::targets;

fn main() {
    if !targets::is_test() && targets::is_selected("targets") {
        targets::print();
    }
}
