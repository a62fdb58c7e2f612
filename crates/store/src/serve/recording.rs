//! Writes the file of a trace that a program is sending.

use super::catalogue::Catalogue;
use memledger_format::framing::Framing;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use tokio::sync::watch;

/// The file of a trace that grows. Bytes that were written stay if this process is killed. Dropping
/// it ends the trace.
#[derive(Debug)]
pub struct Recording {
    catalogue: Arc<Catalogue>,
    name: String,
    file: File,
    framing: Framing,
    readable: watch::Sender<u64>,
    ended: Option<String>,
}

impl Recording {
    pub(super) fn new(
        catalogue: Arc<Catalogue>,
        name: String,
        file: File,
        readable: watch::Sender<u64>,
    ) -> Self {
        Self { catalogue, name, file, framing: Framing::new(), readable, ended: None }
    }

    /// The name of its file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes in the file.
    pub fn size(&self) -> u64 {
        self.framing.len()
    }

    /// Writes the next bytes. If not all of them can be kept, the trace ends after its last whole
    /// packet, and the error says why. After an error, this must not be called again.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        let (granted, full) = self.catalogue.grant(&self.name, bytes.len() as u64);
        let granted = bytes.get(..granted as usize).unwrap_or(bytes);
        let (written, failure) = write_all(&mut self.file, granted);
        // NOTE: this does not fail: the start of the trace was parsed before the file was created.
        let _ = self.framing.push(granted.get(..written).unwrap_or(granted));
        let reason = failure.map(|error| format!("writing it failed: {error}")).or(full);
        let Some(reason) = reason else {
            self.readable.send_replace(self.framing.whole());
            return Ok(());
        };
        let whole = self.framing.whole();
        // NOTE: if this fails too, a reader of the file reports an unfinished packet and loses
        // nothing else.
        let size = self.file.set_len(whole).map_or(self.framing.len(), |()| whole);
        self.catalogue.correct(&self.name, size);
        self.readable.send_replace(size);
        self.ended = Some(reason.clone());
        Err(reason)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // The last bytes of a program that was killed can be an unfinished packet. They are
            // kept.
            self.readable.send_replace(self.framing.len());
        }
        self.catalogue.end(&self.name, self.ended.take());
    }
}

