//! The settings that a user makes from outside: `MEMLEDGER_*` variables and command-line flags. `applied.rs`
//! has what they mean. `docs/settings.md` describes each; `tests.rs` compares it with the table below.

pub(super) mod applied;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
#[cfg(test)]
mod tests;
pub(super) mod token;
#[cfg_attr(not(feature = "perfetto"), path = "../../disabled/ledger/settings/track_events.rs")]
pub(super) mod track_events;

use crate::control::DEFAULT_PORT as DEFAULT_CONTROL_PORT;
use crate::control::server::ListenAddress;
use crate::dump;
use crate::events::channel;
use crate::ledger::config::{Config, Limit, OnFull, Stacks, Watch};
use crate::platform::os;
use crate::problems::{self, ProblemKind};
use crate::trace::sink::tcp::Address;
use crate::trace::write::untracked;
use Unless::*;
use applied::STACK_MEMORY_RANGE;
use memledger_format::words::{instead_as, system_text};
use std::ffi::{CStr, OsStr, OsString};
use std::mem::take;
use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;
use token::read_token;

/// One setting: its variable, its flag, how it changes the configuration, and what becomes of it if the
/// environment has started the recording already. An error says which values are allowed, and what happens
/// without the setting.
struct Setting {
    variable: &'static CStr,
    flag: &'static str,
    apply: Apply,
    late: Option<Late>,
}

type Apply = fn(&OsStr, &mut Config) -> Result<(), String>;

/// What keeps a setting that comes late from being used, its name in the problem that says so, and how it is
/// taken out of the configuration. That returns whether it was in it.
type Late = (Unless, &'static str, fn(&mut Config) -> bool);

/// What keeps a setting that comes late from being used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unless {
    InEnvironment,
    /// The environment or earlier code has set it.
    HasChannels,
    HasStacks,
    HasReport,
    /// The recording has one.
    HasFile,
    HasHost,
    /// It concerns the recording from its start.
    IsRunning,
    /// The recording has none, and gets none any more.
    NoWatcher,
    NoAnalyzer,
    NoFollower,
}

/// A setting of which it is not said yet what becomes of it if it comes late.
struct Undecided(&'static CStr, &'static str, Apply);

const fn setting(variable: &'static CStr, flag: &'static str, apply: Apply) -> Undecided {
    Undecided(variable, flag, apply)
}

impl Undecided {
    /// It is used.
    const fn added(self) -> Setting {
        Setting { variable: self.0, flag: self.1, apply: self.2, late: None }
    }

    /// It is part of the setting before it, and used as that is.
    const fn part(self) -> Setting {
        self.added()
    }

    /// It is used, unless something keeps it from that; then a problem names it.
    const fn unless(
        self,
        it: Unless,
        name: &'static str,
        take: fn(&mut Config) -> bool,
    ) -> Setting {
        Setting { late: Some((it, name, take)), ..self.added() }
    }
}

