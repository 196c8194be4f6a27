//! One file over HTTP(S), resumed with Range requests where an earlier try ended.

use super::Event;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;
use ureq::Agent;

/// A download goes on as long as each try brings it further than the best before; this many
/// fruitless tries in a row end it.
const FRUITLESS: u32 = 3;

/// Fetches `url` into `part`, which afterwards has exactly `total` bytes. What `part` held before
/// is taken for the beginning. The proxy variables of the environment are respected.
pub(super) fn download(
    url: &str,
    part: &Path,
    total: u64,
    on: &mut dyn FnMut(Event),
) -> Result<(), String> {
    let agent: Agent = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_resolve(Some(Duration::from_secs(10)))
        .timeout_connect(Some(Duration::from_secs(10)))
        .timeout_recv_response(Some(Duration::from_secs(30)))
        .timeout_per_read(Some(Duration::from_secs(30)))
        .user_agent(concat!("tokstep/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    let (mut best, mut fruitless) = (size(part), 0);
    loop {
        let why = match attempt(&agent, url, part, total, on) {
            Ok(()) => return Ok(()),
            Err(Failure::Final(why)) => return Err(why),
            Err(Failure::Broken(why)) => why,
        };
        let now = size(part);
        if now > best {
            (best, fruitless) = (now, 0);
        } else {
            fruitless += 1;
        }
        if fruitless == FRUITLESS {
            return Err(match now {
                0 => why,
                _ => format!("{why} ({now} of {total} bytes kept for the next try)"),
            });
        }
        std::thread::sleep(Duration::from_millis(300));
    }
}

enum Failure {
    /// Trying again will not help.
    Final(String),
    /// The connection broke; what came is kept.
    Broken(String),
}

fn attempt(
    agent: &Agent,
    url: &str,
    part: &Path,
    total: u64,
    on: &mut dyn FnMut(Event),
) -> Result<(), Failure> {
    let disk = |e: io::Error| Failure::Final(format!("{}: {e}", part.display()));
    let mut have = size(part);
    if have > total {
        std::fs::remove_file(part).map_err(disk)?;
        have = 0;
    }
    if have == total {
        return Ok(());
    }
    let mut request = agent.get(url);
    if have > 0 {
        request = request.header("Range", format!("bytes={have}-"));
    }
    let mut response = request.call().map_err(|e| match e {
        // No route, no name, no TLS: the next try of this run would fail the same way.
        ureq::Error::Io(e) => Failure::Broken(e.to_string()),
        ureq::Error::Timeout(_) if have > 0 => Failure::Broken(e.to_string()),
        e => Failure::Final(e.to_string()),
    })?;
    let begins = response.headers().get("content-range");
    let begins = begins.and_then(|v| v.to_str().ok()?.strip_prefix("bytes ")?.split('-').next());
    let from_start = match response.status().as_u16() {
        206 if begins == Some(have.to_string().as_str()) => false,
        200 => true, // also where the server cannot resume
        206 | 416 => {
            std::fs::remove_file(part).map_err(disk)?;
            return Err(Failure::Broken("the server could not resume".into()));
        }
        status @ (429 | 500..) => return Err(Failure::Broken(format!("HTTP status {status}"))),
        status => return Err(Failure::Final(format!("HTTP status {status}"))),
    };
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(part)
        .map_err(disk)?;
    if from_start {
        file.set_len(0).map_err(disk)?;
        have = 0;
    }
    let mut body = response.body_mut().as_reader();
    let mut buffer = vec![0; 1 << 16];
    while have < total {
        let n = match body.read(&mut buffer) {
            Ok(0) => return Err(Failure::Broken(format!("ended after {have} bytes"))),
            Ok(n) => n.min((total - have) as usize),
            Err(e) => return Err(Failure::Broken(e.to_string())),
        };
        file.write_all(&buffer[..n]).map_err(disk)?;
        have += n as u64;
        on(Event::Progress { done: have, total });
    }
    Ok(())
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |m| m.len())
}
