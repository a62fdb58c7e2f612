//! Settings from `MEMLEDGER_*` variables and from command-line flags.

use super::builder::Config;
use super::destinations::To;
use super::report_to::ReportTo;
use super::{control, exit, problems, run};
use crate::alloc::linked;
use crate::error::Error;
use crate::events::channel;
use crate::platform::os;
use crate::remote::control::{DEFAULT_PORT as DEFAULT_CONTROL_PORT, Place};
use crate::trace::sink::tcp::Address;
use crate::trace::write::{state, untracked};
use crate::words::nearest;
use std::ffi::{CStr, OsStr, OsString};
use std::path::PathBuf;
use std::sync::Once;

/// The settings a user makes from outside; each replaces the one made in code.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(super) channels: Option<OsString>,
    pub(super) file: Option<OsString>,
    pub(super) host: Option<OsString>,
    pub(super) follow_forks: Option<OsString>,
    pub(super) file_mode: Option<OsString>,
    pub(super) report: Option<OsString>,
    pub(super) report_verbose: Option<OsString>,
    pub(super) control: Option<OsString>,
    pub(super) control_token_file: Option<OsString>,
    pub(super) control_folder: Option<OsString>,
    pub(super) control_hosts: Option<OsString>,
}

/// One setting: its variable, its flag, and where it is kept.
struct Known {
    variable: &'static CStr,
    flag: &'static str,
    place: fn(&mut Settings) -> &mut Option<OsString>,
}

const KNOWN: [Known; 11] = [
    Known {
        variable: c"MEMLEDGER_TRACE",
        flag: "-trace=",
        place: |settings| &mut settings.channels,
    },
    Known {
        variable: c"MEMLEDGER_FILE",
        flag: "-tracefile=",
        place: |settings| &mut settings.file,
    },
    Known {
        variable: c"MEMLEDGER_HOST",
        flag: "-tracehost=",
        place: |settings| &mut settings.host,
    },
    Known {
        variable: c"MEMLEDGER_FOLLOW_FORKS",
        flag: "-tracefollowforks=",
        place: |settings| &mut settings.follow_forks,
    },
    Known {
        variable: c"MEMLEDGER_FILE_MODE",
        flag: "-tracefilemode=",
        place: |settings| &mut settings.file_mode,
    },
    Known {
        variable: c"MEMLEDGER_REPORT",
        flag: "-tracereport=",
        place: |settings| &mut settings.report,
    },
    Known {
        variable: c"MEMLEDGER_REPORT_VERBOSE",
        flag: "-tracereportverbose=",
        place: |settings| &mut settings.report_verbose,
    },
    Known {
        variable: c"MEMLEDGER_CONTROL",
        flag: "-tracecontrol=",
        place: |settings| &mut settings.control,
    },
    Known {
        variable: c"MEMLEDGER_CONTROL_TOKEN_FILE",
        flag: "-tracecontroltokenfile=",
        place: |settings| &mut settings.control_token_file,
    },
    Known {
        variable: c"MEMLEDGER_CONTROL_FOLDER",
        flag: "-tracecontrolfolder=",
        place: |settings| &mut settings.control_folder,
    },
    Known {
        variable: c"MEMLEDGER_CONTROL_HOSTS",
        flag: "-tracecontrolhosts=",
        place: |settings| &mut settings.control_hosts,
    },
];

/// Variables of the design that this version does not act on yet.
const NOT_YET: [&str; 5] = [
    "MEMLEDGER_STACKS",
    "MEMLEDGER_PERFETTO",
    "MEMLEDGER_PERFETTO_CONFIG",
    "MEMLEDGER_WATCH",
    "MEMLEDGER_LIMIT",
];

impl Settings {
    /// The environment. An empty variable counts as not set.
    ///
    /// Settings are the tracker's own: they are made, used and dropped with the guard set.
    pub(super) fn read() -> Self {
        let mut settings = Self::default();
        for known in &KNOWN {
            let value = os::secure_env(known.variable).filter(|value| !value.is_empty());
            *(known.place)(&mut settings) = value;
        }
        settings
    }

