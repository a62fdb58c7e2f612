//! Name: From<String>
// A conversion would hide that each text is kept for good.
fn main() {
    memledger::alloc_scope!(format!("request {}", 7));
}
