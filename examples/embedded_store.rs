//! A recorder and a store of traces within a program. Each line on standard input lists what they have.
//!
//! ```text
//! cargo run --release --example embedded_store --features store -- FOLDER
//! MEMLEDGER_HOST=127.0.0.1:PORT ./program   # in another terminal, with the port that it prints
//! ```

use memledger_store::Store;
use memledger_store::serve::{InProcess, Settings};
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map_or_else(|| "traces".into(), PathBuf::from);
    let mut settings = Settings::in_folder(&folder)?;
    settings.threads = 1;
    settings.note = |sentence| eprintln!("{sentence}");
    let server = InProcess::start(settings)?;
    let listening = server.listening();
    println!("recording at {}, in {}", listening.recorder[0], listening.directory.display());
    let mut store = Store::connect(&listening.store.to_string())?;
    for line in std::io::stdin().lines() {
        line?;
        for trace in store.traces()? {
            let state = if trace.live { ", growing" } else { "" };
            println!("{}: {} bytes{state}", trace.name, trace.size);
        }
    }
    Ok(server.stop()?)
}
