//! Settings from outside the program: flags, which have the values of `MEMLEDGER_*`; names of files
//! with `%p %t %e`, addresses, ports. Each line is one argument.

use memledger::fuzzing::{address, file_name, place, settings};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// Parses `data` as arguments, and each of them as a name, an address and a port.
pub fn run(data: &[u8]) {
    let args: Vec<_> =
        data.split(|byte| *byte == b'\n').map(|arg| OsString::from_vec(arg.to_vec())).collect();
    let (config, rest, problems) = settings(args.clone());
    let is_ours = |arg: &&OsString| arg.as_encoded_bytes().starts_with(b"-trace");
    let others: Vec<_> = args.iter().filter(|arg| !is_ours(arg)).collect();
    assert!(others.iter().all(|arg| rest.contains(arg)), "what is not ours is left alone");
    assert!(rest.iter().all(|arg| args.contains(arg)) && rest.len() <= args.len());
    for problem in &problems {
        assert!(!problem.contains(char::is_control), "{problem:?}");
    }
    let (same, left, again) = settings(rest.clone());
    assert!(left == rest && again.is_empty(), "once taken, gone");
    assert!(same == config || rest.len() < args.len());
    for arg in &args {
        let name = Path::new(arg);
        let (filled, problems) = file_name(name);
        assert!(arg.as_encoded_bytes().contains(&b'%') || filled == name);
        assert!(problems.iter().all(|problem| !problem.contains(char::is_control)));
        let Some(text) = arg.to_str() else { continue };
        text_values(text.split_once('=').map_or(text, |(_, value)| value));
    }
}

fn text_values(text: &str) {
    match address(text) {
        Ok((host, shown)) => {
            assert!(!host.is_empty() && !host.contains(char::is_control));
            assert_eq!(address(&shown), Ok((host, shown.clone())), "{text:?}");
        }
        Err(reason) => assert!(!reason.contains(char::is_control), "{reason:?}"),
    }
    match place(text) {
        Ok((port, open)) => {
            if !open {
                assert_eq!(place(&port.to_string()), Ok((port, false)));
            }
        }
        Err(reason) => assert!(!reason.contains(char::is_control), "{reason:?}"),
    }
    // Names without placeholders are unchanged; `%%` gives one `%`.
    let doubled = text.replace('%', "%%");
    assert_eq!(file_name(Path::new(&doubled)), (text.into(), Vec::new()));
}

/// Each flag with possible values.
pub fn seeds() -> Vec<Vec<u8>> {
    [
        "-trace=memory,scope\n-tracefile=run-%p-%t-%e.utrace\n--verbose",
        "-tracehost=127.0.0.1:1980\n-tracereport=stderr",
        "-tracehost=[::1]:1981\n-tracereport=%e/%%.json\n-tracecontrol=1985",
        "-tracecontrol=localhost:0\n-tracecontrolfolder=/tmp\n-tracecontrolhosts=a,b:1",
        "-tracecontroltokenfile=x\n-tracefollowforks=1\n-tracefollowforks=2",
        "-tracecontrol=[::]:1985\n-tracehost=fe80::1%eth0",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
