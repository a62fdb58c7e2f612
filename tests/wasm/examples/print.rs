//! Prints what the host of WebAssembly gets as text.

fn main() {
    println!("{}", wasm::results());
}
