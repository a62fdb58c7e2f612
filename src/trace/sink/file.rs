//! The trace file. It consists of packets, each plain, compact or LZ4, and is written at each
//! [`sync`](Sink::sync).
//!
//! The file is complete up to the last sync, even if the process is killed. If the disk is full,
//! the file is cut back to its last whole packet and closed; the program continues.

use super::{Sink, start};
use crate::error::{self, Error};
use crate::platform::os::{self, OwnDescriptor, RawFd, TargetFile};
use memledger_format::handshake::PROTOCOL;
use memledger_format::handshake::Transport;
use memledger_format::packet::{HEADER, Header, PacketWriter};
use std::ffi::{CStr, CString};
use std::fs::{File, TryLockError};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Permissions of the files that the program writes, unless the settings give others: names and
/// addresses are readable by this user only.
pub(crate) const DEFAULT_MODE: u32 = 0o600;

static MODE: AtomicU32 = AtomicU32::new(DEFAULT_MODE);

/// Sets the permissions of files that are opened from now on.
pub(crate) fn set_mode(mode: u32) {
    MODE.store(mode, Ordering::Relaxed);
}

/// Coded packets are written when this many bytes are waiting, and at every sync. The worker sends
/// more than this between two syncs only for many names.
const WRITE_AT: usize = 512 << 10;

/// A trace file that is being written.
pub(crate) struct FileSink {
    file: OwnFile,
    path: PathBuf,
    /// What this process takes if it replaces itself while this file is in use.
    next: PathBuf,
    /// A regular file, which can be cut back; pipes and devices cannot.
    regular: bool,
    transport: Transport,
    packets: PacketWriter,
    pending: Vec<u8>,
    written: u64,
    failed: Option<Error>,
    /// Whether a watcher continues the file after the end of the process.
    watched: bool,
    number: u64,
}

impl FileSink {
    /// Creates `path` and writes the start of the stream to it.
    ///
    /// If another process is writing to that file, `NAME.PID.EXT` beside it is used instead,
    /// because a child program inherits `MEMLEDGER_TRACE`. The extension of `path` says which
    /// transport the file gets.
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        let transport = transport_of(path);
        let (file, taken) = open_empty(path)?;
        let next = next_path(path, &taken);
        Ok(Self { next, ..Self::start(file, taken, transport)? })
    }

    /// Writes the start of the stream to a file that has just been created, at `path`.
    pub(crate) fn begin(file: File, path: &Path) -> Result<Self, Error> {
        Self::start(OwnFile::created(file, path)?, path.to_owned(), transport_of(path))
    }

    /// The same for a file that has no name any more, and that only a watcher reads.
    pub(crate) fn begin_unnamed(file: File, path: &Path) -> Result<Self, Error> {
        let mut sink = Self::begin(file, path)?;
        sink.number = 0;
        Ok(sink)
    }

    fn start(file: OwnFile, path: PathBuf, transport: Transport) -> Result<Self, Error> {
        let mut sink = Self::new(file, path, transport);
        sink.pending.extend(start::handshake(transport));
        sink.write_pending();
        match sink.failed.take() {
            None => Ok(sink),
            Some(error) => Err(error),
        }
    }

    fn new(file: OwnFile, path: PathBuf, transport: Transport) -> Self {
        Self {
            regular: file.is_regular(),
            file,
            next: beside(&path),
            path,
            transport,
            packets: PacketWriter::new(transport, PROTOCOL),
            pending: Vec::with_capacity(WRITE_AT + (64 << 10)),
            written: 0,
            failed: None,
            watched: false,
            number: super::FIRST_FILE,
        }
    }

    /// In a watcher: the file of another process, which has sent its descriptor.
    pub(crate) fn received(file: File, transport: Transport) -> io::Result<Self> {
        let file = OwnFile::new(file)?;
        let path = os::path_of_descriptor(file.0.number());
        Ok(Self { watched: true, ..Self::new(file, path, transport) })
    }

    /// How it is coded.
    pub(crate) fn transport(&self) -> Transport {
        self.transport
    }

    /// The path of the file, which differs from the requested one if that was in use.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file that the next program of this process takes, if it asks for the same one.
    pub(crate) fn next_path(&self) -> &Path {
        &self.next
    }

    /// Makes a watcher continue the file, if it is one that can be cut: its descriptor.
    pub(crate) fn set_watched(&mut self) -> Option<RawFd> {
        let file = self.file.0.get().filter(|_| self.regular);
        self.watched = file.is_some();
        file.map(os::descriptor)
    }

    fn write_pending(&mut self) {
        if self.failed.is_some() {
            return self.pending.clear();
        }
        let mut done = 0;
        while done < self.pending.len() {
            match self.file.write_some(&self.pending[done..]) {
                Ok(count) => done += count,
                Err(error) => return self.fail(done, error),
            }
        }
        self.written += done as u64;
        self.pending.clear();
    }

    /// Cuts the file back to the last whole packet of the `done` bytes just written.
    fn fail(&mut self, done: usize, source: std::io::Error) {
        let mut whole = 0;
        while let Some(header) = self.pending.get(whole..whole + HEADER)
            && let Some(header) =
                header.try_into().ok().and_then(|h| Header::decode(h, self.transport))
            && whole + header.size <= done
        {
            whole += header.size;
        }
        if self.regular {
            // NOTE: if this fails too, the reader reports a truncated end and loses nothing else.
            let _ = self.file.cut(self.written + whole as u64);
        }
        self.failed = Some(error::file("write", &self.path, source));
        self.pending.clear();
    }
}

