//! The same on Windows. What its console sends, such as Ctrl-C, reaches the program and this command, which
//! waits for the program's end nevertheless.

use super::{NotRun, Program, ProgramEnd};
use crate::commands::view::runtime;
use crate::error::CliError;
use crate::stop_signal::stop_signal;
use crate::terminal::note;
use std::io;
use std::process::Command;

/// Runs the program to its end. `started` is called with its process id.
pub fn run(program: &Program<'_>, started: impl FnOnce(u32)) -> Result<ProgramEnd, NotRun> {
    let failed =
        |error: io::Error| CliError::Failed(format!("cannot wait for the program: {error}"));
    let runtime = runtime()?;
    let _entered = runtime.enter();
    // NOTE: nothing waits for it. As long as it is there, Ctrl-C does not end this process.
    let _stop = stop_signal()?;
    let mut child = command(program).and_then(|mut it| it.spawn()).map_err(NotRun::Refused)?;
    started(child.id());
    let status = child.wait().map_err(failed)?;
    Ok(ProgramEnd { pid: child.id(), status: status.code().unwrap_or(-1), signal: None })
}

fn command(program: &Program<'_>) -> io::Result<Command> {
    let Some((name, arguments)) = program.command.split_first() else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let mut command = Command::new(name);
    command.args(arguments);
    for (name, value) in &program.environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    for (number, file) in &program.streams {
        let file = file.try_clone()?;
        match number {
            0 => command.stdin(file),
            1 => command.stdout(file),
            _ => command.stderr(file),
        };
    }
    Ok(command)
}

/// Says how to send Ctrl-C to the program: the console does, once the screen has given back its keys.
pub fn interrupt(_: u32) {
    note("the program still runs; Ctrl-C ends it");
}
