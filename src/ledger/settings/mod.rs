//! The settings that a user makes from outside: `MEMLEDGER_*` variables and command-line flags. `applied.rs`
//! has what they mean, `files.rs` the names of the files that a recording writes. `docs/settings.md`
//! describes each; `tests.rs` compares it with the table below.

pub(super) mod applied;
pub(super) mod files;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
#[cfg(test)]
mod tests;

use crate::control::{DEFAULT_PORT as DEFAULT_CONTROL_PORT, ListenAddress};
use crate::events::channel;
use crate::ledger::config::{Config, Limit, OnFull, Stacks, Watch};
use crate::ledger::control::read_token;
use crate::ledger::destinations::session;
use crate::ledger::problem::ProblemKind;
use crate::ledger::problems;
use crate::ledger::reports::{self, report::asked};
use crate::platform::os;
use crate::trace::sink::tcp::Address;
use crate::trace::write::untracked;
use applied::STACK_MEMORY_RANGE;
use memledger_format::words::{instead_as, system_text};
use std::ffi::{CStr, OsStr, OsString};
use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;

/// One setting: its variable, its flag, and how it changes the configuration. An error says which
/// values are allowed, and what happens without the setting.
struct Setting {
    variable: &'static CStr,
    flag: &'static str,
    apply: Apply,
}

type Apply = fn(&OsStr, &mut Config) -> Result<(), String>;

const fn setting(variable: &'static CStr, flag: &'static str, apply: Apply) -> Setting {
    Setting { variable, flag, apply }
}

/// All settings, in the order in which they are applied.
const SETTINGS: [Setting; 24] = [
    setting(CHANNELS, "-trace=", channels),
    setting(STACKS, STACKS_FLAG, stacks),
    setting(STACK_FRAMES, "-tracestackframes=", stack_frames),
    setting(STACK_MEMORY, "-tracestackmemory=", stack_memory),
    setting(TRACE, "-tracefile=", file),
    setting(PERFETTO, "-traceperfetto=", session::set),
    setting(PERFETTO_CONFIG, "-traceperfettoconfig=", session::configure),
    setting(c"MEMLEDGER_HOST", "-tracehost=", host),
    setting(c"MEMLEDGER_CONTROL", "-tracecontrol=", control),
    setting(c"MEMLEDGER_CONTROL_FOLDER", "-tracecontrolfolder=", control_folder),
    setting(c"MEMLEDGER_CONTROL_HOSTS", "-tracecontrolhosts=", control_hosts),
    // Applied after the server's address: if the token cannot be read, there is no server.
    setting(CONTROL_TOKEN_FILE, "-tracecontroltokenfile=", control_token_file),
    setting(c"MEMLEDGER_FOLLOW_FORKS", "-tracefollowforks=", follow_forks),
    setting(REPORT_ON_SIGNALS, "-tracereportonsignals=", report_on_signals),
    setting(RSS, "-tracerss=", rss_interval),
    setting(BLACK_BOX, "-traceblackbox=", black_box),
    setting(c"MEMLEDGER_ANALYZE_IN_PROCESS", "-traceanalyzeinprocess=", analyze_in_process),
    setting(BUFFER_LIMIT, "-tracebufferlimit=", buffer_limit),
    setting(ON_FULL, "-traceonfull=", on_full),
    setting(FILE_MODE, "-tracefilemode=", file_mode),
    setting(REPORT, "-tracereport=", report),
    // Applied after the report: these are its options.
    setting(c"MEMLEDGER_REPORT_VERBOSE", "-tracereportverbose=", report_verbose),
    setting(c"MEMLEDGER_REPORT_LARGEST_LIVE", "-tracereportlargestlive=", report_largest_live),
    // Applied last: 0 takes back the watcher that a report or signals have wanted.
    setting(WATCH, WATCH_FLAG, watch),
];

