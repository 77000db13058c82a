//! Programs that run: what the commands about links, gateways, tunnels and monitors have in common.

use crate::output::{StandardOutput, note};
use crate::terminal::fit_to_terminal;
use anyhow::{Context, anyhow};
use kumade_daemon::{ControlError, Exporter, ExporterError, NameLockError, Protocol, Registry, RuntimeDir, check_name};
use kumade_files::read_text;
use kumade_overlay_io::status::StatusDocument;
use kumade_overlay_io::status::control::{Reply, Request, StatusProtocol};
use serde::Serialize;
use std::fmt::Display;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

/// What people call programs of a kind, and what helps where one cannot be asked, or cannot have its name.
pub(crate) struct ProgramKind {
    /// The name of one where none is given.
    pub(crate) usual_name: &'static str,
    /// The end of what is said where the name is taken.
    rename: &'static str,
    /// What starts one.
    start: &'static str,
    /// What chooses one of several.
    choose: &'static str,
}

pub(crate) const LINK: ProgramKind =
    ProgramKind { usual_name: "link", rename: " with --name", start: "`kumade link start`", choose: "--name" };
pub(crate) const GATEWAY: ProgramKind = ProgramKind {
    usual_name: "gateway",
    rename: ", with --name or `name` in [gateway]",
    start: "`kumade gateway --config FILE`",
    choose: "`kumade gateway status NAME`",
};
pub(crate) const TUNNEL: ProgramKind = ProgramKind {
    usual_name: "kumade0",
    rename: ", with --name",
    start: "`kumade tunnel listen` or `kumade tunnel connect`",
    choose: "`kumade tunnel status NAME`",
};
/// The name of a monitor where none is given.
pub(crate) const MONITOR_NAME: &str = "monitor";

impl ProgramKind {
    /// Adds what helps.
    pub(crate) fn explain(&self, error: ControlError) -> anyhow::Error {
        let ProgramKind { rename, start, choose, .. } = self;
        match &error {
            ControlError::NameTaken { .. } => anyhow!("{error}{rename}"),
            ControlError::NotRunning { running, .. } if running.is_empty() => {
                anyhow!("{error}; start one with {start}")
            }
            ControlError::NotRunning { .. } => anyhow!("{error}; choose one with {choose}"),
            _ => error.into(),
        }
    }
}

/// Those of a kind that run for this user.
pub(crate) fn registry<P: Protocol>() -> Registry<P> {
    Registry::new(RuntimeDir::standard("kumade"))
}

/// A name that a program may have.
///
/// # Errors
/// It may not.
pub(crate) fn parse_name(text: &str) -> Result<String, NameLockError> {
    check_name(text).map(|()| text.to_owned())
}

/// The status of the gateway or tunnel of that name. Without a name it is the one that runs; where none runs, the message is about the
/// usual name.
///
/// # Errors
/// Several run and none is named, it cannot be asked, or its answer is not understood.
pub(crate) fn request_status<D: StatusDocument>(name: Option<&str>, kind: &ProgramKind) -> anyhow::Result<D> {
    let registry = registry::<StatusProtocol<D>>();
    let mut running = if name.is_none() { registry.running_names() } else { Vec::new() };
    running.sort();
    let name = match (name, &running[..]) {
        (Some(name), _) => name,
        (None, []) => kind.usual_name,
        (None, [one]) => one,
        (None, several) => {
            let (service, choose) = (D::SERVICE, kind.choose);
            return Err(anyhow!("more than one {service} runs here: {}; choose one with {choose}", several.join(", ")));
        }
    };
    let reply = registry.send_request(name, &Request::Status).map_err(|error| kind.explain(error))?;
    let Reply::Status { status } = reply;
    Ok(*status)
}

/// What errors call a configuration file, and its text.
///
/// # Errors
/// It cannot be read.
pub(crate) fn read_config_text(file: &Path) -> anyhow::Result<(String, String)> {
    let name = file.display().to_string();
    let text = read_text(file).with_context(|| format!("cannot read the configuration {name}"))?;
    Ok((name, text))
}

/// Prints a document for programs, or as people read it.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn print_document(document: &(impl Serialize + Display), as_json: bool) -> anyhow::Result<ExitCode> {
    let text = if as_json { serde_json::to_string(document)? } else { fit_to_terminal(&document.to_string()) };
    writeln!(StandardOutput, "{text}")?;
    Ok(ExitCode::SUCCESS)
}

/// Lets Prometheus fetch metrics, until the result is dropped, and says where.
///
/// # Errors
/// The address cannot be had.
pub(crate) fn serve_metrics(
    address: SocketAddr,
    metrics: impl FnMut() -> String + Send + 'static,
) -> Result<Exporter, ExporterError> {
    let exporter = Exporter::start(address, metrics)?;
    note!("metrics: http://{}/metrics", exporter.address());
    Ok(exporter)
}
