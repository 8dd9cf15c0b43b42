//! A way between the processes and a server that can be cut, and that counts the calls which go through.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// How the way is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Open,
    /// The server is stopped: connections end.
    Refused,
    /// The server cannot be reached: nothing ends, and nothing is answered.
    Silent,
    /// Of so many answers to writes one is lost, after the write has taken effect.
    LosesOneOf(u64),
}

/// Dropping it ends every connection.
#[derive(Debug)]
pub(super) struct Proxy {
    url: String,
    way: watch::Sender<Way>,
    counts: Arc<Counts>,
    listening: AbortHandle,
}

#[derive(Debug, Default)]
struct Counts {
    calls: Mutex<BTreeMap<String, u64>>,
    lost: Mutex<u64>,
}

impl Proxy {
    /// Before the server at this URL.
    pub(super) async fn before(url: &str) -> Self {
        let server = url.trim_start_matches("http://").trim_end_matches('/');
        let server = server.to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (way, ways) = watch::channel(Way::Open);
        let counts = Arc::<Counts>::default();
        let counted = Arc::clone(&counts);
        let listening = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let (server, ways) = (server.clone(), ways.clone());
                let counts = Arc::clone(&counted);
                tokio::spawn(async move {
                    // Either side may end a connection whenever it wants.
                    let _ = carry(client, &server, ways, &counts).await;
                });
            }
        });
        Self {
            url,
            way,
            counts,
            listening: listening.abort_handle(),
        }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn set(&self, way: Way) {
        self.way.send_replace(way);
    }

    /// Calls so far, by operation.
    pub(super) fn calls(&self) -> BTreeMap<String, u64> {
        let calls = &self.counts.calls;
        calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Answers that were lost.
    pub(super) fn lost(&self) -> u64 {
        *self
            .counts
            .lost
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
        self.set(Way::Refused);
    }
}

async fn carry(
    mut client: TcpStream,
    server: &str,
    mut ways: watch::Receiver<Way>,
    counts: &Counts,
) -> std::io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    let (mut asked, mut answered) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let (mut is_write, mut writes) = (false, 0);
    loop {
        let way = *ways.borrow_and_update();
        match way {
            Way::Refused => return Ok(()),
            Way::Silent => {
                // What was sent meanwhile is lost with the connection.
                let _ = ways.changed().await;
                return Ok(());
            }
            Way::Open | Way::LosesOneOf(_) => {}
        }
        tokio::select! {
            changed = ways.changed() => if changed.is_err() {
                return Ok(());
            },
            read = client.read(&mut asked) => {
                let asked = &asked[..read?];
                if asked.is_empty() {
                    return Ok(());
                }
                if let Some(operation) = operation(asked) {
                    is_write = operation == "UpdateItem";
                    let mut calls = counts.calls.lock().unwrap_or_else(PoisonError::into_inner);
                    *calls.entry(operation).or_default() += 1;
                }
                server.write_all(asked).await?;
            }
            read = server.read(&mut answered) => {
                let answered = &answered[..read?];
                if answered.is_empty() {
                    return Ok(());
                }
                if is_write && answered.starts_with(b"HTTP/") {
                    writes += 1;
                    if let Way::LosesOneOf(every) = way
                        && writes % every == 0
                    {
                        *counts.lost.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                        return Ok(());
                    }
                }
                client.write_all(answered).await?;
            }
        }
    }
}

/// The operation of a request, if these are the first bytes of one.
fn operation(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let target = text
        .lines()
        .find_map(|line| line.strip_prefix("x-amz-target: "))?;
    target.split('.').nth(1).map(str::to_owned)
}
