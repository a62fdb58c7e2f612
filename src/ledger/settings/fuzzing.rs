//! Parsers of the settings that the environment or the command line of a program gives, for the
//! fuzzer.

use crate::control::server::ListenAddress;
use crate::events::channel;
use crate::ledger::config::Config;
use crate::ledger::settings::{CONTROL_TOKEN_FILE, SETTINGS, Setting, Settings};
use crate::trace::sink::names;
use crate::trace::sink::tcp::Address;
use memledger_format::words::escape;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The result of parsing flags: the settings as text, the other arguments, the problems. The flag
/// that names a file to be read is left out.
pub fn settings(args: Vec<OsString>) -> (String, Vec<OsString>, Vec<String>) {
    let (mut settings, rest) = Settings::from_args(args);
    let is_token = |setting: &Setting| setting.variable == CONTROL_TOKEN_FILE;
    SETTINGS.iter().position(is_token).into_iter().for_each(|at| settings.0[at] = None);
    let mut config = Config::default();
    let mut problems = Vec::new();
    settings
        .or(Settings::default())
        .apply_reporting(&mut config, &mut |problem| problems.push(escape(&problem)));
    (format!("{config:?}"), rest, problems)
}

/// A file name with `%p`, `%t` and `%e` replaced, and the problems.
pub fn file_name(pattern: &Path) -> (PathBuf, Vec<String>) {
    let mut problems = Vec::new();
    let name = names::expand(pattern, &mut |problem| problems.push(escape(&problem)));
    (name, problems)
}

/// The host of an address, and the whole address.
pub fn address(text: &str) -> Result<(String, String), String> {
    let address = Address::parse(text).map_err(|error| error.to_string())?;
    Ok((address.host().to_owned(), address.to_string()))
}

/// The port that a control server listens on, and whether other machines reach it.
pub fn place(text: &str) -> Result<(u16, bool), String> {
    let address = ListenAddress::parse(text).map_err(|error| error.to_string())?;
    Ok((address.port(), address.is_public()))
}

/// Whether `text` is a list of channel names.
pub fn channels(text: &str) -> Result<(), String> {
    channel::names(text).map(drop).map_err(|error| error.to_string())
}