/// All settings, in the order in which they are applied.
const SETTINGS: [Setting; 24] = [
    setting(CHANNELS, "-trace=", channels)
        .unless(HasChannels, "channels", |c| c.channels.take().is_some()),
    setting(STACKS, STACKS_FLAG, stacks).unless(HasStacks, "stacks", |c| c.stacks.take().is_some()),
    setting(STACK_FRAMES, "-tracestackframes=", stack_frames).part(),
    setting(STACK_MEMORY, "-tracestackmemory=", stack_memory).part(),
    setting(TRACE, "-tracefile=", file)
        .unless(HasFile, "trace_to_file", |c| c.file.take().is_some()),
    setting(PERFETTO, "-traceperfetto=", track_events::file).unless(
        InEnvironment,
        "trace_to",
        |c| c.track_events.take().is_some(),
    ),
    setting(PERFETTO_CONFIG, "-traceperfettoconfig=", track_events::config).part(),
    setting(c"MEMLEDGER_HOST", "-tracehost=", host)
        .unless(HasHost, "trace_to_host", |c| c.host.take().is_some()),
    setting(c"MEMLEDGER_CONTROL", "-tracecontrol=", control).added(),
    setting(c"MEMLEDGER_CONTROL_FOLDER", "-tracecontrolfolder=", control_folder).part(),
    setting(c"MEMLEDGER_CONTROL_HOSTS", "-tracecontrolhosts=", control_hosts).part(),
    // Applied after the server's address: if the token cannot be read, there is no server.
    setting(CONTROL_TOKEN_FILE, "-tracecontroltokenfile=", control_token_file).part(),
    setting(c"MEMLEDGER_FOLLOW_FORKS", "-tracefollowforks=", follow_forks).unless(
        NoFollower,
        "follow_forks",
        |c| take(&mut c.follow_forks),
    ),
    setting(REPORT_ON_SIGNALS, "-tracereportonsignals=", report_on_signals).added(),
    setting(RSS, "-tracerss=", rss_interval)
        .unless(IsRunning, "rss_interval", |c| c.rss_interval.take().is_some()),
    setting(BLACK_BOX, "-traceblackbox=", black_box)
        .unless(InEnvironment, "black_box_at", |c| c.black_box.take().is_some()),
    setting(c"MEMLEDGER_ANALYZE_IN_PROCESS", "-traceanalyzeinprocess=", analyze_in_process).unless(
        NoAnalyzer,
        "analyze_in_process",
        |c| take(&mut c.analyze_in_process),
    ),
    setting(c"MEMLEDGER_BUFFER_LIMIT", "-tracebufferlimit=", buffer_limit).unless(
        InEnvironment,
        "buffer_limit",
        |c| c.buffer_limit.take().is_some(),
    ),
    setting(c"MEMLEDGER_ON_FULL", "-traceonfull=", on_full)
        .unless(InEnvironment, "on_full", |c| c.on_full.take().is_some()),
    setting(FILE_MODE, "-tracefilemode=", file_mode)
        .unless(InEnvironment, "file_mode", |c| c.file_mode.take().is_some()),
    setting(REPORT, "-tracereport=", report)
        .unless(HasReport, "report_on_exit", |c| c.report.take().is_some()),
    // Applied after the report: these are its options.
    setting(c"MEMLEDGER_REPORT_VERBOSE", "-tracereportverbose=", report_verbose).part(),
    setting(c"MEMLEDGER_REPORT_LARGEST_LIVE", "-tracereportlargestlive=", report_largest_live)
        .part(),
    // Applied last: 0 takes back the watcher that a report or signals have wanted.
    setting(WATCH, WATCH_FLAG, watch)
        .unless(NoWatcher, "-tracewatch", |c| take(&mut c.watch) == Watch::Yes),
];

impl Config {
    /// Takes out what is not used because it comes late, where `is_so` says what keeps a setting from that.
    /// Returns the names of these settings.
    pub(crate) fn take_unused(
        &mut self,
        is_so: impl Fn(&CStr, Unless) -> bool,
    ) -> Vec<&'static str> {
        let mut unused = |setting: &Setting| {
            let (unless, name, take) = setting.late?;
            (is_so(setting.variable, unless) && take(self)).then_some((unless, name))
        };
        let mut unused: Vec<_> = SETTINGS.iter().filter_map(&mut unused).collect();
        unused.sort_by_key(|(unless, _)| *unless);
        unused.into_iter().map(|(_, name)| name).collect()
    }
}

pub(crate) const PERFETTO: &CStr = c"MEMLEDGER_PERFETTO";
const PERFETTO_CONFIG: &CStr = c"MEMLEDGER_PERFETTO_CONFIG";
/// What `memledger run` passes to a `memledger run` that its program starts.
const SET_BY_RUN: &CStr = c"MEMLEDGER_RUN";
/// A setting of the command alone: what it keeps.
const CACHE: &CStr = c"MEMLEDGER_CACHE";
pub(crate) const CHANNELS: &CStr = c"MEMLEDGER_CHANNELS";
pub(crate) const TRACE: &CStr = c"MEMLEDGER_TRACE";
pub(crate) const STACKS: &CStr = c"MEMLEDGER_STACKS";
/// Without the `=` and a value, it means `on`.
pub(crate) const STACK_FRAMES: &CStr = c"MEMLEDGER_STACK_FRAMES";
pub(crate) const STACK_MEMORY: &CStr = c"MEMLEDGER_STACK_MEMORY";
const STACKS_FLAG: &str = "-tracestacks=";
const STACKS_ON: &str = "-tracestacks=on";
pub(crate) const RSS: &CStr = c"MEMLEDGER_RSS";
pub(crate) const FILE_MODE: &CStr = c"MEMLEDGER_FILE_MODE";
const WATCH: &CStr = c"MEMLEDGER_WATCH";
/// Without the `=` and a value, it means `1`.
const WATCH_FLAG: &str = "-tracewatch=";
const WATCH_ON: &str = "-tracewatch=1";
pub(crate) const BLACK_BOX: &CStr = c"MEMLEDGER_BLACK_BOX";
const REPORT_ON_SIGNALS: &CStr = c"MEMLEDGER_REPORT_ON_SIGNALS";
pub(crate) const REPORT: &CStr = c"MEMLEDGER_REPORT";
/// The setting whose value names a file to be read.
pub(crate) const CONTROL_TOKEN_FILE: &CStr = c"MEMLEDGER_CONTROL_TOKEN_FILE";

