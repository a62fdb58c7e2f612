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
/// use memledger::remote::control::Command;
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
    ToggleChannels {
        /// Their names.
        names: Vec<String>,
        /// Whether they are turned on.
        enable: bool,
    },
    /// Sends the trace to a recorder, as one more destination.
    SendTo {
        /// The recorder: `HOST` or `HOST:PORT`.
        host: String,
        /// The channels that the recorder gets, as in
        /// [`Destination::channels`](crate::Destination::channels); all if `None`.
        channels: Option<String>,
    },
    /// Writes the trace to a file in the program's folder, as one more destination.
    WriteTo {
        /// The plain name of the file.
        name: String,
        /// The channels that the file gets; all if `None`.
        channels: Option<String>,
    },
    /// Starts a session of track events, in a new file in the program's folder.
    StartSession {
        /// The plain name of the file, by which other commands name the session.
        name: String,
        /// Perfetto's `TraceConfig` as text, in one line; without it, all categories are enabled.
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
    pub fn channels(names: impl IntoIterator<Item = impl Into<String>>, enable: bool) -> Self {
        Self::ToggleChannels { names: names.into_iter().map(Into::into).collect(), enable }
    }

    /// Sends the whole trace to a recorder.
    pub fn send_to(host: impl Into<String>) -> Self {
        Self::SendTo { host: host.into(), channels: None }
    }

    /// Writes the whole trace to a file.
    pub fn write_to(name: impl Into<String>) -> Self {
        Self::WriteTo { name: name.into(), channels: None }
    }

    /// Parses a line without its end. Words are separated by spaces, or by NULs as in Unreal. But a
    /// NUL is an error inside a line that names a file, a host or a token, because it would cut the
    /// name off.
    ///
    /// # Errors
    /// One sentence that says what is wrong with it.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        if line.len() > MAX_LINE_BYTES {
            return Err(too_long());
        }
        let text = std::str::from_utf8(line)
            .map_err(|error| format!("byte {} of the line is no text", error.valid_up_to()))?;
        if let Some(at) = text.find(|c: char| c.is_control() && c != '\0') {
            return Err(format!("byte {at} of the line is a control character"));
        }
        let words: Vec<_> = text.split([' ', '\0']).filter(|word| !word.is_empty()).collect();
        if words.first() == Some(&"StartSession") {
            return start_session(text);
        }
        if words.len() > MAX_WORDS {
            return Err(format!("{} words are more than the {MAX_WORDS} of a line", words.len()));
        }
        let has_name = matches!(words.first(), Some(&("SendTo" | "WriteTo" | "Token")));
        if has_name && let Some(at) = text.trim_end_matches('\0').find('\0') {
            return Err(format!("byte {at} of the line is a NUL, which no name can have in it"));
        }
        match *words {
            ["Status"] => Ok(Self::Status),
            ["Stop"] => Ok(Self::Stop),
            ["StopAll"] => Ok(Self::StopAll),
            ["Start"] => Ok(Self::Start),
            ["Profile"] => Ok(Self::Profile),
            ["Figures"] => Ok(Self::Figures { stacks: false }),
            ["Figures", "stacks"] => Ok(Self::Figures { stacks: true }),
            ["SendTo", host] => Ok(Self::send_to(host)),
            ["SendTo", host, channels] => {
                Ok(Self::SendTo { host: host.into(), channels: Some(channels.into()) })
            }
            ["WriteTo", name] => Ok(Self::write_to(name)),
            ["WriteTo", name, channels] => {
                Ok(Self::WriteTo { name: name.into(), channels: Some(channels.into()) })
            }
            ["StopSession", name] => Ok(Self::StopSession(name.into())),
            ["FlushSession", name] => Ok(Self::FlushSession(name.into())),
            ["DumpSession", name, file] => {
                Ok(Self::DumpSession { name: name.into(), file: file.into() })
            }
            ["Token", secret] => Ok(Self::Token(secret.into())),
            ["ToggleChannels", names, state @ ("0" | "1")] => {
                let names = names.split(',').filter(|name| !name.is_empty());
                Ok(Self::channels(names, state == "1"))
            }
            ["Status" | "Stop" | "StopAll" | "Start" | "Profile", ..] => Err(format!("{} is followed by nothing", words[0])),
            ["Figures", ..] => Err("Figures is followed by nothing, or by stacks".into()),
            ["SendTo", ..] => {
                Err("SendTo is followed by HOST or HOST:PORT, and perhaps the channels it gets"
                    .into())
            }
            ["WriteTo", ..] => {
                Err("WriteTo is followed by the name of a file, and perhaps the channels it gets"
                    .into())
            }
            ["StopSession" | "FlushSession", ..] => {
                Err(format!("{} is followed by the name of a session", words[0]))
            }
            ["DumpSession", ..] => {
                Err("DumpSession is followed by the name of a session and that of a file".into())
            }
            ["Token", ..] => Err("Token is followed by one word".into()),
            ["ToggleChannels", ..] => {
                Err("ToggleChannels is followed by names with commas between them, and 0 or 1"
                    .into())
            }
            [.., last] if last.starts_with("HTTP/") => Err(
                "this is no web server, but takes Status, ToggleChannels, SendTo, WriteTo, Stop, StopAll, Start, StartSession, StopSession, FlushSession, DumpSession, Profile and Figures"
                    .into(),
            ),
            [first, ..] => Err(format!(
                "{:?} is no command; those are Status, ToggleChannels, SendTo, WriteTo, Stop, StopAll, Start, StartSession, StopSession, FlushSession, DumpSession, Profile and Figures",
                first.chars().take(40).collect::<String>()
            )),
            [] => Err("the line is empty".into()),
        }
    }
}

