//! The store that a command asks.

use crate::error::CliError;
use crate::token::read_token;
use memledger_store::Store;
use memledger_store::check_token;
use std::path::{Path, PathBuf};

/// Which store a command asks.
#[derive(Debug, clap::Args)]
pub struct StoreArgs {
    /// Address of the store, HOST or HOST:PORT; the default port is 1989
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    store: String,
    /// File with the token that a store on another machine requires
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl StoreArgs {
    /// Connects to the store.
    pub fn connect(&self) -> Result<Store, CliError> {
        if Path::new(&self.store).is_dir() {
            let store = &self.store;
            return Err(CliError::Usage(format!(
                "--store takes the address of a store (HOST or HOST:PORT), but {store} is a folder; memledger serve --folder {store} serves it"
            )));
        }
        let token =
            self.token_file.as_deref().map(|path| read_token(path, check_token)).transpose()?;
        let store = Store::connect(&self.store).map_err(|error| failed_store(&error))?;
        match token {
            None => Ok(store),
            Some(token) => store.with_token(&token).map_err(|error| failed_store(&error)),
        }
    }
}

/// The error for a request that a store did not fulfil.
pub fn failed_store(error: &memledger_store::Error) -> CliError {
    CliError::Failed(format!("{error:#}"))
}