/// The settings that start a recording by themselves, because each of them gives it an output.
const STARTING: [&CStr; 7] =
    [TRACE, c"MEMLEDGER_HOST", REPORT, c"MEMLEDGER_CONTROL", PERFETTO, BLACK_BOX, WATCH];

/// The only process whose children use the variables of the tracker: its number. `memledger run` sets it,
/// since the program's own children inherit its environment. It has no flag, because flags are not inherited.
pub(crate) const PARENT: &CStr = c"MEMLEDGER_PARENT";

/// Whether the environment is for this process: `memledger run` has started it, and has seen that no other
/// process writes to its files. `None` if it is for any process.
pub(crate) fn is_for_this_process() -> Option<bool> {
    let parent = os::secure_env(PARENT).filter(|parent| !parent.is_empty())?;
    Some(*parent == *os::parent_process_id().to_string())
}

/// The prefix of all variables of the tracker.
pub(crate) const PREFIX: &str = "MEMLEDGER_";

/// The values of the settings, each at the index of its setting; `None` if it is not set.
///
/// Settings are the tracker's own: they are made, used and dropped with the guard set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings([Option<OsString>; SETTINGS.len()]);

impl Settings {
    /// The environment. An empty variable counts as not set. All do if the environment is for the
    /// children of another process ([`PARENT`]).
    pub(crate) fn from_environment() -> Self {
        if is_for_this_process() == Some(false) {
            return Self::default();
        }
        Self(
            SETTINGS
                .each_ref()
                .map(|setting| os::secure_env(setting.variable).filter(|value| !value.is_empty())),
        )
    }

