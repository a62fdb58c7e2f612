//! Where a running program listens: an address, a port of this machine, or a process whose port is found in
//! `/proc`.

use crate::error::CliError;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The setting of a program that says where it listens.
const CONTROL: &str = "MEMLEDGER_CONTROL";
/// The state of a socket that listens, in `/proc/PID/net/tcp`.
const LISTENS: &str = "0A";

/// What the user has given as an address. A number is a port if any program listens there, else the process
/// whose port is meant.
pub fn address_of(text: &str) -> Result<String, CliError> {
    let Ok(number) = text.parse::<u32>() else { return Ok(text.to_owned()) };
    let is_port = |(port, _): &(u16, String)| u32::from(*port) == number;
    let process = PathBuf::from(format!("/proc/{number}"));
    if listeners(Path::new("/proc/self")).iter().any(is_port) {
        return Ok(text.to_owned());
    }
    if !process.exists() {
        return match u16::try_from(number) {
            Ok(_) => Ok(text.to_owned()),
            Err(_) if cfg!(target_os = "linux") => {
                Err(CliError::Failed(format!("there is no process {number}")))
            }
            Err(_) => Err(CliError::Failed(format!(
                "{number} is no port, and processes are found by their ids on Linux only; give the port of \
                 the program"
            ))),
        };
    }
    let ports = ports_of(&process).map_err(|error| {
        CliError::Failed(format!("cannot find the ports of process {number}: {error}"))
    })?;
    let configured = configured_port(&process);
    match &*ports {
        [] => Err(CliError::Failed(format!(
            "process {number} does not listen at any port; start it with {CONTROL}=1985"
        ))),
        [port] => Ok(port.to_string()),
        _ if let Some(port) = configured.filter(|port| ports.contains(port)) => {
            Ok(port.to_string())
        }
        _ => {
            let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
            Err(CliError::Failed(format!(
                "process {number} listens at the ports {}; choose the one set by {CONTROL}",
                ports.join(", ")
            )))
        }
    }
}

/// The ports at which a process listens, sorted.
///
/// NOTE: by thread, because the tracker's threads have a table of descriptors of their own.
fn ports_of(process: &Path) -> io::Result<Vec<u16>> {
    let mut descriptors = Vec::new();
    for thread in fs::read_dir(process.join("task"))?.flatten() {
        match fs::read_dir(thread.path().join("fd")) {
            Ok(its) => descriptors.extend(its.flatten()),
            // It has just ended.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let targets = descriptors.into_iter().filter_map(|entry| fs::read_link(entry.path()).ok());
    let targets: HashSet<_> =
        targets.filter_map(|target| target.into_os_string().into_string().ok()).collect();
    let is_its = |(_, inode): &(u16, String)| targets.contains(&format!("socket:[{inode}]"));
    let mut ports: Vec<_> =
        listeners(process).into_iter().filter(is_its).map(|(port, _)| port).collect();
    ports.sort_unstable();
    ports.dedup();
    Ok(ports)
}

/// The sockets that listen where a process has its network: their ports and inodes.
fn listeners(process: &Path) -> Vec<(u16, String)> {
    let tables = ["net/tcp", "net/tcp6"].map(|name| fs::read_to_string(process.join(name)));
    let socket = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (address, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        let port = u16::from_str_radix(address.rsplit(':').next()?, 16).ok()?;
        (*state == LISTENS).then(|| (port, (*inode).to_owned()))
    };
    tables.iter().flatten().flat_map(|table| table.lines()).filter_map(socket).collect()
}

fn configured_port(process: &Path) -> Option<u16> {
    let environment = fs::read(process.join("environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    let prefix = format!("{CONTROL}=");
    let value = variables.find_map(|variable| variable.strip_prefix(prefix.as_bytes()))?;
    std::str::from_utf8(value).ok()?.rsplit(':').next()?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_number_is_a_port_or_a_process_that_listens() {
        assert_eq!(address_of("build-server:1985").expect("an address"), "build-server:1985");
        let own = std::process::id();
        let says = |number: u32| match address_of(&number.to_string()) {
            Err(CliError::Failed(sentence)) => sentence,
            other => panic!("{other:?}"),
        };
        assert_eq!(says(u32::MAX), "there is no process 4294967295");
        let first = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = first.local_addr().expect("its address").port();
        assert_eq!(address_of(&port.to_string()).expect("a port"), port.to_string());
        assert_eq!(ports_of(Path::new("/proc/self")).expect("its own"), [port]);
        // NOTE: a process whose number is that of a port where another program listens is not meant.
        if !listeners(Path::new("/proc/self")).iter().any(|(port, _)| u32::from(*port) == own) {
            assert_eq!(address_of(&own.to_string()).expect("its port"), port.to_string());
            let second = TcpListener::bind("127.0.0.1:0").expect("a port");
            let mut both = [port, second.local_addr().expect("its address").port()];
            both.sort_unstable();
            let sentence = format!(
                "process {own} listens at the ports {}, {}; choose the one set by MEMLEDGER_CONTROL",
                both[0], both[1]
            );
            assert_eq!(says(own), sentence);
        }
    }
}