pub(in crate::ledger) const PERFETTO: &CStr = c"MEMLEDGER_PERFETTO";
const PERFETTO_CONFIG: &CStr = c"MEMLEDGER_PERFETTO_CONFIG";
/// What `memledger run` passes to a `memledger run` that its program starts.
const SET_BY_RUN: &CStr = c"MEMLEDGER_RUN";
/// A setting of the command alone: where it keeps symbols.
const SYMBOL_CACHE: &CStr = c"MEMLEDGER_SYMBOL_CACHE";
pub(in crate::ledger) const CHANNELS: &CStr = c"MEMLEDGER_CHANNELS";
pub(in crate::ledger) const TRACE: &CStr = c"MEMLEDGER_TRACE";
pub(in crate::ledger) const STACKS: &CStr = c"MEMLEDGER_STACKS";
/// Without the `=` and a value, it means `on`.
pub(in crate::ledger) const STACK_FRAMES: &CStr = c"MEMLEDGER_STACK_FRAMES";
pub(in crate::ledger) const STACK_MEMORY: &CStr = c"MEMLEDGER_STACK_MEMORY";
const STACKS_FLAG: &str = "-tracestacks=";
const STACKS_ON: &str = "-tracestacks=on";
pub(in crate::ledger) const RSS: &CStr = c"MEMLEDGER_RSS";
pub(in crate::ledger) const FILE_MODE: &CStr = c"MEMLEDGER_FILE_MODE";
const WATCH: &CStr = c"MEMLEDGER_WATCH";
/// Without the `=` and a value, it means `1`.
const WATCH_FLAG: &str = "-tracewatch=";
const WATCH_ON: &str = "-tracewatch=1";
pub(in crate::ledger) const BLACK_BOX: &CStr = c"MEMLEDGER_BLACK_BOX";
pub(in crate::ledger) const BUFFER_LIMIT: &CStr = c"MEMLEDGER_BUFFER_LIMIT";
pub(in crate::ledger) const ON_FULL: &CStr = c"MEMLEDGER_ON_FULL";
const REPORT_ON_SIGNALS: &CStr = c"MEMLEDGER_REPORT_ON_SIGNALS";
pub(in crate::ledger) const REPORT: &CStr = c"MEMLEDGER_REPORT";
/// The setting whose value names a file to be read.
pub(in crate::ledger) const CONTROL_TOKEN_FILE: &CStr = c"MEMLEDGER_CONTROL_TOKEN_FILE";

/// The settings that start a recording by themselves, because each of them gives it an output.
const STARTING: [&CStr; 7] =
    [TRACE, c"MEMLEDGER_HOST", REPORT, c"MEMLEDGER_CONTROL", PERFETTO, BLACK_BOX, WATCH];

/// The prefix of all variables of the tracker.
pub(in crate::ledger) const PREFIX: &str = "MEMLEDGER_";

/// The values of the settings, each at the index of its setting; `None` if it is not set.
///
/// Settings are the tracker's own: they are made, used and dropped with the guard set.
#[derive(Clone, Debug, Default)]
pub(in crate::ledger) struct Settings([Option<OsString>; SETTINGS.len()]);

impl Settings {
    /// The environment. An empty variable counts as not set. All do if the environment is for the
    /// children of another process ([`PARENT`](files::PARENT)).
    pub(in crate::ledger) fn from_environment() -> Self {
        if files::is_for_this_process() == Some(false) {
            return Self::default();
        }
        Self(
            SETTINGS
                .each_ref()
                .map(|setting| os::secure_env(setting.variable).filter(|value| !value.is_empty())),
        )
    }

    /// The flags among `args`, and the arguments that are not flags.
    pub(in crate::ledger) fn from_args(
        args: impl IntoIterator<Item = OsString>,
    ) -> (Self, Vec<OsString>) {
        let mut settings = Self::default();
        let mut rest = Vec::new();
        for arg in args {
            let text = arg.as_encoded_bytes();
            let shorts = [(STACKS_FLAG, STACKS_ON), (WATCH_FLAG, WATCH_ON)];
            let is_short = |flag: &str| text == flag.trim_end_matches('=').as_bytes();
            let short = shorts.iter().find(|(flag, _)| is_short(flag));
            let text = short.map_or(text, |(_, whole)| whole.as_bytes());
            let flag = SETTINGS.iter().enumerate().find_map(|(index, setting)| {
                Some((index, text.strip_prefix(setting.flag.as_bytes())?))
            });
            match flag {
                Some((index, value)) => {
                    untracked(|| settings.0[index] = Some(system_text(value.to_vec())));
                }
                None => rest.push(arg),
            }
        }
        (settings, rest)
    }

