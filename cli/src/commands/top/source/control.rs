//! Asks a running program for its figures through its control server.

use super::{Message, Wishes};
use crate::commands::top::document;
use crate::commands::top::functions::Functions;
use crate::commands::top::sample::Sample;
use memledger::Error;
use memledger::analysis::Report;
use memledger::remote::control::{Client, Command};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// The program is asked again only after this many times the time that an answer took, so that asking takes at
/// most a twentieth of the time of one of its processors, unless an answer takes more than half a second.
const REST: u32 = 20;
/// The longest time between two questions.
const LONGEST: Duration = Duration::from_secs(10);

/// A program that can be asked.
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
        client.figures(functions)
    }

    /// Gets the first figures, without functions.
    pub fn first(&self) -> Result<Sample, String> {
        let document = self.ask(false).map_err(|error| error.to_string())?;
        Ok(Sample::of(&self.report(&document)?, false))
    }

    fn report(&self, document: &[u8]) -> Result<Report, String> {
        document::parse(document).map_err(|what| {
            format!("{} does not send figures that can be read: {what}", self.address)
        })
    }

    /// Asks again and again, until the screen is closed.
    pub fn follow(&self, mut functions: Functions, wishes: &Wishes, to: &Sender<Message>) {
        let mut last = Instant::now();
        let mut rest = wishes.interval();
        loop {
            wishes.wait(rest.saturating_sub(last.elapsed()));
            if wishes.is_over() {
                return;
            }
            let asked = Instant::now();
            let wanted = wishes.functions();
            let answer = self.ask(wanted);
            rest = wishes.interval().max((asked.elapsed() * REST).min(LONGEST));
            let message = match answer {
                Ok(document) => match self.report(&document) {
                    Ok(mut report) => {
                        if wanted {
                            functions.find(&mut report);
                        }
                        let elapsed = asked.duration_since(last).as_nanos();
                        let elapsed_ns = Some(u64::try_from(elapsed).unwrap_or(u64::MAX));
                        let _ = to.send(Message::Problem(functions.note()));
                        let sample = Box::new(Sample::of(&report, wanted));
                        Message::Sample { sample, elapsed_ns }
                    }
                    Err(sentence) => Message::Problem(Some(sentence)),
                },
                Err(Error::Refused(sentence)) => Message::Problem(Some(sentence)),
                Err(error) => Message::Interrupted(format!(
                    "{error}. The program has ended, or has closed its port; these are its last figures"
                )),
            };
            last = asked;
            if to.send(message).is_err() {
                return;
            }
        }
    }
}
