//! The commands, as lines.

use std::fmt;

/// The port of a control server if no other is given.
pub const DEFAULT_PORT: u16 = 1985;

/// The maximum number of bytes of a line.
pub(super) const MAX_LINE_BYTES: usize = 4096;

/// The maximum number of words in a line, as in Unreal.
const MAX_WORDS: usize = 16;

/// A command of a client. [`Display`](fmt::Display) formats it as a line.
///
/// ```
/// use memledger::control::Command;
///
/// let command = Command::parse(b"ToggleChannels memory,scope 0")?;
/// assert_eq!(command, Command::channels(["memory", "scope"], false));
/// assert_eq!(command.to_string(), "ToggleChannels memory,scope 0");
/// assert!(Command::parse(b"GET / HTTP/1.1").is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Command {
    /// Asks what is recorded, where it goes, and what was lost.
    Status,
    /// Turns channels on or off.
    SetChannels {
        /// Their names.
        names: Vec<String>,
        /// Whether they are turned on.
        enable: bool,
    },
    /// Sends the trace to a recorder, `HOST` or `HOST:PORT`, as one more destination.
    SendTo(String),
    /// Writes the trace to a file in the program's folder, by its plain name, as one more destination.
    WriteTo(String),
    /// Starts a session of track events, in a new file in the program's folder.
    StartSession {
        /// The plain name of the file, by which other commands name the session.
        name: String,
        /// What it has, such as `categories=game*,-net ring=4MiB duration=10s memory=1s`; without it, all
        /// categories are enabled.
        config: Option<String>,
    },
    /// Ends a session of track events.
    StopSession(String),
    /// Writes everything that a session of track events has so far.
    FlushSession(String),
    /// Writes the ring of a session of track events to another new file in the program's folder.
    DumpSession {
        /// The session.
        name: String,
        /// The plain name of the file.
        file: String,
    },
    /// Ends all destinations but the first file.
    Stop,
    /// Ends all destinations, the first file included. The accounts of the live blocks continue.
    StopAll,
    /// Starts the recording's initial destinations again if they have ended: the first file under a
    /// new name, and the host. Each new stream begins with the live blocks.
    Start,
    /// Asks for a heap profile in pprof's format, which [`Client::profile`](super::Client::profile)
    /// receives. The program then ends the connection.
    Profile,
    /// Asks for the figures of all rows of a report, which
    /// [`Client::figures`](super::Client::figures) receives. The program then ends the connection.
    Figures {
        /// Those of call stacks, too.
        stacks: bool,
    },
    /// The secret that the program requires, which admits the client.
    Token(String),
}

impl Command {
    /// Turns the channels with these names on or off.
    ///
    /// ```
    /// use memledger::control::Command;
    ///
    /// let stacks_on = Command::channels(["callstack"], true);
    /// assert_eq!(stacks_on.to_string(), "ToggleChannels callstack 1");
    /// ```
    pub fn channels(names: impl IntoIterator<Item = impl Into<String>>, enable: bool) -> Self {
        Self::SetChannels { names: names.into_iter().map(Into::into).collect(), enable }
    }

    /// Sends the whole trace to a recorder.
    ///
    /// ```
    /// use memledger::control::Command;
    ///
    /// assert_eq!(Command::send_to("127.0.0.1:1980").to_string(), "SendTo 127.0.0.1:1980");
    /// ```
    pub fn send_to(host: impl Into<String>) -> Self {
        Self::SendTo(host.into())
    }

    /// Writes the whole trace to a file.
    ///
    /// ```
    /// use memledger::control::Command;
    ///
    /// assert_eq!(Command::write_to("now.memledger").to_string(), "WriteTo now.memledger");
    /// ```
    pub fn write_to(name: impl Into<String>) -> Self {
        Self::WriteTo(name.into())
    }

    /// Parses a line without its end. Words are separated by spaces, or by NULs as in Unreal. But a
    /// NUL is an error inside all lines but `ToggleChannels`, because it would cut a name off.
    ///
    /// ```
    /// use memledger::control::Command;
    ///
    /// assert_eq!(Command::parse(b"WriteTo run.utrace"), Ok(Command::write_to("run.utrace")));
    /// assert_eq!(Command::parse(b"Stop now"), Err("Stop is followed by nothing".to_owned()));
    /// ```
    ///
    /// # Errors
    /// One sentence that says what is wrong with it.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        if line.len() > MAX_LINE_BYTES {
            return Err(too_long());
        }
        let text = std::str::from_utf8(line)
            .map_err(|error| format!("byte {} of the line is not UTF-8", error.valid_up_to()))?;
        if let Some(at) = text.find(|c: char| c.is_control() && c != '\0') {
            return Err(format!("byte {at} of the line is a control character"));
        }
        let words: Vec<_> = split(text).collect();
        let (Some(name), Some(last)) = (words.first(), words.last()) else {
            return Err("the line is empty".into());
        };
        if words.len() > MAX_WORDS && *name != START_SESSION {
            return Err(format!(
                "the line has {} words, more than the maximum of {MAX_WORDS}",
                words.len()
            ));
        }
        let Some(form) = FORMS.iter().find(|form| form.name == *name) else {
            if last.starts_with("HTTP/") {
                return Err(format!("this is not a web server; it takes {}", names()));
            }
            let name: String = name.chars().take(40).collect();
            return Err(format!("there is no command {name:?}; the commands are {}", names()));
        };
        if form.name != TOGGLE_CHANNELS
            && let Some(at) = text.trim_end_matches('\0').find('\0')
        {
            return Err(format!(
                "byte {at} of the line is a NUL, which no name and no configuration can have in it"
            ));
        }
        let rest = text.trim_matches([' ', '\0']).trim_start_matches(form.name);
        (form.parse)(rest.trim_matches([' ', '\0']))
            .ok_or_else(|| format!("{} is followed by {}", form.name, form.usage))
    }
}