    /// These settings, and those of `other` that are not set here.
    pub(in crate::ledger) fn or(mut self, mut other: Self) -> Self {
        for (value, other) in self.0.iter_mut().zip(&mut other.0) {
            *value = value.take().or(other.take());
        }
        self
    }

    pub(in crate::ledger) fn has(&self, variable: &CStr) -> bool {
        self.value(variable).is_some()
    }

    fn value(&self, variable: &CStr) -> Option<&OsStr> {
        let mut values = SETTINGS.iter().zip(&self.0);
        values.find(|(setting, _)| setting.variable == variable)?.1.as_deref()
    }

    /// The settings of these variables.
    pub(in crate::ledger) fn only(mut self, variables: &[&CStr]) -> Self {
        for (setting, value) in SETTINGS.iter().zip(&mut self.0) {
            *value = value.take().filter(|_| variables.contains(&setting.variable));
        }
        self
    }

    #[cfg(feature = "fuzzing")]
    pub(in crate::ledger) fn without(mut self, variable: &CStr) -> Self {
        for (setting, value) in SETTINGS.iter().zip(&mut self.0) {
            *value = value.take().filter(|_| setting.variable != variable);
        }
        self
    }

    pub(in crate::ledger) fn start_by_themselves(&self) -> bool {
        let is_off = |variable: &CStr| variable == WATCH && self.value(WATCH) == Some("0".as_ref());
        STARTING.iter().any(|variable| self.has(variable) && !is_off(variable))
    }

    /// Replaces the settings made in code by these. A value that is not allowed is reported and
    /// left out.
    pub(in crate::ledger) fn apply(self, config: &mut Config) {
        self.apply_reporting(config, &mut |why| problems::add(ProblemKind::Setting, why));
    }

    /// [`apply`](Self::apply), which passes each problem to `report_problem`.
    pub(in crate::ledger) fn apply_reporting(
        self,
        config: &mut Config,
        report_problem: &mut dyn FnMut(String),
    ) {
        for (setting, value) in SETTINGS.iter().zip(self.0) {
            let Some(value) = value else { continue };
            if let Err(why) = (setting.apply)(&value, config) {
                let (variable, flag) = (setting.variable.to_string_lossy(), setting.flag);
                report_problem(format!("{variable} (or {flag}) is {value:?}, but {why}"));
            }
        }
    }
}

fn channels(value: &OsStr, config: &mut Config) -> Result<(), String> {
    let text = value.to_string_lossy();
    if text.contains('/') || [".utrace", ".memledger"].iter().any(|end| text.ends_with(end)) {
        return Err("it is a list of channels, and a file is named by MEMLEDGER_TRACE (or -tracefile=); the default memory,scope is used".into());
    }
    let names = value.to_str().and_then(|names| channel::names(names).ok());
    let Some(names) = names else {
        return Err("only names of channels are allowed, such as memory and scope, separated by commas; the default memory,scope is used".into());
    };
    config.channels = Some(names);
    Ok(())
}

fn stacks(value: &OsStr, config: &mut Config) -> Result<(), String> {
    config.stacks = Some(match value.to_str() {
        Some("1" | "on") => Stacks::On,
        Some("0" | "off") => Stacks::Off,
        value => {
            let mean = value.and_then(|value| value.strip_prefix("sample:")).and_then(bytes);
            let Some(mean_bytes) = mean.filter(|mean| *mean > 0) else {
                return Err("only on, off and sample:BYTES are allowed, such as sample:512KiB; no call stack is taken".into());
            };
            Stacks::Sampled { mean_bytes }
        }
    });
    config.check_stacks().map_err(|why| {
        config.stacks = None;
        format!("{why:#}")
    })
}

fn stack_frames(value: &OsStr, config: &mut Config) -> Result<(), String> {
    let frames = value.to_str().and_then(|text| text.parse().ok()).filter(|frames| *frames > 0);
    let Some(frames) = frames else {
        return Err(
            "only numbers of frames from 1 to 255 are allowed; the default 255 is used".into()
        );
    };
    config.stack_bounds.frames = Some(frames);
    Ok(())
}

