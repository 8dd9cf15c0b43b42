//! Kinesis: `kinesis-local`, pinned in `xtask/servers/npm`. This module alone knows how it is configured.

use super::{
    Launch, Server, free_ports, npm,
    probe::{self, Operation},
};
use crate::{run, workspace::Workspace};

const PACKAGE: &str = "kinesis-local";
const LIST_STREAMS: Operation = Operation {
    name: "ListStreams",
    target: "Kinesis_20131202",
    json: "1.1",
    service: "kinesis",
};

/// The service takes seconds for each of these, the server half a second; a test should wait for neither.
const AT_ONCE: [&str; 8] = [
    "CREATE_STREAM_DURATION",
    "DELETE_STREAM_DURATION",
    "SPLIT_SHARD_DURATION",
    "MERGE_SHARDS_DURATION",
    "UPDATE_SHARD_COUNT_DURATION",
    "UPDATE_STREAM_MODE_DURATION",
    "REGISTER_STREAM_CONSUMER_DURATION",
    "DEREGISTER_STREAM_CONSUMER_DURATION",
];

/// Starts the server and waits until it answers.
pub(crate) fn start(workspace: &Workspace) -> anyhow::Result<Server> {
    run::require(
        "node",
        "the Kinesis server runs on it (`--kinesis URL` uses another server)",
    )?;
    let package = npm::install(workspace)?.join(PACKAGE);
    let [plain, tls] = free_ports()?;

    let mut command = workspace.children.command("node");
    command
        .arg("--require")
        .arg(workspace.root().join("xtask/servers/loopback.cjs"))
        .arg(package.join("main.js"))
        .current_dir(workspace.servers())
        .env("KINESIS_MOCK_PLAIN_PORT", plain.to_string())
        .env("KINESIS_MOCK_TLS_PORT", tls.to_string())
        .env("KINESIS_MOCK_CERT_PATH", package.join("server.json"))
        // The sum over all streams; tests that share the server must not meet it.
        .env("SHARD_LIMIT", "1000")
        .envs(AT_ONCE.map(|name| (name, "5ms")));

    Server::start(Launch {
        name: PACKAGE,
        command,
        ports: &[plain, tls],
        endpoint: format!("http://127.0.0.1:{plain}"),
        log: workspace.servers().join(format!("{PACKAGE}-{plain}.log")),
        answers: &|| probe::answers(plain, LIST_STREAMS),
    })
}
