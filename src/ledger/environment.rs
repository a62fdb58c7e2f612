//! Settings from `MEMLEDGER_*` variables and from command-line flags.

use super::builder::Config;
use super::report::{Destination, Report};
use super::{control, exit, problems, run};
use crate::alloc::linked;
use crate::trace::control::{DEFAULT_PORT as DEFAULT_CONTROL_PORT, Place};
use crate::trace::sink::tcp::{Address, DEFAULT_PORT};
use crate::trace::write::{own, state};
use crate::trace::{channel, os};
use std::ffi::{CStr, OsStr, OsString};
use std::path::PathBuf;

/// The settings a user makes from outside; each replaces the one made in code.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(super) channels: Option<OsString>,
    pub(super) file: Option<OsString>,
    pub(super) host: Option<OsString>,
    pub(super) follow_forks: Option<OsString>,
    pub(super) report: Option<OsString>,
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

const KNOWN: [Known; 9] = [
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
        variable: c"MEMLEDGER_REPORT",
        flag: "-tracereport=",
        place: |settings| &mut settings.report,
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
const NOT_YET: [&CStr; 1] = [c"MEMLEDGER_STACKS"];

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
                    own(|| *(known.place)(&mut settings) = Some(value.into()));
                }
                None => rest.push(arg),
            }
        }
        (settings, rest)
    }

    /// These settings, and `other` where they are silent.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            channels: self.channels.or(other.channels),
            file: self.file.or(other.file),
            host: self.host.or(other.host),
            follow_forks: self.follow_forks.or(other.follow_forks),
            report: self.report.or(other.report),
            control: self.control.or(other.control),
            control_token_file: self.control_token_file.or(other.control_token_file),
            control_folder: self.control_folder.or(other.control_folder),
            control_hosts: self.control_hosts.or(other.control_hosts),
        }
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
        if let Some(channels) = self.channels {
            match channels.to_str().map(channel::names) {
                Some(Ok(_)) => config.channels = channels.into_string().ok(),
                _ => problems::add(format!(
                    "MEMLEDGER_TRACE (or -trace=) is {channels:?}, but only names of channels are allowed, such as memory and scope, separated by commas; the default memory,scope is used"
                )),
            }
        }
        if let Some(file) = self.file {
            (config.file, config.file_channels) = (Some(PathBuf::from(file)), None);
        }
        if let Some(host) = self.host {
            match host.to_str().map(Address::parse) {
                Some(Ok(_)) => {
                    (config.host, config.host_channels) = (host.into_string().ok(), None);
                }
                _ => problems::add(format!(
                    "MEMLEDGER_HOST (or -tracehost=) is {host:?}, but only HOST or HOST:PORT are allowed, such as 127.0.0.1:{DEFAULT_PORT}; nothing is sent"
                )),
            }
        }
        if let Some(control) = self.control {
            match control.to_str().map(Place::parse) {
                Some(Ok(_)) => config.control = control.into_string().ok(),
                _ => problems::add(format!(
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
                None => problems::add(format!(
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
                    problems::add(format!(
                        "MEMLEDGER_CONTROL_TOKEN_FILE (or -tracecontroltokenfile=) is {path:?}, but {why}; there is no control server"
                    ));
                }
            }
        }
        if let Some(follow) = self.follow_forks {
            match follow.to_str() {
                Some("1") => config.follow_forks = true,
                Some("0") => config.follow_forks = false,
                _ => problems::add(format!(
                    "MEMLEDGER_FOLLOW_FORKS (or -tracefollowforks=) is {follow:?}, but only 0 and 1 are allowed; the default is used"
                )),
            }
        }
        if let Some(report) = self.report {
            match report.to_str() {
                Some("off") => config.report = None,
                Some("stderr") => config.report = Some(Report(Destination::Stderr)),
                _ if matches!(extension(&report), Some("txt" | "json")) => {
                    config.report = Some(Report(Destination::File(report.into())));
                }
                _ => problems::add(format!(
                    "MEMLEDGER_REPORT (or -tracereport=) is {report:?}, but only stderr, off, or a path ending in .txt or .json are allowed; the default is used"
                )),
            }
        }
    }
}

fn extension(path: &OsString) -> Option<&str> {
    std::path::Path::new(path).extension().and_then(OsStr::to_str)
}

/// Called before `main`, if the allocator is linked: starts what the environment asks for.
pub(crate) fn start_before_main() {
    own(|| {
        let _awake = state::awake();
        exit::watch_forks();
        let settings = Settings::read();
        for variable in NOT_YET {
            if os::secure_env(variable).is_some() && linked::is_global_allocator() {
                problems::add(format!(
                    "{} is set, but this version does not support it yet",
                    variable.to_string_lossy()
                ));
            }
        }
        if settings.start_by_themselves()
            && linked::is_global_allocator()
            && !linked::ignores_environment()
        {
            run::start_from_environment(settings);
        }
    });
}
