use super::*;

fn text() -> String {
    "12 \u{1b} of it".into()
}

fn source() -> io::Error {
    io::Error::from_raw_os_error(2)
}

/// An error that has no code of the system, only a sentence.
const WITHOUT_CODE: &str = "a reason without a code";

fn one_of_each() -> Vec<Error> {
    let (path, waited) = (PathBuf::from("no/such.txt"), Duration::from_secs(5));
    vec![
        Error::File { path: path.clone(), action: "open", source: source() },
        Error::InvalidAddress(text()),
        Error::InvalidChannels(text()),
        Error::UnknownChannel(text()),
        Error::ReadOnlyChannel("Assets"),
        Error::TooManyChannels("Assets"),
        Error::InvalidFileMode(0o1600),
        Error::InvalidLimit(101),
        Error::InvalidStacks(text()),
        Error::StacksUnsupported,
        Error::UnknownReportFormat(text()),
        Error::InvalidToken(text()),
        Error::TokenRequired(text()),
        Error::UnsupportedPlatform,
        Error::FeatureOff,
        Error::AlreadyStarted,
        Error::MeasurementRunning,
        Error::ForkedChild,
        Error::WorkerStuck { action: "it cannot start", waited },
        Error::ThreadInAllocator { waited },
        Error::ThreadNotStarted { thread: text(), source: source() },
        Error::NotRecording,
        Error::OutOfMemory(text()),
        Error::Internal(text()),
        Error::Destination { name: text(), what: text() },
        Error::Listen { address: text(), source: source() },
        Error::ControlEnded(io::Error::other(WITHOUT_CODE)),
        Error::Unreachable { what: text(), source: source() },
        Error::NoAnswer(text()),
        Error::Refused(text()),
    ]
}

fn one_of_each_unmeasured() -> [Unmeasured; 13] {
    let waited = Duration::from_secs(5);
    [
        Unmeasured::NotGlobalAllocator,
        Unmeasured::NotStarted(Box::new(Error::ControlEnded(source()))),
        Unmeasured::ChannelOff("memory"),
        Unmeasured::ChannelTurnedOff("scope"),
        Unmeasured::EventsLost(7),
        Unmeasured::RecordingEnded,
        Unmeasured::Forked,
        Unmeasured::LeftScope,
        Unmeasured::TableFull(7),
        Unmeasured::WorkerStuck(waited),
        Unmeasured::NotCollected(waited),
        Unmeasured::NoLimit("small"),
        Unmeasured::TrackerCode,
    ]
}

#[test]
fn what_is_not_measured_has_a_sentence_for_each_reason() {
    let all = one_of_each_unmeasured();
    let sentences: std::collections::BTreeSet<_> = all.iter().map(|why| why.to_string()).collect();
    assert_eq!(sentences.len(), all.len());
    for why in &all {
        assert_eq!(why.clone().to_string(), why.to_string());
        assert!(why.to_string().starts_with("memory could not be measured: "));
    }
}

#[test]
fn a_copy_is_the_same_variant_with_the_same_sentence_and_source() {
    let all = one_of_each();
    for error in &all {
        let copy = error.clone();
        assert_eq!(format!("{error:?}"), format!("{copy:?}"));
        let source = |error: &Error| std::error::Error::source(error).map(ToString::to_string);
        assert_eq!(source(error), source(&copy), "{error:?}");
        let sources = [&self::source().to_string(), WITHOUT_CODE];
        let has_it = sources.iter().any(|source| error.to_string().ends_with(source));
        assert_eq!(source(error).is_some(), has_it, "{error:?}");
    }
    let sentences: std::collections::BTreeSet<_> = all.iter().map(|e| format!("{e:?}")).collect();
    assert_eq!(sentences.len(), all.len(), "each has a sentence of its own");
}
