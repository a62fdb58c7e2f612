//! a name is not a format string, so it takes no arguments
fn main() {
    memledger::alloc_scope!("level {} of {}", 7, 8);
}