impl Sink for FileSink {
    fn packet(&mut self, stream: u16, payload: &[u8]) {
        self.packets.packet(stream, payload, &mut self.pending);
        if self.pending.len() >= WRITE_AT {
            self.write_pending();
        }
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.packets.sync(&mut self.pending);
        self.write_pending();
        self.failed.take().map_or(Ok(()), Err)
    }

    fn finish(&mut self) -> Result<(), Error> {
        let result = self.sync();
        self.file.close();
        result
    }

    fn written(&self) -> u64 {
        self.written
    }

    fn watched_bytes(&self) -> Option<u64> {
        self.watched.then_some(self.written)
    }

    fn cut(&mut self, bytes: u64) -> Result<(), Error> {
        let failed = |source| error::file("continue", &self.path, source);
        self.file.cut(bytes).map_err(failed)?;
        self.pending.clear();
        self.written = bytes;
        Ok(())
    }

    fn number(&self) -> u64 {
        self.number
    }
}

/// A file that is written in pieces, each of which is complete or missing.
#[cfg(feature = "perfetto")]
pub(crate) struct PieceFile {
    file: OwnFile,
    path: PathBuf,
    written: u64,
}

#[cfg(feature = "perfetto")]
impl PieceFile {
    /// Creates `path`, or `NAME.PID.EXT` beside it if another process is writing to that file.
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        let (file, path) = open_empty(path)?;
        Ok(Self { file, path, written: 0 })
    }

    /// A file that has just been created, at `path`.
    pub(crate) fn begin(file: File, path: &Path) -> Result<Self, Error> {
        Ok(Self { file: OwnFile::created(file, path)?, path: path.to_owned(), written: 0 })
    }

    /// The path of the file, which differs from the requested one if that was in use.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the pieces that were written.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Appends a piece. If the disk is full, what was written of it is removed.
    pub(crate) fn append(&mut self, piece: &[u8]) -> Result<(), Error> {
        let mut rest = piece;
        while !rest.is_empty() {
            match self.file.write_some(rest) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(source) => {
                    if self.file.is_regular() {
                        let _ = self.file.cut(self.written);
                    }
                    let path = self.path.clone();
                    return Err(error::file("write", &path, source));
                }
            }
        }
        self.written += piece.len() as u64;
        Ok(())
    }

    /// Replaces what the file holds.
    pub(crate) fn replace(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let failed = |source| error::file("write", &self.path, source);
        self.file.replace(|out| out.write_all(bytes)).map_err(failed)?;
        self.written = bytes.len() as u64;
        Ok(())
    }

    pub(crate) fn close(&mut self) {
        self.file.close();
    }
}

/// The compact transport for `.memledger` and for names without an extension, Unreal's for all
/// others.
fn transport_of(path: &Path) -> Transport {
    match path.extension() {
        None => Transport::Compact,
        Some(extension) if extension == "memledger" => Transport::Compact,
        Some(_) => Transport::Unreal,
    }
}

/// A file that no other process is writing to.
pub(crate) struct OwnFile(OwnDescriptor<File>);

impl OwnFile {
    fn new(file: File) -> io::Result<Self> {
        OwnDescriptor::new(file).map(Self)
    }

    /// A file that has just been created, at `path`.
    fn created(file: File, path: &Path) -> Result<Self, Error> {
        // On a file system without locks, another process that writes the file goes unnoticed.
        let _ = os::lock_alone(&file);
        os::set_mode(&file, MODE.load(Ordering::Relaxed));
        let failed = |source| error::file("open", path, source);
        Self::new(file).map_err(failed)
    }

    /// Whether it is a regular file, not a pipe or a device.
    fn is_regular(&self) -> bool {
        let is_file = |file: &File| file.metadata().is_ok_and(|metadata| metadata.is_file());
        self.0.get().is_some_and(is_file)
    }

    /// Removes what a regular file holds.
    fn empty(&self) -> io::Result<()> {
        if self.is_regular() { self.cut(0) } else { Ok(()) }
    }