/// How a command is written as a line.
struct Form {
    name: &'static str,
    /// The command that has these words after its name; `None` if they are wrong.
    parse: fn(&str) -> Option<Command>,
    /// What the name is followed by.
    usage: &'static str,
}

/// All commands, the last of which is not named to a client that sends none of them.
const FORMS: [Form; 14] = [
    Form { name: "Status", parse: |rest| alone(rest, Command::Status), usage: "nothing" },
    Form {
        name: "ToggleChannels",
        parse: |rest| {
            let [names, state @ ("0" | "1")] = words(rest)? else { return None };
            let names = names.split(',').filter(|name| !name.is_empty());
            Some(Command::channels(names, state == "1"))
        },
        usage: "comma-separated names, and 0 or 1",
    },
    Form {
        name: "SendTo",
        parse: |rest| words(rest).map(|[host]| Command::send_to(host)),
        usage: "HOST or HOST:PORT; it gets all channels; memledger export --channels selects some",
    },
    Form {
        name: "WriteTo",
        parse: |rest| words(rest).map(|[name]| Command::write_to(name)),
        usage: "the name of a file; it gets all channels; memledger export --channels selects some",
    },
    Form { name: "Stop", parse: |rest| alone(rest, Command::Stop), usage: "nothing" },
    Form { name: "StopAll", parse: |rest| alone(rest, Command::StopAll), usage: "nothing" },
    Form { name: "Start", parse: |rest| alone(rest, Command::Start), usage: "nothing" },
    Form {
        name: START_SESSION,
        // All that follows the name is the configuration.
        parse: |rest| {
            let (name, config) = rest.split_once(' ').unwrap_or((rest, ""));
            let config = Some(config.trim_matches(' ')).filter(|config| !config.is_empty());
            let name = Some(name).filter(|name| !name.is_empty())?.to_owned();
            Some(Command::StartSession { name, config: config.map(str::to_owned) })
        },
        usage: "the name of a file, and perhaps a configuration",
    },
    Form {
        name: "StopSession",
        parse: |rest| words(rest).map(|[name]| Command::StopSession(name.into())),
        usage: "the name of a session",
    },
    Form {
        name: "FlushSession",
        parse: |rest| words(rest).map(|[name]| Command::FlushSession(name.into())),
        usage: "the name of a session",
    },
    Form {
        name: "DumpSession",
        parse: |rest| {
            words(rest)
                .map(|[name, file]| Command::DumpSession { name: name.into(), file: file.into() })
        },
        usage: "the name of a session and that of a file",
    },
    Form { name: "Profile", parse: |rest| alone(rest, Command::Profile), usage: "nothing" },
    Form {
        name: "Figures",
        parse: |rest| {
            let stacks = rest == "stacks";
            (stacks || rest.is_empty()).then_some(Command::Figures { stacks })
        },
        usage: "nothing, or by stacks",
    },
    Form {
        name: "Token",
        parse: |rest| words(rest).map(|[secret]| Command::Token(secret.into())),
        usage: "one word",
    },
];

/// The command whose words are not limited in number.
const START_SESSION: &str = "StartSession";
/// The command whose words Unreal separates by NULs.
const TOGGLE_CHANNELS: &str = "ToggleChannels";

fn alone(rest: &str, command: Command) -> Option<Command> {
    rest.is_empty().then_some(command)
}

/// The words of `text`, if there are `N` of them.
fn words<const N: usize>(text: &str) -> Option<[&str; N]> {
    split(text).collect::<Vec<_>>().try_into().ok()
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', '\0']).filter(|word| !word.is_empty())
}

/// The names of the commands, for a sentence.
fn names() -> String {
    let [first @ .., last, _] = &FORMS;
    let first: Vec<_> = first.iter().map(|form| form.name).collect();
    format!("{} and {}", first.join(", "), last.name)
}