    /// The flags among `args`, and the arguments that are none.
    pub(super) fn from_args(args: impl IntoIterator<Item = OsString>) -> (Self, Vec<OsString>) {
        let mut settings = Self::default();
        let mut rest = Vec::new();
        for arg in args {
            let flag = arg.to_str().and_then(|text| {
                KNOWN.iter().find_map(|known| Some((known, text.strip_prefix(known.flag)?)))
            });
            match flag {
                Some((known, value)) => {
                    untracked(|| *(known.place)(&mut settings) = Some(value.into()));
                }
                None => rest.push(arg),
            }
        }
        (settings, rest)
    }

    /// These settings, and `other` where they are silent.
    pub(super) fn or(mut self, mut other: Self) -> Self {
        for known in &KNOWN {
            let place = (known.place)(&mut self);
            *place = place.take().or((known.place)(&mut other).take());
        }
        self
    }

    /// Whether these start tracking by themselves: something has to come out of it.
    fn start_by_themselves(&self) -> bool {
        self.file.is_some()
            || self.host.is_some()
            || self.report.is_some()
            || self.control.is_some()
    }

    /// Puts these over what is set in code. A value that is not allowed is told, and left out.
    pub(super) fn apply(self, config: &mut Config) {
        self.apply_reporting(config, &mut problems::add);
    }

    /// [`apply`](Self::apply), which passes each problem to `report_problem`. Long, because each setting
    /// has one arm with its own sentence.
    pub(super) fn apply_reporting(
        self,
        config: &mut Config,
        report_problem: &mut dyn FnMut(String),
    ) {
        if let Some(channels) = self.channels {
            match channels.to_str().map(channel::names) {
                Some(Ok(_)) => config.channels = channels.into_string().ok(),
                _ => report_problem(format!(
                    "MEMLEDGER_TRACE (or -trace=) is {channels:?}, but only names of channels are allowed, such as memory and scope, separated by commas; the default memory,scope is used"
                )),
            }
        }
        if let Some(file) = self.file {
            config.file = Some(To::all(PathBuf::from(file)));
        }
        if let Some(host) = self.host {
            match host.to_str().map(Address::parse) {
                Some(Ok(_)) => config.host = host.into_string().ok().map(To::all),
                _ => report_problem(format!(
                    "MEMLEDGER_HOST (or -tracehost=) is {host:?}, but only HOST or HOST:PORT are allowed, such as 127.0.0.1:1980; nothing is sent"
                )),
            }
        }
        if let Some(control) = self.control {
            match control.to_str().map(Place::parse) {
                Some(Ok(_)) => config.control = control.into_string().ok(),
                _ => report_problem(format!(
                    "MEMLEDGER_CONTROL (or -tracecontrol=) is {control:?}, but only PORT or ADDRESS:PORT are allowed, such as {DEFAULT_CONTROL_PORT}; there is no control server"
                )),
            }
        }
        if let Some(folder) = self.control_folder {
            config.control_folder = Some(PathBuf::from(folder));
        }
        if let Some(hosts) = self.control_hosts {
            match hosts.to_str() {
                Some(hosts) => {
                    let hosts = hosts.split(',').filter(|host| !host.is_empty());
                    config.control_hosts = hosts.map(str::to_owned).collect();
                }
                None => report_problem(format!(
                    "MEMLEDGER_CONTROL_HOSTS (or -tracecontrolhosts=) is {hosts:?}, but only names of hosts are allowed, separated by commas; none is"
                )),
            }
        }
        if let Some(path) = self.control_token_file {
            match control::read_token(path.as_ref()) {
                Ok(token) => config.control_token = Some(token),
                Err(why) => {
                    // NOTE: whoever asks for a token shall not get a server without.
                    config.control = None;
                    report_problem(format!(
                        "MEMLEDGER_CONTROL_TOKEN_FILE (or -tracecontroltokenfile=) is {path:?}, but {why}; there is no control server"
                    ));
                }
            }
        }
        if let Some(follow) = self.follow_forks {
            match follow.to_str() {
                Some("1") => config.follow_forks = true,
                Some("0") => config.follow_forks = false,
                _ => report_problem(format!(
                    "MEMLEDGER_FOLLOW_FORKS (or -tracefollowforks=) is {follow:?}, but only 0 and 1 are allowed; the default is used"
                )),
            }
        }
        if let Some(mode) = self.file_mode {
            let octal = mode.to_str().and_then(|text| u32::from_str_radix(text, 8).ok());
            match octal.map(file_mode) {
                Some(Ok(mode)) => config.file_mode = Some(mode),
                _ => report_problem(format!(
                    "MEMLEDGER_FILE_MODE (or -tracefilemode=) is {mode:?}, but only octal numbers from 600 to 777 are allowed, with which the owner can read and write; the default 600 is used"
                )),
            }
        }
        if let Some(report) = self.report {
            match report.to_str() {
                Some("off") => config.report = None,
                Some("stderr") => config.report = Some(ReportTo::stderr()),
                _ if matches!(extension(&report), Some("txt" | "json")) => {
                    config.report = Some(ReportTo::file(report));
                }
                _ => report_problem(format!(
                    "MEMLEDGER_REPORT (or -tracereport=) is {report:?}, but only stderr, off, or a path ending in .txt or .json are allowed; the default is used"
                )),
            }
        }
        if let Some(verbose) = self.report_verbose {
            match (verbose.to_str(), &mut config.report) {
                (Some("1"), Some(report)) => report.verbose = true,
                (Some("0"), Some(report)) => report.verbose = false,
                (Some("0" | "1"), None) => {}
                _ => report_problem(format!(
                    "MEMLEDGER_REPORT_VERBOSE (or -tracereportverbose=) is {verbose:?}, but only 0 and 1 are allowed; the default is used"
                )),
            }
        }
    }
}