    /// The flags among `args`, and the arguments that are not flags.
    pub(crate) fn from_args(args: impl IntoIterator<Item = OsString>) -> (Self, Vec<OsString>) {
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
    pub(crate) fn or(mut self, mut other: Self) -> Self {
        for (value, other) in self.0.iter_mut().zip(&mut other.0) {
            *value = value.take().or(other.take());
        }
        self
    }

    pub(crate) fn has(&self, variable: &CStr) -> bool {
        self.value(variable).is_some()
    }

    fn value(&self, variable: &CStr) -> Option<&OsStr> {
        let mut values = SETTINGS.iter().zip(&self.0);
        values.find(|(setting, _)| setting.variable == variable)?.1.as_deref()
    }

    /// The settings of these variables.
    pub(crate) fn only(mut self, variables: &[&CStr]) -> Self {
        for (setting, value) in SETTINGS.iter().zip(&mut self.0) {
            *value = value.take().filter(|_| variables.contains(&setting.variable));
        }
        self
    }

    pub(crate) fn start_by_themselves(&self) -> bool {
        let is_off = |variable: &CStr| variable == WATCH && self.value(WATCH) == Some("0".as_ref());
        STARTING.iter().any(|variable| self.has(variable) && !is_off(variable))
    }

    /// Replaces the settings made in code by these. A value that is not allowed is reported and
    /// left out.
    pub(crate) fn apply(self, config: &mut Config) {
        self.apply_reporting(config, &mut |why| problems::add(ProblemKind::Setting, why));
    }

    /// [`apply`](Self::apply), which passes each problem to `report_problem`.
    pub(crate) fn apply_reporting(
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
    config.channels = Some(names.ok_or("only names of channels are allowed, such as memory and scope, separated by commas; the default memory,scope is used")?);
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
    let why = "only numbers of frames from 1 to 255 are allowed; the default 255 is used";
    config.stack_bounds.frames = Some(frames.ok_or(why)?);
    Ok(())
}

fn stack_memory(value: &OsStr, config: &mut Config) -> Result<(), String> {
    let memory = value.to_str().and_then(bytes).filter(|bytes| STACK_MEMORY_RANGE.contains(bytes));
    let why = "only 1MiB to 64MiB are allowed; the default 64MiB is used";
    config.stack_bounds.memory = Some(memory.ok_or(why)?);
    Ok(())
}

/// A number of bytes, with or without a unit: `512`, `512B`, `64KiB`, `1MiB`, `2GiB`.
pub(crate) fn bytes(text: &str) -> Option<u64> {
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
    let why = "only HOST or HOST:PORT are allowed, such as 127.0.0.1:1980; nothing is sent";
    config.host = Some(host.ok_or(why)?);
    Ok(())
}

fn control(value: &OsStr, config: &mut Config) -> Result<(), String> {
    let address = value.to_str().and_then(|address| ListenAddress::parse(address).ok());
    let why = || {
        format!(
            "only PORT or ADDRESS:PORT are allowed, such as {DEFAULT_CONTROL_PORT}; there is no control server"
        )
    };
    config.control = Some(address.ok_or_else(why)?);
    Ok(())
}

fn control_folder(value: &OsStr, config: &mut Config) -> Result<(), String> {
    config.allowed.folder = Some(PathBuf::from(value));
    Ok(())
}

fn control_hosts(value: &OsStr, config: &mut Config) -> Result<(), String> {
    let why = "only names of hosts are allowed, separated by commas; none is";
    let hosts = value.to_str().ok_or(why)?.split(',').filter(|host| !host.is_empty());
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
pub(crate) fn duration(text: &str) -> Option<Duration> {
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
    let why = "only off and times are allowed, such as 100ms or 2s; the default 1s is used";
    config.rss_interval = Some(interval.ok_or(why)?);
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
    let limit = limit.ok_or("only numbers of live bytes from 1 on are allowed, such as 2GiB, from 1% to 100% of the limit of the control group, and null; there is no black box")?;
    needs_report()?;
    config.black_box = Some(limit);
    Ok(())
}

/// Whether this build can do what a setting asks for that needs an analyzer in the process.
fn needs_report() -> Result<(), String> {
    dump::NOT_BUILT.map_or(Ok(()), |why| Err(why.to_owned()))
}

fn analyze_in_process(value: &OsStr, config: &mut Config) -> Result<(), String> {
    config.analyze_in_process = is_on(value)?;
    if config.analyze_in_process { needs_report() } else { Ok(()) }
}

fn buffer_limit(value: &OsStr, config: &mut Config) -> Result<(), String> {
    let limit = value.to_str().and_then(bytes).filter(|limit| *limit >= 128 << 10);
    config.buffer_limit = Some(limit.ok_or(
        "only numbers of bytes from 128KiB on are allowed, such as 64MiB; the default 8MiB is used",
    )? as usize);
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
    let mode = octal.and_then(|mode| applied::file_mode(mode).ok());
    config.file_mode = Some(mode.ok_or("only octal numbers from 600 to 777 are allowed, with which the owner can read and write; the default 600 is used")?);
    Ok(())
}

fn report(value: &OsStr, config: &mut Config) -> Result<(), String> {
    config.report = dump::asked(value)?;
    // Who names a report gets it however the program ends.
    if config.report.is_some() {
        watch_if_possible(config);
    }
    Ok(())
}

fn report_verbose(value: &OsStr, config: &mut Config) -> Result<(), String> {
    let verbose = is_on(value)?;
    config.report.iter_mut().for_each(|report| report.verbose = verbose);
    Ok(())
}

fn report_largest_live(value: &OsStr, config: &mut Config) -> Result<(), String> {
    let blocks = value.to_str().and_then(|text| text.parse().ok());
    let blocks = blocks.ok_or("only a number of blocks is allowed; the default is used")?;
    config.report.iter_mut().for_each(|report| report.largest_live = Some(blocks));
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
pub(crate) fn report_unknown() {
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
            let is_of_command = [PARENT, problems::SOCKET, SET_BY_RUN, CACHE]
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