    /// Cuts a regular file, and continues it there.
    fn cut(&self, bytes: u64) -> io::Result<()> {
        let mut file = self.0.opened()?;
        file.set_len(bytes)?;
        file.seek(SeekFrom::Start(bytes)).map(|_| ())
    }

    /// Writes some of `bytes`.
    fn write_some(&self, bytes: &[u8]) -> io::Result<usize> {
        os::write_file(self.0.opened()?, bytes)
    }

    /// Replaces what the file holds by what `write` writes.
    fn replace(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        self.0.opened()?;
        self.empty()?;
        let mut out = BufWriter::with_capacity(WRITE_AT, Pieces(self));
        let written = write(&mut out).and_then(|()| out.flush());
        // What could not be written is not tried again.
        let _ = out.into_parts();
        written
    }

    /// Closes the file, if the program has not.
    fn close(&mut self) {
        if let Some(file) = self.0.take().get() {
            // NOTE: the child of a fork has the file open too: closing it here does not unlock it.
            os::unlock(file);
        }
    }
}

/// Writes to a file in pieces.
struct Pieces<'a>(&'a OwnFile);

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_some(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        self.close();
    }
}

/// Opens a file for writing that no other process is writing to, and empties it.
fn open_empty(path: &Path) -> Result<(OwnFile, PathBuf), Error> {
    let (file, path) = open_alone(path)?;
    match file.empty() {
        Ok(()) => Ok((file, path)),
        Err(source) => Err(error::file("empty", &path, source)),
    }
}

/// The same without emptying it.
fn open_alone(path: &Path) -> Result<(OwnFile, PathBuf), Error> {
    match open(path) {
        Ok(file) => take(file, path),
        Err(source) => {
            // Another user's file may be that of this process, before it changed its identity and replaced
            // itself.
            let is_anothers = source.kind() == io::ErrorKind::PermissionDenied && path.exists();
            let other = if is_anothers { take_beside(path).ok() } else { None };
            let path = path.to_owned();
            other.ok_or(error::file("create", &path, source))
        }
    }
}

/// Takes the opened file `path`, or one beside it if another process is writing to it.
///
/// NOTE: a file is emptied only after this function has locked it, so the file of another process
/// is never harmed. A pipe must have a reader: opening one without a reader would wait
/// indefinitely. Pipes and devices are not locked: several processes can write to them.
fn take(file: File, path: &Path) -> Result<(OwnFile, PathBuf), Error> {
    let failed = |source| error::file("open", path, source);
    let file = OwnFile::new(file).map_err(failed)?;
    if !file.is_regular() {
        return Ok((file, path.to_owned()));
    }
    let opened = file.0.opened().map_err(failed)?;
    match os::lock_alone(opened) {
        // On a file system without locks, another process that writes the file goes unnoticed.
        Ok(()) | Err(TryLockError::Error(_)) => Ok((file, path.to_owned())),
        Err(TryLockError::WouldBlock) => match take_name(opened, path) {
            Some(file) => Ok((file, path.to_owned())),
            None => take_beside(path),
        },
    }
}

/// Takes `NAME.PID.EXT` beside `path`. If that one is in use, too, `NAME.PID.2.EXT` and so on: a process that
/// replaces itself by `exec` again and again leaves a watcher with each of its files.
fn take_beside(path: &Path) -> Result<(OwnFile, PathBuf), Error> {
    let first = beside(path);
    let (mut path, mut number) = (first.clone(), 1);
    loop {
        let failed = |action, source| error::file(action, &path, source);
        let file = open(&path).map_err(|error| failed("create", error))?;
        match os::lock_alone(&file) {
            Ok(()) => {
                let file = OwnFile::new(file).map_err(|error| failed("open", error))?;
                return Ok((file, path));
            }
            Err(TryLockError::WouldBlock) if number < MAX_BESIDE => {
                if let Some(file) = take_name(&file, &path) {
                    return Ok((file, path));
                }
            }
            Err(error) => return Err(failed("lock", error.into())),
        }
        number += 1;
        path = with_suffix(&first, number);
    }
}

/// A new file with the name of one that is locked, if that is the trace of this process before it replaced
/// itself by `exec`, as a forked child with a watcher. The watcher finds that its file has no name any more.
fn take_name(locked: &File, path: &Path) -> Option<OwnFile> {
    let name = path.file_name()?.to_string_lossy();
    let is_own = name.contains(&os::process_id().to_string());
    // A lock of any other process is exclusive, so this one would be refused.
    if !is_own || os::lock_shared(locked).is_err() {
        return None;
    }
    let target = TargetFile::find(path).ok()?;
    target.remove().ok()?;
    let file = target.open(MODE.load(Ordering::Relaxed)).ok()?;
    os::lock_alone(&file).ok()?;
    OwnFile::new(file).ok()
}