fn stack_memory(value: &OsStr, config: &mut Config) -> Result<(), String> {
    let memory = value.to_str().and_then(bytes).filter(|bytes| STACK_MEMORY_RANGE.contains(bytes));
    let Some(memory) = memory else {
        return Err("only 1MiB to 64MiB are allowed; the default 64MiB is used".into());
    };
    config.stack_bounds.memory = Some(memory);
    Ok(())
}

/// A number of bytes, with or without a unit: `512`, `512B`, `64KiB`, `1MiB`, `2GiB`.
pub(in crate::ledger) fn bytes(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 4] =
        [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("B", 1)];
    let unit = UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)));
    let (number, unit) = unit.unwrap_or((text, &1));
    number.trim_end().parse::<u64>().ok()?.checked_mul(*unit)
}

fn file(value: &OsStr, config: &mut Config) -> Result<(), String> {
    if value.to_str().is_some_and(channel::are_some_known) {
        return Err("it is the name of a file, and channels are named by MEMLEDGER_CHANNELS (or -trace=); no trace is written".into());
    }
    config.file = Some(PathBuf::from(value));
    Ok(())
}

fn host(value: &OsStr, config: &mut Config) -> Result<(), String> {
    let host = value.to_str().and_then(|host| Address::parse(host).ok());
    let Some(host) = host else {
        return Err(
            "only HOST or HOST:PORT are allowed, such as 127.0.0.1:1980; nothing is sent".into()
        );
    };
    config.host = Some(host);
    Ok(())
}

fn control(value: &OsStr, config: &mut Config) -> Result<(), String> {
    let address = value.to_str().and_then(|address| ListenAddress::parse(address).ok());
    let Some(address) = address else {
        return Err(format!(
            "only PORT or ADDRESS:PORT are allowed, such as {DEFAULT_CONTROL_PORT}; there is no control server"
        ));
    };
    config.control = Some(address);
    Ok(())
}

fn control_folder(value: &OsStr, config: &mut Config) -> Result<(), String> {
    config.allowed.folder = Some(PathBuf::from(value));
    Ok(())
}

fn control_hosts(value: &OsStr, config: &mut Config) -> Result<(), String> {
    let Some(hosts) = value.to_str() else {
        return Err("only names of hosts are allowed, separated by commas; none is".into());
    };
    let hosts = hosts.split(',').filter(|host| !host.is_empty());
    config.allowed.hosts = hosts.map(str::to_owned).collect();
    Ok(())
}

fn control_token_file(value: &OsStr, config: &mut Config) -> Result<(), String> {
    match read_token(value.as_ref()) {
        Ok(token) => config.allowed.token = Some(token),
        Err(why) => {
            // NOTE: if a token is configured, the server does not run without it.
            config.control = None;
            return Err(format!("{why}; there is no control server"));
        }
    }
    Ok(())
}

fn follow_forks(value: &OsStr, config: &mut Config) -> Result<(), String> {
    config.follow_forks = is_on(value)?;
    Ok(())
}

fn report_on_signals(value: &OsStr, config: &mut Config) -> Result<(), String> {
    config.report_on_signals = is_on(value)?;
    if config.report_on_signals {
        watch_if_possible(config);
    }
    Ok(())
}

fn watch_if_possible(config: &mut Config) {
    if config.watch == Watch::No {
        config.watch = Watch::IfPossible;
    }
}

fn watch(value: &OsStr, config: &mut Config) -> Result<(), String> {
    config.watch = if is_on(value)? { Watch::Yes } else { Watch::No };
    Ok(())
}

/// A time of more than 0: `100ms`, `2s`.
pub(in crate::ledger) fn duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, u64); 2] = [("ms", 1), ("s", 1_000)];
    UNITS.iter().find_map(|(unit, millis)| {
        let number = text.strip_suffix(unit)?.trim_end().parse::<u64>().ok()?;
        Some(Duration::from_millis(number.checked_mul(*millis)?)).filter(|time| !time.is_zero())
    })
}

fn rss_interval(value: &OsStr, config: &mut Config) -> Result<(), String> {
    let interval = match value.to_str() {
        Some("off") => Some(Duration::ZERO),
        value => value.and_then(duration),
    };
    let Some(interval) = interval else {
        return Err(
            "only off and times are allowed, such as 100ms or 2s; the default 1s is used".into()
        );
    };
    config.rss_interval = Some(interval);
    Ok(())
}