/// The reason for refusing a line that is too long.
pub(super) fn too_long() -> String {
    format!("the line has more than {MAX_LINE_BYTES} bytes")
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status => f.write_str("Status"),
            Self::SetChannels { names, enable } => {
                write!(f, "ToggleChannels {} {}", names.join(","), u8::from(*enable))
            }
            Self::SendTo(host) => write!(f, "SendTo {host}"),
            Self::WriteTo(name) => write!(f, "WriteTo {name}"),
            Self::StartSession { name, config: None } => write!(f, "StartSession {name}"),
            Self::StartSession { name, config: Some(config) } => {
                write!(f, "StartSession {name} {config}")
            }
            Self::StopSession(name) => write!(f, "StopSession {name}"),
            Self::FlushSession(name) => write!(f, "FlushSession {name}"),
            Self::DumpSession { name, file } => write!(f, "DumpSession {name} {file}"),
            Self::Stop => f.write_str("Stop"),
            Self::StopAll => f.write_str("StopAll"),
            Self::Start => f.write_str("Start"),
            Self::Profile => f.write_str("Profile"),
            Self::Figures { stacks: false } => f.write_str("Figures"),
            Self::Figures { stacks: true } => f.write_str("Figures stacks"),
            Self::Token(secret) => write!(f, "Token {secret}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_survives_its_line() {
        for command in [
            Command::Status,
            Command::Stop,
            Command::StopAll,
            Command::Start,
            Command::Profile,
            Command::Figures { stacks: false },
            Command::Figures { stacks: true },
            Command::channels(["cpu"], true),
            Command::channels(["memory", "scope", "x"], false),
            Command::send_to("[::1]:1981"),
            Command::write_to("späť.utrace"),
            Command::Token("s3cr3t".into()),
            Command::StartSession { name: "a.pftrace".into(), config: None },
            Command::StartSession {
                name: "a.pftrace".into(),
                config: Some("categories=a,-b ring=4MiB  duration=5s".into()),
            },
            Command::StopSession("a.pftrace".into()),
            Command::FlushSession("a.pftrace".into()),
            Command::DumpSession { name: "a.pftrace".into(), file: "b.pftrace".into() },
        ] {
            assert_eq!(Command::parse(command.to_string().as_bytes()).unwrap(), command);
        }
    }

    #[test]
    fn words_are_separated_by_spaces_or_nuls() {
        let toggle = Command::channels(["cpu", "gpu"], true);
        assert_eq!(Command::parse(b"ToggleChannels cpu,gpu 1").unwrap(), toggle);
        assert_eq!(Command::parse(b"  ToggleChannels\0cpu,,gpu,\0 1\0").unwrap(), toggle);
    }

    #[test]
    fn what_is_no_command_is_refused_with_a_reason() {
        for (line, says) in [
            (&b""[..], "the line is empty"),
            (b"   ", "the line is empty"),
            (b"stop", "there is no command \"stop\""),
            (b"Stop now", "Stop is followed by nothing"),
            (b"Start now", "Start is followed by nothing"),
            (b"Profile 1", "Profile is followed by nothing"),
            (b"Figures all", "Figures is followed by nothing, or by stacks"),
            (b"Figures stacks 1", "Figures is followed by nothing, or by stacks"),
            (b"SendTo", "SendTo is followed by HOST"),
            (b"SendTo a memory", "SendTo is followed by HOST"),
            (b"WriteTo a memory", "export --channels"),
            (b"WriteTo a\0b", "byte 9 of the line is a NUL"),
            (b"WriteTo\0a", "byte 7 of the line is a NUL"),
            (b"SendTo 127.0.0.1\0:1", "byte 16 of the line is a NUL"),
            (b"StartSession", "StartSession is followed by the name of a file"),
            (b"StartSession ", "StartSession is followed by the name of a file"),
            (b"StartSession a\0b", "byte 14 of the line is a NUL"),
            (b"StopSession", "StopSession is followed by the name of a session"),
            (b"FlushSession a b", "FlushSession is followed by the name of a session"),
            (
                b"DumpSession a",
                "DumpSession is followed by the name of a session and that of a file",
            ),
            (b"Token a\0b", "byte 7 of the line is a NUL"),
            (b"ToggleChannels cpu", "and 0 or 1"),
            (b"ToggleChannels cpu on", "and 0 or 1"),
            (b"ToggleChannels cpu 2", "and 0 or 1"),
            (b"GET / HTTP/1.1", "not a web server"),
            (b"POST /SendTo HTTP/1.1", "not a web server"),
            (b"Host: localhost", "there is no command \"Host:\""),
            (b"\x16\x03\x01\x02", "byte 0 of the line is a control character"),
            (b"Status\x1b[2J", "byte 6 of the line is a control character"),
            (b"Status \xff", "byte 7 of the line is not UTF-8"),
            (b"a b c d e f g h i j k l m n o p q", "17 words"),
        ] {
            let reason = Command::parse(line).unwrap_err();
            assert!(reason.contains(says), "{line:?}: {reason}");
        }
        assert!(Command::parse(&[b'a'; MAX_LINE_BYTES + 1]).unwrap_err().contains("4096"));
    }
}
