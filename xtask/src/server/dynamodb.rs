//! DynamoDB, twice, since each of the two lacks something that the other shows: `ministack`, pinned in
//! `xtask/servers/python`, and `dynalite`, pinned in `xtask/servers/npm`. This module alone knows how they are
//! configured.

use super::{
    Launch, Server, free_ports, npm,
    probe::{self, Operation},
    python,
};
use crate::{run, workspace::Workspace};

const LIST_TABLES: Operation = Operation {
    name: "ListTables",
    target: "DynamoDB_20120810",
    json: "1.0",
    service: "dynamodb",
};

/// Starts `ministack`: conditional writes that answer with the old item.
pub(crate) fn start_ministack(workspace: &Workspace) -> anyhow::Result<Server> {
    let programs = python::install(workspace)?;
    let [port] = free_ports()?;
    let program = programs.join("ministack");
    let mut command = workspace.children.command(&program.to_string_lossy());
    command
        .current_dir(workspace.servers())
        .env("BIND_HOST", "127.0.0.1")
        .env("GATEWAY_PORT", port.to_string())
        // Of its ninety services only this one is wanted, without a line for every request.
        .env("SERVICES", "dynamodb")
        .env("LOG_LEVEL", "WARNING");
    start("ministack", workspace, port, command)
}

/// Starts `dynalite`: no old item on a failed condition, and tables that take a while to become active.
pub(crate) fn start_dynalite(workspace: &Workspace) -> anyhow::Result<Server> {
    run::require(
        "node",
        "the DynamoDB server dynalite runs on it (`--dynamodb URL` uses another server)",
    )?;
    let package = npm::install(workspace)?.join("dynalite");
    let [port] = free_ports()?;
    let mut command = workspace.children.command("node");
    command
        .arg(package.join("cli.js"))
        .args(["--host", "127.0.0.1", "--createTableMs", "50"])
        .args(["--deleteTableMs", "50", "--port", &port.to_string()])
        .current_dir(workspace.servers());
    start("dynalite", workspace, port, command)
}

fn start(
    name: &'static str,
    workspace: &Workspace,
    port: u16,
    command: std::process::Command,
) -> anyhow::Result<Server> {
    Server::start(Launch {
        name,
        command,
        ports: &[port],
        endpoint: format!("http://127.0.0.1:{port}"),
        log: workspace.servers().join(format!("{name}-{port}.log")),
        answers: &|| probe::answers(port, LIST_TABLES),
    })
}