/// At most this many files of one process are beside the one that was asked for.
const MAX_BESIDE: u32 = 1000;

/// The name that [`take_beside`] tries after `taken`, where `asked` was asked for.
fn next_path(asked: &Path, taken: &Path) -> PathBuf {
    let first = beside(asked);
    let numbered = (2..=MAX_BESIDE).map(|number| with_suffix(&first, number));
    let mut names = [asked.to_owned(), first.clone()].into_iter().chain(numbered);
    names.find(|name| name == taken);
    names.next().unwrap_or(first)
}

/// `NAME.PID.EXT`, for this process alone.
pub(crate) fn beside(path: &Path) -> PathBuf {
    beside_of(path, os::process_id())
}

/// The same for another process.
pub(crate) fn beside_of(path: &Path, process: u32) -> PathBuf {
    with_suffix(path, process)
}

/// `NAME.SUFFIX.EXT`.
fn with_suffix(path: &Path, suffix: u32) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{suffix}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

fn open(path: &Path) -> io::Result<File> {
    TargetFile::find(path)?.open(MODE.load(Ordering::Relaxed))
}

/// A file that is created or replaced when it is written, not before: a killed program leaves the
/// old file.
pub(crate) enum LaterFile {
    /// A pipe, a device or another file that cannot be created later, or a file in a folder that
    /// cannot be locked.
    Open(OwnFile),
    /// The name is reserved for this process.
    Named(TargetFile),
}

impl LaterFile {
    /// Reserves the name `path`, or `NAME.PID.EXT` beside it if another process has reserved
    /// `path`. An existing file of that name stays as it is.
    ///
    /// # Errors
    /// `ErrorKind::File` if the file could not be created or written now.
    pub(crate) fn prepare(path: &Path) -> Result<(Self, PathBuf), Error> {
        let failed = |source| error::file("create", path, source);
        let target = TargetFile::find(path).map_err(failed)?;
        let (target, path) = match target.reserve() {
            Ok(true) => (target, path.to_owned()),
            Ok(false) => {
                let path = beside(path);
                let target = TargetFile::find(&path).map_err(failed)?;
                // The name holds this process's id, so no other process reserves it.
                let _ = target.reserve();
                (target, path)
            }
            // The name cannot be reserved. Locks the file instead, which must exist for that.
            Err(_) => {
                return open_alone(path).map(|(file, path)| (Self::Open(file), path));
            }
        };
        if let Some(file) = target.check().map_err(failed)? {
            let (file, path) = take(file, &path)?;
            return Ok((Self::Open(file), path));
        }
        Ok((Self::Named(target), path))
    }

    /// Whether the descriptor that the tracker needs to write the file is still open: the program
    /// may have closed it.
    pub(crate) fn is_ours(&self) -> bool {
        match self {
            Self::Open(file) => file.0.get().is_some(),
            Self::Named(target) => target.is_ours(),
        }
    }

    /// The descriptor that the tracker needs to write the file.
    pub(crate) fn descriptor(&self) -> RawFd {
        match self {
            Self::Open(file) => file.0.number(),
            Self::Named(target) => target.descriptor(),
        }
    }

    /// What a watcher needs to write it: a descriptor, and the name in that folder, if it is one.
    pub(crate) fn hand_over(&self) -> io::Result<(File, Option<&CStr>)> {
        match self {
            Self::Open(file) => Ok((file.0.opened()?.try_clone()?, None)),
            Self::Named(target) => target.hand_over().map(|(folder, name)| (folder, Some(name))),
        }
    }

    /// What [`hand_over`](Self::hand_over) has given.
    pub(crate) fn received(file: File, name: Option<CString>) -> io::Result<Self> {
        match name {
            Some(name) => TargetFile::received(file, name).map(Self::Named),
            None => OwnFile::new(file).map(Self::Open),
        }
    }

    /// Creates the file with what `write` writes in it, or replaces what it holds.
    pub(crate) fn write(
        &self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        match self {
            Self::Open(file) => file.replace(write),
            Self::Named(target) => {
                OwnFile::new(target.open(MODE.load(Ordering::Relaxed))?)?.replace(write)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_of_a_process_has_a_name_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let asked = folder.path().join("run.x.utrace");
        let pid = os::process_id();
        let names = ["run.x".to_owned(), format!("run.x.{pid}"), format!("run.x.{pid}.2")];
        let mut held = Vec::new();
        for name in names.into_iter().chain([format!("run.x.{pid}.3")]) {
            let file = FileSink::create(&asked).unwrap();
            assert_eq!(file.path(), folder.path().join(name + ".utrace"));
            held.push(file);
        }
    }
}