/// Writes `bytes`. Returns how many were written, and the error if not all were.
fn write_all(file: &mut File, bytes: &[u8]) -> (usize, Option<io::Error>) {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match file.write(rest) {
            Ok(0) => return (written, Some(io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Some(error)),
        }
    }
    (written, None)
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::Limits;
    use super::super::directory::Directory;
    use super::*;
    use memledger_format::framing::Start;
    use std::fs;
    use std::net::{IpAddr, Ipv4Addr};

    const HEAD: &[u8] = b"2CRT\x00\x00\x04\x07";
    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn catalogue(trace: u64, store: u64) -> (tempfile::TempDir, Arc<Catalogue>) {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path()).unwrap();
        let catalogue = Catalogue::new(directory, Limits { trace, store }).unwrap();
        (folder, Arc::new(catalogue))
    }

    fn start() -> Start {
        let mut framing = Framing::new();
        framing.push(HEAD).unwrap();
        framing.start().unwrap().clone()
    }

    /// A packet of this size, header included.
    fn packet(size: u16) -> Vec<u8> {
        let mut packet = size.to_le_bytes().to_vec();
        packet.resize(size.into(), 1);
        packet
    }

    #[test]
    fn readers_see_whole_packets_and_at_the_end_all() {
        let (folder, catalogue) = catalogue(1 << 20, 1 << 30);
        let mut recording = catalogue.begin(&start(), LOCAL).unwrap();
        recording.write(HEAD).unwrap();
        let trace = catalogue.by_index(0).unwrap();
        let live = catalogue.read(trace.id).unwrap().unwrap().live.unwrap();
        assert_eq!(*live.borrow(), 8);
        recording.write(&packet(100)[..99]).unwrap();
        assert_eq!((*live.borrow(), trace.size()), (8, 8));
        recording.write(&[1, 7]).unwrap();
        assert_eq!(*live.borrow(), 108);
        let name = recording.name().to_owned();
        drop(recording);
        assert_eq!(*live.borrow(), 109);
        assert!(live.has_changed().is_err(), "closed");
        let trace = catalogue.by_index(0).unwrap();
        assert!(trace.live.is_none() && trace.ended.is_none());
        assert_eq!(trace.size(), 109);
        assert_eq!(fs::metadata(folder.path().join(name)).unwrap().len(), 109);
    }

    #[test]
    fn a_trace_that_reaches_its_quota_ends_after_a_packet() {
        // Of 1000 bytes: the start, nine packets of 100, and 92 bytes of a tenth.
        let (folder, catalogue) = catalogue(1000, 1 << 30);
        let mut recording = catalogue.begin(&start(), LOCAL).unwrap();
        recording.write(HEAD).unwrap();
        let stream = packet(100).repeat(20);
        let mut refused = None;
        for piece in stream.chunks(70) {
            if let Err(reason) = recording.write(piece) {
                refused = Some(reason);
                break;
            }
        }
        let reason = refused.unwrap();
        assert_eq!(reason, "it has reached the 1000 B allowed for one trace");
        let path = folder.path().join(recording.name());
        drop(recording);
        assert_eq!(fs::read(path).unwrap(), [HEAD, &stream[..900]].concat());
        let trace = catalogue.by_index(0).unwrap();
        assert_eq!((trace.size(), trace.ended), (908, Some(reason)));
        assert_eq!(catalogue.totals().bytes, 908);
    }

    #[test]
    fn a_full_store_takes_nothing_until_there_is_room() {
        let (folder, catalogue) = catalogue(1 << 30, 400_000);
        let mut recording = catalogue.begin(&start(), LOCAL).unwrap();
        recording.write(HEAD).unwrap();
        let mut other = catalogue.begin(&start(), LOCAL).unwrap();
        other.write(HEAD).unwrap();
        recording.write(&packet(60_000).repeat(3)).unwrap();
        let reason = other.write(&packet(60_000).repeat(4)).unwrap_err();
        assert!(reason.contains("the store is full: 390.6 KiB of 390.6 KiB are used"), "{reason}");
        drop(other);
        assert_eq!(catalogue.by_index(1).unwrap().size(), 180_008);
        let reason = catalogue.begin(&start(), LOCAL).unwrap_err();
        assert_eq!(reason, "the store is full: 351.6 KiB of 390.6 KiB are used");
        let path = folder.path().join(recording.name());
        drop(recording);
        fs::remove_file(path).unwrap();
        let mut tries = 0_u32;
        while catalogue.begin(&start(), LOCAL).is_err() {
            tries += 1;
            assert!(tries < 1_000_000_000, "the room is never seen");
            std::thread::yield_now();
        }
    }

    #[test]
    fn ids_stay_the_same_and_other_files_come_and_go() {
        let (folder, first) = catalogue(1000, 1 << 30);
        for _ in 0..3 {
            first.begin(&start(), LOCAL).unwrap().write(HEAD).unwrap();
        }
        let ids = |catalogue: &Catalogue| {
            (0..).map_while(|index| catalogue.by_index(index)).map(|t| t.id).collect::<Vec<_>>()
        };
        let before = ids(&first);
        assert_eq!(before.len(), 3);
        drop(first);
        fs::write(folder.path().join("copied.utrace"), HEAD).unwrap();
        let directory = Directory::open(folder.path()).unwrap();
        let again = Catalogue::new(directory, Limits { trace: 1000, store: 1 << 30 }).unwrap();
        let after = ids(&again);
        assert_eq!((&after[..3], after.len()), (&before[..], 4));
        assert_eq!(again.by_index(3).unwrap().name(), "copied");
        assert_eq!(again.totals().bytes, 32);
    }

    #[test]
    fn a_trace_without_a_byte_leaves_no_file() {
        let (folder, catalogue) = catalogue(1000, 1 << 30);
        let recording = catalogue.begin(&start(), LOCAL).unwrap();
        let path = folder.path().join(recording.name());
        assert!(path.exists());
        drop(recording);
        assert!(!path.exists());
        assert_eq!(catalogue.totals().traces, 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_disk_that_is_full_ends_the_trace() {
        let (_folder, catalogue) = catalogue(1 << 20, 1 << 30);
        let mut recording = catalogue.begin(&start(), LOCAL).unwrap();
        recording.write(HEAD).unwrap();
        recording.file = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let reason = recording.write(&packet(100)).unwrap_err();
        assert!(reason.starts_with("writing it failed: "), "{reason}");
    }
}