fn black_box(value: &OsStr, config: &mut Config) -> Result<(), String> {
    let limit = match value.to_str() {
        Some("null") => Some(Limit::Null),
        Some(value) => match value.strip_suffix('%').map(str::trim_end) {
            Some(percent) => {
                percent.parse().ok().filter(|of| (1..=100).contains(of)).map(Limit::Percent)
            }
            None => bytes(value).filter(|bytes| *bytes > 0).map(Limit::Bytes),
        },
        None => None,
    };
    let Some(limit) = limit else {
        return Err("only numbers of live bytes from 1 on are allowed, such as 2GiB, from 1% to 100% of the limit of the control group, and null; there is no black box".into());
    };
    reports::check()?;
    config.black_box = Some(limit);
    Ok(())
}

fn analyze_in_process(value: &OsStr, config: &mut Config) -> Result<(), String> {
    config.analyze_in_process = is_on(value)?;
    if config.analyze_in_process { reports::check() } else { Ok(()) }
}

fn buffer_limit(value: &OsStr, config: &mut Config) -> Result<(), String> {
    let Some(limit) = value.to_str().and_then(bytes).filter(|limit| *limit >= 128 << 10) else {
        return Err("only numbers of bytes from 128KiB on are allowed, such as 64MiB; the default 8MiB is used".into());
    };
    config.buffer_limit = Some(limit as usize);
    Ok(())
}

fn on_full(value: &OsStr, config: &mut Config) -> Result<(), String> {
    config.on_full = Some(match value.to_str() {
        Some("wait") => OnFull::Wait,
        Some("drop") => OnFull::Drop,
        _ => return Err("only wait and drop are allowed; the default wait is used".into()),
    });
    Ok(())
}

fn file_mode(value: &OsStr, config: &mut Config) -> Result<(), String> {
    let octal = value.to_str().and_then(|text| u32::from_str_radix(text, 8).ok());
    let Some(Ok(mode)) = octal.map(applied::file_mode) else {
        return Err("only octal numbers from 600 to 777 are allowed, with which the owner can read and write; the default 600 is used".into());
    };
    config.file_mode = Some(mode);
    Ok(())
}

pub(in crate::ledger) fn report(value: &OsStr, config: &mut Config) -> Result<(), String> {
    config.report = asked(value)?;
    // Who names a report gets it however the program ends.
    if config.report.is_some() {
        watch_if_possible(config);
    }
    Ok(())
}

fn report_verbose(value: &OsStr, config: &mut Config) -> Result<(), String> {
    let verbose = is_on(value)?;
    if let Some(report) = &mut config.report {
        report.verbose = verbose;
    }
    Ok(())
}

fn report_largest_live(value: &OsStr, config: &mut Config) -> Result<(), String> {
    let Some(blocks) = value.to_str().and_then(|text| text.parse().ok()) else {
        return Err("only a number of blocks is allowed; the default is used".into());
    };
    if let Some(report) = &mut config.report {
        report.largest_live = Some(blocks);
    }
    Ok(())
}

fn is_on(value: &OsStr) -> Result<bool, String> {
    match value.to_str() {
        Some("1") => Ok(true),
        Some("0") => Ok(false),
        _ => Err("only 0 and 1 are allowed; the default is used".into()),
    }
}

/// Reports variables with our prefix that are unknown, once in the process.
pub(in crate::ledger) fn report_unknown() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // NOTE: where there is no environment, std's function below panics.
        if !os::has_env(PREFIX.as_bytes()) {
            return;
        }
        let known: Vec<_> =
            SETTINGS.iter().filter_map(|setting| setting.variable.to_str().ok()).collect();
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            let Some(rest) = name.strip_prefix(PREFIX) else { continue };
            let is_of_command = [files::PARENT, problems::SOCKET, SET_BY_RUN, SYMBOL_CACHE]
                .iter()
                .any(|of_command| name.as_bytes() == of_command.to_bytes());
            if is_of_command || known.contains(&&*name) {
                continue;
            }
            let rests = known.iter().filter_map(|known| known.strip_prefix(PREFIX));
            let instead = instead_as(rest, rests, |meant| format!("{PREFIX}{meant}"));
            problems::add(
                ProblemKind::Setting,
                format!("{name} is set, but there is no such setting; {instead}"),
            );
        }
    });
}