/// The name is the second word, and all that follows is the configuration.
fn start_session(text: &str) -> Result<Command, String> {
    if let Some(at) = text.trim_end_matches('\0').find('\0') {
        return Err(format!(
            "byte {at} of the line is a NUL, which no configuration can have in it"
        ));
    }
    let rest = text.trim_end_matches('\0').trim_matches(' ').trim_start_matches("StartSession");
    let (name, config) = rest.trim_start_matches(' ').split_once(' ').unwrap_or((rest.trim(), ""));
    if name.is_empty() {
        return Err(
            "StartSession is followed by the name of a file, and perhaps a configuration".into()
        );
    }
    let config = Some(config.trim_matches(' ')).filter(|config| !config.is_empty());
    Ok(Command::StartSession { name: name.to_owned(), config: config.map(str::to_owned) })
}

fn with_channels(
    f: &mut fmt::Formatter<'_>,
    verb: &str,
    place: &str,
    channels: &Option<String>,
) -> fmt::Result {
    write!(f, "{verb} {place}")?;
    channels.iter().try_for_each(|channels| write!(f, " {channels}"))
}

/// The reason for refusing a line that is too long.
pub(super) fn too_long() -> String {
    format!("the line has more than {MAX_LINE_BYTES} bytes")
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status => f.write_str("Status"),
            Self::ToggleChannels { names, enable } => {
                write!(f, "ToggleChannels {} {}", names.join(","), u8::from(*enable))
            }
            Self::SendTo { host, channels } => with_channels(f, "SendTo", host, channels),
            Self::WriteTo { name, channels } => with_channels(f, "WriteTo", name, channels),
            Self::StartSession { name, config } => with_channels(f, "StartSession", name, config),
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
            Command::SendTo { host: "a".into(), channels: Some("cpu,-gpu".into()) },
            Command::WriteTo { name: "a".into(), channels: Some("-memory".into()) },
            Command::Token("s3cr3t".into()),
            Command::StartSession { name: "a.pftrace".into(), config: None },
            Command::StartSession {
                name: "a.pftrace".into(),
                config: Some(format!("duration_ms: 5 {}", "a { b: 'c' } ".repeat(9)).trim().into()),
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
            (b"stop", "\"stop\" is no command"),
            (b"Stop now", "Stop is followed by nothing"),
            (b"Start now", "Start is followed by nothing"),
            (b"Profile 1", "Profile is followed by nothing"),
            (b"Figures all", "Figures is followed by nothing, or by stacks"),
            (b"Figures stacks 1", "Figures is followed by nothing, or by stacks"),
            (b"SendTo", "SendTo is followed by HOST"),
            (b"SendTo a b c", "SendTo is followed by HOST"),
            (b"WriteTo a b c", "WriteTo is followed by the name"),
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
            (b"GET / HTTP/1.1", "no web server"),
            (b"POST /SendTo HTTP/1.1", "no web server"),
            (b"Host: localhost", "\"Host:\" is no command"),
            (b"\x16\x03\x01\x02", "byte 0 of the line is a control character"),
            (b"Status\x1b[2J", "byte 6 of the line is a control character"),
            (b"Status \xff", "byte 7 of the line is no text"),
            (b"a b c d e f g h i j k l m n o p q", "17 words"),
        ] {
            let reason = Command::parse(line).unwrap_err();
            assert!(reason.contains(says), "{line:?}: {reason}");
        }
        assert!(Command::parse(&[b'a'; MAX_LINE_BYTES + 1]).unwrap_err().contains("4096"));
    }
}
