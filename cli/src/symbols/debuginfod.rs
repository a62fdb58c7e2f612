//! A client of debuginfod: servers that have debug information by build id.
//!
//! Settings and cache are those of elfutils' client, so both share what they have fetched.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A build id that no server had is asked for again after this time.
const ASK_AGAIN: Duration = Duration::from_secs(600);
/// The time for a connection, and for the first bytes of an answer, if `DEBUGINFOD_TIMEOUT` is not set.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The servers, and the folder with what they have sent.
pub struct Debuginfod {
    servers: Vec<String>,
    cache: PathBuf,
    timeout: Duration,
    /// A server that did not answer is not asked again.
    is_down: Vec<bool>,
}

impl Debuginfod {
    /// The servers of `DEBUGINFOD_URLS`; `None` if there are none, or no folder for a cache.
    pub fn from_environment() -> Option<Self> {
        Self::from_variables(|name| env::var(name).ok())
    }

    fn from_variables(value: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let text = |name: &str| value(name).filter(|value| !value.trim().is_empty());
        let urls = text("DEBUGINFOD_URLS")?;
        let home = |folder: &str| Some(Path::new(&text("HOME")?).join(folder));
        let cache = text("DEBUGINFOD_CACHE_PATH").map(PathBuf::from).or_else(|| {
            let folder = text("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| home(".cache"))?;
            Some(folder.join("debuginfod_client"))
        })?;
        let timeout = text("DEBUGINFOD_TIMEOUT").and_then(|seconds| seconds.trim().parse().ok());
        let timeout = timeout.filter(|seconds| *seconds > 0).map_or(TIMEOUT, Duration::from_secs);
        // elfutils also takes ima: and other words between the servers, which are no addresses.
        let is_address = |word: &&str| word.contains("://");
        let servers: Vec<_> =
            urls.split_whitespace().filter(is_address).map(str::to_owned).collect();
        let is_down = vec![false; servers.len()];
        Some(Self { servers, cache, timeout, is_down })
    }

    /// Gets the file with the build id `id`, in hexadecimal: `kind` is `debuginfo` or `executable`. `None` if
    /// no server has it.
    ///
    /// # Errors
    /// One sentence, if a server did not answer, or the file could not be stored.
    pub fn fetch(&mut self, id: &str, kind: &str) -> Result<Option<PathBuf>, String> {
        let folder = self.cache.join(id);
        let path = folder.join(kind);
        if let Ok(known) = fs::metadata(&path) {
            if known.len() > 0 {
                return Ok(Some(path));
            }
            // An empty file means that no server had it.
            let age = known.modified().ok().and_then(|at| at.elapsed().ok());
            if age.is_some_and(|age| age < ASK_AGAIN) {
                return Ok(None);
            }
        }
        let mut failure = None;
        for index in 0..self.servers.len() {
            if self.is_down[index] {
                continue;
            }
            let server = &self.servers[index];
            let url = format!("{}/buildid/{id}/{kind}", server.trim_end_matches('/'));
            match get(&url, self.timeout) {
                Ok(None) => {}
                Ok(Some((body, length))) => {
                    let body = crate::progress::watch(body, length);
                    let stored = store(body, length, &folder, &path);
                    return stored.map(|()| Some(path)).map_err(|error| {
                        format!("{url} could not be stored in {}: {error}", folder.display())
                    });
                }
                Err(error) => {
                    self.is_down[index] = true;
                    failure = Some(format!("{server} did not send debug information: {error}"));
                }
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        // Whether this can be stored does not matter.
        let _ = fs::create_dir_all(&folder).and_then(|()| File::create(&path));
        Ok(None)
    }
}

/// Writes the body under another name first, so that the cache has whole files only.
fn store(
    mut body: Box<dyn Read>,
    length: Option<u64>,
    folder: &Path,
    path: &Path,
) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let unfinished = path.with_extension(format!("{}.part", std::process::id()));
    let written = File::create(&unfinished).and_then(|mut file| {
        let count = io::copy(&mut body, &mut file)?;
        file.flush()?;
        match length {
            Some(length) if length != count => {
                Err(io::Error::other(format!("only {count} of {length} bytes arrived")))
            }
            _ => fs::rename(&unfinished, path),
        }
    });
    written.inspect_err(|_| {
        let _ = fs::remove_file(&unfinished);
    })
}

/// The body of an answer, and its length if the server says it.
type Body = (Box<dyn Read>, Option<u64>);

/// Asks a server. `None` if it does not have the file.
#[cfg(feature = "debuginfod")]
fn get(url: &str, timeout: Duration) -> Result<Option<Body>, String> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_connect(Some(timeout))
        .timeout_recv_response(Some(timeout))
        .user_agent(concat!("memledger/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    match agent.get(url).call() {
        Ok(answer) => {
            let body = answer.into_body();
            let length = body.content_length();
            Ok(Some((Box::new(body.into_reader()), length)))
        }
        Err(ureq::Error::StatusCode(404)) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(not(feature = "debuginfod"))]
fn get(_: &str, _: Duration) -> Result<Option<Body>, String> {
    Err("this command was built without the feature debuginfod".to_owned())
}

#[cfg(all(test, feature = "debuginfod"))]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};

    /// A server that answers as many requests as there are `answers`, and returns their paths.
    fn serve(answers: Vec<(&'static str, &'static [u8])>) -> (String, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            let answer = |(status, body): (&str, &[u8])| {
                let mut stream = listener.accept().unwrap().0;
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let request = lines.next().unwrap().unwrap();
                while !lines.next().unwrap().unwrap().is_empty() {}
                let head = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
                request.split(' ').nth(1).unwrap().to_owned()
            };
            answers.into_iter().map(answer).collect()
        });
        (address, server)
    }