/// Permissions for files, if the program itself can read and write such files.
pub(super) fn file_mode(mode: u32) -> Result<u32, Error> {
    if mode & 0o600 == 0o600 && mode <= 0o777 {
        return Ok(mode);
    }
    Err(Error::InvalidFileMode(mode))
}

fn extension(path: &OsString) -> Option<&str> {
    std::path::Path::new(path).extension().and_then(OsStr::to_str)
}

/// Called before `main`, if the allocator is linked: starts what the environment asks for.
pub(crate) fn start_before_main() {
    untracked(|| {
        let _awake = state::awake();
        exit::watch_forks();
        let settings = Settings::read();
        // NOTE: most programs are not tracked, so this allocates nothing for them.
        if os::has_env(PREFIX.as_bytes())
            && linked::is_global_allocator()
            && !linked::ignores_environment()
        {
            tell_unknown();
        }
        if settings.start_by_themselves()
            && linked::is_global_allocator()
            && !linked::ignores_environment()
        {
            run::start_from_environment(settings);
        }
    });
}

/// The prefix of all variables of the tracker.
const PREFIX: &str = "MEMLEDGER_";

/// Reports variables with our prefix that are unknown, once in the process.
pub(super) fn tell_unknown() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let known: Vec<_> = KNOWN.iter().filter_map(|known| known.variable.to_str().ok()).collect();
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            let Some(rest) = name.strip_prefix(PREFIX) else { continue };
            if known.contains(&&*name) {
                continue;
            }
            if NOT_YET.contains(&&*name) {
                problems::add(format!("{name} is set, but this version does not support it yet"));
                continue;
            }
            let rests = known.iter().filter_map(|known| known.strip_prefix(PREFIX));
            let instead = match nearest(rest, rests) {
                Some(meant) => format!("{PREFIX}{meant} is likely meant"),
                None => format!("there are {}", known.join(", ")),
            };
            problems::add(format!("{name} is set, but there is no such setting; {instead}"));
        }
    });
}
