//! Asks a running program for its figures through its control server, and reads the trace of one that has
//! ended.

use super::{Message, Wishes};
use crate::commands::top::document;
use crate::commands::top::functions::Functions;
use crate::commands::top::sample::Sample;
use memledger::control::{Client, Command};
use memledger::{Error, ErrorKind};
use memledger_analysis::read::read;
use memledger_analysis::{Analyzer, Report};
use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::{SendError, Sender};
use std::time::{Duration, Instant};

/// The program is asked again only after this many times the time that an answer took, so that asking takes
/// at most a twentieth of the time of one of its processors, unless an answer takes more than half a second.
const REST: u32 = 20;
/// The longest time between two questions.
const LONGEST: Duration = Duration::from_secs(10);
/// The time after which a program that does not listen yet is looked for again.
const POLL: Duration = Duration::from_millis(50);

/// The program whose figures are shown, as it is at a moment.
pub enum State {
    /// It does not listen yet; or it never will, with a sentence about that.
    Silent(Option<String>),
    /// It can be asked.
    Listening(Program),
    /// It has ended, and how; its last figures are in this trace, if there is one.
    Ended(String, Option<PathBuf>),
}

/// A program that can be asked.
#[derive(Clone)]
pub struct Program {
    pub address: String,
    pub token: Option<String>,
}

impl Program {
    /// Gets the figures as of now.
    fn ask(&self, functions: bool) -> Result<Vec<u8>, Error> {
        // NOTE: a connection for each question, because the program ends it after its answer.
        let mut client = Client::connect(&self.address)?;
        if let Some(token) = &self.token {
            client.send(&Command::Token(token.clone()))?;
        }
        if functions { client.figures_with_stacks() } else { client.figures() }
    }

    /// Gets the first figures, without functions.
    pub fn first(&self) -> Result<Sample, String> {
        let document = self.ask(false).map_err(|error| error.to_string())?;
        Ok(Sample::of(&self.report(&document)?, false))
    }

    fn report(&self, document: &[u8]) -> Result<Report, String> {
        document::parse(document)
            .map_err(|what| format!("{} sends figures that cannot be read: {what}", self.address))
    }

    /// Gets the figures, and sends them or why there are none. `last` is the time since the question before.
    fn show(
        &self,
        functions: &mut Functions,
        last: Duration,
        wishes: &Wishes,
        to: &Sender<Message>,
    ) -> Result<(), SendError<Message>> {
        let wanted = wishes.functions();
        let report = match self.ask(wanted) {
            Ok(document) => self.report(&document),
            Err(error) if error.kind() == ErrorKind::Refused => Err(error.to_string()),
            Err(error) => {
                return to.send(Message::Interrupted(format!(
                    "{error:#}. The program has ended, or has closed its port; these are its last figures"
                )));
            }
        };
        match report {
            Ok(mut report) => {
                if wanted {
                    functions.find(&mut report);
                }
                to.send(Message::Problem(functions.note()))?;
                let elapsed_ns = Some(u64::try_from(last.as_nanos()).unwrap_or(u64::MAX));
                let sample = Box::new(Sample::of(&report, wanted));
                to.send(Message::Sample { sample, elapsed_ns })
            }
            Err(sentence) => to.send(Message::Problem(Some(sentence))),
        }
    }
}

/// Shows the figures of the program that `find` finds, until the screen is closed. `folders` are also
/// searched for functions.
pub fn follow(
    find: impl Fn() -> State,
    folders: &[PathBuf],
    wishes: &Wishes,
    to: &Sender<Message>,
) {
    let mut functions = Functions::new(folders);
    let mut last = Instant::now();
    let mut rest = Duration::ZERO;
    loop {
        wishes.wait(rest.saturating_sub(last.elapsed()));
        if wishes.is_over() {
            return;
        }
        let asked = Instant::now();
        let sent = match find() {
            State::Listening(program) => {
                let sent = program.show(&mut functions, asked.duration_since(last), wishes, to);
                rest = wishes.interval().max((asked.elapsed() * REST).min(LONGEST));
                sent
            }
            State::Silent(None) => {
                rest = POLL;
                Ok(())
            }
            State::Silent(why) => {
                rest = wishes.interval();
                to.send(Message::Problem(why))
            }
            State::Ended(how, trace) => {
                let _ = to.send(Message::Problem(None));
                let _ = to.send(Message::Ended(how));
                return show_last(trace, functions, wishes, to);
            }
        };
        last = asked;
        if sent.is_err() {
            return;
        }
    }
}

/// Shows the figures of a whole trace, with functions as soon as these are wanted.
fn show_last(
    trace: Option<PathBuf>,
    mut functions: Functions,
    wishes: &Wishes,
    to: &Sender<Message>,
) {
    let mut analyzer = Analyzer::new().largest_live(0);
    let is_read = trace
        .and_then(|path| File::open(path).ok())
        .is_some_and(|file| read(file, &mut analyzer).is_ok());
    if !is_read {
        return;
    }
    let mut report = analyzer.take_report();
    let mut shown = None;
    while !wishes.is_over() {
        let wanted = wishes.functions();
        if shown.is_none() || wanted && shown == Some(false) {
            if wanted {
                functions.find(&mut report);
                let _ = to.send(Message::Problem(functions.note()));
            }
            let sample = Box::new(Sample::of(&report, wanted));
            let _ = to.send(Message::Sample { sample, elapsed_ns: None });
            shown = Some(wanted);
        }
        wishes.wait(Duration::from_secs(3600));
    }
}