    fn client(servers: &str, cache: &Path) -> Option<Debuginfod> {
        Debuginfod::from_variables(|name| match name {
            "DEBUGINFOD_URLS" => Some(servers.to_owned()),
            "DEBUGINFOD_CACHE_PATH" => Some(cache.display().to_string()),
            _ => None,
        })
    }

    #[test]
    fn a_file_is_fetched_once_from_the_first_server_that_has_it() {
        let cache = tempfile::tempdir().unwrap();
        let (without, first) = serve(vec![("404 Not Found", b"")]);
        let (with, second) = serve(vec![("200 OK", b"symbols")]);
        let mut client = client(&format!("{without} ima:enforcing {with}/"), cache.path()).unwrap();
        for _ in 0..2 {
            let path = client.fetch("abcd", "debuginfo").unwrap().unwrap();
            assert_eq!(path, cache.path().join("abcd/debuginfo"));
            assert_eq!(fs::read(path).unwrap(), b"symbols");
        }
        assert_eq!(first.join().unwrap(), ["/buildid/abcd/debuginfo"]);
        assert_eq!(second.join().unwrap(), ["/buildid/abcd/debuginfo"]);
    }

    #[test]
    fn what_no_server_has_is_not_asked_for_again_at_once() {
        let cache = tempfile::tempdir().unwrap();
        let (address, server) = serve(vec![("404 Not Found", b"")]);
        let mut client = client(&address, cache.path()).unwrap();
        assert_eq!(client.fetch("01", "executable"), Ok(None));
        assert_eq!(client.fetch("01", "executable"), Ok(None));
        assert_eq!(server.join().unwrap().len(), 1);
    }

    #[test]
    fn a_server_that_is_down_is_a_sentence_once() {
        let cache = tempfile::tempdir().unwrap();
        // A port that was free a moment ago.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut client = client(&format!("http://127.0.0.1:{port}"), cache.path()).unwrap();
        let error = client.fetch("01", "debuginfo").unwrap_err();
        let start = format!("http://127.0.0.1:{port} did not send debug information: ");
        assert!(error.starts_with(&start), "{error}");
        assert_eq!(client.fetch("02", "debuginfo"), Ok(None));
    }

    #[test]
    fn without_the_variable_there_are_no_servers() {
        assert!(client(" ", Path::new("/nowhere")).is_none());
    }
}
